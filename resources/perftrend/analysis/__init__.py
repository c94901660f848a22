"""Finds the changes in a trace and says what they mean for its newest run; no input or output.

``partition`` cuts a trace into groups by description length, ``moving_statistics`` looks at each
run's window, ``compliance`` compares the newest trend with the older ones, and ``evaluate`` puts
them together to a verdict.
"""

from perftrend.analysis.compliance import (
    WEEK_RUNS,
    WEEK_RUNS_ONE_TESTBED,
    Compliance,
    compliance,
)
from perftrend.analysis.mdl import Partition, partition
from perftrend.analysis.news import changes
from perftrend.analysis.significance import Significance
from perftrend.analysis.trimmed import MovingStatistics, moving_statistics, outliers
from perftrend.analysis.verdict import Criteria, Method, evaluate, evaluate_all

__all__ = [
    "WEEK_RUNS",
    "WEEK_RUNS_ONE_TESTBED",
    "Compliance",
    "Criteria",
    "Method",
    "MovingStatistics",
    "Partition",
    "Significance",
    "changes",
    "compliance",
    "evaluate",
    "evaluate_all",
    "moving_statistics",
    "outliers",
    "partition",
]
