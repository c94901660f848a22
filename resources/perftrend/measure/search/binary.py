"""Binary search for one drop rate, within bounds that are known beforehand.

The search is plain bisection in packets per second: the middle of 2 and 8 is 5. It assumes that the given
bounds are valid while it narrows them, which saves two long trials. The returned bounds are verified:

* If every trial failed, the lower bound is measured. If it fails, too, the interval is marked invalid.
* If every trial passed, the upper bound is measured, and higher rates in steps that double, until one fails.
  An upper bound at ``maximum_pps`` is not measured, as in an MDR search.

Source: "Continuous Performance Trending and Analysis", section Performance Trending: the bounds are
calculated from the MRR and the loss ratio; the lower one is to be determined.
"""

from __future__ import annotations

from perftrend.measure.search.parameters import (
    require,
    require_loss_ratio,
    require_positive,
    require_width,
)
from perftrend.measure.search.trials import Measure, explain_missing_lower_bound, first_doubt, passes, perform
from perftrend.measurement import Interval, Trial

_LOWEST_SHARE = 0.05
"""Lower bound of a search, as a fraction of the upper bound, unless the minimum rate is higher."""


def bounds_below(
    mrr_pps: float, *, loss_ratio: float, minimum_pps: float, maximum_pps: float
) -> tuple[float, float]:
    """Return the lower and the upper bound of a binary search.

    The device forwards at most the MRR, so a rate that loses at most ``loss_ratio`` is at most
    MRR / (1 - ``loss_ratio``): for NDR this is the MRR itself.

    :param mrr_pps: receive rate at ``maximum_pps``.
    :param loss_ratio: from 0 to below 1.
    :param minimum_pps: lowest rate that may be measured.
    :param maximum_pps: highest rate that may be measured.
    """
    upper = min(max(mrr_pps / (1.0 - loss_ratio), 2.0 * minimum_pps), maximum_pps)
    return max(minimum_pps, _LOWEST_SHARE * upper), upper


def binary_search(
    measure: Measure,
    *,
    lower_pps: float,
    upper_pps: float,
    loss_ratio: float,
    duration_s: float,
    relative_width: float,
    maximum_pps: float | None = None,
) -> Interval:
    """Find the highest rate that meets a loss ratio.

    :param measure: as in ``mdr_search``; a trial may end early if it is certain to exceed ``loss_ratio``.
    :param lower_pps: lowest rate to measure, above 0.
    :param upper_pps: highest expected rate, such as the MRR.
    :param loss_ratio: from 0 to below 1.
    :param duration_s: duration of every trial.
    :param relative_width: from 1e-6 to below 1, relative to the upper bound.
    :param maximum_pps: highest rate that may be measured if ``upper_pps`` passes; by default ``upper_pps``.
    :returns: an interval no wider than ``relative_width``; ``invalid`` contains the reason if even
        ``lower_pps`` lost too much or if a trial is not valid.
    :raises SettingsError: naming the invalid parameter.
    """
    maximum = upper_pps if maximum_pps is None else maximum_pps
    require_positive("lower_pps", lower_pps)
    require_positive("upper_pps", upper_pps)
    require(upper_pps > lower_pps, "upper_pps", upper_pps, f"more than lower_pps, {lower_pps!r}")
    require_positive("maximum_pps", maximum)
    require(maximum >= upper_pps, "maximum_pps", maximum, f"at least upper_pps, {upper_pps!r}")
    require_loss_ratio("loss_ratio", loss_ratio)
    require_positive("duration_s", duration_s)
    require_width("relative_width", relative_width)
    search = _Bisection(measure, loss_ratio, duration_s, relative_width)
    return search.run(lower_pps, upper_pps, maximum)


class _Bisection:
    def __init__(self, measure: Measure, loss_ratio: float, duration_s: float, relative_width: float) -> None:
        self._measure = measure
        self._loss_ratio = loss_ratio
        self._duration_s = duration_s
        self._relative_width = relative_width
        self._trials: list[Trial] = []

    def run(self, lowest: float, highest: float, maximum: float) -> Interval:
        lower, upper = self._narrow(lowest, highest)
        if lower == lowest and not self._passes(lower):
            lost_share = self._trials[-1].loss_ratio
            return Interval(
                lower, upper, explain_missing_lower_bound(self._loss_ratio, lost_share, lower, limit="lowest")
            )
        if upper == highest:
            lower, upper = self._narrow(*self._raise_upper_bound(lower, upper, maximum))
        return Interval(lower, upper, first_doubt(self._trials))

    def _narrow(self, lower: float, upper: float) -> tuple[float, float]:
        while upper - lower > upper * self._relative_width:
            middle = (lower + upper) / 2.0
            if self._passes(middle):
                lower = middle
            else:
                upper = middle
        return lower, upper

    def _raise_upper_bound(self, lower: float, upper: float, maximum: float) -> tuple[float, float]:
        while upper < maximum and self._passes(upper):
            lower, upper = upper, min(maximum, upper + 2.0 * (upper - lower))
        return lower, upper

    def _passes(self, rate_pps: float) -> bool:
        trial = perform(self._measure, rate_pps, self._duration_s, self._loss_ratio)
        self._trials.append(trial)
        return passes(trial, self._loss_ratio)
