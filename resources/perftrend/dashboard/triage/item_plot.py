"""Plots of an item: the values of its traces around the change, and their geometry in SVG.

Each trace is divided by its own mean before the change, so that slow and fast tests fit into one plot.
Another testbed measures other commits at other times. There, the range is that of the same commits if they
were measured, and otherwise that of the same time.

The plots need neither JavaScript nor styles of their own. Horizontal coordinates go from 0 to 1000, which
the browser stretches to the available width. Vertical ones are pixels. Text is outside of the stretched
part.
"""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import groupby

import numpy as np

from perftrend.dashboard.catalog import Traces
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.formats import percent, plain
from perftrend.dashboard.triage.models import ItemPlot, PlotPoint, TraceLine
from perftrend.dashboard.triage.notifications import name_of
from perftrend.model import Samples, SuspectRange, TraceKey, finite
from perftrend.scale import Scale, ticks
from perftrend.store.alerts import CHANGES, Item, StoredFinding
from perftrend.store.tiles import StoredTrace, TileColumn
from perftrend.text import natural_key

NEAR = 5
"""Number of measured commits on each side that are compared; of more, other changes would count as well."""
SIDE = 30
"""Number of measured commits on each side of the range."""
MOST_LINES = 12
"""Maximum number of traces with a line of their own; of more, the quartiles are drawn."""
MOST_TESTBEDS = 12
_MOST_COLUMNS = 300
_MOST_TRACES = 500
_MOST_ON_OTHERS = 100
"""Maximum number of traces on other testbeds, the largest changes first."""
_TESTBED = "testbed"
_QUARTILES = (25.0, 50.0, 75.0)

WIDTH = 1000
HEIGHT, SMALL_HEIGHT = 220, 90
_TICKS, _FEW_TICKS = 9, 5
_PADDING = 0.06
_LEAST_RANGE = 0.002
_MIDDLE = (40.0, 60.0)
"""Horizontal range in per cent in which a label fits between those at both ends."""
_HASH = 10
_Course = Sequence[float | None]


@dataclass(frozen=True, slots=True)
class PlotWindow:
    """The columns of a testbed around the range of an item."""

    columns: range
    last_good: int
    """Column of the last good commit."""
    first_changed: int
    """Column of the first changed commit; the number of columns: it was not measured."""


def window_of(columns: Sequence[TileColumn], span: SuspectRange, *, is_own: bool) -> PlotWindow | None:
    """Return the columns around a range; None if none was measured before the change.

    :param columns: all columns of a testbed.
    :param is_own: whether the range was found on this testbed, so its times are those of the columns.
    """
    good = bisect_right(columns, span.last_good.moment, key=_started) - 1
    changed = bisect_left(columns, span.first_changed.moment, key=_started)
    if not is_own:
        good = max(_with_commit(columns, span.last_good.revision), default=good)
        changed = min(
            (column for column in _with_commit(columns, span.first_changed.revision) if column > good),
            default=changed,
        )
    if good < 0:
        return None
    changed = max(changed, good + 1)
    start, stop = max(good + 1 - SIDE, 0), min(changed + SIDE, len(columns))
    return PlotWindow(range(start, min(stop, start + _MOST_COLUMNS)), good, changed)


def _started(column: TileColumn) -> datetime:
    return column.started


def _with_commit(columns: Sequence[TileColumn], revision: str) -> list[int]:
    return [place for place, column in enumerate(columns) if revision and column.revision == revision]


def shown_findings(findings: Sequence[StoredFinding]) -> list[StoredFinding]:
    """Return the findings in traces that still exist, or all if none does, the largest change first."""
    in_traces = [each for each in findings if each.trace]
    current = [each for each in in_traces if each.gone is None] or in_traces
    return sorted(current, key=lambda each: (-abs(each.relative or 0.0), each.trace))


