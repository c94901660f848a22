"""Every method on every device of a cell, and statistics of the results.

A cell is a kind of device, a final duration, and whether trials can end early. Its devices
differ in their critical rate and their seed; all methods get the same ones.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

import numpy as np
from numpy.typing import NDArray

from benchmarks.search.methods import (
    LOSS_RATIOS,
    MLRSEARCH,
    MLRSEARCH_STRICT,
    Recorder,
    methods,
    simulated_parameters,
)
from benchmarks.search.unavoidable import CALM, CalmDevice
from perftrend.measure.search.trials import passes
from perftrend.measure.simulated_loss import KINDS
from perftrend.measure.simulator import DeviceModel
from perftrend.measurement import Interval

LOWEST_CRITICAL_PPS = 3e5
HIGHEST_CRITICAL_PPS = 2e7
WORKERS = 2

MOVING = frozenset(
    kind for kind, arguments in KINDS.items() if {"drift_per_s", "warm_up_once"} & arguments.keys()
)
"""The kinds whose true rates change in the course of a search."""

DETERMINISTIC = frozenset(kind for kind, of in KINDS.items() if not CALM.keys() & of.keys()) - MOVING
"""The kinds whose true rates are constant and whose trials are reproducible."""

_SEED = 2544
_AGAIN = 8
"""Further trials at each lower bound, to measure how often it passes."""

_ROUNDING = 1e-5
"""Frames are whole, so a rate may pass that is this much above the truth, relatively."""


@dataclass(frozen=True, slots=True)
class Cell:
    """The parameters that the devices of a cell have in common."""

    kind: str
    final_s: float
    early: bool
    width: float
    devices: int
    methods: tuple[str, ...]
    """Names of the methods; those of MLRsearch are among them."""


@dataclass(frozen=True, slots=True)
class Found:
    """The results of one method on one device; fractions are by loss ratio that it searched for."""

    elapsed_s: float
    trials: int
    held: tuple[bool | None, ...]
    """Whether each interval contains the true rate; None if it is flagged or was not searched for."""
    widths: tuple[float, ...]
    """The relative widths of the intervals that are not flagged."""
    flagged: int
    again: tuple[float | None, ...]
    """Fraction of further trials at each lower bound that pass; None as in ``held``. They cost no time."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The statistics of one method in one cell."""

    mean_s: float
    p95_s: float
    worst_s: float
    trials: float
    ratio_mean: float
    """The ratio of the time to the unavoidable time of the same device."""
    ratio_p95: float
    ratio_worst: float
    free_upper_ratio_mean: float
    """The same if the upper bound of NDR costs no time."""
    held: tuple[float, ...]
    """Fraction of the unflagged intervals that contain the true rate, by loss ratio; NaN without any."""
    counted: tuple[int, ...]
    """The number of these intervals."""
    flagged: float
    """Fraction of devices with an interval that is marked as not valid."""
    again: tuple[float, ...]
    """Fraction of further trials at a lower bound that pass, by loss ratio; NaN without any."""
    again_error: tuple[float, ...]
    """The standard error of ``again``."""
    width_mean: float
    width_worst: float
    peer_mean: float
    """Time relative to that of MLRsearch: the ratio of the means."""
    peer_p95: float
    peer_dearer: float
    """Fraction of devices that take longer than with MLRsearch."""
    strict_mean: float
    """Like ``peer_mean``, relative to MLRsearch with exceed ratio 0."""
    strict_p95: float


Measured = tuple[Cell, Mapping[str, Figures]]


@dataclass(frozen=True, slots=True)
class _Place:
    """One device of a cell, and its true rates when a search begins."""

    cell: Cell
    critical_pps: float
    seed: int
    truth: tuple[float, ...]
    """Rates by loss ratio."""
    calm: CalmDevice

    @classmethod
    def of(cls, cell: Cell, number: int) -> _Place:
        # A generator for each, so that a run of more devices begins with those of a run of fewer.
        share = np.random.default_rng([_SEED, number]).random()
        critical = LOWEST_CRITICAL_PPS * (HIGHEST_CRITICAL_PPS / LOWEST_CRITICAL_PPS) ** share
        # The rates are those of every cell, the noise is the cell's own: cells are independent.
        seed = zlib.crc32(f"{cell.kind} {cell.final_s} {number}".encode())
        truth = _truth(DeviceModel.of_kind(cell.kind, critical, seed=seed), cell.final_s)
        return cls(cell, critical, seed, truth, CalmDevice.of(cell.kind, critical, cell.final_s))

    def device(self, *, early: bool) -> DeviceModel:
        return DeviceModel.of_kind(self.cell.kind, self.critical_pps, seed=self.seed, ends_early=early)

    def search(self, method: str, *, early: bool) -> Found:
        cell, device = self.cell, self.device(early=early)
        recorder = Recorder(device)
        intervals = methods()[method](recorder, simulated_parameters(cell.final_s, cell.width))
        after = _truth(device, cell.final_s) if cell.kind in MOVING else self.truth
        again = tuple(_again(device, *of, cell.final_s) for of in zip(intervals, LOSS_RATIOS, strict=True))
        sound = [interval for interval in intervals if interval is not None and not interval.invalid]
        return Found(
            recorder.elapsed_s,
            recorder.trials,
            tuple(_holds(*of) for of in zip(intervals, self.truth, after, strict=True)),
            tuple(interval.relative_width for interval in sound),
            sum(interval is not None and bool(interval.invalid) for interval in intervals),
            again,
        )


