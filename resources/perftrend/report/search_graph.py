"""The graph of a search: its trials and the bounds of each loss ratio, over the seconds of trials.

It is one SVG picture that needs no script. In the report it is an image of its own, loaded when
its test is opened; otherwise it is in an HTML file with a table of its trials. If its style sheet
applies, pointing at a trial, or focusing it with the keyboard, shows its details at the bottom. As
an image, it still has its colours. A server may forbid inline styles, so a picture in a file of its
own has its style sheet in another file.

The rates shown are those around the last bounds; a trial beyond them is drawn at the edge. A bound
moves at the end of the trial that moved it. Loss ratios differ in line style as well as in colour, and
outcomes of trials differ in shape alone.

Source: "MDR Search", section Search Time Graphs.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from perftrend.measure.search.trials import doubt, passes
from perftrend.measurement import Interval, Phase, Step, Trial
from perftrend.report.folder import render
from perftrend.scale import Scale, Tick, ticks
from perftrend.text import plain

WIDTH, HEIGHT = 960, 400
LEFT, RIGHT, TOP, BOTTOM = 64, 860, 52, 340
"""The edges of the plot in the picture."""

STYLE_SHEET = "figures.css"
"""The template with the style sheet of this graph and of the one of latencies."""

_MEGA = 1e6
_WIDTHS_AROUND = 4.0
"""Visible range above and below the last bounds, as a multiple of the widest interval."""
_TIME_AFTER = 1.03
"""The picture extends a little beyond the last trial, so that its result is visible."""
_SHARE_ABOVE = 1.02
_LEAST_SPAN = 1e-6
_LABEL_HEIGHT = 15
_LETTER_WIDTH = 6.5
_ENDED_EARLY = 0.999
_STYLES = (("#2468b2", ""), ("#94600a", "7 4"), ("#137541", "2 3"), ("#7b3fa0", "10 3 2 3"))
"""Colour and dashes of each loss ratio, repeated cyclically."""


@dataclass(frozen=True, slots=True)
class _Mark:
    """A trial in the picture."""

    shape: str
    """``none-lost``, ``within`` (the largest loss ratio) or ``beyond`` it."""
    begin: float
    x: float
    y: float
    outside: int
    """1: it is above the visible rates, -1: below; 0: it is within."""
    text: str


@dataclass(frozen=True, slots=True)
class _Bounds:
    """The bounds of one loss ratio as paths, with the name at their end."""

    label: str
    label_y: float
    colour: str
    dashes: str
    lower: str
    upper: str
    band: str


def write(
    phases: Sequence[Phase], loss_ratios: Sequence[float], path: Path, *, title: str = "Search"
) -> None:
    """Write the graph of one search as a self-contained HTML file.

    :param phases: the phases of a ``SearchResult`` or of a measurement.
    :param loss_ratios: those of the search, in the order of the steps' intervals.
    :param path: the file; its folder must exist.
    :raises OSError: if it cannot be written.
    """
    html = render(
        "search.html",
        title=plain(title),
        sentence=sentence(phases, loss_ratios),
        picture=svg(phases, loss_ratios),
        rows=[(phase, step) for phase in phases for step in phase.steps],
        about_loss=_loss,
        about_reason=_reason,
        mega=_MEGA,
    )
    path.write_text(html, encoding="utf-8", newline="\n")


def sentence(phases: Sequence[Phase], loss_ratios: Sequence[float]) -> str:
    """Return a description of the graph, for readers who cannot see it."""
    trials = [trial for phase in phases for trial in phase.trials]
    found = [f"{_label(ratio)} {_span(interval)}" for ratio, interval in _last(phases, loss_ratios)]
    effort = f"{len(trials)} trials in {len(phases)} phases took {sum(t.elapsed_s for t in trials):.1f} s"
    return f"{effort}; {', '.join(found)} Mpps" if found else f"{effort}; no bound was found"


def svg(
    phases: Sequence[Phase], loss_ratios: Sequence[float], *, simulated: bool = False, style_sheet: str = ""
) -> str:
    """Draw a search as one SVG document of WIDTH by HEIGHT.

    :param phases: as for :func:`write`.
    :param loss_ratios: as for :func:`write`.
    :param simulated: whether the picture states that no packet was sent.
    :param style_sheet: URL of :data:`STYLE_SHEET`; empty: it is a part of the picture.
    """
    picture = _Picture(phases, loss_ratios)
    return render(
        "search.svg",
        width=WIDTH,
        height=HEIGHT,
        left=LEFT,
        right=RIGHT,
        top=TOP,
        bottom=BOTTOM,
        sentence=sentence(phases, loss_ratios),
        rates=[(picture.y(tick.value * _MEGA), tick.text) for tick in picture.rate_ticks()],
        times=[(picture.x(tick.value), tick.text) for tick in picture.time_ticks()],
        phases=list(picture.phase_lines()),
        bounds=picture.bounds(),
        marks=picture.marks(),
        largest=_label(max(loss_ratios)),
        simulated=simulated,
        style_sheet=style_sheet,
    )


class _Picture:
    def __init__(self, phases: Sequence[Phase], loss_ratios: Sequence[float]) -> None:
        self._phases = phases
        self._loss_ratios = loss_ratios
        self._steps = [step for phase in phases for step in phase.steps]
        times = (step.trial.elapsed_s for step in self._steps)
        self._ends = list(itertools.accumulate(times, lambda *pair: _clamp(sum(pair)), initial=0.0))
        self._time = Scale(0.0, _clamp(_TIME_AFTER * self._ends[-1]) or 1.0, LEFT, RIGHT)
        self._rate = Scale(*_visible_range(phases, loss_ratios), BOTTOM, TOP)

    def x(self, seconds: float) -> float:
        return self._time(seconds)

    def y(self, rate_pps: float) -> float:
        # Renderers do not draw infinite coordinates; this far outside, nothing is visible.
        return min(max(self._rate(rate_pps), -HEIGHT), 2.0 * HEIGHT)

    def rate_ticks(self) -> list[Tick]:
        return ticks(self._rate.low / _MEGA, self._rate.high / _MEGA, 7)

    def time_ticks(self) -> list[Tick]:
        return ticks(self._time.low, self._time.high, 9)

    def phase_lines(self) -> Iterator[tuple[float, str, bool]]:
        """Yield the start of each phase, its name, and whether the name fits."""
        first = 0
        for phase in self._phases:
            begin, end = self.x(self._ends[first]), self.x(self._ends[first + len(phase.steps)])
            first += len(phase.steps)
            yield begin, plain(phase.name), end - begin > _LETTER_WIDTH * (len(phase.name) + 1)

    def marks(self) -> list[_Mark]:
        times = itertools.pairwise(self._ends)
        return [self._mark(step, *time) for step, time in zip(self._steps, times, strict=True)]

    def _mark(self, step: Step, begin: float, end: float) -> _Mark:
        trial = step.trial
        outside = (trial.rate_pps > self._rate.high) - (trial.rate_pps < self._rate.low)
        return _Mark(
            shape=_shape(trial, self._loss_ratios),
            begin=self.x(begin),
            x=self.x(end),
            y=self.y(min(max(trial.rate_pps, self._rate.low), self._rate.high)),
            outside=outside,
            text=_about(step),
        )

    def bounds(self) -> list[_Bounds]:
        last = _last(self._phases, self._loss_ratios)
        middles = [self.y(each.lower / 2.0 + each.upper / 2.0) for _, each in last]
        labels = _apart(middles, least=TOP + 4.0, most=BOTTOM)
        return [
            self._bounds_of(number, ratio, label_y)
            for number, ((ratio, _), label_y) in enumerate(zip(last, labels, strict=True))
        ]

    def _bounds_of(self, number: int, ratio: float, label_y: float) -> _Bounds:
        known = [
            (end, step.intervals[number])
            for step, end in zip(self._steps, self._ends[1:], strict=True)
            if step.intervals
        ]
        times = [self.x(end) for end, _ in known] + [float(RIGHT)]
        lower = list(_stairs(times, [self.y(each.lower) for _, each in known]))
        upper = list(_stairs(times, [self.y(each.upper) for _, each in known]))
        colour, dashes = _STYLES[number % len(_STYLES)]
        return _Bounds(
            label=_label(ratio),
            label_y=label_y,
            colour=colour,
            dashes=dashes,
            lower=_path(lower),
            upper=_path(upper),
            band=_path([*upper, *reversed(lower)]) + "z",
        )


def _visible_range(phases: Sequence[Phase], loss_ratios: Sequence[float]) -> tuple[float, float]:
    """Return the rates to show: the last bounds and some interval widths around them."""
    highest = max((trial.rate_pps for phase in phases for trial in phase.trials), default=0.0)
    last = [interval for _, interval in _last(phases, loss_ratios)]
    low, high = 0.0, highest
    if last:
        low, high = min(each.lower for each in last), max(each.upper for each in last)
        around = _WIDTHS_AROUND * max(each.upper - each.lower for each in last)
        # No rate is below zero, and there is nothing above the highest trial.
        low, high = max(0.0, low - around), max(high, min(high + around, _SHARE_ABOVE * highest))
    if high - low <= _LEAST_SPAN * high:
        low, high = low / _SHARE_ABOVE, _SHARE_ABOVE * high
    return low, _clamp(high) if low < high else _MEGA


def _clamp(value: float) -> float:
    """Return a value, or the largest float instead of infinity."""
    return min(value, sys.float_info.max)


def _last(phases: Sequence[Phase], loss_ratios: Sequence[float]) -> list[tuple[float, Interval]]:
    """Return the last bounds, by loss ratio; empty if there are none."""
    known = [step.intervals for phase in phases for step in phase.steps if step.intervals]
    return list(zip(loss_ratios, known[-1], strict=True)) if known else []


def _stairs(times: Sequence[float], heights: Sequence[float]) -> Iterator[tuple[float, float]]:
    for (begin, end), height in zip(itertools.pairwise(times), heights, strict=True):
        yield begin, height
        yield end, height


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def _apart(heights: Sequence[float], *, least: float, most: float) -> list[float]:
    """Move labels down until none covers another, starting with the highest one."""
    placed = list(heights)
    floor = least
    for number in sorted(range(len(heights)), key=lambda each: heights[each]):
        placed[number] = min(max(heights[number], floor), most)
        floor = placed[number] + _LABEL_HEIGHT
    return placed


def _shape(trial: Trial, loss_ratios: Sequence[float]) -> str:
    if not passes(trial, max(loss_ratios)):
        return "beyond"
    return "none-lost" if passes(trial, 0.0) else "within"


def _label(loss_ratio: float) -> str:
    return f"PDR {100 * loss_ratio:g} %" if loss_ratio else "NDR"


def _span(interval: Interval) -> str:
    return f"{interval.lower / _MEGA:.4f} to {interval.upper / _MEGA:.4f}"


def _about(step: Step) -> str:
    trial = step.trial
    early = f", ended after {trial.elapsed_s:.2g} s" if _has_ended_early(trial) else ""
    rate = f"{trial.rate_pps / _MEGA:.4f} Mpps"
    return f"{rate} for {trial.duration_s:.3g} s{early}: {_loss(trial)}. {_reason(step)}"


def _loss(trial: Trial) -> str:
    if trial.received == trial.sent:
        return "nothing lost"
    return f"{100 * trial.loss_ratio:.3g} % lost" + (" by then" if _has_ended_early(trial) else "")


def _has_ended_early(trial: Trial) -> bool:
    return trial.elapsed_s < _ENDED_EARLY * trial.duration_s


def _reason(step: Step) -> str:
    untrusted = doubt(step.trial)
    return plain(step.reason + (f"; not trusted: {untrusted}" if untrusted else ""))
