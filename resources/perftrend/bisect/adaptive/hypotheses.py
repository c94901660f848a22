"""What may be true of a range: that nothing changed, or a class of commits changed it, or two did."""

from __future__ import annotations

from typing import NamedTuple

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
