"""The hypotheses about a range: no change, a change in one class of commits, or in two."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from perftrend.analysis.comparison.mixture import log_sum
from perftrend.analysis.comparison.model import log_gain
from perftrend.analysis.comparison.observations import Floats, Indices


class Hypotheses(NamedTuple):
    """The prior of no change, a change in one of j classes, or in two of them, k pairs."""

    none: float
    """Logarithm of the prior probability of no change."""
    one: Floats
    """Those of each class, (j,)."""
    two: Floats
    """Those of each pair, (k,)."""
    first: Indices
    """Classes of the pairs, (k,)."""
    second: Indices


class Likelihood(NamedTuple):
    """Log-likelihoods of the values, in nats."""

    none: float
    one: Floats
    """(j,)"""
    two: Floats
    """(k,)"""

    def total(self, prior: Hypotheses) -> float:
        """Return the log-likelihood of the values, averaged over the hypotheses."""
        parts = [np.array([self.none + prior.none]), self.one + prior.one, self.two + prior.two]
        return float(log_sum(np.concatenate(parts)))


def average(one: Likelihood, other: Likelihood, share: float) -> Likelihood:
    """Return the likelihood averaged over two models.

    :param share: the probability of the other one.
    """
    by_one, by_other = math.log1p(-share), math.log(share)
    return Likelihood(
        float(np.logaddexp(one.none + by_one, other.none + by_other)),
        np.logaddexp(one.one + by_one, other.one + by_other),
        np.logaddexp(one.two + by_one, other.two + by_other),
    )


class HypothesisEvidence(NamedTuple):
    """Evidence of h hypotheses at single points of the grid, including the prior of the point, in nats."""

    evidence: Floats
    """Without an outlier, (h,)."""
    rho: Floats
    """Log ratio of the probabilities of each observation as an outlier and as a usual run, (h, n)."""

    @property
    def gained(self) -> Floats:
        """The evidence if at most one observation is an outlier, (h,)."""
        return self.evidence + log_gain(self.rho)
