"""Per-patch tests: a change under review and its parent, measured in random order, and the verdict.

The functions that make and measure a build are injected. ``measured_rounds`` runs the rounds, ``judge``
returns the verdict after each block of them.
"""

from perftrend.perftest.record import Asked, begun
from perftrend.perftest.rounds import Measure, Round, Side, measured_rounds
from perftrend.perftest.verdict import (
    NOT_VALID,
    Broken,
    Criteria,
    Finding,
    Judged,
    Observed,
    Verdict,
    judge,
    observed,
)

__all__ = [
    "NOT_VALID",
    "Asked",
    "Broken",
    "Criteria",
    "Finding",
    "Judged",
    "Measure",
    "Observed",
    "Round",
    "Side",
    "Verdict",
    "begun",
    "judge",
    "measured_rounds",
    "observed",
]
