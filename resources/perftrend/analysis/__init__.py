"""Change detection in traces, and verdicts on their newest runs; no input or output.

``partition`` splits a trace into groups by description length, ``moving_statistics`` summarizes each
run's window, ``compliance`` compares the newest trend with the older ones, and ``evaluate`` combines
them into a verdict. ``monitor`` detects small changes at the newest runs, ``certainty`` quantifies the
confidence in a change, ``name_patterns`` classifies its course, ``noise`` estimates the variance of a
trace without changes, and ``step_fits`` fits a step to a window around each commit.
"""

from perftrend.analysis.change_details import NamedChange, Pattern, name_patterns
from perftrend.analysis.change_evidence import ChangeShape, shape_of
from perftrend.analysis.compliance import (
    WEEK_RUNS,
    WEEK_RUNS_ONE_TESTBED,
    Compliance,
    compliance,
    compliance_of,
    series_known_at,
)
from perftrend.analysis.mdl import GrowingPartition, Partition, partition, partition_all
from perftrend.analysis.noise import TraceNoise, noise
from perftrend.analysis.reportable_changes import changes
from perftrend.analysis.sequential import DetectorState, SuspectedChange, Vigilance, monitor, replay
from perftrend.analysis.significance import Certainty, Significance, certainty
from perftrend.analysis.stepfit import StepFit, StepFits, StepMethod, best_step, step_fits
from perftrend.analysis.trimmed_statistics import MovingStatistics, moving_statistics, outliers
from perftrend.analysis.verdict import Criteria, Method, evaluate, evaluate_all

__all__ = [
    "WEEK_RUNS",
    "WEEK_RUNS_ONE_TESTBED",
    "Certainty",
    "ChangeShape",
    "Compliance",
    "Criteria",
    "DetectorState",
    "GrowingPartition",
    "Method",
    "MovingStatistics",
    "NamedChange",
    "Partition",
    "Pattern",
    "Significance",
    "StepFit",
    "StepFits",
    "StepMethod",
    "SuspectedChange",
    "TraceNoise",
    "Vigilance",
    "best_step",
    "certainty",
    "changes",
    "compliance",
    "compliance_of",
    "evaluate",
    "evaluate_all",
    "monitor",
    "moving_statistics",
    "name_patterns",
    "noise",
    "outliers",
    "partition",
    "partition_all",
    "replay",
    "series_known_at",
    "shape_of",
    "step_fits",
]
