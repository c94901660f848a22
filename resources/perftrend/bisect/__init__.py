"""Search for the commit that changed the performance.

``decide`` is the three-way rule of CSIT, ``CommitHistory`` implements git's order of halving, ``CsitHalving``
and ``Adaptive`` are the strategies, and a ``BisectSession`` builds and measures the commits that a strategy
chooses and records all of it in a file.
"""

from perftrend.bisect.adaptive import Adaptive
from perftrend.bisect.halving import BuildPair, CsitHalving, Decision, compare, decide
from perftrend.bisect.history import CommitHistory, HalvingStep
from perftrend.bisect.session import BisectSession, load
from perftrend.bisect.state import (
    BisectOutcome,
    BisectState,
    CommitRange,
    Culprit,
    Effect,
    MeasureStep,
    OutcomeKind,
    Strategy,
    Suspicion,
)

__all__ = [
    "Adaptive",
    "BisectOutcome",
    "BisectSession",
    "BisectState",
    "BuildPair",
    "CommitHistory",
    "CommitRange",
    "CsitHalving",
    "Culprit",
    "Decision",
    "Effect",
    "HalvingStep",
    "MeasureStep",
    "OutcomeKind",
    "Strategy",
    "Suspicion",
    "compare",
    "decide",
    "load",
]
