"""What may be true of a range: that nothing changed, or a class of commits changed it, or two did."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from perftrend.analysis.comparison.mixture import log_sum
from perftrend.analysis.comparison.model import log_gain
from perftrend.analysis.comparison.observations import Floats, Indices


class Hypotheses(NamedTuple):
    """What may be: nothing, a change in one of j classes, or in two of them, k pairs."""

    none: float
    """Logarithm of its prior probability."""
    one: Floats
    """Those of each class, (j,)."""
    two: Floats
    """Those of each pair, (k,)."""
    first: Indices
    """Classes of the pairs, (k,)."""
    second: Indices


class Likelihood(NamedTuple):
    """Logarithms of how probable the values are, in nats."""

    none: float
    one: Floats
    """(j,)"""
    two: Floats
    """(k,)"""

    def total(self, prior: Hypotheses) -> float:
        """Return the logarithm of how probable the values are, whichever hypothesis is true."""
        parts = [np.array([self.none + prior.none]), self.one + prior.one, self.two + prior.two]
        return float(log_sum(np.concatenate(parts)))


def averaged(one: Likelihood, other: Likelihood, share: float) -> Likelihood:
    """Return the likelihood if either belief may be right.

    :param share: the probability of the other.
    """
    by_one, by_other = math.log1p(-share), math.log(share)
    return Likelihood(
        float(np.logaddexp(one.none + by_one, other.none + by_other)),
        np.logaddexp(one.one + by_one, other.one + by_other),
        np.logaddexp(one.two + by_one, other.two + by_other),
    )


class Found(NamedTuple):
    """Evidence of h hypotheses at single points of the grid, prior of the point included, in nats."""

    evidence: Floats
    """Without a far-off run, (h,)."""
    rho: Floats
    """Logarithm of how much more probable each observation is as a far-off one, (h, n)."""

    @property
    def gained(self) -> Floats:
        """The evidence where one observation, or none, may be far off, (h,)."""
        return self.evidence + log_gain(self.rho)
