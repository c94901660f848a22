"""Search for a loss ratio that short trials cannot measure, such as that of NDR: the onset of loss.

A trial fails with its first lost frames, and may then be ended. The search therefore comes from above, where
failing trials cost almost nothing. Short trials at lower and lower rates follow the decreasing loss until
hardly a frame is lost. From there, trials of the final duration go down width by width until one passes. If
trials do not end early, they are placed at the rate where the loss is predicted to vanish instead.
"""

from __future__ import annotations

import math

from typing_extensions import override

from perftrend.measure.search.parameters import Parameters
from perftrend.measure.search.predictive.evidence import FEWEST_LOST, TrialEvidence
from perftrend.measure.search.predictive.onset import Onset, predict_onset
from perftrend.measure.search.predictive.prediction import foretell
from perftrend.measure.search.predictive.target import IN_A_ROW, SearchTarget
from perftrend.measure.search.trials import has_ended_early, lost
from perftrend.measurement import Trial

_MOST_LOOKS = 16

_VANISHING = 2 * FEWEST_LOST
"""A short trial that lost fewer frames is as close to the onset as short trials can be."""

_LESS_THAN_A_FRAME = 0.7
"""Expected number of lost frames at which a trial passes as often as it fails: about ln 2."""

_BEYOND = 1.5
"""Distance of the first short trial below the lowest failing rate, in widths, if failing is expensive."""

_FADING = 0.7
"""Loss decreases while each short trial loses less than this fraction of the loss of the previous one."""

_SLOWLY, _FAST = 1.5, 2.5
"""Near the onset, each failing trial takes longer than the previous one by these factors or more."""

_CHEAP_SHARE = 0.25
"""A trial that failed in a smaller fraction of its duration is cheaper than a passing one."""

_LATE_SHARE = 0.3
"""A trial that failed before this fraction of its duration may fail at any rate, such as in a pause."""

_LEAST_MARGIN = 0.1
"""Least distance of a trial that should pass below the predicted onset of loss, in widths."""

_MARGIN_DEVIATIONS = 2.0
"""The same, in standard deviations of the prediction."""

_WIDEST_MARGIN = 0.3
"""With a wider margin, in widths, the upper bound may be below the onset, too."""

_KNOWN = 0.2
"""The deviation of a known onset, relative to its distance."""

_SHORTEST_STEP = 0.5
"""In widths: a failing trial that is closer to the previous one shows too little."""

_CLOSEST_ABOVE = 2.0
_MOST_ABOVE = 4
"""Distance of the first trial above a short one near the onset, in widths, and the number of such trials."""

_LATEST_SHARE = 0.5
"""After a trial that failed later than this fraction of its duration, the next one probably passes."""


