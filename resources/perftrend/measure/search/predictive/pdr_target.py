"""Search for a loss ratio that short trials can measure, such as that of PDR: where the loss crosses it.

Short trials locate the crossing. Then trials of the final duration prove that a rate just below it passes,
and that a rate one width above that fails. If they contradict the short trials, those are discarded, and the
steps grow until both bounds are proven.
"""

from __future__ import annotations

import math

from typing_extensions import override

from perftrend.measure.search.parameters import Parameters
from perftrend.measure.search.predictive.evidence import FEWEST_LOST, TrialEvidence
from perftrend.measure.search.predictive.prediction import LossPoint, foretell, foretell_softly
from perftrend.measure.search.predictive.target import IN_A_ROW, SearchTarget
from perftrend.measure.search.trials import lost
from perftrend.measurement import Trial

_MOST_LOOKS = 12

_SETTLED = 0.1
"""Distance to the crossing, in widths, at which a short trial is close enough if all models agree."""

_SETTLED_IN_NOISE = 0.3
"""The same if several short trials are close together, and more of them would only show the noise."""

_CLOSE = 2.0
_SEVERAL = 3

_HIT = 0.02
"""A short trial with the target loss ratio, to within this relative deviation, needs no model."""

_NARROW = 0.6
"""Short trials do not narrow an interval further if it has at most this number of widths."""

_FAR_SHARE = 0.2

_WIDE = 32.0

_MARGIN = 0.1
_WIDEST_MARGIN = 0.5
"""Smallest and largest distance of the lower bound below the crossing, in widths."""

_OTHER = 3.0
_ALTOGETHER_OTHER = 10.0
"""Short trials were misleading if a proof lost less or more than the target by these factors."""


