"""The stopping rule: whether more rounds can change a verdict.

A difference that is shown remains shown: the error is divided among the looks (see :mod:`.randomization`). A
difference that is not shown yet may still be. With n rounds done, r to come, E the estimate so far, e its
error, and a difference that is now believed to be m ± d, the estimate after all N = n + r rounds will be

    N((n E + r m) / N, (r / N)² (d² + e² n / r)),

and it decides if it exceeds about z e √(n / N), z = Φ⁻¹(1 - tail) √(1 + handicap / N), where the tail is half
of the error of the last look. By then the half width h of the interval will be h √(n / N), and its middle
N(m, d² r / N): no difference, if all of it is within the threshold. If both together are improbable, further
rounds are useless: the comparison stops, and the patch is undecided.

Source: Spiegelhalter, Freedman and Blackburn, Monitoring clinical trials: conditional or predictive power?,
1986.
"""

from __future__ import annotations

import math
from statistics import NormalDist

from perftrend.analysis.comparison.decision import HANDICAP, Comparison, Conclusion

CHANCE = 0.05
"""The probability of a verdict up to which further rounds are not worthwhile."""
_NORMAL = NormalDist()


def is_settled(comparison: Comparison, rounds_left: int, *, chance: float = CHANCE) -> bool:
    """Return whether the remaining rounds cannot, or hardly, change the verdict.

    :param comparison: the result after the newest round.
    :param rounds_left: how many rounds may still follow.
    :param chance: the highest probability of a verdict at which to stop; 0 to stop only if none is possible.
    """
    return decision_probability(comparison, rounds_left) <= chance


def decision_probability(comparison: Comparison, rounds_left: int) -> float:
    """Return the probability that the remaining rounds decide the verdict; 0 if it is already decided."""
    if comparison.outcome is not Conclusion.UNDECIDED or rounds_left <= 0:
        return 0.0
    if not comparison.rounds:
        return 1.0
    return detection_probability(comparison, rounds_left) + _equivalence_probability(comparison, rounds_left)


def detection_probability(comparison: Comparison, rounds_left: int) -> float:
    """Return the probability that a difference is shown, in either direction, after all rounds."""
    if not comparison.can_show:
        return 0.0
    done, left = comparison.rounds, float(rounds_left)
    total = done + left
    mean = (done * comparison.estimate + left * comparison.relative) / total
    spread = left / total * math.sqrt(_deviation(comparison) ** 2 + comparison.error**2 * done / left)
    needed = _critical_estimate(comparison, total)
    future = NormalDist(mean, spread)
    return future.cdf(-needed) + 1 - future.cdf(needed)


def _critical_estimate(comparison: Comparison, total: float) -> float:
    """Return the estimate that decides after this number of rounds."""
    score = _NORMAL.inv_cdf(1 - comparison.tail_decisive) * math.sqrt(
        1 + HANDICAP * comparison.design.maximum_rounds / total
    )
    error = comparison.error * math.sqrt(comparison.rounds / total)
    return max(score * error, comparison.rule.threshold, comparison.layout_limit)


def _equivalence_probability(comparison: Comparison, rounds_left: int) -> float:
    """Return the probability that the whole interval will be within the threshold on both sides."""
    share = comparison.rounds / (comparison.rounds + rounds_left)
    half = (comparison.high - comparison.low) / 2 * math.sqrt(share)
    room = comparison.rule.threshold - half
    if room <= 0:
        return 0.0
    future = NormalDist(comparison.relative, _deviation(comparison) * math.sqrt(1 - share))
    return future.cdf(room) - future.cdf(-room)


def _deviation(comparison: Comparison) -> float:
    """Return the standard deviation of the difference about its median."""
    return (comparison.high - comparison.low) / 2 / _NORMAL.inv_cdf(1 - comparison.rule.tail)
