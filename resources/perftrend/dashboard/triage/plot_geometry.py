"""Geometry of the plots of an item, for SVG without JavaScript and without styles of its own.

Horizontal coordinates go from 0 to 1000, which the browser stretches to the available width. Vertical ones
are pixels. Text is outside of the stretched part.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from perftrend.dashboard.formats import percent
from perftrend.dashboard.triage.models import ItemPlot, PlotPoint
from perftrend.scale import Scale, ticks

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
