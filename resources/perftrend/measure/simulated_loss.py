"""Loss of a simulated device over its load and over the time of a trial, and typical devices.

Below, c is the critical rate of the trial and r the offered rate.

===============  =======================================================================
knee             loss ratio
===============  =======================================================================
``hard``         0 up to c, then 1 - c/r: the device forwards c and not more
``soft``         0 up to 0.9 c, then 0.02 (r/c - 0.9)², and the loss of the hard knee
``gentle``       0 up to c, then 0.005 ((r/c - 1)/0.12)², at most that of the hard knee
``collapse``     0 up to c, then 1 - (c/r)²: the more is offered, the less is forwarded
``cubic``        0 up to 0.8 c, then 0.1 (r/c - 0.8)³, and the loss of the hard knee
``exponential``  0.001 e^((r/c - 1)/0.03) up to c: loss at every rate, though it may be
                 less than one frame; 0.001 above c, and the loss of the hard knee
``linear``       0 up to 0.8 c, then 0.04 (r/c - 0.8), and the loss of the hard knee
``steps``        0 up to 0.7 c, 0.0001 up to 0.85 c, 0.001 up to c, then 0.02 and the
                 loss of the hard knee
``falling``      0 up to 0.5 c, then 0.01 (0.5 c/r)³, and the loss of the hard knee: a device that
                 loses frames when it goes to sleep, fewer of them at higher loads
===============  =======================================================================
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

_STEPS = ((0.7, 0.0), (0.85, 0.0001), (1.0, 0.001), (math.inf, 0.02))
"""Loads, and the loss ratio up to each of them."""

_SLEEPLESS = 0.5

_QUEUE_FRAMES = 4096


def _hard(load: float) -> float:
    return max(0.0, 1.0 - 1.0 / load)


def _soft(load: float) -> float:
    above = max(0.0, load - 0.9)
    return 0.02 * above * above + _hard(load)


def _gentle(load: float) -> float:
    above = (load - 1.0) / 0.12
    return min(_hard(load), 0.005 * above * above)


def _collapse(load: float) -> float:
    return max(0.0, 1.0 - 1.0 / (load * load))


def _cubic(load: float) -> float:
    above = max(0.0, load - 0.8)
    return 0.1 * above * above * above + _hard(load)


def _exponential(load: float) -> float:
    return 0.001 * math.exp(min(0.0, load - 1.0) / 0.03) + _hard(load)


def _linear(load: float) -> float:
    return 0.04 * max(0.0, load - 0.8) + _hard(load)


def _steps(load: float) -> float:
    return next(loss for highest, loss in _STEPS if load <= highest) + _hard(load)


def _falling(load: float) -> float:
    return (0.01 * (_SLEEPLESS / load) ** 3 if load > _SLEEPLESS else 0.0) + _hard(load)


KNEES: Mapping[str, Callable[[float], float]] = MappingProxyType(
    {
        "hard": _hard,
        "soft": _soft,
        "gentle": _gentle,
        "collapse": _collapse,
        "cubic": _cubic,
        "exponential": _exponential,
        "linear": _linear,
        "steps": _steps,
        "falling": _falling,
    }
)
"""Loss ratio over the load r/c, by name."""

KINDS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        **{knee: {"knee": knee} for knee in KNEES},
        **{
            f"{knee}-poisson": {"knee": knee, "poisson": True}
            for knee in ("hard", "soft", "gentle", "cubic", "exponential")
        },
        "jitter-0.1": {"jitter": 0.001},
        "jitter": {"jitter": 0.003},
        "jitter-1": {"jitter": 0.01},
        "jitter-gentle": {"knee": "gentle", "jitter": 0.003},
        "drift": {"drift_per_s": -0.005 / 90},
        "two-mode": {"slow_share": 0.1},
        "inconsistent": {"jitter": 0.01, "hiccup_share": 0.1, "restart_spread": 0.02},
        "loss-floor": {"loss_floor": 1e-7},
        "loss-floor-poisson": {"loss_floor": 1e-7, "poisson": True},
        "short-optimistic": {"buffer_frames": 100_000},
        "throttling": {"warm_up_s": 2.0, "warm_up_slowdown": -0.1},
        "short-pessimistic": {"warm_up_s": 0.5, "warm_up_slowdown": 0.2},
        "warm-up-once": {"warm_up_s": 5.0, "warm_up_slowdown": 0.1, "warm_up_once": True},
        "asymmetric": {"asymmetry": 0.1},
        "slow-generator": {"rate_error": -0.001},
        **{
            f"pauses-{every_s}": {"pause_every_s": float(every_s), "queue_frames": _QUEUE_FRAMES}
            for every_s in (7, 10, 13, 20)
        },
        "stalls": {"pause_every_s": 45.0, "pauses_at_random": True, "queue_frames": _QUEUE_FRAMES},
        "bursty": {"knee": "soft", "burst_frames": 256},
    }
)
"""Arguments of ``DeviceModel`` for typical devices, by name.

