"""Hold: offer one rate for a long time, and determine an upper limit of its average loss ratio.

The lost frames of all slices are counted together. If frames are lost one by one and by chance, their number
is Poisson distributed, which gives an exact upper limit of the average. Bursts of lost frames are fewer
events than frames, so the limit is then too low; the index of dispersion over the slices shows whether that
is so.

Sources: the exact limit of a Poisson average is that of Garwood (1936), which for the small loss ratios that
matter here is that of Clopper and Pearson; the index of dispersion and its test are Fisher's; the chi-squared
quantile is Wilson and Hilferty's approximation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perftrend.measure.search.parameters import require, require_positive
from perftrend.measure.search.soaking.lossmodel import lost_frames
from perftrend.measure.search.trials import Measure, first_doubt, perform
from perftrend.measurement import Trial

_FEWEST_EXPECTED_PER_SLICE = 1.0
_BURST_DEVIATIONS = 3.09
# One of a thousand cases of independent loss looks like bursts.
_LEAST_CONFIDENCE = 0.5
_HALVINGS = 60


@dataclass(frozen=True, slots=True)
class HoldResult:
    """The trials of one rate that was held, in slices."""

    slices: tuple[Trial, ...]
    """In the order of time."""
    confidence: float

    @property
    def sent(self) -> int:
        """Frames sent in all slices."""
        return sum(trial.sent for trial in self.slices)

    @property
    def lost(self) -> int:
        """Frames lost in all slices."""
        return sum(lost_frames(trial) for trial in self.slices)

    @property
    def loss_ratio(self) -> float:
        """The fraction of all frames that was lost; 0 if nothing was sent."""
        return self.lost / self.sent if self.sent > 0 else 0.0

    @property
    def loss_ratio_limit(self) -> float:
        """The upper limit of the average loss ratio, at the confidence level; 1 if nothing was sent.

        The limit holds for even or independent loss; if ``bursty``, the average may be higher.
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
        """Variance over mean of the frames lost in a slice: 1 for independent loss, more for bursts.

        NaN if it is undefined: with fewer than two slices, or without loss.
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
        """Whether loss occurred in bursts; independent loss reaches this dispersion once in a thousand times.

        With less than one lost frame per slice the test has no power, and the value is False.
        """
        freedom = len(self.slices) - 1
        if math.isnan(self.dispersion) or self.lost < _FEWEST_EXPECTED_PER_SLICE * len(self.slices):
            return False
        step = 2.0 / (9.0 * freedom)
        return self.dispersion > (1.0 - step + _BURST_DEVIATIONS * math.sqrt(step)) ** 3

    @property
    def invalid(self) -> str:
        """Why the first invalid slice is not valid; empty if all slices are valid."""
        return first_doubt(self.slices)


def hold(
    measure: Measure,
    *,
    rate_pps: float,
    duration_s: float,
    slices: int,
    confidence: float = 0.95,
) -> HoldResult:
    """Offer one rate for a long time, slice by slice.

    :param measure: as in ``mdr_search``; no slice ends early.
    :param rate_pps: above 0.
    :param duration_s: duration of all slices together.
    :param slices: number of trials of equal duration, at least 1.
    :param confidence: confidence level of the upper limit of the average loss ratio, from 0.5 to below 1.
    :raises SettingsError: naming the invalid parameter.
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

    :param count: number of counted events, 0 or more.
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
    """Return the probability of ``count`` or fewer events, summed downwards from ``count``."""
    if mean <= 0.0:
        return 1.0
    # Terms fall at least as fast as those of a normal distribution of this deviation.
    terms = min(count, 100 + int(40.0 * math.sqrt(max(count, mean))))
    falling = np.cumsum(np.log((count - np.arange(terms)) / mean))
    logs = np.append(0.0, falling) + count * math.log(mean) - mean - math.lgamma(count + 1.0)
    return min(1.0, float(np.exp(np.minimum(0.0, logs)).sum()))
