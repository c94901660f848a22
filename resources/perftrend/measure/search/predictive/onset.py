"""Seeking a loss ratio that short trials do not show, such as that of NDR: where loss sets in.

A trial fails with its first lost frames, and may then be ended. So the search comes from above,
where failing costs next to nothing: short trials look, farther and farther down, how loss fades
away, until they lose hardly a frame; from there trials of the final duration go down width by width
until one passes. Where no trial ends early, they are aimed at the rate where the loss is foretold to
vanish instead.
"""

from __future__ import annotations

from typing_extensions import override

from perftrend.measure.search.parameters import Parameters
from perftrend.measure.search.predictive.evidence import FEWEST_LOST, Evidence
from perftrend.measure.search.predictive.prediction import foretell
from perftrend.measure.search.predictive.sought import IN_A_ROW, Sought
from perftrend.measure.search.trials import lost
from perftrend.model import Trial

_MOST_LOOKS = 16

_VANISHING = 2 * FEWEST_LOST
"""A look that lost fewer frames came as near as looks can."""

_LESS_THAN_A_FRAME = 0.7
"""So many frames are expected to be lost where a trial passes as often as it fails: about ln 2."""

_FADING = 0.7
"""Loss fades away as long as each look loses less than this part of what the one before lost."""

_SLOWLY, _FAST = 1.5, 2.5
"""Near the onset each failing trial takes longer than the one before by such factors, or more."""

_CHEAP_SHARE = 0.25
"""A trial that failed in a smaller share of its duration is cheaper than a passing one."""


class Onset(Sought):
    """A loss ratio of which a short trial loses hardly a frame."""

    def __init__(self, evidence: Evidence, parameters: Parameters, loss_ratio: float) -> None:
        super().__init__(evidence, parameters, loss_ratio)
        self._looks = 0
        self._last_look: Trial | None = None
        self._look_stride = 1.0
        self._may_skip_looks = True
        self._fades = True
        self._stride = 1.0
        self._last_failure_s = 0.0
        self._goes_to_bottom = False
        self._hopeless = ""

    @property
    @override
    def hopeless(self) -> str:
        return self._hopeless

    @override
    def rate_to_look_at(self) -> float | None:
        low, high = self._suggested()
        if high is None or self._has_seen_enough(low, high):
            return None
        width, last = self._width, self._last_look
        foretold = self._foretold(low)
        is_next = foretold >= high - width
        if is_next and last is None and self._may_skip_looks and self._evidence.ends_early:
            return None
        middle = self._bottom if low is None else (low + high) / 2.0
        deepest = max(middle, high - self._look_stride * width)
        # Where loss does not fade away as foretold, what is foretold is of no use.
        if is_next or not self._fades:
            return deepest
        return min(max(foretold + width / 2.0, deepest), high - width)

    def _has_seen_enough(self, low: float | None, high: float) -> bool:
        if not self._believes_short or self._looks == _MOST_LOOKS or high <= self._bottom + self._width:
            return True
        if self._last_look is not None and 0 < lost(self._last_look) < _VANISHING:
            return True
        enough = (2.0 if self._evidence.ends_early else 1.0) * self._width
        return low is not None and high - low <= enough

    @override
    def looked(self, trial: Trial) -> None:
        self._looks += 1
        self._look_stride *= 2.0
        before, self._last_look = self._last_look, trial
        self._fades = before is None or trial.loss_ratio < _FADING * before.loss_ratio

    @override
    def rate_to_prove(self) -> float:
        lower = self._proven().lower
        low, high = self._suggested()
        if high is None:
            return self._top
        return self._below(low, high) if lower is None else self._between(lower, low, high)

    @override
    def proved(self, trial: Trial, *, passed: bool) -> None:
        super().proved(trial, passed=passed)
        if passed:
            # Where short trials lose frames and long ones lose none, again and again, they mislead.
            self._believes_short &= self._run <= IN_A_ROW
        elif self._would_show(trial):
            if self._looks < _MOST_LOOKS:
                self._look_stride = 1.0
            self._looks, self._last_look, self._may_skip_looks = 0, None, False
        else:
            self._went_on_failing(trial)

    def _below(self, low: float | None, high: float) -> float:
        width, upper = self._width, self._proven().upper
        if self._goes_to_bottom:
            return self._bottom
        nearest, farthest = high - width * self._stride, high - 4.0 * width * self._stride
        if self._evidence.ends_early:
            return max(self._bottom, nearest)
        if self._run == 0 and upper is not None and upper - width <= self._foretold(low):
            return upper - width
        return max(self._bottom, farthest, min(self._aim(low, high), nearest))

    def _between(self, lower: float, low: float | None, high: float) -> float:
        width = self._width
        if high - lower <= 2.0 * width:
            return lower + width
        if self._evidence.ends_early:
            is_cheap = self._last_failure_s < _CHEAP_SHARE * self._parameters.final_duration_s
            aim = high - width if is_cheap else lower
        else:
            aim = self._aim(low, high)
        is_inside = lower + width < aim < high - 0.99 * width
        return aim if is_inside and self._run <= IN_A_ROW else (lower + high) / 2.0

    def _aim(self, low: float | None, high: float) -> float:
        """Return where loss should vanish, with a margin: where no trial ends early, failing is dear."""
        if low is not None and high - low <= 1.01 * self._width:
            return low
        return self._foretold(low) - self._width / 2.0

    def _would_show(self, trial: Trial) -> bool:
        """Tell whether a short trial would lose enough frames where this one failed."""
        expected = trial.loss_ratio * trial.rate_pps * self._parameters.initial_duration_s
        return self._believes_short and expected >= FEWEST_LOST

    def _went_on_failing(self, trial: Trial) -> None:
        # Failing takes ever longer as loss fades away. Where it does not, there is far to go.
        if trial.elapsed_s < _SLOWLY * self._last_failure_s:
            self._stride *= 2.0
        elif trial.elapsed_s > _FAST * self._last_failure_s:
            self._stride = 1.0
        self._last_failure_s = trial.elapsed_s
        floor = self._evidence.loss_floor(self.loss_ratio) if self._proven().lower is None else None
        if floor is None:
            return
        limits = self._parameters
        self._goes_to_bottom = floor * limits.minimum_pps * limits.final_duration_s >= 1.0
        if not self._goes_to_bottom:
            # A trial at the minimum rate would pass, only because it sends so few frames.
            self._hopeless = f"about {floor:.2g} of the frames are lost at every rate"

    def _foretold(self, low: float | None) -> float:
        lowest_pps = min(trial.rate_pps for trial in self._trials())
        vanishing = _LESS_THAN_A_FRAME / (lowest_pps * self._parameters.final_duration_s)
        foretold = foretell(self._curve(), max(self.loss_ratio, vanishing))
        lowest = self._bottom if low is None else low
        return lowest if foretold is None else max(foretold, lowest)
