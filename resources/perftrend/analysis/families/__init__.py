"""Small changes that many traces share although no single one of them shows it; no input or output.

A change of half a per cent is hidden in the noise of each trace. If all tests of a driver have it, it is seen
within a week in their sum. ``find_families`` finds the sets of traces that have values of parameters in
common, ``find_family_changes`` those whose traces moved compared with all others, and ``find_shared_changes``
does so for the series of a testbed.
"""

from perftrend.analysis.families.detection import (
    FALSE_ALARMS,
    RECENT_RUNS,
    Family,
    FamilyChange,
    SharedChange,
    find_families,
    find_family_changes,
    find_shared_changes,
    values_by_run,
)

__all__ = [
    "FALSE_ALARMS",
    "RECENT_RUNS",
    "Family",
    "FamilyChange",
    "SharedChange",
    "find_families",
    "find_family_changes",
    "find_shared_changes",
    "values_by_run",
]
