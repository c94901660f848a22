"""Search for the commit that changed the performance.

``decide`` is the three-way rule of CSIT, ``History`` implements git's order of halving, ``Documented`` and
``Adaptive`` are the strategies, and a ``Session`` builds and measures the commits that a strategy chooses and
records all of it in a file.
"""

from perftrend.bisect.adaptive import Adaptive
from perftrend.bisect.decide import Decision, Pair, compare, decide
from perftrend.bisect.documented import Documented
from perftrend.bisect.history import Halving, History
from perftrend.bisect.outcome import Culprit, Effect, Kind, Measure, Outcome, Suspicion
from perftrend.bisect.session import Session, load
from perftrend.bisect.state import Range, State, Strategy

__all__ = [
    "Adaptive",
    "Culprit",
    "Decision",
    "Documented",
    "Effect",
    "Halving",
    "History",
    "Kind",
    "Measure",
    "Outcome",
    "Pair",
    "Range",
    "Session",
    "State",
    "Strategy",
    "Suspicion",
    "compare",
    "decide",
    "load",
]
