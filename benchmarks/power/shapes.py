"""Delay until a slow drift is detected and classified, and the width of the intervals of a change.

Both are measured in sigmas: 60 quiet runs, then a slope or a step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.power.delay import HISTORY_RUNS
from perftrend.analysis.change_evidence import ChangeShape, shape_of
from perftrend.analysis.sequential import DetectorState, monitor
from perftrend.analysis.significance import certainty
from perftrend.model import Better, Group, Samples

SLOPES = (0.02, 0.05, 0.1, 0.2)
STEPS = (1.0, 2.0, 4.0)
LATER = (0, 10, 20, 40)
"""Runs after the first alarm at which the shape is evaluated."""

_NEW_RUNS = 300


@dataclass(frozen=True, slots=True)
class Naming:
    """The results for one drift or step."""

    course: str
    median_runs: float
    called_drift: tuple[float, ...]
    """Fraction of the traces, for each number of runs after the first alarm in :data:`LATER`."""


@dataclass(frozen=True, slots=True)
class Intervals:
    """How often the intervals of a change contain the truth."""

    step: float
    place_held: float
    place_runs: float
    """Median width."""
    size_held: float


def namings(traces: int) -> list[Naming]:
    """Follow drifts and steps until they are detected, and longer."""
    new = np.arange(1.0, _NEW_RUNS + 1)
    courses: dict[str, Samples] = {f"drift of {slope:g} a run": slope * new for slope in SLOPES}
    courses |= {f"step of {step:g}": np.full(_NEW_RUNS, step) for step in STEPS}
    return [_follow_course(name, course, traces) for name, course in courses.items()]


def _follow_course(name: str, course: Samples, traces: int) -> Naming:
    rng = np.random.default_rng(1)
    seen, called = [], []
    for _ in range(traces):
        samples = rng.normal(0.0, 1.0, HISTORY_RUNS + _NEW_RUNS)
        samples[HISTORY_RUNS:] -= course
        stop = _first_alarm(samples)
        seen.append(stop - HISTORY_RUNS)
        called.append([shape_of(samples[: stop + later]) is ChangeShape.DRIFT for later in LATER])
    shares = np.mean(called, axis=0)
    return Naming(name, float(np.median(seen)), tuple(shares.tolist()))


def _first_alarm(samples: Samples) -> int:
    for stop in range(HISTORY_RUNS + 1, samples.size):
        if monitor(samples[:stop], better=Better.HIGHER).state is DetectorState.CHANGED:
            return stop
    return samples.size


def intervals(traces: int) -> list[Intervals]:
    """Put the change where the squares are least, like a detector, and evaluate its intervals."""
    rng = np.random.default_rng(2)
    size, truth = 60, 35
    found = []
    for step in (0.7, *STEPS):
        rows = []
        for _ in range(traces):
            samples = rng.normal(100.0, 1.0, size)
            samples[truth:] += step
            squares = [samples[:at].var() * at + samples[at:].var() * (size - at) for at in range(1, size)]
            at = int(np.argmin(squares)) + 1
            groups = [_group(samples, 0, at), _group(samples, at, size)]
            sure = certainty(samples, groups, 1)
            held = sure.last_before < truth <= sure.first_after
            rows.append((held, sure.first_after - sure.last_before, sure.low <= step <= sure.high))
        columns = np.array(rows, dtype=float)
        found.append(
            Intervals(
                step,
                float(columns[:, 0].mean()),
                float(np.median(columns[:, 1])),
                float(columns[:, 2].mean()),
            )
        )
    return found


def _group(samples: Samples, start: int, stop: int) -> Group:
    part = samples[start:stop]
    return Group(start, stop, float(part.mean()), float(part.std()), 0.0)
