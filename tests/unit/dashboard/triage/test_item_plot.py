"""The values of an item's plot, and their drawing."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from perftrend.dashboard.triage.item_plot import (
    HEIGHT,
    SIDE,
    WIDTH,
    PlotWindow,
    common_range,
    draw,
    line_path,
    relative_to_means,
    window_of,
)
from perftrend.dashboard.triage.models import ItemPlot, PlotPoint
from perftrend.model import MeasuredCommit, SuspectRange
from perftrend.store.tiles import TileColumn

FIRST = datetime(2026, 1, 1, 2, tzinfo=UTC)
DAY = timedelta(days=1)
COLUMNS = [TileColumn(f"{number:040x}", FIRST + number * DAY, (number,)) for number in range(100)]


def span(good: int, changed: int, *, moved: timedelta = timedelta()) -> SuspectRange:
    first, last = COLUMNS[good], COLUMNS[changed]
    return SuspectRange(
        MeasuredCommit(first.started + moved, first.revision),
        MeasuredCommit(last.started + moved, last.revision),
    )


def plot_of(values: list[float | None], good: int = 0, traces: int = 1) -> ItemPlot:
    points = [
        PlotPoint(
            column=place, commit=f"{place:040x}", started=FIRST + place * DAY,
            largest=value, median=value, low=value, high=value,
        )
        for place, value in enumerate(values)
    ]  # fmt: skip
    return ItemPlot(
        testbed="2n-clx", item=None, largest="a", traces=traces, change=None,
        last_good=good, first_changed=good + 1, points=points, lines=[],
    )  # fmt: skip


@pytest.mark.parametrize(
    ("good", "changed", "columns"),
    [(49, 50, range(20, 80)), (3, 7, range(37)), (98, 99, range(69, 100)), (40, 60, range(11, 90))],
)
def test_window_has_thirty_commits_on_each_side(good: int, changed: int, columns: range) -> None:
    assert 30 == SIDE
    assert PlotWindow(columns, good, changed) == window_of(COLUMNS, span(good, changed), is_own=True)


def test_range_of_another_testbed_is_that_of_the_same_commits() -> None:
    shifted = span(49, 50, moved=-9 * DAY)

    assert PlotWindow(range(20, 80), 49, 50) == window_of(COLUMNS, shifted, is_own=False)


def test_range_of_another_testbed_without_the_commits_is_that_of_the_same_time() -> None:
    other = [
        TileColumn(f"{number + 1000:040x}", each.started, each.runs) for number, each in enumerate(COLUMNS)
    ]
    shifted = span(49, 50, moved=timedelta(hours=1))

    assert PlotWindow(range(20, 81), 49, 51) == window_of(other, shifted, is_own=False)


def test_nothing_is_drawn_of_a_testbed_that_measured_nothing_before() -> None:
    assert window_of(COLUMNS, span(0, 1, moved=-DAY), is_own=True) is None


def test_traces_are_relative_to_their_means() -> None:
    values = np.array([[10.0, math.nan, 9.0], [4.0, 8.0, 3.0], [0.0, 0.0, 1.0]])

    relative = relative_to_means(values, [20.0, None, None], before=2)

    assert [-0.5, -0.55] == pytest.approx(relative[0, [0, 2]].tolist())
    assert [-1 / 3, 1 / 3, -0.5] == pytest.approx(relative[1].tolist())
    assert np.isnan(relative[0, 1])
    assert np.isnan(relative[2]).all()


def test_missing_values_interrupt_the_line() -> None:
    assert "M0.0 5.0h0M2.0 6.0h0L3.0 7.0" == line_path([0.0, 1.0, 2.0, 3.0], [5.0, None, 6.0, 7.0])


def test_ticks_are_signed_per_cent() -> None:
    plot = plot_of([0.0, -0.05])

    drawn = draw(plot, *common_range([plot]), is_small=False)

    assert ["\N{MINUS SIGN}5 %", "\N{MINUS SIGN}4 %", "0 %"] == [
        tick.text for tick in drawn.ticks if tick.text[-3:] in ("5 %", "4 %", "0 %")
    ]
    assert [True] == [tick.is_zero for tick in drawn.ticks if tick.text == "0 %"]


def test_range_of_the_change_is_shaded_between_its_ends() -> None:
    drawn = draw(plot_of([0.0, 0.0, -0.05, -0.05], good=1), -0.1, 0.1, is_small=False)

    assert (375.0, 250.0) == (drawn.shade_x, drawn.shade_width)
    assert 4 == len(drawn.columns)


@pytest.mark.parametrize(
    ("good", "texts"),
    [
        (1, ["0000000000", "2026-01-20"]),
        (9, ["2026-01-01", "0000000000", "2026-01-20"]),
        (18, ["2026-01-01", "0000000000"]),
    ],
)
def test_labels_do_not_overlap(good: int, texts: list[str]) -> None:
    drawn = draw(plot_of([0.0] * 20, good=good), -0.1, 0.1, is_small=False)

    assert texts == [label.text for label in drawn.labels]


@pytest.mark.parametrize("values", [[0.0, None], [1e300, -1e300], [5e-324, None, 0.0], [None, 0.0]])
def test_any_values_are_drawn_inside(values: list[float | None]) -> None:
    plot = plot_of(values)

    drawn = draw(plot, *common_range([plot]), is_small=False)

    places = re.findall(r"[ML]([\d.-]+) ([\d.-]+)", drawn.largest)
    assert len([value for value in values if value is not None]) == len(places)
    assert all(0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in places)
