"""False alarms per 1,000 runs against the number of new runs until a drop is reported.

A trace has 60 quiet runs; then come new ones, and every detector runs after each of them. It
reports a drop if it finds a fall that begins with the new runs. In quiet traces every such report
is a false alarm; the rate is the number of first alarms over the runs until then. In the others the
new runs are lower. Rises are not counted for any detector.

The sequential detector has a configurable rate. It is compared with each peer at a setting at
which it raises no more false alarms than the peer, measured on the same quiet traces. jumpavg is
too slow to run after each run; perftrend's partition, which agrees with it in all but one of a
hundred series, replaces it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from benchmarks.power.detectors import SEQUENTIAL, Detector
from benchmarks.power.series import LEVEL_PPS, Generator
from perftrend.analysis.sequential import DetectorState, Vigilance, monitor
from perftrend.model import Better, Direction, Samples

HISTORY_RUNS = 60
DROPS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.1)
NOISES = (0.005, 0.01, 0.02, 0.03)
RATES = (
    *(0.01, 0.02, 0.03, 0.05),
    *(0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.4, 1.6, 1.8),
    *(2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0),
)
"""Stated false alarms per 1,000 runs at which the sequential detector is measured."""

NEVER = math.inf


@dataclass(frozen=True, slots=True)
class Cell:
    """Runs until a drop is reported, by one detector at one drop and one noise."""

    detector: str
    noise: float
    drop: float
    runs: tuple[float, ...] = field(repr=False)
    """One per trace, infinite if the drop was not reported within the new runs."""

    @property
    def median(self) -> float:
        """The median: half of the traces need no more runs."""
        return float(np.sort(self.runs)[(len(self.runs) - 1) // 2])

    def mean(self, new_runs: int) -> float:
        """Return the average; without a report all new runs count."""
        return float(np.minimum(self.runs, new_runs).mean())

    def share_within(self, runs: int) -> float:
        """Return the fraction of the traces in which the drop is reported within a number of runs."""
        return float(np.mean(np.array(self.runs) <= runs))


@dataclass(frozen=True, slots=True)
class Alarms:
    """False alarms of one detector at one noise."""

    detector: str
    noise: float
    alarms: int
    exposure: int
    """The number of quiet runs until the first alarm of each trace."""

    @property
    def per_1000(self) -> float:
        """False alarms in 1,000 runs."""
        return 1000 * self.alarms / self.exposure


def sequential_name(rate: float) -> str:
    """Return the name of the sequential detector at a rate."""
    return f"{SEQUENTIAL} {rate:g}"


def first_reports(samples: Samples, detector: Detector) -> float:
    """Return the number of new runs after which a detector reports a drop; infinite if it does not."""
    for stop in range(HISTORY_RUNS + 1, samples.size + 1):
        if any(at >= HISTORY_RUNS - 2 and sign < 0 for at, sign in detector(samples[:stop])):
            return stop - HISTORY_RUNS
    return NEVER


def first_sightings(samples: Samples, vigilances: Iterable[Vigilance]) -> list[float]:
    """Return the same for the sequential detector, for vigilances in the order of rising rates."""
    waiting = list(enumerate(vigilances))
    reports = [NEVER] * len(waiting)
    for stop in range(HISTORY_RUNS + 1, samples.size + 1):
        # Runs without an alarm at a high rate have none at a lower one.
        while waiting:
            index, vigilance = waiting[-1]
            found = monitor(samples[:stop], better=Better.HIGHER, vigilance=vigilance)
            if found.state is not DetectorState.CHANGED or found.direction is not Direction.REGRESSION:
                break
            reports[index] = stop - HISTORY_RUNS
            waiting.pop()
    return reports


Noise = Callable[[Generator, int], Samples]


def quiet_traces(noise: Noise, traces: int, new_runs: int, *, seed: int | Sequence[int]) -> list[Samples]:
    """Return traces without a change."""
    rng = np.random.default_rng(seed)
    return [LEVEL_PPS * (1 + noise(rng, HISTORY_RUNS + new_runs)) for _ in range(traces)]


def apply_drop(samples: Samples, drop: float) -> Samples:
    """Return a trace whose new runs are lower."""
    lowered = samples.copy()
    lowered[HISTORY_RUNS:] -= drop * LEVEL_PPS
    return lowered


def count_alarms(name: str, noise: float, reports: list[float], new_runs: int) -> Alarms:
    """Sum the false alarms of quiet traces."""
    return Alarms(
        name,
        noise,
        sum(report < NEVER for report in reports),
        int(sum(min(report, new_runs) for report in reports)),
    )
