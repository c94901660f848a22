"""The likelihood of the failures of a test: a failure that begins with a commit is a change, too.

A test fails with a probability that is the same for all commits at one level. Its prior is a beta
distribution that expects few failures; integrated over it, f failures and s successes have the probability
B(a+f, b+s) / B(a, b). One change makes two levels, two changes make up to four.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.comparison.observations import Floats
from perftrend.bisect.adaptive.hypotheses import Hypotheses, Likelihood

_FAILS, _WORKS = 0.02, 0.08
"""a and b: a fifth of all levels fails, and most levels always or never fail."""


@dataclass(frozen=True, slots=True, eq=False)
class Failures:
    """The failures in n measurements of one test."""

    failed: Floats
    """1 for a failure, else 0, (n,)."""
    steps: Floats
    """1 for measurements of commits that contain the class, (j, n)."""

    found: tuple[int, ...] = ()
    """Classes that certainly hold a change: each makes levels of its own."""

    def likelihood(self, prior: Hypotheses) -> Likelihood:
        """Return the evidence of the hypotheses, in nats."""
        table = _table(self.failed.size)
        _, level = np.unique(self.steps[list(self.found)], axis=1, return_inverse=True)
        parts = [self._of_level(level == each, table, prior) for each in range(int(level.max()) + 1)]
        return Likelihood(
            sum(part.none for part in parts),
            np.sum([part.one for part in parts], axis=0),
            np.sum([part.two for part in parts], axis=0),
        )

    def _of_level(self, chosen: NDArray[np.bool_], table: Floats, prior: Hypotheses) -> Likelihood:
        steps = self.steps[:, chosen]
        both = np.stack([self.failed[chosen], 1 - self.failed[chosen]])

        def counted(measurements: Floats) -> Floats:
            failed, worked = (measurements @ both.T).round().astype(int).T
            counts: Floats = table[failed, worked]
            return counts

        first, second = steps[prior.first], steps[prior.second]
        one = counted(steps) + counted(1 - steps)
        two = (
            counted(first * second)
            + counted(first * (1 - second))
            + counted((1 - first) * second)
            + counted((1 - first) * (1 - second))
        )
        return Likelihood(float(counted(np.ones((1, steps.shape[1])))[0]), one, two)

    def rates(self, levels: Floats) -> tuple[float, Floats, Floats]:
        """Return the probability that the next run fails: without a change, before one, and after it.

        :param levels: the classes, as 1 for each measurement after the change, (j, n).
        """
        after, after_failed = levels.sum(axis=1), levels @ self.failed
        total, total_failed = float(self.failed.size), float(self.failed.sum())
        return (
            float(_rate(np.array(total_failed), np.array(total))),
            _rate(total_failed - after_failed, total - after),
            _rate(after_failed, after),
        )


def _rate(failed: Floats, measured: Floats) -> Floats:
    rate: Floats = (failed + _FAILS) / (measured + _FAILS + _WORKS)
    return rate


def _table(size: int) -> Floats:
    """Return log B(a+f, b+s) / B(a, b) at index f, s."""
    count = np.arange(size + 1)
    fails = np.array([math.lgamma(_FAILS + each) for each in count]) - math.lgamma(_FAILS)
    works = np.array([math.lgamma(_WORKS + each) for each in count]) - math.lgamma(_WORKS)
    both = np.array([math.lgamma(_FAILS + _WORKS + each) for each in range(2 * size + 1)])
    table: Floats = fails[:, np.newaxis] + works - both[np.add.outer(count, count)] + both[0]
    return table
