"""The compared methods: perftrend's comparison, the CSIT method, and two classical tests.

A method gets a patch and returns the result. The tests use the averages of the measurements, one value for
each start of the device: samples of one start are not independent.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from benchmarks.comparing.patches import Cell, Patch
from perftrend.analysis.comparison import (
    PARENT,
    PATCH,
    Comparison,
    Conclusion,
    compare,
    compare_by_mdl,
    is_settled,
)
from perftrend.analysis.description import Floats

MINIMUM_ROUNDS = 3
"""The rounds before the classical tests are applied."""
DOCUMENTED_ROUNDS = 5
LEVEL = 0.01
"""The significance level of the tests."""
STRICT_LEVEL = 0.001
"""The level of Welch's test after each round at which it has about as few false alarms as perftrend."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The result of a comparison."""

    shown: int
    """-1: lower, 1: higher, 0: neither."""
    rounds: int
    undecided: bool = False
    held: bool | None = None
    """Whether the interval contains the true difference; None without an interval."""


Method = Callable[[Patch], Ending]


def sequential(maximum_rounds: int, *, known_deviation: float | None = None) -> Method:
    """Return perftrend's comparison, with a look after every block of rounds."""

    def method(patch: Patch) -> Ending:
        rounds, found = measure_until_settled(patch, maximum_rounds, known_deviation)
        signs = {Conclusion.REGRESSION: -1, Conclusion.PROGRESSION: 1}
        return Ending(
            signs.get(found.outcome, 0),
            rounds,
            found.outcome is Conclusion.UNDECIDED,
            found.low <= patch.difference <= found.high,
        )

    return method


def measure_until_settled(
    patch: Patch, maximum_rounds: int, known_deviation: float | None = None
) -> tuple[int, Comparison]:
    """Measure block after block until the verdict is settled."""
    for rounds in patch.design.looks:
        found = compare(patch.rounds(rounds), known_deviation=known_deviation, design=patch.design)
        if is_settled(found, maximum_rounds - rounds):
            break
    return rounds, found


def history_of(cell: Cell, number: int) -> float:
    """Return the deviation between starts as estimated from about a dozen runs: within 20 %."""
    rng = np.random.default_rng([7, number])
    return cell.between * math.exp(0.2 * rng.standard_normal())


def csit_one_start(patch: Patch) -> Ending:
    """Compare the five samples of one start of each build, by the CSIT method."""
    parent, current = (patch.samples(build, 1) for build in (PARENT, PATCH))
    return _csit_ending(parent, current, 1)


def csit_round_averages(patch: Patch) -> Ending:
    """Compare the averages of five interleaved starts of each build, by the CSIT formula."""
    parent, current = (patch.averages(build, DOCUMENTED_ROUNDS) for build in (PARENT, PATCH))
    return _csit_ending(parent, current, DOCUMENTED_ROUNDS)


def csit_all_samples(patch: Patch) -> Ending:
    """Compare all samples of five interleaved starts of each build, by the CSIT formula."""
    parent, current = (patch.samples(build, DOCUMENTED_ROUNDS) for build in (PARENT, PATCH))
    return _csit_ending(parent, current, DOCUMENTED_ROUNDS)


def _csit_ending(parent: Floats, current: Floats, rounds: int) -> Ending:
    found = compare_by_mdl(parent.tolist(), current.tolist())
    return Ending(int(np.sign(found.difference_percent)) if found.are_two else 0, rounds)


def apply_test(
    test: Callable[[Floats, Floats], float], patch: Patch, rounds: int, *, level: float = LEVEL
) -> Ending:
    """Apply a test once, after a number of rounds."""
    parent, current = (patch.averages(build, rounds) for build in (PARENT, PATCH))
    shown = int(np.sign(current.mean() - parent.mean())) if test(parent, current) <= level else 0
    return Ending(shown, rounds)


def apply_test_each_round(
    test: Callable[[Floats, Floats], float], maximum_rounds: int, *, level: float = LEVEL
) -> Method:
    """Return a method that applies a test after every round until it shows a difference."""

    def method(patch: Patch) -> Ending:
        looks = range(MINIMUM_ROUNDS, maximum_rounds + 1)
        endings = (apply_test(test, patch, rounds, level=level) for rounds in looks)
        return next((each for each in endings if each.shown), Ending(0, maximum_rounds))

    return method


def welch(parent: Floats, current: Floats) -> float:
    """Return the two-sided p-value of Welch's t-test.

    Source: Welch, The generalization of Student's problem when several different population variances
    are involved, 1947.
    """
    shares = [float(each.var(ddof=1)) / each.size for each in (parent, current)]
    error = math.sqrt(sum(shares))
    difference = abs(float(current.mean() - parent.mean()))
    if not error:
        return 0.0 if difference else 1.0
    freedom = sum(shares) ** 2 / sum(
        share**2 / (each.size - 1) for share, each in zip(shares, (parent, current), strict=True)
    )
    return student_beyond(difference / error, freedom)


def student_beyond(t: float, freedom: float) -> float:
    """Return the probability that Student's t is at least this far from zero, for any real freedom.

    With x = √f tan θ the density becomes cos(θ)^(f-1), which Simpson's rule integrates from 0 to t.
    """
    points = 2001
    angles, step = np.linspace(0.0, math.atan(t / math.sqrt(freedom)), points, retstep=True)
    weights = np.ones(points)
    weights[1:-1:2], weights[2:-1:2] = 4, 2
    area = float(weights @ np.cos(angles) ** (freedom - 1)) * float(step) / 3
    norm = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(math.pi)
    return min(max(1 - 2 * norm * area, 0.0), 1.0)


def mann_whitney(parent: Floats, current: Floats) -> float:
    """Return the exact two-sided p-value of Mann and Whitney's test, for values that all differ.

    Source: Mann and Whitney, On a test of whether one of two random variables is stochastically larger
    than the other, 1947.
    """
    wins = int((current[:, np.newaxis] > parent).sum())
    counts = _mann_whitney_counts(parent.size, current.size)
    least = min(wins, parent.size * current.size - wins)
    return min(2 * sum(counts[: least + 1]) / sum(counts), 1.0)


@cache
def _mann_whitney_counts(first: int, second: int) -> tuple[int, ...]:
    """Count the orders with each number of wins, 0 to first times second."""
    if not first or not second:
        return (1,)
    counts = [0] * (first * second + 1)
    for wins, orders in enumerate(_mann_whitney_counts(first - 1, second)):
        counts[wins + second] += orders
    for wins, orders in enumerate(_mann_whitney_counts(first, second - 1)):
        counts[wins] += orders
    return tuple(counts)
