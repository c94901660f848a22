"""Finds the changes in a trace and says what they mean for its newest run; no input or output.

``partition`` cuts a trace into groups by description length, ``moving_statistics`` looks at each
run's window, ``compliance`` compares the newest trend with the older ones, and ``evaluate`` puts
them together to a verdict. ``monitor`` looks for small changes at the newest runs, ``certainty`` says
how sure a change is, ``name_patterns`` what its course is called, ``noise`` what moves a trace while
nothing changes, and ``step_fits`` what a window around each commit looks like.
"""

from perftrend.analysis.certainty import Certainty, certainty
from perftrend.analysis.compliance import (
    WEEK_RUNS,
    WEEK_RUNS_ONE_TESTBED,
    Compliance,
    compliance,
    compliance_of,
    known_at,
)
from perftrend.analysis.mdl import GrowingPartition, Partition, partition, partition_all
from perftrend.analysis.news import changes
from perftrend.analysis.noise import Noise, noise
from perftrend.analysis.patterns import NamedChange, Pattern, name_patterns
from perftrend.analysis.sequential import Sighting, State, Vigilance, monitor, replay
from perftrend.analysis.shape import Shape, shape_of
from perftrend.analysis.significance import Significance
from perftrend.analysis.stepfit import StepFit, StepFits, StepMethod, best_step, step_fits
from perftrend.analysis.trimmed import MovingStatistics, moving_statistics, outliers
from perftrend.analysis.verdict import Criteria, Method, evaluate, evaluate_all

__all__ = [
    "WEEK_RUNS",
    "WEEK_RUNS_ONE_TESTBED",
    "Certainty",
    "Compliance",
    "Criteria",
    "GrowingPartition",
    "Method",
    "MovingStatistics",
    "NamedChange",
    "Noise",
    "Partition",
    "Pattern",
    "Shape",
    "Sighting",
    "Significance",
    "State",
    "StepFit",
    "StepFits",
    "StepMethod",
    "Vigilance",
    "best_step",
    "certainty",
    "changes",
    "compliance",
    "compliance_of",
    "evaluate",
    "evaluate_all",
    "known_at",
    "monitor",
    "moving_statistics",
    "name_patterns",
    "noise",
    "outliers",
    "partition",
    "partition_all",
    "replay",
    "shape_of",
    "step_fits",
]