class NdrTarget(SearchTarget):
    """A target loss ratio at which a short trial loses hardly a frame."""

    def __init__(self, evidence: TrialEvidence, parameters: Parameters, loss_ratio: float) -> None:
        super().__init__(evidence, parameters, loss_ratio)
        self._looks = 0
        self._last_look: Trial | None = None
        self._look_stride = 1.0
        self._may_skip_looks = True
        self._fades = True
        self._stride = 1.0
        self._longest_failure_s = 0.0
        self._misled = 0
        self._hopeless = ""

    @property
    @override
    def hopeless(self) -> str:
        return self._hopeless

    @override
    def rate_to_look_at(self) -> float | None:
        low, high = self._suggest_bounds()
        if high is None or self._has_seen_enough(low, high):
            return None
        width, last = self._width, self._last_look
        foretold = self._foretold(low)
        is_next = foretold >= high - width
        if is_next and last is None and self._may_skip_looks and self._evidence.ends_early:
            return None
        middle = self._bottom if low is None else (low + high) / 2.0
        # Just below the rate at which a queue overflows, loss may begin again.
        is_first = last is None and not self._evidence.ends_early
        deepest = max(middle, high - (_BEYOND if is_first else self._look_stride) * width)
        # If loss does not decrease as predicted, the prediction is of no use.
        if is_next or is_first or not self._fades:
            return deepest
        return min(max(foretold + width / 2.0, deepest), high - width)

    def _has_seen_enough(self, low: float | None, high: float) -> bool:
        if not self._believes_short or self._looks == _MOST_LOOKS or high <= self._bottom + self._width:
            return True
        if self._last_look is not None and 0 < lost(self._last_look) < _VANISHING:
            return True
        onset = self._onset()
        if onset is not None and onset.deviation < _KNOWN * (high - onset.log_rate):
            return True
        enough = (2.0 if self._evidence.ends_early else 1.0) * self._width
        return low is not None and high - low <= enough

    @override
    def process_short_trial(self, trial: Trial) -> None:
        self._looks += 1
        self._look_stride *= 2.0
        before, self._last_look = self._last_look, trial
        self._fades = before is None or trial.loss_ratio < _FADING * before.loss_ratio

    @override
    def rate_to_prove(self) -> float:
        lower = self._proven().lower
        low, high = self._suggest_bounds()
        if high is None:
            return self._top
        return self._below(low, high) if lower is None else self._between(lower, low, high)

    @override
    def process_proof(self, trial: Trial, *, passed: bool) -> None:
        super().process_proof(trial, passed=passed)
        high = self._suggest_bounds().upper
        if high is not None and trial.rate_pps > math.exp(high + self._width / 2.0):
            # It was made for a better prediction, and says nothing about the way down.
            return
        would_show = not passed and self._would_show(trial)
        if passed or would_show:
            # Short trials are evidence only while long trials do not contradict them repeatedly.
            self._misled += self._evidence.contradicts_short(trial.rate_pps, self.loss_ratio)
            self._believes_short &= self._misled < IN_A_ROW
        if passed:
            return
        if would_show:
            if self._looks < _MOST_LOOKS:
                self._look_stride = 1.0
            self._looks, self._last_look, self._may_skip_looks = 0, None, False
        else:
            self._went_on_failing(trial)

    def _below(self, low: float | None, high: float) -> float:
        width, upper = self._width, self._proven().upper
        nearest, farthest = high - width * self._stride, high - 4.0 * width * self._stride
        if self._evidence.ends_early:
            return max(self._bottom, self._rate_at_onset(high) or self._rate_above() or nearest)
        if self._run == 0 and upper is not None and upper - width <= self._foretold(low):
            return upper - width
        return max(self._bottom, farthest, min(self._aim(low, high), nearest))

    def _rate_at_onset(self, high: float) -> float | None:
        """Return the rate of a bound next to the predicted onset of loss; None if it is not known well.

        A trial just above the onset loses its first frame when it is almost over, and the rate below has to
        be proven, too. Therefore the lower bound is safely below the onset. If it is more than a width below
        the lowest failing rate, the upper bound is made first: it fails soon, and improves the prediction.

        :param high: the lowest rate that fails.
        """
        onset, width = self._onset(), self._width
        if onset is None:
            return None
        margin = max(_LEAST_MARGIN * width, _MARGIN_DEVIATIONS * onset.deviation)
        lower = onset.log_rate - margin
        upper = onset.log_rate + max(width - margin, 2.0 * margin)
        if high - width <= lower:
            return high - width
        if upper < high - _SHORTEST_STEP * width:
            return upper
        return lower if margin < _WIDEST_MARGIN * width else None

    def _rate_above(self) -> float | None:
        """Return a rate for a cheap trial that shows how loss grows; None if the trials so far show that.

        If a short trial is close to the onset and all others are far above, the onset cannot be predicted.
        """
        lowest, *others = sorted(
            (trial for trial in self._trials() if lost(trial) > 0), key=lambda trial: trial.rate_pps
        )
        if lowest.duration_s >= self._parameters.final_duration_s or has_ended_early(lowest):
            return None
        rates = [math.log(trial.rate_pps) for trial in self._trials()]
        distances = [_CLOSEST_ABOVE * 2.0**number * self._width for number in range(_MOST_ABOVE)]
        start = math.log(lowest.rate_pps)
        if sum(math.log(trial.rate_pps) - start <= distances[-1] for trial in others) >= _MOST_ABOVE:
            return None
        above = (min(self._top, start + distance) for distance in distances)
        return next(
            (one for one in above if min(abs(one - rate) for rate in rates) > self._width / 2.0), None
        )

    def _onset(self) -> Onset | None:
        """Return the predicted onset; None if trials do not end early, or if one failed late nevertheless."""
        duration_s = self._parameters.final_duration_s
        if not self._evidence.ends_early or self._longest_failure_s > _LATEST_SHARE * duration_s:
            return None
        return predict_onset(self._trials(), duration_s)

    def _between(self, lower: float, low: float | None, high: float) -> float:
        width = self._width
        if high - lower <= 2.0 * width:
            return lower + width
        if self._evidence.ends_early:
            cheap_s = _CHEAP_SHARE * self._parameters.final_duration_s
            is_cheap = self._believes_short and self._longest_failure_s < cheap_s
            aim = high - width if is_cheap else lower
        else:
            aim = self._aim(low, high)
        is_inside = lower + width < aim < high - 0.99 * width
        return aim if is_inside and self._run <= IN_A_ROW else (lower + high) / 2.0

    def _aim(self, low: float | None, high: float) -> float:
        """Return the rate where loss should vanish, with a margin, because failing is expensive."""
        if low is not None and high - low <= 1.01 * self._width:
            return low
        return self._foretold(low) - self._width / 2.0

    def _would_show(self, trial: Trial) -> bool:
        """Return whether a short trial would lose enough frames at the rate where this trial failed."""
        expected = trial.loss_ratio * trial.rate_pps * self._parameters.initial_duration_s
        return self._believes_short and expected >= FEWEST_LOST

    def _went_on_failing(self, trial: Trial) -> None:
        floor = self._evidence.loss_floor(self.loss_ratio) if self._proven().lower is None else None
        # Each failing trial takes longer as loss decreases. If it does not, the onset is still far away.
        if floor is not None or trial.elapsed_s < _SLOWLY * self._longest_failure_s:
            self._stride *= 2.0
        elif trial.elapsed_s > _FAST * self._longest_failure_s:
            self._stride = 1.0
        self._longest_failure_s = max(self._longest_failure_s, trial.elapsed_s)
        if floor is None or trial.elapsed_s < _LATE_SHARE * self._parameters.final_duration_s:
            return
        next_pps = trial.rate_pps * math.exp(-self._stride * self._width)
        if floor * next_pps * self._parameters.final_duration_s < 1.0:
            # A trial at that rate would pass, but only because it sends too few frames to lose one.
            self._hopeless = f"about {floor:.2g} of the frames are lost at every rate"

    def _foretold(self, low: float | None) -> float:
        lowest_pps = min(trial.rate_pps for trial in self._trials())
        vanishing = _LESS_THAN_A_FRAME / (lowest_pps * self._parameters.final_duration_s)
        foretold = foretell(self._curve(), max(self.loss_ratio, vanishing))
        lowest = self._bottom if low is None else low
        return lowest if foretold is None else max(foretold, lowest)
