"""The graph of latencies below PDR: a percentile curve for each load and direction.

The horizontal axis is logarithmic in the fraction of frames that take longer, as for HDR histograms: each
power of ten adds a nine to the percentile. A curve is as coarse as the histogram of the generator. It has a
step for each class, at the upper bound of the class or, if that is beyond it, at the longest latency. It ends
at the percentile of the last but one frame.

Like the graph of a search, it is one SVG picture that needs no script.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from perftrend.measurement import Latency, LoadLatency
from perftrend.report.folder import render
from perftrend.report.search_graph import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH
from perftrend.scale import Scale, Tick, ticks
from perftrend.text import plain

_STYLES = ("#2468b2", "#94600a", "#137541")
"""Colour of each load, repeated cyclically."""
_LEAST_US, _MOST_US = 1e-3, 1e9
"""Latencies are drawn within these: a nanosecond and 17 minutes."""
_MOST_NINES = 9.0
_MARGIN = 0.05
"""Powers of ten above and below the curves."""
_MOST_DECADES = 3
"""With more powers of ten than this, only they have a label."""
_FEW_TICKS = 5
_PERCENTILES = (0.0, 50.0, 90.0, 99.0, 99.9, 99.99, 99.999, 99.9999, 99.99999)


@dataclass(frozen=True, slots=True)
class _Curve:
    """The latency of one direction: the ends of its steps."""

    load: int
    """Index of the load."""
    direction: int
    nines: tuple[float, ...]
    """Negative logarithms of the fractions of frames that take longer, ascending."""
    levels: tuple[float, ...]
    """Logarithms of the latencies, ascending."""


def can_draw(latencies: Mapping[str, LoadLatency]) -> bool:
    """Return whether any of the latencies has a percentile curve."""
    return bool(_curves(latencies))


def sentence(latencies: Mapping[str, LoadLatency]) -> str:
    """Return a description of the graph, for readers who cannot see it."""
    return "; ".join(f"at {_label(metric)} {_average(latency)}" for metric, latency in latencies.items())


def svg(latencies: Mapping[str, LoadLatency], *, simulated: bool = False, style_sheet: str = "") -> str:
    """Draw the latencies as one SVG document of WIDTH by HEIGHT.

    :param latencies: by metric, at least one of which can be drawn.
    :param simulated: whether the picture states that no packet was sent.
    :param style_sheet: as for the graph of a search.
    """
    curves = _curves(latencies)
    levels = [level for curve in curves for level in curve.levels]
    most_nines = max(curve.nines[-1] for curve in curves)
    x = Scale(0.0, most_nines, LEFT, RIGHT)
    y = Scale(min(levels) - _MARGIN, max(levels) + _MARGIN, BOTTOM, TOP)
    percentiles = ((-math.log10(1 - each / 100), each) for each in _PERCENTILES)
    return render(
        "latency.svg",
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        right=RIGHT,
        top=TOP,
        bottom=BOTTOM,
        sentence=sentence(latencies),
        latencies=[(y(math.log10(tick.value)), tick.text) for tick in _latency_ticks(y.low, y.high)],
        percentiles=[(x(nines), f"{each:.7g} %") for nines, each in percentiles if nines <= most_nines],
        curves=[(curve, _stairs(curve, x, y)) for curve in curves],
        loads=[f"{_label(metric)}{': not valid' * bool(each.invalid)}" for metric, each in latencies.items()],
        colours=_STYLES,
        simulated=simulated,
        style_sheet=style_sheet,
    )


def _curves(latencies: Mapping[str, LoadLatency]) -> list[_Curve]:
    return [
        curve
        for load, latency in enumerate(latencies.values())
        for direction, one in enumerate(latency.directions)
        if (curve := _curve(load, direction, one))
    ]


def _curve(load: int, direction: int, latency: Latency) -> _Curve | None:
    """Return the curve of a direction; None if its histogram has fewer than two frames."""
    classes = sorted((bound, count) for bound, count in latency.histogram if count > 0)
    total = sum(count for _, count in classes)
    if total <= 1:
        return None
    most = min(math.log10(total), _MOST_NINES)
    longer = (total - until for until in itertools.accumulate(count for _, count in classes))
    nines = tuple(min(math.log10(total) - math.log10(rest), most) if rest > 0 else most for rest in longer)
    levels = tuple(_level(min(bound, latency.maximum_us)) for bound, _ in classes)
    return _Curve(load, direction, nines, levels)


def _level(latency_us: float) -> float:
    return math.log10(min(max(latency_us, _LEAST_US), _MOST_US))


def _stairs(curve: _Curve, x: Scale, y: Scale) -> str:
    begins = (0.0, *curve.nines)
    steps = zip(begins, curve.nines, curve.levels, strict=False)
    points = [(at, level) for begin, end, level in steps for at in (begin, end)]
    return "M" + "L".join(f"{x(at):.1f} {y(level):.1f}" for at, level in points)


def _latency_ticks(low: float, high: float) -> list[Tick]:
    """Return round latencies between two powers of ten."""
    found = [Tick(value, f"{value:g}") for value in _round_values(low, high)]
    # An axis needs two labels to be read.
    return found if len(found) > 1 else ticks(10.0**low, 10.0**high, _FEW_TICKS)


def _round_values(low: float, high: float) -> Iterator[float]:
    """Yield 1, 2 and 5 times each power of ten; of many powers of ten only these."""
    factors: Sequence[int] = (1, 2, 5) if high - low <= _MOST_DECADES else (1,)
    for power in range(math.floor(low), math.ceil(high)):
        yield from (each for factor in factors if low <= math.log10(each := factor * 10.0**power) <= high)


def _average(latency: LoadLatency) -> str:
    return "not valid" if latency.invalid else f"{latency.average_us:.4g} us on average"


def _label(metric: str) -> str:
    return plain(f"{metric.removeprefix('latency_')} % of PDR")
