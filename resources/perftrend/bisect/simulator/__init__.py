"""Simulated histories of commits, and a testbed that measures them with noise.

They serve to evaluate bisections: it is known which commits changed the performance. Nothing is built and
no time passes: a night of measurements takes milliseconds. Histories with the same model and the same
seed are equal, and the n-th measurement of a commit has the same noise, whatever else is measured, so that
strategies are compared under equal conditions.
"""

from perftrend.bisect.simulator.history import (
    HistoryModel,
    SimulatedBuild,
    SimulatedHistory,
    SimulatedTestbed,
    bisect,
)
from perftrend.bisect.simulator.noise import Drift, Jumps, Recording, SimulatedNoise, Swing, Walk

__all__ = [
    "Drift",
    "HistoryModel",
    "Jumps",
    "Recording",
    "SimulatedBuild",
    "SimulatedHistory",
    "SimulatedNoise",
    "SimulatedTestbed",
    "Swing",
    "Walk",
    "bisect",
]
