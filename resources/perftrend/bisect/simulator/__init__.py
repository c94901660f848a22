"""Simulated histories of commits, and a testbed that measures them with noise.

A bisection can be judged by them: it is known which commits changed the performance. Nothing is built and
no time passes: a night of measurements takes milliseconds. Histories with the same model and the same
seed are the same, and a commit that is measured as often sees the same noise, whatever is measured between,
so that strategies can be compared on the same luck.
"""

from perftrend.bisect.simulator.drift import Drift, Jumps, Swing, Walk
from perftrend.bisect.simulator.history import HistoryModel, SimulatedHistory
from perftrend.bisect.simulator.noise import Noise
from perftrend.bisect.simulator.recording import Recording
from perftrend.bisect.simulator.testbed import SimulatedBuild, SimulatedTestbed, bisect

__all__ = [
    "Drift",
    "HistoryModel",
    "Jumps",
    "Noise",
    "Recording",
    "SimulatedBuild",
    "SimulatedHistory",
    "SimulatedTestbed",
    "Swing",
    "Walk",
    "bisect",
]