def item_plots(
    site: AppContext, item: Item, findings: Sequence[StoredFinding], related: Mapping[str, int]
) -> tuple[ItemPlot | None, list[ItemPlot]]:
    """Return the plot of the traces of an item, and the plots of the same traces on other testbeds.

    :param findings: of the item.
    :param related: items about the same commits, by testbed.
    """
    now = site.catalog.now()
    shown = [each for each in shown_findings(findings) if each.trace in now.by_hash][:_MOST_TRACES]
    traces = [now.by_hash[each.trace] for each in shown]
    is_step = item.kind in CHANGES
    drawn_here = [
        # Values that end have a last value instead of a mean, and no change that could be the largest.
        _PlotTrace(trace, each.before if is_step else None, place == 0 and (is_step or len(traces) == 1))
        for place, (trace, each) in enumerate(zip(traces, shown, strict=True))
    ]
    own = _plot(site, item, item.testbed, drawn_here)
    others = {
        testbed: _on_testbed(now, drawn_here[:_MOST_ON_OTHERS], testbed)
        for testbed in site.store.tiles.testbeds()
        if testbed != item.testbed
    }
    measured = [testbed for testbed, found in others.items() if found]
    chosen = sorted(measured, key=lambda each: (each not in related, natural_key(each)))[:MOST_TESTBEDS]
    plots = [_plot(site, item, testbed, others[testbed], related.get(testbed)) for testbed in chosen]
    return own, [each for each in plots if each]


@dataclass(frozen=True, slots=True)
class _PlotTrace:
    """A trace in a plot."""

    trace: StoredTrace
    mean: float | None
    """Its mean before the change; None: the median of the last values before it is used."""
    is_largest: bool = False


def _on_testbed(now: Traces, drawn: Sequence[_PlotTrace], testbed: str) -> list[_PlotTrace]:
    """Return the same traces of another testbed, without those that it does not have."""
    same: list[_PlotTrace] = []
    for each in drawn:
        key = each.trace.key.as_dict()
        there = now.of_key(TraceKey.of(**key | {_TESTBED: testbed})) if _TESTBED in key else None
        if there:
            same.append(_PlotTrace(there, None, each.is_largest))
    return same


def _plot(
    site: AppContext, item: Item, testbed: str, traces: Sequence[_PlotTrace], related: int | None = None
) -> ItemPlot | None:
    """Return the plot of traces on a testbed; None if they have no values around the change."""
    axis = site.store.tiles.axis(testbed)
    window = window_of(axis.columns, item.span, is_own=testbed == item.testbed)
    if window is None or not traces:
        return None
    before, changed = window.last_good + 1 - window.columns.start, window.first_changed - window.columns.start
    values = site.store.tiles.values(axis, [each.trace.trace_id for each in traces], window.columns)
    relative = relative_to_means(values, [each.mean for each in traces], before)
    present = [place for place, row in enumerate(relative) if np.isfinite(row).any()]
    if not present:
        return None
    relative, shown = relative[present], [traces[place] for place in present]
    has_largest = shown[0].is_largest
    largest = relative[0] if has_largest else np.full(len(window.columns), np.nan)
    low, median, high = _quartiles(relative)
    return ItemPlot(
        testbed=testbed,
        item=related,
        largest=_name(shown[0]) if has_largest else "",
        traces=len(shown),
        change=_median_change(relative, before, changed),
        last_good=before - 1,
        first_changed=changed,
        points=[
            PlotPoint(
                column=column,
                commit=axis.columns[column].revision,
                started=axis.columns[column].started,
                largest=finite(largest[place]),
                low=finite(low[place]),
                median=finite(median[place]),
                high=finite(high[place]),
            )
            for place, column in enumerate(window.columns)
        ],
        lines=[
            TraceLine(name=_name(each), values=[finite(value) for value in row])
            for each, row in zip(shown, relative, strict=True)
        ]
        if len(shown) <= MOST_LINES
        else [],
    )


def _name(drawn: _PlotTrace) -> str:
    return plain(name_of(drawn.trace.key))


