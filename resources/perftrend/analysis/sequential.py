"""Small changes, found early: the evidence since the last confirmed change, run after run.

The partition needs many runs until a small step shortens the description. This detector accumulates
evidence instead. If :mod:`.change_evidence` for a step exceeds its limit, the trace has changed.

Each run is weighted by the trace's own tails (:mod:`.noise`): a far-off newest run is
*suspected* if the trace has such runs, or is too young to have had any, and the next ones decide.

Distances are in robust sigmas, 1.4826 times the median distance from the median: the standard deviation
if the noise is normal, and outliers cannot move it (Hampel, The influence curve and its role in robust
estimation, 1974).

Source: "Trend Analysis", sections Small regression and Reverted regression.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from perftrend import errors
from perftrend.analysis.change_evidence import MINIMUM_HISTORY, SIDES, ChangeShape, newest_change, shape_of
from perftrend.analysis.noise import tail_scores
from perftrend.model import Better, Direction, Samples

CONFIRMING_RUNS = 3
"""The number of runs that make a new level."""
FAR = 4.5
"""Sigmas from the median from which on a run counts as far off: one of 150,000 normal ones does."""
EDGE = 3.0
"""Sigmas up to which a run is within the noise."""
_MAD_TO_SIGMA = 1.4826


class DetectorState(StrEnum):
    """The result of the detector for the newest runs."""

    QUIET = "quiet"
    SUSPECTED = "suspected"
    """The newest run is off; the next one shows whether it was alone."""
    CHANGED = "changed"
    """The evidence for a change exceeds the evidence that noise reaches at the stated rate."""


@dataclass(frozen=True, slots=True)
class Vigilance:
    """The accepted error rates of the detector.

    :raises SettingsError: if a value has no meaning.
    """

    false_alarms_per_1000: float = 1.0
    """CHANGED without a change, in 1,000 runs of one trace, both directions together."""
    suspicions_per_1000: float = 7.0
    """SUSPECTED without a change, in 1,000 runs of one trace, both directions together."""
    regressions: float = 0.9
    """Fraction of both that is spent on regressions. A progression that is seen late does no harm."""

    def __post_init__(self) -> None:
        for name in ("false_alarms_per_1000", "suspicions_per_1000"):
            if not 0 < getattr(self, name) <= 500:  # noqa: PLR2004 - more is not a detector
                raise errors.SettingsError(
                    f"{name} is {getattr(self, name)}; give a number above 0, up to 500"
                )
        if not 0 < self.regressions < 1:
            raise errors.SettingsError(f"regressions is {self.regressions}; give a fraction between 0 and 1")

    def rates(self, per_1000: float) -> dict[Direction, float]:
        """Split a rate of errors between the directions, in errors a run."""
        return {
            Direction.REGRESSION: self.regressions * per_1000 / 1000,
            Direction.PROGRESSION: (1 - self.regressions) * per_1000 / 1000,
        }


DEFAULT_VIGILANCE = Vigilance()


@dataclass(frozen=True, slots=True)
class SuspectedChange:
    """The result of the detector after the newest run."""

    state: DetectorState
    direction: Direction | None = None
    """None if the state is QUIET."""
    position: int = -1
    """The most probable first run after the change; the newest run if that is suspected."""
    runs: int = 0
    """Runs with a value from the position on."""
    before: float = math.nan
    """Average of the runs before, without far-off ones, in the unit of the samples."""
    after: float = math.nan
    """The same of the runs from the position on."""
    shape: ChangeShape = ChangeShape.STEP
    """Whether the runs since the last confirmed change look like a step or like a slow drift."""

    @property
    def confirmed(self) -> bool:
        """Whether enough runs support the change for the evidence to start again after it."""
        return self.state is DetectorState.CHANGED and self.runs >= CONFIRMING_RUNS


QUIET = SuspectedChange(DetectorState.QUIET)


def monitor(
    samples: ArrayLike, *, better: Better, since: int = 0, vigilance: Vigilance = DEFAULT_VIGILANCE
) -> SuspectedChange:
    """Decide whether the newest runs differ from those since the last confirmed change.

    :param samples: run averages in the order of time, shape (n,), any unit; values that are not finite
        are ignored. The last one is the newest.
    :param better: which direction of the trace is good.
    :param since: position of the first run after the last confirmed change.
    :param vigilance: the rates of false alarms and of false suspicions.
    :returns: QUIET while fewer than 5 runs before the newest can be compared with. O(n).
    """
    values = np.asarray(samples, dtype=np.float64)
    positions = since + np.flatnonzero(np.isfinite(values[since:]))
    if not positions.size:
        return QUIET
    present = values[positions]
    if present.size <= MINIMUM_HISTORY:
        return QUIET
    sigmas = sigmas_off(present)
    known = present.size - newest_off(sigmas)
    counted = tail_scores(present, known) if known else present
    found = newest_change(counted, better, vigilance.rates(vigilance.false_alarms_per_1000))
    state = DetectorState.CHANGED
    if found is None:
        found, state = _find_suspected(sigmas, better, vigilance), DetectorState.SUSPECTED
    if found is None:
        return QUIET
    direction, runs = found
    return SuspectedChange(
        state=state,
        direction=direction,
        position=int(positions[-runs]),
        runs=runs,
        before=_level(present[:-runs]),
        after=_level(present[-runs:]),
        shape=shape_of(counted),
    )


def replay(
    samples: ArrayLike, *, better: Better, since: int = 0, vigilance: Vigilance = DEFAULT_VIGILANCE
) -> tuple[SuspectedChange, ...]:
    """Return the result of :func:`monitor` after each run, starting again after each confirmed change.

    A change is reported from its first sighting on, every day until it is confirmed or gone.

    :param samples: run averages, shape (n,), as for :func:`monitor`.
    :returns: n - since sightings, the first that of the run at ``since``. O(n²).
    """
    values = np.asarray(samples, dtype=np.float64)
    sightings = []
    start = since
    for stop in range(since + 1, values.size + 1):
        sighting = monitor(values[:stop], better=better, since=start, vigilance=vigilance)
        if sighting.confirmed:
            start = sighting.position
        sightings.append(sighting)
    return tuple(sightings)


def _find_suspected(sigmas: Samples, better: Better, vigilance: Vigilance) -> tuple[Direction, int] | None:
    """Return the direction of a newest run that is off, and 1; None if it is not."""
    rates = vigilance.rates(vigilance.suspicions_per_1000)
    worse = -sigmas[-1] if better is Better.HIGHER else sigmas[-1]
    for direction, side in SIDES.items():
        if side * worse >= NormalDist().inv_cdf(1 - rates[direction]):
            return direction, 1
    return None


def _level(values: Samples) -> float:
    """Return the average of runs without those far off."""
    return float(values[np.abs(sigmas_off(values)) < FAR].mean())


def sigmas_off(values: Samples) -> Samples:
    """Return the distance of each run from the median of all, in robust sigmas, shape (n,).

    :param values: run averages, finite, shape (n,), any unit. If more than half of them are
        equal, the others are infinitely far.
    """
    offsets = values - np.median(values)
    sigma = _MAD_TO_SIGMA * float(np.median(np.abs(offsets)))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(offsets == 0, 0.0, offsets / sigma)


def newest_off(sigmas: Samples) -> int:
    """Return the number of newest runs that are off, without a run between that is not.

    :param sigmas: the result of :func:`sigmas_off`.
    """
    off = np.abs(sigmas) > EDGE
    return int(np.argmin(off[::-1])) if not off.all() else off.size
