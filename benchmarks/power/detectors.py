"""The compared detectors, all as functions from samples to the changes in them.

A change is its position and its sign: -1 if the values fall. A peer that is not installed is
omitted, and the report shows that. Peers get the settings that their documentation recommends.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable, Sequence
from importlib import metadata
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from perftrend import errors
from perftrend.analysis import partition
from perftrend.analysis.sequential import replay
from perftrend.model import Better, Direction, Samples

Steps: TypeAlias = list[tuple[int, int]]
Detector: TypeAlias = Callable[[Samples], Steps]

ROBUST = "perftrend partition, outliers"
SEQUENTIAL = "perftrend sequential"

_DISTRIBUTIONS = {"jumpavg": "jumpavg", "ruptures": "ruptures", "otava": "apache-otava", "asv": "asv"}


def detectors() -> dict[str, Detector]:
    """Return all installed detectors by name, perftrend's first."""
    known: dict[str, Detector] = {
        "perftrend partition": _partition,
        ROBUST: lambda samples: _partition(samples, outliers=True),
        f"{ROBUST}, own deviations": lambda samples: _partition(samples, outliers=True, deviation="own"),
        f"{ROBUST}, one deviation": lambda samples: _partition(samples, outliers=True, deviation="shared"),
        SEQUENTIAL: _sequential,
        "jumpavg": _jumpavg,
        "ruptures linear": lambda samples: _ruptures(samples, "linear", 3 * math.log(samples.size)),
        "ruptures linear 12": lambda samples: _ruptures(samples, "linear", 12.0),
        "ruptures linear 15": lambda samples: _ruptures(samples, "linear", 15.0),
        "ruptures rbf": lambda samples: _ruptures(samples, "rbf", math.log(samples.size)),
        "otava p .001": lambda samples: _otava(samples, chance=0.001),
        "otava p .00001": lambda samples: _otava(samples, chance=0.00001),
        "asv": _asv,
    }
    return {name: detector for name, detector in known.items() if _works(detector)}


def versions() -> dict[str, str]:
    """Return the versions of the peers, "not installed" if a peer is missing."""
    found = {}
    for name, distribution in _DISTRIBUTIONS.items():
        try:
            found[name] = metadata.version(distribution)
        except metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def _works(detector: Detector) -> bool:
    try:
        detector(np.random.default_rng(0).normal(100.0, 1.0, 30))
    except (ImportError, errors.SettingsError):
        return False
    return True


def _steps(samples: Samples, starts: Sequence[int]) -> Steps:
    """Convert the starts of segments to changes, by the averages of the segments."""
    bounds = [0, *sorted(starts), samples.size]
    averages = [float(samples[start:stop].mean()) for start, stop in pairwise(bounds)]
    return [
        (start, 1 if after > before else -1)
        for start, (before, after) in zip(bounds[1:-1], pairwise(averages), strict=True)
    ]


def _partition(samples: Samples, *, outliers: bool = False, deviation: str | None = None) -> Steps:
    groups = partition(samples, outliers=outliers, deviation=deviation).groups
    return [
        (after.start, 1 if after.mean > before.mean else -1)
        for before, after in pairwise(groups)
        if after.mean != before.mean
    ]


def _sequential(samples: Samples) -> Steps:
    sightings = replay(samples, better=Better.HIGHER)
    return [
        (each.position, 1 if each.direction is Direction.PROGRESSION else -1)
        for each in sightings
        if each.confirmed
    ]


def _jumpavg(samples: Samples) -> Steps:
    groups = importlib.import_module("jumpavg").classify(samples.tolist())
    starts = np.cumsum([len(group.run_list) for group in groups])[:-1]
    return _steps(samples, starts.tolist())


def _ruptures(samples: Samples, kernel: str, penalty: float) -> Steps:
    """Run KernelCPD on samples in sigmas; sigma is that of the differences."""
    sigma = 1.4826 * float(np.median(np.abs(np.diff(samples)))) / math.sqrt(2)
    search: Any = importlib.import_module("ruptures").KernelCPD(kernel=kernel, min_size=1)
    found = search.fit((samples[:, np.newaxis] - samples.mean()) / sigma).predict(pen=penalty)
    return _steps(samples, [int(position) for position in found[:-1]])


def _otava(samples: Samples, *, chance: float) -> Steps:
    compute = importlib.import_module("otava.analysis").compute_change_points
    try:
        found, _ = compute(samples.tolist(), window_len=50, max_pvalue=chance, min_magnitude=0.0)
    except ValueError:
        # It refuses some series that it has split into an empty part: then it reports nothing.
        return []
    return _steps(samples, [int(each.index) for each in found])


def _asv(samples: Samples) -> Steps:
    found = importlib.import_module("asv.step_detect").detect_steps(samples.tolist())
    return _steps(samples, [int(segment[0]) for segment in found[1:]])
