"""Explore in a real browser: it draws, keys navigate, points open, and the address is the state."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect
from playwright.sync_api import TimeoutError as PlaywrightTimeoutError

from perftrend.analysis.formula import format_key
from perftrend.store import Store
from tests.integration.accessibility import violations
from tests.integration.servers.dashboard import (
    CHROMIUM,
    EDITOR,
    PATIENCE_MS,
    Dashboard,
    context_of,
    opened,
    save_picture,
    widths,
)
from tests.unit.dashboard.conftest import RUNS, add_run_with_latency, commit

ALL_MRR = "/explore?q=metric=mrr"
DRAWN = "#plot .main-svg"
CLICKS = 3
"""How often a point is clicked: a browser without a free core may lose a click."""
WEBGL = ["--use-angle=swiftshader-webgl", "--ignore-gpu-blocklist"]
"""Lets Chromium draw by WebGL where there is no graphics card."""


def drawn(page: Page, lines: int) -> None:
    """Wait until so many lines are drawn."""
    expect(page.locator("#plot")).to_have_attribute("data-drawn", str(lines))
    expect(page.locator(DRAWN).first).to_be_visible()


def curves(page: Page) -> list[dict[str, Any]]:
    """Return what plotly draws."""
    found: list[dict[str, Any]] = page.evaluate(
        "[...document.querySelector('#plot').data].map("
        "({type, x, y, meta}) => ({type, x: [...x], y: [...y], place: meta?.place ?? null}))"
    )
    return found


def click_point(page: Page, curve: int, point: int, *, shift: bool = False) -> None:
    """Click where a point is drawn until its panel is shown, as a hand does."""
    before = page.url
    for _ in range(CLICKS):
        _click_where_drawn(page, curve, point, shift=shift)
        with suppress(PlaywrightTimeoutError):
            page.wait_for_url(lambda url: url != before, timeout=PATIENCE_MS / CLICKS, wait_until="commit")
            return
    raise AssertionError(f"{CLICKS} clicks on point {point} of curve {curve} do nothing")


def _click_where_drawn(page: Page, curve: int, point: int, *, shift: bool) -> None:
    x, y = page.evaluate(
        """([curve, point]) => {
            const plot = document.querySelector("#plot"), box = plot.getBoundingClientRect();
            const {x, y} = plot.data[curve], {xaxis, yaxis, _size} = plot._fullLayout;
            return [box.left + _size.l + xaxis.d2p(x[point]), box.top + _size.t + yaxis.d2p(y[point])];
        }""",
        [curve, point],
    )
    page.mouse.move(x - 3, y)
    page.mouse.move(x, y)
    expect(page.locator("#tip")).to_be_visible()
    if shift:
        page.keyboard.down("Shift")
    page.mouse.click(x, y)
    if shift:
        page.keyboard.up("Shift")


def test_lines_are_drawn_with_their_values(page: Page) -> None:
    page.goto(ALL_MRR)
    drawn(page, 3)

    model = page.evaluate(
        "fetch(location.href, {headers: {Accept: 'application/json'}}).then((a) => a.json())"
    )
    lines = [curve for curve in curves(page) if curve["place"] is not None]
    for line, curve in zip(model["lines"], lines, strict=True):
        assert line["values"] == pytest.approx([value * 1e6 for value in curve["y"]], rel=1e-5)


def test_webgl_draws_the_same(browser: Browser, dashboard: Dashboard) -> None:
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    other = browser.browser_type.launch(executable_path=CHROMIUM, args=[*options, *WEBGL])
    with opened(other, dashboard, ALL_MRR) as page:
        drawn(page, 3)
        expect(page.locator("#plot")).to_have_attribute("data-kind", "scattergl")
        save_picture(page, "explore-webgl")
        point = page.evaluate("""() => {
            const canvas = document.querySelector("#plot .gl-canvas-context");
            return [canvas.width, canvas.height];
        }""")
        assert all(point)
        click_point(page, 0, 40)
        expect(page.locator("#panel-title")).to_be_visible()
    other.close()


def test_choosing_a_value_changes_address_plot_and_counts(page: Page) -> None:
    page.goto("/explore")
    page.get_by_role("group", name="Parameters").get_by_label("mrr", exact=False).check()

    drawn(page, 3)
    expect(page).to_have_url("/explore?testbed=2n-clx&q=metric%3Dmrr")
    expect(page.locator("table.lines tbody tr")).to_have_count(3)


def test_the_address_restores_everything(page: Page) -> None:
    page.goto("/explore?q=metric=mrr%26test=~64b&show=norm&changes=off")
    drawn(page, 2)

    expect(page.locator("#q")).to_have_value("test=~64b")
    expect(page.locator("#show")).to_have_value("norm")
    expect(page.locator("#changes")).to_have_value("off")
    expect(page.locator("input[name='p.metric'][value=mrr]")).to_be_checked()


def test_values_are_found_while_typing(page: Page) -> None:
    page.goto(ALL_MRR)
    drawn(page, 3)
    page.locator("#find").press_sequentially("1518")

    expect(page.locator(".parameters input")).to_have_count(3)
    expect(page.locator("#find")).to_be_focused()
    drawn(page, 3)


def test_back_and_forward_go_through_what_was_chosen(page: Page) -> None:
    page.goto(ALL_MRR)
    drawn(page, 3)
    page.locator("input[name='p.cores'][value='2c']").check()
    drawn(page, 1)
    page.go_back()
    drawn(page, 3)
    expect(page.locator("input[name='p.cores'][value='2c']")).not_to_be_checked()
    page.go_forward()

    drawn(page, 1)


def test_keys_navigate(page: Page) -> None:
    page.goto(ALL_MRR)
    drawn(page, 3)
    page.keyboard.press("-")
    expect(page).to_have_url("/explore?scale=1&q=metric%3Dmrr")
    page.keyboard.press("-")
    expect(page).to_have_url("/explore?scale=2&q=metric%3Dmrr")
    page.keyboard.press("+")

    expect(page).to_have_url("/explore?scale=1&q=metric%3Dmrr")


def test_drag_zooms_until_something_else_is_shown_or_a_button_shows_all(page: Page) -> None:
    page.goto(ALL_MRR)
    drawn(page, 3)
    expect(page.locator("#whole")).to_be_hidden()
    zoomed = zoom_in(page)
    page.locator("#show").select_option("norm")
    expect(page).to_have_url(re.compile(r"/explore\?testbed=2n-clx&q=metric%3Dmrr&show=norm&x=[0-9.]+$"))
    expect(page.locator("#plot .ytitle")).to_contain_text("standard deviations")

    # The time stays, and the heights are those of other values.
    assert ranges(page)[0] == zoomed[0]
    assert ranges(page)[1] != zoomed[1]
    page.locator("#whole").click()
    expect(page.locator("#whole")).to_be_hidden()
    expect(page).to_have_url("/explore?testbed=2n-clx&q=metric%3Dmrr&show=norm")


def test_what_is_seen_is_in_the_address(page: Page) -> None:
    page.goto(ALL_MRR)
    drawn(page, 3)
    steps = page.evaluate("history.length")
    zoomed = zoom_in(page)

    expect(page).to_have_url(re.compile(r"/explore\?q=metric%3Dmrr&x=[0-9.]+&y=[0-9.]+\+Mpps$"))
    assert page.evaluate("history.length") == steps
    page.reload()
    drawn(page, 3)
    assert ranges(page) == zoomed
    page.goto("/runs")
    page.go_back()
    drawn(page, 3)
    assert ranges(page) == zoomed


def test_links_and_short_addresses_have_what_is_seen(browser: Browser, dashboard: Dashboard) -> None:
    with opened(browser, dashboard, ALL_MRR, user=EDITOR) as page:
        drawn(page, 3)
        zoomed = zoom_in(page)
        seen = page.url.partition("&")[2]
        page.get_by_role("button", name="Short address").click()
        short = page.get_by_label("Saved as").input_value()
        page.locator("table.lines button.link").first.click()
        expect(page.locator("#panel-title")).to_be_visible()
        expect(page).to_have_url(re.compile(re.escape(f"&{seen}&at=")))
        page.keyboard.press("-")
        expect(page).to_have_url(re.compile(r"/explore\?scale=1&q=metric%3Dmrr&at="))
        expect(page.locator("#whole")).to_be_hidden()
        page.goto(short)
        drawn(page, 3)

        expect(page).to_have_url(f"/explore?q=metric%3Dmrr&{seen}")
        assert ranges(page) == zoomed


def test_double_click_shows_all_although_the_address_had_less(page: Page) -> None:
    # Where there is no point that a click could open.
    page.goto(f"{ALL_MRR}&x=10..20&y=-5..-1+Mpps")
    drawn(page, 3)
    assert ranges(page) == [[10, 20], [-5, -1]]
    expect(page.locator("#whole")).to_be_visible()
    page.locator("#plot .nsewdrag").dblclick()

    expect(page).to_have_url(re.compile(r"/explore\?q=metric(=|%3D)mrr$"))
    expect(page.locator("#whole")).to_be_hidden()
    (first, last), (low, high) = ranges(page)
    assert first < 0
    assert last > RUNS - 1
    assert 0 < low < high


def zoom_in(page: Page) -> list[list[float]]:
    """Drag over a part of the plot, as a hand does; return what is seen then."""
    box = page.locator("#plot").bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 300, box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 600, box["y"] + 200, steps=4)
    page.mouse.up()
    # Now all of the page knows it.
    expect(page.locator("#whole")).to_be_visible()
    return ranges(page)


def ranges(page: Page) -> list[list[float]]:
    found: list[list[float]] = page.evaluate(
        "(({xaxis, yaxis}) => [xaxis.range, yaxis.range])(document.querySelector('#plot').layout)"
    )
    return found


def test_point_is_opened_walked_from_and_closed_by_keyboard(page: Page) -> None:
    page.goto(ALL_MRR)
    drawn(page, 3)
    newest = page.locator("table.lines button.link").nth(1)
    value = newest.inner_text()
    newest.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#panel-title")).to_be_focused()
    expect(page.locator("#panel-title")).to_contain_text(value)
    page.keyboard.press("[")
    expect(page).to_have_url(re.compile("[&?]at=58&"))
    page.keyboard.press("Escape")

    expect(page.locator("#panel-title")).to_have_count(0)
    expect(page.locator("table.lines button.link").nth(1)).to_be_focused()


def test_keyboard_skips_what_can_be_chosen(page: Page) -> None:
    page.goto(ALL_MRR)
    drawn(page, 3)
    page.get_by_role("link", name="Skip to the plot").focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Tab")

    expect(page.get_by_role("link", name="Zoom out")).to_be_focused()


def test_order_of_the_table_outlives_a_choice(page: Page) -> None:
    page.goto(ALL_MRR)
    drawn(page, 3)
    page.get_by_role("button", name="Mean", exact=True).click()
    page.locator("input[name='p.cores'][value='1c']").check()
    drawn(page, 2)

    expect(page.locator("[aria-sort=descending]")).to_have_text("Mean")


def test_half_a_query_leaves_the_plot_alone(browser: Browser, dashboard: Dashboard) -> None:
    # The browser itself complains about the status 400.
    with context_of(browser, dashboard) as context:
        page = context.new_page()
        page.goto(ALL_MRR)
        drawn(page, 3)
        page.locator("#q").press_sequentially("cores")
        expect(page.locator(".mistake")).to_contain_text("expected key=value")
        drawn(page, 3)
        page.locator("#q").press_sequentially("=2c")
        drawn(page, 1)
        expect(page.locator(".mistake")).to_have_count(0)
        expect(page.locator("input[name='p.cores'][value='2c']")).to_be_checked()
        page.locator("#find").focus()

        # Its box says it now.
        expect(page.locator("#q")).to_have_value("")


def test_formula_that_is_drawn_can_be_changed(page: Page) -> None:
    page.goto(ALL_MRR)
    drawn(page, 3)
    page.locator("#formula").fill('ave(filter("metric=mrr"))')
    page.get_by_role("button", name="Show", exact=True).click()
    drawn(page, 4)
    page.get_by_title("Edit this formula").click()
    expect(page.locator("#formula")).to_have_value('ave(filter("metric=mrr"))')
    page.locator("#formula").fill('max(filter("metric=mrr"))')
    page.locator("#formula").press("Enter")

    expect(page.locator(".chip").last).to_contain_text('max(filter("metric=mrr"))')
    drawn(page, 4)


def test_imported_query_keeps_its_meaning(page: Page) -> None:
    page.goto("/explore")
    page.get_by_text("Import from Skia Perf").click()
    page.locator("#queries").fill("metric=mrr&arch=!x86")
    page.locator("#queries").press("Enter")

    expect(page.locator("#q")).to_have_value("arch?!=x86")
    expect(page.locator("#queries")).to_have_value("")
    drawn(page, 3)


def test_testbeds_stand_beside_each_other(page: Page) -> None:
    page.goto(ALL_MRR)
    drawn(page, 3)
    page.get_by_role("link", name="Compare with other testbeds").click()
    drawn(page, 6)
    save_picture(page, "explore-testbeds")

    assert all(len(curve["y"]) == 60 for curve in curves(page) if curve["place"] is not None)


def test_narrow_window_begins_with_the_plot(browser: Browser, dashboard: Dashboard) -> None:
    with opened(browser, dashboard, ALL_MRR, viewport={"width": 400, "height": 800}) as page:
        drawn(page, 3)
        expect(page.locator("#choose")).to_be_hidden()
        save_picture(page, "explore-narrow")
        wide, window = widths(page)
        assert wide <= window
        page.get_by_text("Select traces").click()
        expect(page.locator("#choose")).to_be_visible()


def test_keys_are_letters_where_somebody_writes(page: Page) -> None:
    page.goto(ALL_MRR)
    drawn(page, 3)
    page.locator("#formula").press_sequentially("-+")

    expect(page.locator("#formula")).to_have_value("-+")
    expect(page).to_have_url(ALL_MRR)


def test_click_on_a_point_opens_its_panel_and_the_address_restores_it(
    page: Page, dashboard: Dashboard
) -> None:
    page.goto(ALL_MRR)
    drawn(page, 3)
    click_point(page, 0, 40)
    panel = page.get_by_role("region").filter(has=page.locator("#panel-title"))
    expect(panel).to_be_visible()
    expect(panel.locator("code[title]").first).to_have_attribute("title", commit(40))
    save_picture(page, "explore-point")
    expect(page).to_have_url(re.compile("[&?]at="))
    address = page.url
    page.goto("/runs")
    page.goto(address)

    expect(page.locator("#panel-title")).to_be_visible()


def test_two_points_tell_the_commits_between_them(page: Page) -> None:
    page.goto(ALL_MRR)
    drawn(page, 3)
    click_point(page, 0, 30)
    expect(page.locator("#panel-title")).to_be_visible()
    click_point(page, 0, 40, shift=True)

    expect(page.locator(".commits li")).to_have_count(10)
    expect(page.locator("#git-log")).to_have_value(f"git log --oneline {commit(30)}..{commit(40)}")


def test_comment_of_a_bisection_is_copied(browser: Browser, dashboard: Dashboard) -> None:
    with context_of(browser, dashboard, permissions=["clipboard-read", "clipboard-write"]) as context:
        page = context.new_page()
        page.goto(ALL_MRR)
        drawn(page, 3)
        click_point(page, 0, 40)
        page.locator("[data-copy=bisect-comment]").click()
        expect(page.locator("[data-copy=bisect-comment]")).to_have_text("Copied")
        copied = page.evaluate("navigator.clipboard.readText()")

    assert copied.startswith(f"bisecttest-2n-clx {commit(39)}")


def test_wrong_formula_is_shown_with_its_place(browser: Browser, dashboard: Dashboard) -> None:
    # The browser itself complains about the status 400.
    with context_of(browser, dashboard) as context:
        page = context.new_page()
        page.goto(ALL_MRR)
        drawn(page, 3)
        page.locator("#formula").fill('norm(filter("a=b)')
        page.get_by_role("button", name="Show", exact=True).click()

        expect(page.locator(".mistake pre")).to_contain_text("^")
        expect(page.locator("#formula")).to_be_focused()
        assert page.locator("#formula").evaluate("each => each.selectionStart") == len("norm(filter(")
        drawn(page, 3)


def test_shortcut_and_short_address(browser: Browser, dashboard: Dashboard) -> None:
    with opened(browser, dashboard, ALL_MRR, user=EDITOR) as page:
        drawn(page, 3)
        page.get_by_role("button", name="Short address").click()
        short = page.get_by_label("Saved as").input_value()
        page.get_by_role("button", name="Save as shortcut").click()
        expect(page).to_have_url("/explore?shortcut=1")
        drawn(page, 3)
        page.goto(short)

        expect(page).to_have_url("/explore?q=metric%3Dmrr")


def test_table_is_sorted_by_its_heads(page: Page) -> None:
    page.goto(ALL_MRR)
    drawn(page, 3)
    page.get_by_role("button", name="Newest").click()
    expect(page.locator("[aria-sort=descending]")).to_have_text("Newest")
    values = page.locator("table.lines td:nth-child(2)").evaluate_all(
        "all => all.map((each) => +each.dataset.value)"
    )

    assert sorted(values, reverse=True) == values


def test_without_scripts_the_form_chooses(browser: Browser, dashboard: Dashboard) -> None:
    with opened(browser, dashboard, "/explore", java_script_enabled=False) as page:
        page.get_by_label("mrr", exact=False).check()
        page.get_by_role("button", name="Show", exact=True).click()

        expect(page.locator("table.lines tbody tr")).to_have_count(3)
        page.locator("table.lines button.link").first.click()
        expect(page.locator("#panel-title")).to_be_visible()


def test_spread_and_panel_are_accessible(browser: Browser, dashboard: Dashboard) -> None:
    with opened(browser, dashboard, f"{ALL_MRR}&spread=range") as page:
        drawn(page, 3)
        save_picture(page, "explore-spread")
        page.get_by_text("Functions", exact=True).click()
        page.locator(".happened summary").click()
        page.locator(".happened button.link").first.click()
        expect(page.locator("#panel-title")).to_be_focused()
        save_picture(page, "explore-panel")
        assert [] == violations(page)


def test_percentile_curves_of_latency_are_drawn_and_accessible(browser: Browser, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.sqlite") as store:
        key = add_run_with_latency(store)[-1]
    with Dashboard(tmp_path) as dashboard, opened(browser, dashboard, "/explore") as page:
        page.locator(f'tr[data-line="{format_key(key)}"] button.link').click()
        graph = page.get_by_role("region", name="Graph: Latency")

        expect(graph.get_by_role("img", name="Percentile curves")).to_be_visible()
        assert [960, True] == graph.locator("img").evaluate("(image) => [image.naturalWidth, image.complete]")
        expect(page.get_by_text("at 50 % of PDR 20 us on average")).to_be_visible()
        graph.focus()
        expect(graph).to_be_focused()
        save_picture(page, "explore-latency")
        assert [] == violations(page)


def test_curves_of_latency_scroll_in_a_narrow_window(browser: Browser, tmp_path: Path) -> None:
    with Store.open(tmp_path / "store.sqlite") as store:
        key = format_key(add_run_with_latency(store)[-1])
    narrow = {"viewport": {"width": 360, "height": 800}}
    with (
        Dashboard(tmp_path) as dashboard,
        opened(browser, dashboard, f"/explore?at=0&of={quote(key)}", **narrow) as page,
    ):
        expect(page.get_by_role("img", name="Percentile curves")).to_be_visible()

        wide, window = widths(page)
        assert wide <= window
