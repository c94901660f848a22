"""The small graph of a test: a picture that needs no script, drawn as SVG in the page itself.

It shows the contents of a CSIT summary graph: the measured values as dots, the moving median in the
background, the group averages as segments, circles at the start of a group (a regression or a
progression), and hollow marks around suspected runs. Class names leave colours to the style sheet;
nothing is styled inline, because Jenkins forbids that on artifact pages.

The page shows the same picture twice, small in the table and large in the drill-down, where
the band of three sigma becomes visible and axes are drawn around it. That one is stretched to the width of
the page. The labels of its axes have places in per cent, so that their letters are not stretched.
Coordinates are whole numbers and mostly relative, because a page holds a thousand of these pictures. Dots
and markers are lines of zero length with round caps, so that they have the same size in both pictures.

Source: "Continuous Performance Trending and Analysis", Performance Analysis, and "Trend
Analysis", Anomalies in graphs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perftrend.model import Direction, Run, Samples, Verdict
from perftrend.report.document import of_length, suspected_runs
from perftrend.scale import Scale, padded_range, ticks

WIDTH, HEIGHT = 960, 200
MARGIN = 24
"""Space for the marker of a change at the edge."""

LEAST_SPAN = 0.04
"""Minimum height of the graph, relative to its middle: noise of a tenth of a per cent looks flat."""

SIGMAS = 3
_MEGA = 1e6
_MOST_LEVELS, _MOST_BUILDS = 6, 6
_Points = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Sparkline:
    """The paths of one small graph, in SVG's notation; an empty path draws nothing."""

    values: str
    not_valid: str
    median: str
    groups: str
    band: str
    regressions: str
    progressions: str
    suspected: str
    low: float
    """Value at the bottom, in the unit of the trace; NaN if nothing was measured."""
    high: float
    """Value at the top."""


def sparkline(verdict: Verdict) -> Sparkline:
    """Draw a verdict into a picture of WIDTH by HEIGHT."""
    samples = verdict.series.samples
    median = np.asarray(of_length(verdict.moving_median, samples.size))
    average = np.asarray(of_length(verdict.trimmed_average, samples.size))
    deviation = np.asarray(of_length(verdict.trimmed_deviation, samples.size))
    with np.errstate(over="ignore"):  # infinity is outside of the range as well
        above, below = average + SIGMAS * deviation, average - SIGMAS * deviation
    means = np.array([group.mean for group in verdict.groups])
    low, high = _range(np.concatenate([samples, means]))
    x = _across(samples.size)
    scale = Scale(low, high, HEIGHT - MARGIN, MARGIN)

    def y(values: Samples) -> Samples:
        """Return coordinates, higher values up; values outside of the range are at its edge."""
        return scale(np.clip(values, low, high))

    return Sparkline(
        values=_dots(x, y(samples)),
        not_valid=_dots(x, y(_not_valid(verdict))),
        median=_line(x, y(median)),
        groups="".join(
            f"M{x[group.start]} {round(float(y(np.array(group.mean))))}H{x[group.stop - 1]}"
            for group in verdict.groups
        ),
        band=_band(x, y(above), y(below)),
        regressions=_dots(x, y(_begins(verdict, Direction.REGRESSION))),
        progressions=_dots(x, y(_begins(verdict, Direction.PROGRESSION))),
        suspected=_dots(x, y(_suspected_values(verdict))),
        low=low,
        high=high,
    )


@dataclass(frozen=True, slots=True)
class ValueLabel:
    """A label of the vertical axis."""

    y: float
    """Coordinate in the picture."""
    place: str
    """The same in per cent of the height."""
    text: str
    """In Mpps, or in the unit of the trace."""


@dataclass(frozen=True, slots=True)
class BuildLabel:
    """A label of the horizontal axis."""

    place: str
    """In per cent of the width."""
    run: Run


@dataclass(frozen=True, slots=True)
class ChartAxes:
    """The labels around a large picture."""

    levels: tuple[ValueLabel, ...]
    builds: tuple[BuildLabel, ...]


