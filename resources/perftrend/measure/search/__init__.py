"""The searches for MRR, NDR and PDR: which rate to try next, and what to conclude.

Pure: no input, no output, no clock. Everything that is known of a device comes from the
``measure`` callable that each search is given; the time that counts is the time its trials say
they took. Each search works with every device and with every traffic generator, and can be used
without the rest of perftrend.
"""

from perftrend.measure.search.binary import binary_search, bounds_below
from perftrend.measure.search.mdr import mdr_search
from perftrend.measure.search.mrr import MrrResult, measure_mrr
from perftrend.measure.search.record import OnStep
from perftrend.measure.search.result import Phase, Progress, SearchResult, Step
from perftrend.measure.search.soaking import HoldResult, SoakResult, hold, soak
from perftrend.measure.search.trials import Measure, within

__all__ = [
    "HoldResult",
    "Measure",
    "MrrResult",
    "OnStep",
    "Phase",
    "Progress",
    "SearchResult",
    "SoakResult",
    "Step",
    "binary_search",
    "bounds_below",
    "hold",
    "mdr_search",
    "measure_mrr",
    "soak",
    "within",
]
