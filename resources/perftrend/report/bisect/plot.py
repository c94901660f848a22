"""A picture of a bisection: the average of each measurement over git's order of commits, and the belief.

It is SVG without scripts and inline styles: class names leave colours to the style sheet, because Jenkins
forbids inline styles on artifact pages. A bar below the values shows, for each commit, the final probability
that it changed something.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from perftrend.report.bisect import texts
from perftrend.report.bisect.contents import BisectReport
from perftrend.scale import Scale, padded_range
from perftrend.text import line, value

WIDTH, HEIGHT, BOTTOM = 960, 230, 170
"""Size of the picture, and the bottom of the values; the belief is below."""
MARGIN = 24
BARS = 40
"""Height of a bar for certainty."""
MOST_PLOTS = 6
_LEAST_SPAN = 0.04
"""Minimum height, relative to the middle: noise of a tenth of a per cent looks flat."""
_LEAST_PROBABILITY = 0.005
_NARROWEST, _WIDEST = 2.0, 24.0
"""Limits of the width of a commit's bar."""


@dataclass(frozen=True, slots=True)
class Dot:
    """One measurement."""

    x: float
    y: float
    text: str


@dataclass(frozen=True, slots=True)
class Plot:
    """One test in coordinates of the picture."""

    test: str
    dots: tuple[Dot, ...]
    failed: tuple[Dot, ...]
    """Failed measurements, at the bottom."""
    changes: tuple[tuple[float, float], ...]
    """Left edges and widths of the named commits."""
    bars: str
    """The belief, as a path in SVG's notation."""
    low: str
    high: str


def plots(report: BisectReport) -> list[Plot]:
    """Draw the tests that changed the most, or the first ones."""
    moved = (test for culprit in report.outcome.culprits for test in report.affected_tests(culprit))
    chosen = list(dict.fromkeys([*moved, *report.tests]))[:MOST_PLOTS]
    return [_plot(report, test) for test in chosen]


def _plot(report: BisectReport, test: str) -> Plot:
    history = report.state.history
    averages = [
        (each.commit, sum(values) / len(values) if values else None)
        for each in report.state.measured
        for values in [each.values[test].samples if test in each.values else ()]
        if values or test in each.failed
    ]
    valid = [average for _, average in averages if average is not None]
    low, high = padded_range(valid, least_span=_LEAST_SPAN) if valid else (0.0, 1.0)
    y = Scale(low, high, BOTTOM - MARGIN, MARGIN)
    step = (WIDTH - 2 * MARGIN) / max(len(history.commits), 1)
    unit = line(report.any_samples(test).unit)

    def x(commit: str) -> float:
        return round(MARGIN + step * (history.index(commit) + 1), 1)

    def dot(commit: str, average: float | None) -> Dot:
        text = "failed" if average is None else value(average, unit)
        height = round(y(low if average is None else average), 1)
        return Dot(x(commit), height, f"{texts.commit(report, commit)}: {text}")

    width = min(max(step, _NARROWEST), _WIDEST)
    return Plot(
        test=line(test),
        dots=tuple(dot(*each) for each in averages if each[1] is not None),
        failed=tuple(dot(*each) for each in averages if each[1] is None),
        changes=tuple(
            (round(x(commit) - width / 2, 1), round(width, 1))
            for culprit in report.outcome.culprits
            for commit in culprit.commits
        ),
        bars="".join(_bars(report, x, width)),
        low=value(low, unit),
        high=value(high, unit),
    )


def _bars(report: BisectReport, x: Callable[[str], float], width: float) -> Iterator[str]:
    base = HEIGHT - MARGIN / 2
    for suspected in report.outcome.belief:
        if suspected.probability < _LEAST_PROBABILITY:
            continue
        height = round(suspected.probability * BARS, 1)
        for commit in suspected.commits:
            yield f"M{x(commit) - width / 2:.1f} {base}v{-height}h{width:.1f}v{height}z"