class PdrTarget(SearchTarget):
    """A target loss ratio at which a short trial loses enough frames to measure it."""

    def __init__(self, evidence: TrialEvidence, parameters: Parameters, loss_ratio: float) -> None:
        super().__init__(evidence, parameters, loss_ratio)
        self._looks = 0
        self._last_look: LossPoint | None = None
        self._doubt = 2.0 * (_WIDEST_MARGIN - _MARGIN)
        """Uncertainty of the predicted crossing, in widths."""
        self._surprised = False

    @override
    def rate_to_look_at(self) -> float | None:
        low, high = self._suggest_bounds()
        # Further short trials are less reliable than a proof.
        if not self._believes_short or self._run or self._looks == _MOST_LOOKS:
            return None
        if high is None or high <= self._bottom + self._width:
            return None
        foretold, last = self._foretold(), self._last_look
        if foretold is not None and last is not None:
            if self._is_settled(last, foretold):
                return None
            if self._is_near(foretold, last.log_rate):
                foretold = self._other_opinion(last)
        if low is not None and high - low <= _NARROW * self._width:
            return None
        lowest = self._bottom if low is None else low
        # If little is lost at the lowest rate, a rate just above it would be predicted again and again.
        least = lowest + (_FAR_SHARE * (high - lowest) if self._loses_little_at(low) else 0.0)
        if foretold is None or not least < foretold < high:
            return (lowest + high) / 2.0
        return foretold

    @override
    def process_short_trial(self, trial: Trial) -> None:
        self._looks += 1
        self._last_look = LossPoint(math.log(trial.rate_pps), trial.loss_ratio)

    def _is_settled(self, last: LossPoint, foretold: float) -> bool:
        """Return whether the crossing is known, and store its uncertainty."""
        is_hit = abs(last.loss_ratio - self.loss_ratio) <= _HIT * self.loss_ratio
        overload, softly = self._opinions(last)
        opinions = [overload] if is_hit else [overload, foretold]
        self._doubt = max(abs(opinion - last.log_rate) for opinion in opinions) / self._width
        if self._looks_close_to(last.log_rate) >= _SEVERAL:
            return self._doubt <= _SETTLED_IN_NOISE
        agreed = is_hit or (softly is not None and self._is_near(softly, last.log_rate))
        return agreed and self._doubt <= _SETTLED

    def _other_opinion(self, last: LossPoint) -> float | None:
        """Return another prediction if the predicted rate missed the target; None if it missed by far."""
        if not self.loss_ratio / 2.0 < last.loss_ratio < 2.0 * self.loss_ratio:
            return None
        overload, softly = self._opinions(last)
        return overload if softly is None or self._is_near(softly, last.log_rate) else softly

    def _opinions(self, last: LossPoint) -> tuple[float, float | None]:
        """Return the crossing if a queue overflows at this rate, and that if loss begins gradually."""
        return last.overload_rate(self.loss_ratio), foretell_softly(self._curve(), self.loss_ratio)

    def _is_near(self, one: float, other: float) -> bool:
        return abs(one - other) <= _SETTLED_IN_NOISE * self._width

    def _looks_close_to(self, log_rate: float) -> int:
        return sum(
            abs(math.log(trial.rate_pps) - log_rate) < _CLOSE * self._width
            for trial in self._trials()
            if trial.duration_s < self._parameters.final_duration_s
        )

    def _loses_little_at(self, low: float | None) -> bool:
        return low is None or all(
            lost(trial) < FEWEST_LOST or trial.loss_ratio < self.loss_ratio / 2.0
            for trial in self._trials()
            if math.isclose(math.log(trial.rate_pps), low, abs_tol=1e-9)
        )

    @override
    def rate_to_prove(self) -> float:
        lower, upper = self._proven()
        aim = self._aim(lower)
        if lower is None:
            return max(self._bottom, min(aim, self._top)) if upper is None else self._below(upper, aim)
        return self._above(lower, aim) if upper is None else self._between(lower, upper, aim)

    @override
    def process_proof(self, trial: Trial, *, passed: bool) -> None:
        super().process_proof(trial, passed=passed)
        if passed:
            self._surprised = trial.loss_ratio < self.loss_ratio / _OTHER
        # A failing trial that cannot be ended early is too expensive to be repeated for certainty.
        elif trial.loss_ratio > _ALTOGETHER_OTHER * self.loss_ratio and not self._evidence.ends_early:
            self._believes_short = False
        # Of the first two proofs one should pass and one fail.
        self._believes_short &= self._run < IN_A_ROW

    def _aim(self, lower: float | None) -> float:
        """Return the rate that should pass, with a failing rate one width above it."""
        low, high = self._suggest_bounds()
        if high is None:
            return self._top
        foretold = self._foretold()
        if foretold is None:
            foretold = self._top if low is None else low
        if low is not None and lower is None:
            foretold = max(foretold, low)
        return min(foretold, high) - min(_WIDEST_MARGIN, _MARGIN + self._doubt / 2.0) * self._width

    def _below(self, upper: float, aim: float) -> float:
        if self._run > IN_A_ROW and self._evidence.loss_floor(self.loss_ratio) is not None:
            return self._bottom
        shortest, longest = self._steps(down=True)
        if not self._run:
            # It was proven for another loss ratio or by an earlier search for this one, and may be far away.
            longest = math.inf
        return max(self._bottom, min(upper - shortest, max(aim, upper - longest)))

    def _above(self, lower: float, aim: float) -> float:
        if self._run >= IN_A_ROW and self._surprised:
            # In certain overload, a device shows immediately how much it can forward.
            return self._top
        shortest, longest = self._steps(down=False)
        return min(self._top, max(lower + shortest, min(aim, lower + longest)))

    def _between(self, lower: float, upper: float, aim: float) -> float:
        if upper - lower <= 2.0 * self._width:
            return lower + self._width
        is_misled = aim <= lower and self._surprised and upper - lower > _WIDE * self._width
        if (is_misled or self._run >= IN_A_ROW) and self._evidence.ends_early:
            # The prediction was wrong repeatedly, and failing trials far above the crossing are cheap.
            return (lower + upper) / 2.0
        least, most = lower + self._steps(down=False)[0], upper - self._steps(down=True)[0]
        return max(least, min(aim, most)) if least <= most else (lower + upper) / 2.0

    def _steps(self, *, down: bool) -> tuple[float, float]:
        """Return the shortest and the longest step; both grow while steps do not help."""
        if down is not self._failed or self._believes_short:
            return self._width, self._width
        longest = self._width * 4.0 ** (self._run - 1) if self._evidence.ends_early else math.inf
        return self._width * 2.0 ** max(0, self._run - 2), longest

    def _foretold(self) -> float | None:
        points = self._curve()
        if not self._believes_short:
            # Proofs are few and far apart: those far below provide no information about the rates above.
            passing = [point for point in points if point.loss_ratio <= self.loss_ratio]
            points = passing[-1:] + points[len(passing) :]
        return foretell(points, self.loss_ratio)