def relative_to_means(values: Samples, means: Sequence[float | None], before: int) -> Samples:
    """Return the differences of traces from their means before the change, relative to these.

    :param values: shape (traces, columns), NaN if missing.
    :param means: of the traces; None: the median of the last values before it is used.
    :param before: number of columns before the change.
    :returns: the same shape; NaN for traces without a mean, or with the mean 0.
    """
    known = np.array([np.nan if mean is None else mean for mean in means], dtype=np.float64)
    near = _row_medians(values[:, max(before - NEAR, 0) : before])
    usual = np.where(np.isfinite(known), known, near)[:, np.newaxis]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        relative: Samples = (values - usual) / np.abs(usual)
    return np.where(np.isfinite(relative), relative, np.nan)


def _row_medians(values: Samples) -> Samples:
    found = np.full(len(values), np.nan)
    present = np.isfinite(values).any(axis=1)
    found[present] = np.nanmedian(values[present], axis=1)
    return found


def _quartiles(relative: Samples) -> Samples:
    """Return the lower quartile, the median and the upper one of each column; NaN without values."""
    found = np.full((len(_QUARTILES), relative.shape[1]), np.nan)
    present = np.isfinite(relative).any(axis=0)
    found[:, present] = np.nanpercentile(relative[:, present], _QUARTILES, axis=0)
    return found


def _median_change(relative: Samples, before: int, changed: int) -> float | None:
    """Return the median of the changes of traces; None without values on both sides."""
    old, new = relative[:, max(before - NEAR, 0) : before], relative[:, changed : changed + NEAR]
    steps = _row_medians(new) - _row_medians(old)
    present = steps[np.isfinite(steps)]
    return float(np.median(present)) if len(present) else None


@dataclass(frozen=True, slots=True)
class PlotTick:
    """A round value of the vertical axis."""

    y: float
    text: str
    is_zero: bool


@dataclass(frozen=True, slots=True)
class PlotLabel:
    """A text below the plot."""

    x: float
    """In per cent of the width."""
    anchor: str
    text: str


@dataclass(frozen=True, slots=True)
class PlotColumn:
    """The area of a point, with the text that is shown when the pointer is there."""

    x: float
    width: float
    text: str


@dataclass(frozen=True, slots=True)
class PlotDrawing:
    """Paths and positions of a plot."""

    height: int
    ticks: tuple[PlotTick, ...]
    labels: tuple[PlotLabel, ...]
    shade_x: float
    shade_width: float
    band: str
    """The area between the quartiles; empty if each trace has a line."""
    median: str
    lines: tuple[str, ...]
    largest: str
    columns: tuple[PlotColumn, ...]


def common_range(plots: Sequence[ItemPlot]) -> tuple[float, float]:
    """Return the range of all drawn values of plots, so that they can be compared; it contains 0."""
    values = [0.0]
    for plot in plots:
        for point in plot.points:
            drawn = (point.largest, point.low, point.high)
            values += [each for each in drawn if each is not None]
        values += [each for line in plot.lines for each in line.values if each is not None]
    low, high = min(values), max(values)
    padding = max(_PADDING * (high - low), _LEAST_RANGE)
    return low - padding, high + padding


