"""Alerts of each morning: changes and missing data, as items that one commit may explain.

``changes_of`` finds the changes of a trace with a detector of the analysis, ``silent_traces`` finds values
that stopped. Both become findings. ``recognised`` matches the findings of a night with the known ones,
``grouped`` combines the others into items by commit range, and ``matched`` does both. ``rehearsed`` is a dry
run: it returns what an alert would have reported, night by night. No input or output.
"""

from perftrend.analysis.alerts.detectors import METHODS, Detector, Sized, changes_of
from perftrend.analysis.alerts.findings import Finding, Kind, Place, Range, Threshold
from perftrend.analysis.alerts.grouping import Group, common_range, grouped
from perftrend.analysis.alerts.history import History, findings_of
from perftrend.analysis.alerts.matching import Known, Matching, distinct, matched, recognised
from perftrend.analysis.alerts.rehearsal import Rehearsal, Told, rehearsed
from perftrend.analysis.alerts.silence import measuring, silent_traces

__all__ = [
    "METHODS",
    "Detector",
    "Finding",
    "Group",
    "History",
    "Kind",
    "Known",
    "Matching",
    "Place",
    "Range",
    "Rehearsal",
    "Sized",
    "Threshold",
    "Told",
    "changes_of",
    "common_range",
    "distinct",
    "findings_of",
    "grouped",
    "matched",
    "measuring",
    "recognised",
    "rehearsed",
    "silent_traces",
]
