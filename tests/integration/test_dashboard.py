"""Every page of the dashboard, in a real browser."""

from __future__ import annotations

from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, Page, expect

from perftrend.dashboard.pages import NAVIGATION
from tests.integration.accessibility import violations
from tests.integration.servers.dashboard import Dashboard, context_of, opened, save_picture, widths

PATHS = tuple(NAVIGATION)
ALL_PATHS = (*PATHS, "/help", "/api", "/views", "/search?q=64b")
PHONE = {"width": 360, "height": 740}


def name_of(path: str) -> str:
    return path.partition("?")[0].strip("/").replace("/", "-") or "overview"


@pytest.mark.parametrize("path", PATHS)
def test_page_is_found_from_every_page(page: Page, dashboard: Dashboard, path: str) -> None:
    page.goto("/runs")
    page.get_by_role("navigation", name="Pages").get_by_role(
        "link", name=NAVIGATION[path], exact=True
    ).click()

    page.wait_for_url(lambda url: urlsplit(url).path == path)
    expect(page.get_by_role("navigation", name="Pages").locator("[aria-current=page]")).to_have_text(
        NAVIGATION[path]
    )


@pytest.mark.parametrize("path", ALL_PATHS)
def test_nothing_stands_in_the_way_of_anybody(page: Page, path: str) -> None:
    page.goto(path)
    page.wait_for_load_state("networkidle")
    save_picture(page, name_of(path))
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        assert [] == violations(page), scheme


@pytest.mark.parametrize("path", ALL_PATHS)
def test_page_fits_a_narrow_window(browser: Browser, dashboard: Dashboard, path: str) -> None:
    with opened(browser, dashboard, path, viewport=PHONE) as page:
        page.wait_for_load_state("networkidle")
        save_picture(page, f"{name_of(path)}-narrow")
        wide, window = widths(page)

    assert wide <= window


@pytest.mark.parametrize("path", PATHS)
def test_page_says_what_it_is_about_without_scripts(
    browser: Browser, dashboard: Dashboard, path: str
) -> None:
    with opened(browser, dashboard, path, java_script_enabled=False) as page:
        expect(page.locator("h1")).to_have_count(1)
        assert page.locator("main table, main form, main li").count()


@pytest.mark.parametrize("path", PATHS)
def test_everything_is_reached_by_keyboard_and_shows_it(page: Page, path: str) -> None:
    page.goto(path)
    page.wait_for_load_state("networkidle")
    reached = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        name, outline = page.evaluate(
            """() => {
                const at = document.activeElement;
                const style = getComputedStyle(at);
                const name = `${at.tagName} ${at.getAttribute("href") ?? at.name ?? at.id}`;
                const shows = style.outlineStyle !== "none" || style.boxShadow !== "none";
                return [name, at === document.body || shows];
            }"""
        )
        assert outline, name
        reached.add(name)

    assert {f"A {path}" for path in PATHS} <= reached


@pytest.mark.parametrize("path", PATHS)
def test_page_weighs_less_than_300_kilobytes_besides_plotly(
    browser: Browser, dashboard: Dashboard, path: str
) -> None:
    with opened(browser, dashboard) as page:
        weights: dict[str, int] = {}
        page.on("requestfinished", lambda request: weights.update({request.url: weight(request)}))
        page.goto(path)
        page.wait_for_load_state("networkidle")

    assert sum(size for url, size in weights.items() if "/plotly-" not in url) < 300_000


def weight(request: object) -> int:
    """Return what came over the wire for a request."""
    sizes = request.sizes()  # type: ignore[attr-defined]
    return int(sizes["responseBodySize"] + sizes["responseHeadersSize"])


def test_times_are_those_of_the_reader(browser: Browser, dashboard: Dashboard) -> None:
    with opened(browser, dashboard, "/runs", timezone_id="Asia/Tokyo", locale="en-GB") as page:
        first = page.locator("time").first
        expect(first).to_have_attribute("datetime", "2026-03-01T02:00:00Z")
        expect(first).to_have_text("2026-03-01 11:00")


def test_times_are_in_utc_without_scripts(browser: Browser, dashboard: Dashboard) -> None:
    with opened(browser, dashboard, "/runs", java_script_enabled=False) as page:
        expect(page.locator("time").first).to_have_text("2026-03-01 02:00 UTC")


def test_content_is_one_step_from_the_begin_of_a_page(page: Page) -> None:
    page.goto("/runs")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")

    expect(page.locator("#main")).to_be_focused()


def test_script_that_gets_into_a_page_is_not_run(browser: Browser, dashboard: Dashboard) -> None:
    with context_of(browser, dashboard) as context:
        page = context.new_page()
        page.goto("/runs")
        page.evaluate(
            "const script = document.createElement('script'); script.textContent = 'window.hacked = true';"
            "document.body.append(script)"
        )

        assert page.evaluate("window.hacked === undefined")
