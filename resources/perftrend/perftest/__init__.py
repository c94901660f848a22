"""Per-patch tests: a change under review and its parent, measured in random order, and the verdict.

The functions that make and measure a build are injected. ``measure_rounds`` runs the rounds, ``judge``
returns the verdict after each block of them.
"""

from perftrend.perftest.verdict import (
    Broken,
    BuildSide,
    Measure,
    PatchCriteria,
    PatchFinding,
    PatchTestResults,
    PatchTestVerdict,
    PatchVerdict,
    Round,
    collect_results,
    doubt_layouts,
    judge,
    measure_rounds,
)

__all__ = [
    "Broken",
    "BuildSide",
    "Measure",
    "PatchCriteria",
    "PatchFinding",
    "PatchTestResults",
    "PatchTestVerdict",
    "PatchVerdict",
    "Round",
    "collect_results",
    "doubt_layouts",
    "judge",
    "measure_rounds",
]