def draw(plot: ItemPlot, low: float, high: float, *, is_small: bool) -> PlotDrawing:
    """Return the drawing of a plot.

    :param low: lower end of the vertical axis, relative: -0.1 is 10 % below the mean.
    :param high: its upper end.
    """
    height = SMALL_HEIGHT if is_small else HEIGHT
    y = Scale(low, high, height, 0.0)
    step = WIDTH / len(plot.points)
    places = [(place + 0.5) * step for place in range(len(plot.points))]
    first = places[plot.last_good]
    last = places[plot.first_changed] if plot.first_changed < len(places) else float(WIDTH)
    points = plot.points

    def path(values: _Course) -> str:
        return line_path(places, [None if each is None else y(each) for each in values])

    has_band = not plot.lines
    return PlotDrawing(
        height=height,
        ticks=tuple(
            PlotTick(round(y(tick.value / 100), 1), _signed(tick.text), tick.value == 0)
            for tick in ticks(100 * low, 100 * high, _FEW_TICKS if is_small else _TICKS)
        ),
        labels=_labels(plot, (first + last) / 2 / WIDTH * 100, is_small=is_small),
        shade_x=round(first, 1),
        shade_width=round(last - first, 1),
        band=_area(places, [_both(y, point.low, point.high) for point in points]) if has_band else "",
        median=path([point.median for point in points]) if has_band else "",
        lines=tuple(path(line.values) for line in plot.lines),
        largest=path([point.largest for point in points]),
        columns=() if is_small else _columns(plot, step),
    )


def line_path(x: Sequence[float], y: _Course) -> str:
    """Return the path of a line with gaps where values are missing; a single value is a dot."""
    parts = []
    for group in _present(y):
        place, *rest = group
        # A line of length zero is drawn as a dot.
        parts.append(f"M{x[place]:.1f} {y[place]:.1f}h0")
        parts += [f"L{x[each]:.1f} {y[each]:.1f}" for each in rest]
    return "".join(parts)


def _both(y: Scale, low: float | None, high: float | None) -> tuple[float, float] | None:
    return None if low is None or high is None else (y(low), y(high))


def _area(x: Sequence[float], limits: Sequence[tuple[float, float] | None]) -> str:
    parts = []
    for group in _present(limits):
        sides = [(x[place], *both) for place in group if (both := limits[place])]
        corners = [f"{at:.1f} {low:.1f}" for at, low, _ in sides]
        corners += [f"{at:.1f} {high:.1f}" for at, _, high in reversed(sides)]
        parts.append(f"M{'L'.join(corners)}Z")
    return "".join(parts)


def _present(values: Sequence[object]) -> Iterator[list[int]]:
    """Yield the places of consecutive values."""
    for is_present, group in groupby(range(len(values)), key=lambda place: values[place] is not None):
        if is_present:
            yield list(group)


def _signed(text: str) -> str:
    number = float(text)
    sign = "" if not number else "\N{MINUS SIGN}" if math.copysign(1.0, number) < 0 else "+"
    return f"{sign}{text.removeprefix('-')} %"


def _labels(plot: ItemPlot, middle: float, *, is_small: bool) -> tuple[PlotLabel, ...]:
    """Return the first and the last day and the first changed commit, without those that would overlap."""
    start, stop = _MIDDLE
    points = plot.points
    left = PlotLabel(0.0, "start", f"{points[0].started:%Y-%m-%d}")
    right = PlotLabel(100.0, "end", f"{points[-1].started:%Y-%m-%d}")
    changed = points[plot.first_changed] if plot.first_changed < len(points) else None
    if changed is None:
        return left, right
    text = changed.commit[:_HASH] or f"{changed.started:%Y-%m-%d}"
    anchor = "start" if middle < start else "end" if middle > stop else "middle"
    label = PlotLabel(middle, anchor, text)
    if is_small:
        return (label,)
    return tuple(
        each
        for each, is_shown in ((left, anchor != "start"), (label, True), (right, anchor != "end"))
        if is_shown
    )


def _columns(plot: ItemPlot, step: float) -> tuple[PlotColumn, ...]:
    return tuple(
        PlotColumn(round(place * step, 1), round(step, 1), _describe(plot, point))
        for place, point in enumerate(plot.points)
    )


def _describe(plot: ItemPlot, point: PlotPoint) -> str:
    values = [percent(point.largest)] if plot.largest else []
    values += [f"median {percent(point.median)}"] if plot.traces > 1 else []
    commit = point.commit[:_HASH] or "commit not known"
    return f"{commit}, {point.started:%Y-%m-%d %H:%M} UTC: {', '.join(values)}"
