"""Plots of many lines in a browser: the pointer finds a line, its row and its point, and a drag zooms."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta

import pytest
from playwright.sync_api import Browser, Page, expect

from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store
from tests.integration.accessibility import violations
from tests.integration.servers.dashboard import Dashboard, opened, save_picture, widths
from tests.unit.dashboard.conftest import FIRST, commit

TRACES, RUNS = 200, 128
FALLEN = "64b-t150-mrr"
"""A trace that fell by 20 % in the middle; all others are constant."""
MANY = "/explore?q=test=~t&show=scale_by_ave"
OF_FALLEN = f"!scale_by_ave(,test={FALLEN},testbed=2n-clx,)"
ADDED = ("64b-t198-mrr", "64b-t199-mrr")
"""Traces that were added at run 64."""


@pytest.fixture(scope="module")
def dashboard(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    folder = tmp_path_factory.mktemp("many")
    keys = [TraceKey.of(test=f"64b-t{number:03}-mrr", testbed="2n-clx") for number in range(TRACES)]
    with Store.open(folder / "store.sqlite") as store:
        store.add_all((run_of(number), list(results_of(keys, number))) for number in range(RUNS))
    with Dashboard(folder) as running:
        yield running


def run_of(number: int) -> Run:
    started = FIRST + timedelta(days=number)
    return Run("2n-clx", "nightly", number + 1, started, started, {"device": commit(number)})


def results_of(keys: list[TraceKey], number: int) -> Iterator[Result]:
    for place, key in enumerate(keys):
        test = key.as_dict()["test"]
        value = 1e6 * (1 + place) * (0.8 if test == FALLEN and number >= RUNS // 2 else 1.0)
        if test not in ADDED or number >= RUNS // 2:
            yield Result(key, "pps", Better.HIGHER, Status.PASS, (value,), value)


def drawn(page: Page, lines: int = TRACES) -> None:
    expect(page.locator("#plot")).to_have_attribute("data-drawn", str(lines))


def place_of(page: Page, share: float, value: float) -> tuple[float, float]:
    """Return where a value is drawn, at a share of the width of the plot."""
    box = page.locator("#axes .axis").last.bounding_box()
    ticks = page.locator("#axes text[text-anchor=end]").evaluate_all(
        "all => all.map((each) => [+each.textContent, each.getBoundingClientRect()])"
        ".map(([value, box]) => [value, box.top + box.height / 2])"
    )
    assert box is not None
    (low, bottom), *_, (high, top) = ticks
    return box["x"] + share * box["width"], bottom + (value - low) / (high - low) * (top - bottom)


def coloured(page: Page, canvas: str) -> int:
    """Return the number of pixels of a canvas that are drawn on."""
    number: int = page.locator(canvas).evaluate(
        "each => each.getContext('2d').getImageData(0, 0, each.width, each.height).data"
        ".filter((value, at) => at % 4 === 3 && value).length"
    )
    return number


def test_density_is_drawn_without_plotly(page: Page) -> None:
    page.goto(MANY)
    drawn(page)

    expect(page.locator("#plot")).to_have_attribute("data-kind", "density")
    assert coloured(page, "#density") > 1000
    assert page.evaluate("window.Plotly === undefined")
    expect(page.locator("#axes .title")).to_have_text("multiple of the average")


def test_pointer_brings_out_a_line_and_its_row(page: Page) -> None:
    page.goto(MANY)
    drawn(page)
    page.mouse.move(*place_of(page, 0.25, 1.11))

    expect(page.locator("#tip")).to_have_text(re.compile(r"^1\.11\d+ scale_by_ave\(t150\)$"))
    expect(page.locator("tr.pointed")).to_have_attribute("data-line", OF_FALLEN)
    assert coloured(page, "#bright") > 100
    save_picture(page, "explore-many")
    page.mouse.move(*place_of(page, 0.25, 1.05))
    expect(page.locator("#tip")).to_be_hidden()
    expect(page.locator("tr.pointed")).to_have_count(0)
    assert coloured(page, "#bright") == 0


def test_row_brings_out_its_line(page: Page) -> None:
    page.goto(MANY)
    drawn(page)
    page.locator(f'tr[data-line="{OF_FALLEN}"] th').hover()

    expect(page.locator(".plot-frame.dimmed")).to_be_visible()
    assert coloured(page, "#bright") > 100


def test_click_opens_the_point_of_a_line(page: Page) -> None:
    page.goto(MANY)
    drawn(page)
    page.mouse.click(*place_of(page, 0.25, 1.11))

    expect(page.locator("#panel-title")).to_contain_text("1.11")
    expect(page).to_have_url(re.compile("at=3[0-2]&of=!scale_by_ave"))
    expect(page.locator("#axes .ring")).to_have_count(1)
    expect(page.locator("#axes .compared")).to_have_count(0)
    assert [] == violations(page)


def test_range_of_two_points_is_shaded(page: Page) -> None:
    page.goto(f"{MANY}&at=32&since=30&of={OF_FALLEN}")
    drawn(page)

    expect(page.locator("#axes .compared")).to_have_count(1)
    since, looked, shade = (
        page.locator(f"#axes .{each}").bounding_box() for each in ("since", "looked", "compared")
    )
    assert since is not None
    assert looked is not None
    assert shade is not None
    assert (since["x"], looked["x"] - since["x"]) == pytest.approx((shade["x"], shade["width"]), abs=2)


def test_drag_zooms_and_a_button_shows_all(page: Page) -> None:
    page.goto(MANY)
    drawn(page)
    page.mouse.move(*place_of(page, 0.1, 1.12))
    page.mouse.down()
    page.mouse.move(*place_of(page, 0.6, 1.05), steps=4)
    expect(page.locator("#axes .selection")).to_be_visible()
    page.mouse.up()
    expect(page.locator("#whole")).to_be_visible()
    expect(page).to_have_url(re.compile(r"x=[0-9.]+&y=1\.0[45]\d*\.\.1\.1[12]\d*"))
    zoomed = page.locator("#axes text[text-anchor=end]").all_inner_texts()
    page.reload()
    drawn(page)

    assert zoomed == page.locator("#axes text[text-anchor=end]").all_inner_texts()
    page.locator("#whole").click()
    expect(page.locator("#whole")).to_be_hidden()
    expect(page).not_to_have_url(re.compile("[&?]x="))
    assert zoomed != page.locator("#axes text[text-anchor=end]").all_inner_texts()


def test_few_of_the_lines_are_drawn_by_plotly(page: Page) -> None:
    page.goto(MANY)
    drawn(page)
    page.locator("#q").fill("test=~t00")
    drawn(page, 10)
    expect(page.locator("#plot .main-svg").first).to_be_visible()
    assert coloured(page, "#density") == 0
    expect(page.locator("#axes *")).to_have_count(0)
    page.locator("#q").fill("test=~t")
    drawn(page)

    expect(page.locator("#plot .main-svg")).to_have_count(0)
    assert coloured(page, "#density") > 1000


def test_list_is_cut_sorted_and_shown_whole(page: Page) -> None:
    page.goto(MANY)
    drawn(page)
    rows = page.locator("table.lines tbody tr")
    expect(rows).to_have_count(100)
    expect(rows.first).to_have_attribute("data-line", OF_FALLEN)
    page.get_by_role("link", name="Line", exact=True).click()
    expect(rows.first).to_contain_text("scale_by_ave(t000)")
    page.get_by_role("link", name="List all").click()

    expect(rows).to_have_count(TRACES)


def test_narrow_window_has_all_of_it(browser: Browser, dashboard: Dashboard) -> None:
    with opened(browser, dashboard, MANY, viewport={"width": 390, "height": 844}) as page:
        drawn(page)
        wide, window = widths(page)
        assert wide <= window
        page.mouse.move(*place_of(page, 0.25, 1.11))
        expect(page.locator("#tip")).to_contain_text("t150")
        save_picture(page, "explore-many-narrow")


def test_added_traces_are_marked_in_the_plot_of_the_average(page: Page) -> None:
    page.goto("/explore?q=test=~t&show=ave")
    drawn(page, 1)

    expect(page.locator("#plot .annotation-text")).to_have_text("+2 traces")
    save_picture(page, "explore-average")
    page.locator(".happened summary").click()
    expect(page.locator(".happened tbody tr")).to_contain_text("64b-t198-mrr, 64b-t199-mrr")
    assert [] == violations(page)
