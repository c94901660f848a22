"""Per-patch tests: a change under review and its parent, measured in an order drawn by lot, and the verdict.

How a build is made and how it is measured is injected. ``measured_rounds`` goes through the rounds, ``judge``
says after each block of them what is known by then.
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
