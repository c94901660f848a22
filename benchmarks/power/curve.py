"""The cells of the curve: every detector, drop and noise, and the comparison at equal alarms."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from benchmarks.power.delay import (
    DROPS,
    NOISES,
    RATES,
    Alarms,
    Cell,
    Noise,
    apply_drop,
    count_alarms,
    first_reports,
    first_sightings,
    quiet_traces,
    sequential_name,
)
from benchmarks.power.detectors import Detector
from benchmarks.power.series import LEVEL_PPS, normal, with_outliers
from perftrend.analysis.sequential import DetectorState, Vigilance, monitor
from perftrend.model import Better, Samples

# Detectors that take milliseconds per run are measured on a part of the traces.
_PART = {"asv": 0.15, "otava p .001": 0.3, "otava p .00001": 0.3, "ruptures rbf": 0.3}


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of the measurement."""

    traces: int
    """Traces of a cell; false alarms are measured on three times as many."""
    quiet_runs: int
    new_runs: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """A peer's cell, compared with the sequential detector at no more false alarms."""

    noise: float
    drop: float
    peer: str
    peer_alarms: float
    """In 1,000 runs."""
    peer_runs: float
    """The median."""
    peer_mean: float
    own: str
    own_alarms: float
    own_runs: float
    own_mean: float

    @property
    def verdict(self) -> str:
        """``fewer``, ``equal`` or ``more`` new runs than the peer, by the median, then the mean.

        ``unmatched`` if every setting raises more false alarms than the peer.
        """
        if self.own_alarms > self.peer_alarms:
            return "unmatched"
        own, peer = (self.own_runs, round(self.own_mean, 1)), (self.peer_runs, round(self.peer_mean, 1))
        if own == peer:
            return "equal"
        return "fewer" if own < peer else "more"


def sweep(
    noises: dict[float, Noise],
    drops: tuple[float, ...],
    peers: dict[str, Detector],
    sizes: Sizes,
    *,
    advance: Callable[[], None],
) -> tuple[list[Alarms], list[Cell]]:
    """Measure alarms and delays of all detectors at every noise and drop."""
    alarms: list[Alarms] = []
    cells: list[Cell] = []
    vigilances = [Vigilance(false_alarms_per_1000=rate) for rate in RATES]
    for index, (size, noise) in enumerate(noises.items()):
        quiet = quiet_traces(noise, 3 * sizes.traces, sizes.quiet_runs, seed=100 + index)
        fresh = quiet_traces(noise, sizes.traces, sizes.new_runs, seed=200 + index)
        alarms += _own_alarms(quiet, size, vigilances, sizes.quiet_runs)
        for drop in drops:
            cells += _own_cells([apply_drop(each, drop) for each in fresh], size, drop, vigilances)
        advance()
        for name, detector in peers.items():
            part = max(int(_PART.get(name, 1.0) * sizes.traces), 1)
            reports = [first_reports(each, detector) for each in quiet[: 3 * part]]
            alarms.append(count_alarms(name, size, reports, sizes.quiet_runs))
            for drop in drops:
                runs = tuple(first_reports(apply_drop(each, drop), detector) for each in fresh[:part])
                cells.append(Cell(name, size, drop, runs))
            advance()
    return alarms, cells


def comparisons(alarms: list[Alarms], cells: list[Cell], new_runs: int) -> list[Comparison]:
    """Compare each peer's cell with the sequential one that has the most alarms, but not more than the peer.

    The rates are those over all noises: more quiet runs give more precise rates.
    """
    rates = {
        name: 1000
        * sum(each.alarms for each in alarms if each.detector == name)
        / sum(each.exposure for each in alarms if each.detector == name)
        for name in {each.detector for each in alarms}
    }
    measured = {(each.detector, each.noise, each.drop): each for each in cells}
    own = [sequential_name(rate) for rate in RATES]
    found = []
    for (peer, noise, drop), cell in measured.items():
        if peer in own:
            continue
        allowed = rates[peer]
        name = ([name for name in own if rates[name] <= allowed] or own[:1])[-1]
        mine = measured[name, noise, drop]
        found.append(
            Comparison(
                noise=noise,
                drop=drop,
                peer=peer,
                peer_alarms=allowed,
                peer_runs=cell.median,
                peer_mean=cell.mean(new_runs),
                own=name,
                own_alarms=rates[name],
                own_runs=mine.median,
                own_mean=mine.mean(new_runs),
            )
        )
    return found


def clean_sweep(
    peers: dict[str, Detector], sizes: Sizes, advance: Callable[[], None]
) -> tuple[list[Alarms], list[Cell]]:
    """Measure every cell with normal noise."""
    return sweep({size: normal(size) for size in NOISES}, DROPS, peers, sizes, advance=advance)


def outlier_sweep(
    peers: dict[str, Detector], sizes: Sizes, advance: Callable[[], None]
) -> tuple[list[Alarms], list[Cell]]:
    """Measure a drop of 1 % at 1 % noise with 2 % outliers."""
    return sweep({0.01: with_outliers(0.02, 0.01)}, (0.01,), peers, sizes, advance=advance)


@dataclass(frozen=True, slots=True)
class Suspicion:
    """The states of a newest run, as fractions of all histories."""

    noise: str
    drop: float
    suspected: float
    changed: float


def suspicions(traces: int) -> list[Suspicion]:
    """Run the detector once on histories whose newest run is as before, or 10 % lower."""
    noises: dict[str, Noise] = {f"{size:.1%}".replace("%", " %"): normal(size) for size in NOISES}
    noises["1.0 %, 2 % outliers before"] = with_outliers(0.02, 0.01)
    found = []
    for index, (name, noise) in enumerate(noises.items()):
        histories = quiet_traces(noise, traces, 1, seed=300 + index)
        if "outliers" in name:
            histories = [_calm_end(each, seed) for seed, each in enumerate(histories)]
        for drop in (0.0, 0.1):
            states = [monitor(apply_drop(each, drop), better=Better.HIGHER).state for each in histories]
            suspected, changed = (
                states.count(one) / traces for one in (DetectorState.SUSPECTED, DetectorState.CHANGED)
            )
            found.append(Suspicion(name, drop, suspected, changed))
    return found


def _calm_end(samples: Samples, seed: int) -> Samples:
    """Replace a newest run that is an outlier itself: a suspicion would be right."""
    if abs(samples[-1] / LEVEL_PPS - 1) > 0.045:  # noqa: PLR2004 - the least outlier less the noise
        samples = samples.copy()
        samples[-1] = LEVEL_PPS * (1 + np.random.default_rng(seed).normal(0.0, 0.01))
    return samples


def _own_alarms(
    quiet: list[Samples], noise: float, vigilances: list[Vigilance], quiet_runs: int
) -> list[Alarms]:
    reports = [first_sightings(each, vigilances) for each in quiet]
    return [
        count_alarms(sequential_name(rate), noise, [each[index] for each in reports], quiet_runs)
        for index, rate in enumerate(RATES)
    ]


def _own_cells(traces: list[Samples], noise: float, drop: float, vigilances: list[Vigilance]) -> list[Cell]:
    reports = [first_sightings(each, vigilances) for each in traces]
    return [
        Cell(sequential_name(rate), noise, drop, tuple(each[index] for each in reports))
        for index, rate in enumerate(RATES)
    ]