======================  ==================================================================
kind                    behaviour
======================  ==================================================================
name of a knee          that knee, without randomness
``KNEE-poisson``        that knee, and a random number of lost frames
``jitter-0.1``          the critical rate varies from trial to trial by 0.1 %
``jitter``              the same by 0.3 %
``jitter-1``            the same by 1 %
``jitter-gentle``       jitter of 0.3 % on a gentle knee
``drift``               the device becomes slower, by 0.5 % in 90 s of trials
``two-mode``            the device is 3 % slower in one trial in ten
``inconsistent``        jitter of 1 %, hiccups, and a different critical rate after each start
``loss-floor``          one frame in ten million is lost at every rate
``loss-floor-poisson``  the same in a random number of frames
``short-optimistic``    a buffer holds the first 100,000 excess frames
``throttling``          10 % faster in the first 2 s of each trial
``short-pessimistic``   20 % slower in the first 0.5 s of each trial, because its caches are cold
``warm-up-once``        10 % slower in the first 5 s of traffic after a start
``asymmetric``          one direction forwards 10 % less than the other
``slow-generator``      the generator sends 0.1 % less than requested
``pauses-N``            nothing is forwarded for 30 ms every N s, N being 7, 10, 13 or 20; a queue
                        holds 4096 frames
``stalls``              the same at random times, every 45 s on average
``bursty``              a soft knee that loses 256 consecutive frames at random times
======================  ==================================================================
"""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Consecutive frames with the same loss ratio."""

    frames: float
    loss_ratio: float

    @property
    def lost(self) -> float:
        """The number of its frames that are lost."""
        return self.frames * self.loss_ratio


@dataclass(frozen=True, slots=True)
class TrialCourse:
    """The stretches of a trial in the order of time, each of constant loss; their frames are real numbers.

    If a trial may end early, the time of its losses matters: a cold device loses frames at first, a device
    with a buffer loses them at the end.
    """

    stretches: tuple[Stretch, ...]

    @property
    def frames(self) -> float:
        """The number of frames sent in the whole trial."""
        return math.fsum(stretch.frames for stretch in self.stretches)

    @property
    def lost(self) -> float:
        """The number of frames lost in the whole trial."""
        return math.fsum(stretch.lost for stretch in self.stretches)

    def count_sent_until(self, lost: float) -> float:
        """Return the number of frames sent when ``lost`` were lost; all, if fewer are lost in total."""
        sent = 0.0
        for stretch in self.stretches:
            if 0.0 < stretch.lost >= lost:
                return sent + lost / stretch.loss_ratio
            lost -= stretch.lost
            sent += stretch.frames
        return sent

    def with_buffer(self, room: float) -> TrialCourse:
        """Return the course with a buffer for the first frames that would be lost."""
        return TrialCourse(tuple(self._absorb(room)))

    def _absorb(self, room: float) -> Iterable[Stretch]:
        for stretch in self.stretches:
            absorbed = min(room, stretch.lost)
            room -= absorbed
            if absorbed == 0.0:
                yield stretch
                continue
            free = stretch.frames * (absorbed / stretch.lost)
            yield Stretch(free, 0.0)
            if free < stretch.frames:
                yield Stretch(stretch.frames - free, stretch.loss_ratio)

    def with_gaps(self, gaps: Sequence[tuple[float, float]], loss_ratio: float) -> TrialCourse:
        """Return the course with at least this loss ratio in the gaps.

        :param gaps: first frame and the frame after the last of each gap, in order and disjoint.
        """
        return TrialCourse(tuple(self._cut_at(gaps, loss_ratio))) if gaps else self

    def _cut_at(self, gaps: Sequence[tuple[float, float]], loss_ratio: float) -> Iterable[Stretch]:
        position = 0.0
        for stretch in self.stretches:
            end = position + stretch.frames
            for first, after in gaps:
                start, stop = max(position, first), min(end, after)
                if start >= stop:
                    continue
                if start > position:
                    yield Stretch(start - position, stretch.loss_ratio)
                yield Stretch(stop - start, max(loss_ratio, stretch.loss_ratio))
                position = stop
            if position < end:
                yield Stretch(end - position, stretch.loss_ratio)
            position = end

    def with_scaled_loss(self, factor: float) -> TrialCourse:
        """Return the course with all loss ratios multiplied by ``factor``, at most 1."""
        return TrialCourse(
            tuple(
                Stretch(stretch.frames, min(1.0, factor * stretch.loss_ratio)) for stretch in self.stretches
            )
        )

    def with_added_loss(self, loss_ratio: float) -> TrialCourse:
        """Return the course with all loss ratios increased by ``loss_ratio``, at most 1."""
        return TrialCourse(
            tuple(
                Stretch(stretch.frames, min(1.0, stretch.loss_ratio + loss_ratio))
                for stretch in self.stretches
            )
        )
