"""The global search and named views in a real browser."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.integration.accessibility import violations
from tests.integration.servers.dashboard import EDITOR, Dashboard, fill, opened, save_picture, widths
from tests.unit.dashboard.conftest import STEP, TESTS, commit

PHONE = {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    folder = tmp_path_factory.mktemp("search")
    fill(folder / "store.sqlite")
    with Dashboard(folder) as dashboard:
        yield dashboard


def test_key_focuses_the_field_on_each_page(browser: Browser, searched: Dashboard) -> None:
    with opened(browser, searched, "/explore", user=EDITOR) as page:
        page.keyboard.press("/")
        page.keyboard.type("64b-1c")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Tests 1")).to_be_visible()
        expect(page.get_by_role("searchbox")).to_have_value("64b-1c")
        page.get_by_role("link", name=f"Explore {TESTS[0]} on 3n-skx").click()
        page.wait_for_url("**/explore?testbed=3n-skx&q=*")
        expect(page.locator("[data-part=table] tbody tr")).to_have_count(3)
        # In another field it is a character.
        page.get_by_label("Find a value").fill("")
        page.get_by_label("Find a value").press("/")
        expect(page.get_by_label("Find a value")).to_be_focused()


def test_search_without_scripts(browser: Browser, searched: Dashboard) -> None:
    with opened(browser, searched, "/runs", java_script_enabled=False) as page:
        page.get_by_role("searchbox").fill(commit(STEP)[:8])
        page.get_by_role("searchbox").press("Enter")
        expect(page.get_by_role("heading", name="Commits 1")).to_be_visible()
        page.get_by_role("link", name="on 2n-clx").click()
        page.wait_for_url(f"**/explore?testbed=2n-clx&at={STEP}")


def test_view_of_a_selection_made_by_scripts_is_saved(browser: Browser, searched: Dashboard) -> None:
    with opened(browser, searched, "/explore", user=EDITOR) as page:
        page.get_by_role("checkbox", name="ndr").check()
        page.wait_for_url(lambda url: "ndr" in url)
        views = page.locator("details.views")
        views.locator("summary").click()
        views.get_by_label("Name").fill("All NDR")
        save_picture(page, "s-views-explore")
        views.get_by_role("button", name="Save view").click()
        expect(views.locator("summary")).to_have_text("Views 1")
        page.goto("/views")
        save_picture(page, "s-views")
        assert [] == violations(page)
        page.get_by_role("link", name="All NDR").click()
        expect(page.get_by_role("checkbox", name="ndr")).to_be_checked()
        page.goto("/views")
        page.get_by_role("button", name="Delete the view All NDR").click()
        expect(page.get_by_text("No views yet")).to_be_visible()


@pytest.mark.parametrize("path", ["/search", "/search?q=b", "/triage", "/explore", "/compare"])
def test_page_is_accessible_and_fits_a_phone(browser: Browser, searched: Dashboard, path: str) -> None:
    name = path.strip("/").replace("?", "-").replace("=", "-")
    with opened(browser, searched, path, user=EDITOR, viewport={"width": 1440, "height": 900}) as page:
        save_picture(page, f"s-{name}")
        assert [] == violations(page)
    with opened(browser, searched, path, user=EDITOR, viewport=PHONE) as page:
        save_picture(page, f"s-{name}-narrow")
        wide, window = widths(page)
        assert wide <= window