def first_device(cell: Cell) -> DeviceModel:
    """Return the first device of a cell in its initial state."""
    return _Place.of(cell, 0).device(early=cell.early)


def measure(cells: Sequence[Cell], done: Callable[[int], object]) -> list[Measured]:
    """Measure cells in several processes; call ``done`` with the number of finished ones.

    :returns: the figures by method, in the order of ``cells``.
    """
    alike: dict[Cell, list[Cell]] = {}
    for cell in cells:
        alike.setdefault(replace(cell, early=True), []).append(cell)
    figures: dict[Cell, Mapping[str, Figures]] = {}
    # A fork of a process with threads, such as that of a progress bar, may hang.
    with ProcessPoolExecutor(WORKERS, get_context("spawn")) as pool:
        for group, of in zip(alike.values(), pool.map(measure_alike, alike.values()), strict=True):
            figures.update(zip(group, of, strict=True))
            done(len(group))
    return [(cell, figures[cell]) for cell in cells]


def measure_alike(cells: Sequence[Cell]) -> list[Mapping[str, Figures]]:
    """Run every method on every device of cells that differ only in the early end."""
    places = [_Place.of(cells[0], number) for number in range(cells[0].devices)]
    # They run each trial to its end, so they find the same with and without the early end.
    blind = {
        method: [place.search(method, early=False) for place in places]
        for method in (MLRSEARCH, MLRSEARCH_STRICT)
    }
    return [_measure_cell(cell, places, blind) for cell in cells]


def _measure_cell(
    cell: Cell, places: Sequence[_Place], blind: Mapping[str, Sequence[Found]]
) -> Mapping[str, Figures]:
    least = [place.calm.unavoidable(cell.width, early=cell.early) for place in places]
    bounds = (
        np.array([bound.elapsed_s for bound in least]),
        np.array([bound.without_ndr_upper_s for bound in least]),
    )
    peers = (_seconds(blind[MLRSEARCH]), _seconds(blind[MLRSEARCH_STRICT]))
    found = {
        method: blind.get(method) or [place.search(method, early=cell.early) for place in places]
        for method in cell.methods
    }
    return {method: _figures(of, bounds, peers) for method, of in found.items()}


def _truth(device: DeviceModel, final_s: float) -> tuple[float, ...]:
    return tuple(device.true_pps(ratio, final_s) for ratio in LOSS_RATIOS)


def _holds(interval: Interval | None, before: float, after: float) -> bool | None:
    """Return whether an interval contains any rate that was true in the course of the search."""
    if interval is None or interval.invalid:
        return None
    lowest, highest = sorted((before, after))
    return interval.lower <= highest * (1.0 + _ROUNDING) and lowest * (1.0 - _ROUNDING) <= interval.upper


def _again(device: DeviceModel, interval: Interval | None, loss_ratio: float, final_s: float) -> float | None:
    """Return the fraction of further trials of the final duration that pass at the lower bound."""
    if interval is None or interval.invalid:
        return None
    # To their end: trials that end early would meet the same pause repeatedly.
    trials = (device(interval.lower, final_s) for _ in range(_AGAIN))
    return _mean(passes(trial, loss_ratio) for trial in trials)


def _figures(
    found: Sequence[Found], bounds: Sequence[NDArray[np.float64]], peers: Sequence[NDArray[np.float64]]
) -> Figures:
    seconds = _seconds(found)
    ratios = seconds / bounds[0]
    widths = [width for of in found for width in of.widths] or [math.nan]
    held = [[of.held[goal] for of in found if of.held[goal] is not None] for goal in range(len(LOSS_RATIOS))]
    again = [
        [share for of in found if (share := of.again[goal]) is not None] for goal in range(len(LOSS_RATIOS))
    ]
    peer, strict = peers
    return Figures(
        mean_s=float(seconds.mean()),
        p95_s=_p95(seconds),
        worst_s=float(seconds.max()),
        trials=_mean(of.trials for of in found),
        ratio_mean=float(ratios.mean()),
        ratio_p95=_p95(ratios),
        ratio_worst=float(ratios.max()),
        free_upper_ratio_mean=float((seconds / bounds[1]).mean()),
        held=tuple(_mean(map(bool, of)) for of in held),
        counted=tuple(map(len, held)),
        flagged=_mean(of.flagged > 0 for of in found),
        again=tuple(map(_mean, again)),
        again_error=tuple(map(_error, again)),
        width_mean=_mean(widths),
        width_worst=max(widths),
        peer_mean=float(seconds.mean() / peer.mean()),
        peer_p95=_p95(seconds) / _p95(peer),
        peer_dearer=float((seconds > peer).mean()),
        strict_mean=float(seconds.mean() / strict.mean()),
        strict_p95=_p95(seconds) / _p95(strict),
    )


def _seconds(found: Sequence[Found]) -> NDArray[np.float64]:
    return np.array([of.elapsed_s for of in found])


def _p95(values: NDArray[np.float64]) -> float:
    return float(np.percentile(values, 95.0))


def _error(values: Sequence[float]) -> float:
    """Return the standard error of the mean; NaN for less than two values."""
    return float(np.std(values, ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.nan


def _mean(values: Iterable[float]) -> float:
    listed = list(values)
    return sum(listed) / len(listed) if listed else math.nan
