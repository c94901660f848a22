"""Alerts of each morning: changes and missing data, as items that one commit may explain.

``changes_of`` finds the changes of a trace with a detector of the analysis, ``silent_traces`` finds values
that stopped. Both become findings. ``match_known`` matches the findings of a night with the known ones,
``group_findings`` combines the others into items by commit range, and ``match_findings`` does both.
``replay_nights`` is a dry run: it returns what an alert would have reported, night by night. No input or
output.
"""

from perftrend.analysis.alerts.detectors import METHODS, ChangeSize, Detector, changes_of
from perftrend.analysis.alerts.findings import (
    Finding,
    FindingGroup,
    FindingKind,
    FindingMatches,
    KnownFinding,
    Threshold,
    common_range,
    distinct,
    group_findings,
    match_findings,
    match_known,
)
from perftrend.analysis.alerts.history import (
    FindingRule,
    NightReport,
    TraceHistory,
    find_measuring_jobs,
    findings_of,
    replay_nights,
    silent_traces,
)

__all__ = [
    "METHODS",
    "ChangeSize",
    "Detector",
    "Finding",
    "FindingGroup",
    "FindingKind",
    "FindingMatches",
    "FindingRule",
    "KnownFinding",
    "NightReport",
    "Threshold",
    "TraceHistory",
    "changes_of",
    "common_range",
    "distinct",
    "find_measuring_jobs",
    "findings_of",
    "group_findings",
    "match_findings",
    "match_known",
    "replay_nights",
    "silent_traces",
]
