"""Hold: offer one rate for long, and tell which average loss ratio it keeps to.

The frames lost in all slices together are counted; if frames are lost one by one and by chance,
their number is Poisson distributed, which gives an exact upper limit of the average. Frames that
are lost in bursts count as fewer events than frames, so the limit is then too low; the index of
dispersion over the slices tells whether that is so.

Sources: the exact limit of a Poisson average is that of Garwood (1936), which for the small
shares that matter here is Clopper and Pearson's; the index of dispersion and its test are
Fisher's; the chi-squared quantile is Wilson and Hilferty's approximation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perftrend.measure.search.parameters import require, require_positive
from perftrend.measure.search.soaking.lossmodel import lost_frames
from perftrend.measure.search.trials import Measure, first_doubt, perform
from perftrend.model import Trial

_FEWEST_EXPECTED_PER_SLICE = 1.0
_BURST_DEVIATIONS = 3.09
# One even loss in a thousand looks like bursts.
_LEAST_CONFIDENCE = 0.5
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class HoldResult:
    """One rate, held for long in slices."""

    slices: tuple[Trial, ...]
    """In the order of time."""
    confidence: float

    @property
    def sent(self) -> int:
        """Frames sent in all slices."""
        return sum(trial.sent for trial in self.slices)

    @property
    def lost(self) -> int:
        """Frames that did not come back, in all slices."""
        return sum(lost_frames(trial) for trial in self.slices)

    @property
    def loss_ratio(self) -> float:
        """The share of all frames that were lost; 0 when nothing was sent."""
        return self.lost / self.sent if self.sent > 0 else 0.0

    @property
    def loss_ratio_limit(self) -> float:
        """The average loss ratio that is not exceeded, with the confidence; 1 when nothing was sent.

        True for loss that comes even or by chance; where ``bursty``, the average may be higher.
        """
        if self.sent <= 0:
            return 1.0
        return min(1.0, poisson_upper_limit(self.lost, self.confidence) / self.sent)

    @property
    def lossy_slices(self) -> int:
        """The number of slices that lost a frame."""
        return sum(lost_frames(trial) > 0 for trial in self.slices)

    @property
    def dispersion(self) -> float:
        """Variance over mean of the frames lost in a slice: 1 for loss by chance, more for bursts.

        NaN where it means nothing: with one slice, or without loss.
        """
        counted = [trial for trial in self.slices if trial.sent > 0]
        if len(counted) < 2 or not self.lost:  # noqa: PLR2004 - a variance needs two values
            return math.nan
        expected = [self.loss_ratio * trial.sent for trial in counted]
        squares = (
            (lost_frames(trial) - mean) ** 2 / mean for trial, mean in zip(counted, expected, strict=True)
        )
        return sum(squares) / (len(counted) - 1)

    @property
    def bursty(self) -> bool:
        """Whether loss came in bursts: a dispersion that even loss reaches once in a thousand times.

        Below one lost frame in a slice the test has no power, and the answer is no.
        """
        freedom = len(self.slices) - 1
        if math.isnan(self.dispersion) or self.lost < _FEWEST_EXPECTED_PER_SLICE * len(self.slices):
            return False
        step = 2.0 / (9.0 * freedom)
        return self.dispersion > (1.0 - step + _BURST_DEVIATIONS * math.sqrt(step)) ** 3

    @property
    def invalid(self) -> str:
        """Why the first slice that cannot be trusted cannot; empty when all can."""
        return first_doubt(self.slices)


def hold(
    measure: Measure,
    *,
    rate_pps: float,
    duration_s: float,
    slices: int,
    confidence: float = 0.95,
) -> HoldResult:
    """Offer one rate for long, slice by slice.

    :param measure: as in ``mdr_search``; no slice ends early.
    :param rate_pps: above 0.
    :param duration_s: of all slices together.
    :param slices: number of trials of equal duration, at least 1.
    :param confidence: of the upper limit of the average loss ratio, from 0.5 to below 1.
    :raises SettingsError: naming the parameter that cannot be used.
    """
    require_positive("rate_pps", rate_pps)
    require_positive("duration_s", duration_s)
    require(slices >= 1, "slices", slices, "at least 1")
    require(
        _LEAST_CONFIDENCE <= confidence < 1.0, "confidence", confidence, "a probability from 0.5 to below 1"
    )
    trials = (perform(measure, rate_pps, duration_s / slices, None) for _ in range(slices))
    return HoldResult(tuple(trials), confidence)


def poisson_upper_limit(count: int, confidence: float) -> float:
    """Return the largest average that still gives at most ``count`` with probability 1 - confidence.

    :param count: what was counted, 0 or more.
    :param confidence: from 0.5 to below 1, so that the limit is above the count.
    """
    low = float(count)
    high = count + 10.0 * math.sqrt(count + 1.0) - 2.0 * math.log1p(-confidence) + 10.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        if _poisson_at_most(count, middle) > 1.0 - confidence:
            low = middle
        else:
            high = middle
    return high


def _poisson_at_most(count: int, mean: float) -> float:
    """Return the probability of ``count`` or less, summed downwards from ``count``."""
    if mean <= 0.0:
        return 1.0
    # Terms fall at least as fast as those of a normal distribution of this deviation.
    terms = min(count, 100 + int(40.0 * math.sqrt(max(count, mean))))
    falling = np.cumsum(np.log((count - np.arange(terms)) / mean))
    logs = np.append(0.0, falling) + count * math.log(mean) - mean - math.lgamma(count + 1.0)
    return min(1.0, float(np.exp(np.minimum(0.0, logs)).sum()))
