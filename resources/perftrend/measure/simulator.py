"""A simulated device: it computes trials by a formula, so that a search can be compared with the true rate.

No packet is sent and no time passes: an hour of trials takes milliseconds. The same seed and the same trials
give the same results.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np

from perftrend.errors import SettingsError, nearest
from perftrend.measure.simulated_loss import KINDS, KNEES, Stretch, TrialCourse
from perftrend.measurement import Trial

_SLOW_MODE = 0.03
_WORST_HICCUP = 0.01
_MOST_DRIFT = 10.0
_ROUNDING = 1e-6
_HALF = 0.5
_BISECTIONS = 200
_MOST_BURSTS = 100
"""With more bursts than this, only their number matters, not their times."""

_LOWEST_LOAD = 1e-4
_LOAD_STEP = 1.02
"""The search for the true rate increases the load by this factor: loss may fall again at higher loads."""


class DeviceModel:
    """A device that forwards up to a critical rate, usable as the ``measure`` of any search.

    :param critical_pps: the rate up to which a hard knee loses nothing, both directions together.
    :param knee: how loss grows with the load, a name of ``KNEES``.
    :param slowdown: relative reduction of the critical rate, from 0 to below 1.
    :param jitter: standard deviation of the critical rate from trial to trial, relative.
    :param drift_per_s: relative change of the critical rate per second of trials.
    :param slow_share: fraction of trials in the slow mode, whose critical rate is 3 % lower.
    :param hiccup_share: fraction of trials that lose up to 1 % more, at any rate.
    :param restart_spread: standard deviation of the critical rate from start to start, relative.
    :param loss_floor: loss ratio at every rate, in addition to the loss of the knee.
    :param asymmetry: how much less one direction forwards than the other, relative to their mean.
    :param buffer_frames: number of excess frames that a buffer holds in each trial before any is lost.
    :param pause_every_s: seconds of trials from the start of one pause to the next, independent of the
        trials; 0: no pauses.
    :param pause_s: duration of a pause.
    :param pause_slowdown: relative reduction of the critical rate in a pause; 1: nothing is forwarded.
    :param pauses_at_random: whether the intervals between pauses are exponential, with that mean.
    :param queue_frames: number of frames that a queue holds during a pause; further frames are lost.
    :param burst_frames: number of consecutive frames lost in a burst; number and times of the bursts are
        random; 0: losses are spread evenly.
    :param warm_up_s: time at the start of each trial with a different critical rate.
    :param warm_up_slowdown: relative reduction of the critical rate in that time; below 0, the device is
        faster at first.
    :param warm_up_once: whether the warm-up is over after that time of traffic in total, until the next
        start.
    :param rate_error: relative excess of the rate sent over the rate requested; below 0, less is sent.
    :param ends_early: whether the generator can end a trial early; otherwise ``fail_above`` has no effect.
    :param poisson: whether the number of lost frames is random; otherwise it is the expected number, rounded
        down.
    :param seed: seed of all random numbers.
    :raises SettingsError: naming the invalid argument.
    """

    def __init__(
        self,
        critical_pps: float,
        *,
        knee: str = "hard",
        slowdown: float = 0.0,
        jitter: float = 0.0,
        drift_per_s: float = 0.0,
        slow_share: float = 0.0,
        hiccup_share: float = 0.0,
        restart_spread: float = 0.0,
        loss_floor: float = 0.0,
        asymmetry: float = 0.0,
        buffer_frames: float = 0.0,
        pause_every_s: float = 0.0,
        pause_s: float = 0.03,
        pause_slowdown: float = 1.0,
        pauses_at_random: bool = False,
        queue_frames: float = 0.0,
        burst_frames: float = 0.0,
        warm_up_s: float = 0.0,
        warm_up_slowdown: float = 0.0,
        warm_up_once: bool = False,
        rate_error: float = 0.0,
        ends_early: bool = True,
        poisson: bool = False,
        seed: int = 0,
    ) -> None:
        if knee not in KNEES:
            raise SettingsError(f"simulated device: knee {knee!r} is unknown{nearest(knee, KNEES)}")
        _require(0.0 < critical_pps < math.inf, "critical_pps", critical_pps, "a finite number above 0")
        _require(math.isfinite(drift_per_s), "drift_per_s", drift_per_s, "a finite number")
        _require(0.0 <= slowdown < 1.0, "slowdown", slowdown, "a fraction from 0 to below 1")
        _require(0.0 < pause_slowdown <= 1.0, "pause_slowdown", pause_slowdown, "above 0, at most 1")
        _require(0.0 <= loss_floor < 1.0, "loss_floor", loss_floor, "a fraction from 0 to below 1")
        for name, spread in (("jitter", jitter), ("restart_spread", restart_spread)):
            _require(0.0 <= spread <= 1.0, name, spread, "a relative deviation from 0 to 1")
        for name, share in (("slow_share", slow_share), ("hiccup_share", hiccup_share)):
            _require(0.0 <= share <= 1.0, name, share, "a fraction from 0 to 1")
        for name, amount in (
            ("buffer_frames", buffer_frames), ("warm_up_s", warm_up_s), ("pause_every_s", pause_every_s),
            ("pause_s", pause_s), ("queue_frames", queue_frames), ("burst_frames", burst_frames),
        ):  # fmt: skip
            _require(0.0 <= amount < math.inf, name, amount, "a finite number, 0 or more")
        for name, part in (
            ("warm_up_slowdown", warm_up_slowdown), ("asymmetry", asymmetry), ("rate_error", rate_error)
        ):  # fmt: skip
            _require(-1.0 < part < 1.0, name, part, "a fraction between -1 and 1")
        self.critical_pps = critical_pps
        self.slowdown = slowdown
        self.elapsed_s = 0.0
        """Seconds of trials so far: the clock of the drift."""
        self._knee = KNEES[knee]
        self._jitter = jitter
        self._drift_per_s = drift_per_s
        self._slow_share = slow_share
        self._hiccup_share = hiccup_share
        self._restart_spread = restart_spread
        self._loss_floor = loss_floor
        self._directions = (1.0 - asymmetry / 2.0, 1.0 + asymmetry / 2.0) if asymmetry else (1.0,)
        self._buffer_frames = buffer_frames
        self._pause_every_s = pause_every_s
        self._pause_s = pause_s
        self._pause_slowdown = pause_slowdown
        self._pauses_at_random = pauses_at_random
        self._queue_frames = queue_frames
        self._burst_frames = burst_frames
        self._warm_up_s = warm_up_s
        self._warm_up_slowdown = warm_up_slowdown
        self._warm_up_once = warm_up_once
        self._rate_error = rate_error
        self._ends_early = ends_early
        self._poisson = poisson
        self._random = np.random.default_rng(seed)
        self._pauses: Pauses | None = None
        if pause_every_s:
            self._pauses = Pauses(pause_every_s, pause_s, is_random=pauses_at_random, random=self._random)
        self._start_factor = 1.0
        self._started_s = 0.0
        self.restart()

    @classmethod
    def of_kind(cls, kind: str, critical_pps: float, **arguments: Any) -> DeviceModel:  # noqa: ANN401 - those of __init__
        """Create a device of a kind in ``KINDS``; further arguments override those of the kind."""
        if kind not in KINDS:
            raise SettingsError(f"simulated device: kind {kind!r} is unknown{nearest(kind, KINDS)}")
        return cls(critical_pps, **{**KINDS[kind], **arguments})

    def restart(self) -> None:
        """Restart the device: it is cold again, and its critical rate differs slightly after each start."""
        self._start_factor = self._spread(self._restart_spread)
        self._started_s = self.elapsed_s

    def loss_ratio(self, rate_pps: float) -> float:
        """Return the current loss ratio at a rate, for a warm device without buffer or random effects."""
        return min(1.0, self._loss_ratio(rate_pps, self.current_critical_pps) + self._loss_floor)

    @property
    def current_critical_pps(self) -> float:
        """The current critical rate, without what differs from trial to trial."""
        drift = math.exp(max(-_MOST_DRIFT, min(_MOST_DRIFT, self._drift_per_s * self.elapsed_s)))
        return self.critical_pps * (1.0 - self.slowdown) * self._start_factor * drift

    def true_pps(self, loss_ratio: float, duration_s: float) -> float:
        """Return the rate at which half of the trials currently meet a loss ratio.

        Without randomness it is the highest rate that passes, to within the rounding of frames. With jitter,
        two modes, hiccups, pauses or bursts it is the rate of the median trial, with each effect taken
        separately. Drift, and a warm-up that occurs once, change it during a search. If higher rates pass
        again, as with the knee ``falling``, it is the lowest such rate.

        :param loss_ratio: from 0 to below 1.
        :param duration_s: duration of the trials, run to their end.
        """

        def passes(rate_pps: float) -> bool:
            frames = rate_pps * (1.0 + self._rate_error) * duration_s
            critical_pps = self._median_critical()
            course = self._course(rate_pps, duration_s, frames, critical_pps, self._median_hiccup())
            pauses = self._median_pauses(duration_s)
            course = self._with_pauses(course, pauses, rate_pps, duration_s, critical_pps)
            return course.lost < self._median_limit(loss_ratio * frames)

        lower, upper = 0.0, _LOWEST_LOAD * self.critical_pps
        while passes(upper):
            lower, upper = upper, _LOAD_STEP * upper
        for _ in range(_BISECTIONS):
            middle = (lower + upper) / 2.0
            if not lower < middle < upper:
                break
            lower, upper = (middle, upper) if passes(middle) else (lower, middle)
        return lower

    def __call__(self, rate_pps: float, duration_s: float, fail_above: float | None = None) -> Trial:
        """Return a trial, which ends early as soon as the whole trial is certain to lose too much."""
        intended = round(rate_pps * duration_s)
        sent = round(rate_pps * (1.0 + self._rate_error) * duration_s)
        critical_pps = self._draw_critical()
        course = self._course(rate_pps, duration_s, sent, critical_pps, self._draw_hiccup())
        if self._burst_frames:
            course = self._in_bursts(course)
        pauses = self._pauses_within(duration_s)
        course = self._with_pauses(course, pauses, rate_pps, duration_s, critical_pps)
        lost = min(sent, self._draw_count(course.lost))
        elapsed_s = duration_s
        if fail_above is not None and self._ends_early:
            # A generator cannot know in advance that it will send less than requested.
            limit = fail_above * max(intended, sent)
            if lost > limit:
                decisive = math.floor(limit) + 1
                ended = math.ceil(course.count_sent_until(course.lost * decisive / lost) - _ROUNDING)
                ended = max(decisive, min(sent, ended))
                elapsed_s, sent, lost = duration_s * ended / sent, ended, decisive
        self.elapsed_s += elapsed_s
        return Trial(rate_pps, duration_s, elapsed_s, sent, sent - lost, sending_s=elapsed_s)

    def _course(
        self, rate_pps: float, duration_s: float, frames: float, critical_pps: float, hiccup: float
    ) -> TrialCourse:
        rate_pps *= 1.0 + self._rate_error
        warm = Stretch(frames, self._loss_ratio(rate_pps, critical_pps))
        course = TrialCourse((warm,))
        cold_s = self._cold_s()
        if cold_s > 0.0:
            cold_frames = frames * min(1.0, cold_s / duration_s)
            cold = self._loss_ratio(rate_pps, critical_pps * (1.0 - self._warm_up_slowdown))
            course = TrialCourse((Stretch(cold_frames, cold), Stretch(frames - cold_frames, warm.loss_ratio)))
        if self._buffer_frames:
            course = course.with_buffer(self._buffer_frames)
        more = self._loss_floor + hiccup
        return course.with_added_loss(more) if more else course

    def _in_bursts(self, course: TrialCourse) -> TrialCourse:
        """Return a course with the same mean loss, in bursts at random times."""
        lost, length = course.lost, self._burst_frames
        bursts = int(self._random.poisson(lost / length))
        if bursts > _MOST_BURSTS:
            return course.with_scaled_loss(bursts * length / lost)
        gaps: list[tuple[float, float]] = []
        for share in sorted(self._random.random(bursts)):
            first = max(course.count_sent_until(share * lost), gaps[-1][1] if gaps else 0.0)
            gaps.append((first, first + length))
        return TrialCourse((Stretch(course.frames, 0.0),)).with_gaps(gaps, 1.0)

    def _pauses_within(self, duration_s: float) -> Sequence[tuple[float, float]]:
        start_s = self.elapsed_s
        return self._pauses.within(start_s, start_s + duration_s) if self._pauses else ()

    def _median_pauses(self, duration_s: float) -> Sequence[tuple[float, float]]:
        if not self._pauses:
            return ()
        mean = duration_s / self._pause_every_s
        # The median of a Poisson number is about mean + 1/3 - 0.02/mean, rounded down.
        number = math.floor(mean + (1.0 / 3.0 - 0.02 / mean if self._pauses_at_random else _HALF))
        begins = (duration_s * begun / number for begun in range(number))
        return [(begin, begin + self._pause_s) for begin in begins]

    def _with_pauses(
        self,
        course: TrialCourse,
        pauses: Sequence[tuple[float, float]],
        rate_pps: float,
        duration_s: float,
        critical_pps: float,
    ) -> TrialCourse:
        """Return the course with the loss of pauses: frames neither forwarded then nor held by the queue."""
        loss_ratio = 1.0
        if self._pause_slowdown < 1.0:
            slow_pps = critical_pps * (1.0 - self._pause_slowdown)
            loss_ratio = self._loss_ratio(rate_pps * (1.0 + self._rate_error), slow_pps)
        if not pauses or not loss_ratio:
            return course
        per_s, waiting = course.frames / duration_s, self._queue_frames / loss_ratio
        gaps = ((per_s * begin + waiting, per_s * end) for begin, end in pauses)
        return course.with_gaps([(first, after) for first, after in gaps if first < after], loss_ratio)

    def _cold_s(self) -> float:
        if not self._warm_up_once:
            return self._warm_up_s
        return max(0.0, self._warm_up_s - (self.elapsed_s - self._started_s))

    def _loss_ratio(self, rate_pps: float, critical_pps: float) -> float:
        if rate_pps <= 0.0:
            return 0.0
        load = rate_pps / critical_pps
        return sum(min(1.0, self._knee(load / part)) for part in self._directions) / len(self._directions)

    def _draw_critical(self) -> float:
        critical = self.current_critical_pps * self._spread(self._jitter)
        return critical * (1.0 - _SLOW_MODE) if self._happens(self._slow_share) else critical

    def _median_critical(self) -> float:
        return self.current_critical_pps * (1.0 - _SLOW_MODE if self._slow_share > _HALF else 1.0)

    def _draw_hiccup(self) -> float:
        return _WORST_HICCUP * self._random.random() if self._happens(self._hiccup_share) else 0.0

    def _median_hiccup(self) -> float:
        # The median over all trials: those without a hiccup count as 0, the size of the others is uniform.
        share = self._hiccup_share
        return _WORST_HICCUP * (share - _HALF) / share if share > _HALF else 0.0

    def _draw_count(self, expected: float) -> int:
        return int(self._random.poisson(expected)) if self._poisson else math.floor(expected + _ROUNDING)

    def _median_limit(self, allowed: float) -> float:
        """Return the expected number of lost frames at which half of the trials lose no more than allowed."""
        unit = self._burst_frames or float(self._poisson)
        if not unit:
            return max(1.0 - _ROUNDING, allowed * (1.0 + 1e-12))
        # A Poisson number of mean m is at most k with probability 1/2 if m is about k + 2/3.
        whole = math.floor(allowed / unit)
        return unit * (whole + 2.0 / 3.0 if whole else math.log(2.0))

    def _spread(self, deviation: float) -> float:
        # Properties that do not vary draw no number, so that they do not change the numbers of the others.
        return math.exp(deviation * self._random.standard_normal()) if deviation else 1.0

    def _happens(self, share: float) -> bool:
        return bool(share) and bool(self._random.random() < share)


def _require(holds: bool, name: str, value: object, expected: str) -> None:
    if not holds:
        raise SettingsError(f"simulated device: {name} is {value!r}; give {expected}")


class Pauses:
    """Pauses of equal length at regular or random intervals, independent of the trials.

    :param every_s: time between the starts of two pauses, above 0; the mean, if random.
    :param length_s: duration of each pause.
    :param is_random: whether the intervals are exponential, so that a pause may start at any time.
    :param random: draws the first start time, and those of random pauses.
    """

    def __init__(
        self, every_s: float, length_s: float, *, is_random: bool, random: np.random.Generator
    ) -> None:
        self._every_s = every_s
        self._length_s = length_s
        self._is_random = is_random
        self._random = random
        self._begins = deque([every_s * (random.exponential() if is_random else random.random())])

    def within(self, start_s: float, stop_s: float) -> list[tuple[float, float]]:
        """Return the pauses within this period, as (begin, end) counted from ``start_s``.

        :param start_s: not earlier than in a previous call.
        """
        while self._begins[-1] < stop_s:
            gap = self._random.exponential() if self._is_random else 1.0
            # A pause that begins within another one would only lengthen it.
            self._begins.append(self._begins[-1] + max(self._every_s * gap, self._length_s))
        while self._begins[0] + self._length_s <= start_s:
            self._begins.popleft()
        return [
            (max(0.0, begin - start_s), min(stop_s, begin + self._length_s) - start_s)
            for begin in self._begins
            if begin < stop_s
        ]