def axes(verdict: Verdict, drawn: Sparkline) -> ChartAxes:
    """Return the labels around the picture of a verdict."""
    factor = _MEGA if verdict.series.unit == "pps" else 1.0
    runs = verdict.series.runs
    levels: list[ValueLabel] = []
    if np.isfinite(drawn.low):
        scale = Scale(drawn.low / factor, drawn.high / factor, HEIGHT - MARGIN, MARGIN)
        for tick in ticks(scale.low, scale.high, _MOST_LEVELS):
            y = round(scale(tick.value), 1)
            levels.append(ValueLabel(y, f"{100 * y / HEIGHT:.1f}%", tick.text))
    across = _across(len(runs)).tolist()
    chosen = np.unique(np.rint(np.linspace(0, len(runs) - 1, _MOST_BUILDS)).astype(int)) if runs else ()
    builds = (BuildLabel(f"{100 * across[index] / WIDTH:.1f}%", runs[index]) for index in chosen)
    return ChartAxes(tuple(levels), tuple(builds))


def _range(values: Samples) -> tuple[float, float]:
    finite = values[np.isfinite(values)]
    if not finite.size:
        return float("nan"), float("nan")
    return padded_range(finite.tolist(), least_span=LEAST_SPAN)


def _across(size: int) -> _Points:
    if size == 1:
        return np.array([WIDTH // 2])
    return np.rint(np.linspace(MARGIN, WIDTH - MARGIN, size)).astype(np.int64)


def _not_valid(verdict: Verdict) -> Samples:
    """Return the values that were measured but are not valid, NaN elsewhere."""
    values = np.full(verdict.series.samples.size, np.nan)
    for position, result in enumerate(verdict.series.results[: values.size]):
        if result.invalid:
            values[position] = result.value
    return values


def _suspected_values(verdict: Verdict) -> Samples:
    """Return the value of each suspected run, NaN elsewhere."""
    values = np.full(verdict.series.samples.size, np.nan)
    runs = suspected_runs(verdict)
    values[runs] = verdict.series.samples[runs]
    return values


def _begins(verdict: Verdict, direction: Direction) -> Samples:
    """Return the value of each run that begins a group in this direction, NaN elsewhere."""
    samples = verdict.series.samples
    values = np.full(samples.size, np.nan)
    for change in verdict.changes:
        if change.direction is direction:
            value = samples[change.position]
            values[change.position] = value if np.isfinite(value) else change.after
    return values


def _stretches(x: _Points, y: Samples) -> list[tuple[_Points, _Points]]:
    """Split a curve at positions without a value."""
    (there,) = np.nonzero(np.isfinite(y))
    if not there.size:
        return []
    cuts = np.flatnonzero(np.diff(there) > 1) + 1
    heights = np.rint(y[there]).astype(np.int64)
    return list(zip(np.split(x[there], cuts), np.split(heights, cuts), strict=True))


def _dots(x: _Points, y: Samples) -> str:
    """Draw a line of zero length at each point; round caps turn it into a dot."""
    there = np.isfinite(y)
    xs, ys = x[there].tolist(), np.rint(y[there]).astype(np.int64).tolist()
    if not xs:
        return ""
    steps = zip(np.diff(xs).tolist(), np.diff(ys).tolist(), strict=True)
    return f"M{xs[0]} {ys[0]}h0" + "".join(f"m{dx} {dy}h0" for dx, dy in steps)


def _line(x: _Points, y: Samples) -> str:
    return "".join(_stroke(xs, ys) for xs, ys in _stretches(x, y))


def _band(x: _Points, upper: Samples, lower: Samples) -> str:
    """Draw along the upper edge and back along the lower one."""
    pairs = zip(_stretches(x, upper), _stretches(x, lower), strict=True)
    return "".join(
        _stroke(np.concatenate([xs, xs[::-1]]), np.concatenate([top, bottom[::-1]])) + "z"
        for (xs, top), (_, bottom) in pairs
    )


def _stroke(xs: _Points, ys: _Points) -> str:
    steps = zip(np.diff(xs).tolist(), np.diff(ys).tolist(), strict=True)
    return f"M{xs[0]} {ys[0]}l" + " ".join(f"{dx} {dy}" for dx, dy in steps)
