"""Searches for MRR, NDR and PDR: they choose the next rate to measure and derive the result.

The searches are pure: they have no input, no output and no clock. They learn about a device only from the
``measure`` callable, and the only time that counts is the time that its trials report. Each search works with
every device and every traffic generator, and can be used without the rest of perftrend.
"""

from perftrend.measure.search.binary import binary_search, bounds_below
from perftrend.measure.search.mdr import mdr_search
from perftrend.measure.search.mrr import MrrResult, measure_mrr
from perftrend.measure.search.record import OnStep
from perftrend.measure.search.result import Phase, SearchResult, Step, TrialProgress
from perftrend.measure.search.soaking import HoldResult, SoakResult, hold, soak
from perftrend.measure.search.trials import Measure, within

__all__ = [
    "HoldResult",
    "Measure",
    "MrrResult",
    "OnStep",
    "Phase",
    "SearchResult",
    "SoakResult",
    "Step",
    "TrialProgress",
    "binary_search",
    "bounds_below",
    "hold",
    "mdr_search",
    "measure_mrr",
    "soak",
    "within",
]
