"""Small changes, found early: the evidence since the last confirmed change, run after run.

The partition needs many runs until a small step shortens the description. This detector gathers
evidence instead. Where :mod:`.evidence` for a step passes its limit, the trace has changed.

Runs that lie far off for a moment, between runs that do not, are no evidence: they are left out. The
newest run may be such a one. In a trace that has never had any it counts in full. In one that has, it
is *suspected*, and no evidence before so many runs agree as its far-off runs would not do by chance;
and no run counts for more than the edge of the noise.

Source: "Trend Analysis", sections Small regression and Reverted regression; for the clipping,
Huber, Robust estimation of a location parameter, 1964.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from statistics import NormalDist

import numpy as np
from numpy.typing import ArrayLike

from perftrend import errors
from perftrend.analysis.evidence import MINIMUM_HISTORY, SIDES, Scores, newest_change, scores
from perftrend.analysis.excursions import (
    clipped,
    excursions,
    longest_excursion,
    sigmas_off,
    spiked,
    unfinished,
)
from perftrend.analysis.shape import Shape, shape_of
from perftrend.model import Better, Direction

CONFIRMING_RUNS = 3
"""So many runs are taken for a new level."""


class State(StrEnum):
    """What is known of the newest runs."""

    QUIET = "quiet"
    SUSPECTED = "suspected"
    """The newest run lies off; the next one will tell whether it was alone."""
    CHANGED = "changed"
    """The evidence for a change exceeds what the noise does at the stated rate."""


@dataclass(frozen=True, slots=True)
class Vigilance:
    """How often the detector may be wrong.

    :raises SettingsError: if a value has no meaning.
    """

    false_alarms_per_1000: float = 1.0
    """CHANGED without a change, in 1,000 runs of one trace, both directions together."""
    suspicions_per_1000: float = 7.0
    """SUSPECTED without a change, in 1,000 runs of one trace, both directions together."""
    regressions: float = 0.9
    """Share of both that is spent on regressions. A progression that is seen late harms nobody."""
    lone_runs: bool | None = None
    """Whether a far-off newest run counts in full; None for: where the trace never had one."""

    def __post_init__(self) -> None:
        for name in ("false_alarms_per_1000", "suspicions_per_1000"):
            if not 0 < getattr(self, name) <= 500:  # noqa: PLR2004 - more is not a detector
                raise errors.SettingsError(
                    f"{name} is {getattr(self, name)}; give a number above 0, up to 500"
                )
        if not 0 < self.regressions < 1:
            raise errors.SettingsError(f"regressions is {self.regressions}; give a share between 0 and 1")

    def rates(self, per_1000: float) -> dict[Direction, float]:
        """Split a rate of errors between the directions, in errors a run."""
        return {
            Direction.REGRESSION: self.regressions * per_1000 / 1000,
            Direction.PROGRESSION: (1 - self.regressions) * per_1000 / 1000,
        }


DEFAULT_VIGILANCE = Vigilance()


@dataclass(frozen=True, slots=True)
class Sighting:
    """What the detector says after the newest run."""

    state: State
    direction: Direction | None = None
    """None where all is quiet."""
    position: int = -1
    """The most probable first run after the change; the newest run where that is suspected."""
    runs: int = 0
    """Runs with a value from the position on, those that are left out not counted."""
    before: float = math.nan
    """Average of the runs before, in the unit of the samples."""
    after: float = math.nan
    """Average of the runs from the position on."""
    shape: Shape = Shape.STEP
    """Whether the runs since the last confirmed change look like a step or like a slow drift."""

    @property
    def confirmed(self) -> bool:
        """Whether enough runs say so for the evidence to begin anew after the change."""
        return self.state is State.CHANGED and self.runs >= CONFIRMING_RUNS


QUIET = Sighting(State.QUIET)


def monitor(
    samples: ArrayLike, *, better: Better, since: int = 0, vigilance: Vigilance = DEFAULT_VIGILANCE
) -> Sighting:
    """Say whether the newest runs differ from those since the last confirmed change.

    :param samples: run averages in the order of time, shape (n,), any unit; what is not finite is
        no value. The last one is the newest.
    :param better: which direction of the trace is good.
    :param since: position of the first run after the last confirmed change.
    :param vigilance: the rates of false alarms and of false suspicions.
    :returns: QUIET while fewer than 5 runs before the newest can be compared with. Takes O(n).
    """
    values = np.asarray(samples, dtype=np.float64)
    positions = since + np.flatnonzero(np.isfinite(values[since:]))
    if not positions.size:
        return QUIET
    present = values[positions]
    sigmas = sigmas_off(present)
    rate = vigilance.false_alarms_per_1000 / 1000
    longest = longest_excursion(sigmas, rate, known=spiked(values[:since]))
    if vigilance.lone_runs is not None:
        longest = 0 if vigilance.lone_runs else max(longest, 1)
    kept = ~excursions(sigmas, longest)
    if np.count_nonzero(kept) <= MINIMUM_HISTORY:
        return QUIET
    settled = kept & ~unfinished(sigmas, longest)
    counted = clipped(present, sigmas) if longest else present
    newest = newest_change(counted[settled], better, vigilance.rates(vigilance.false_alarms_per_1000))
    state = State.CHANGED
    if newest is None:
        # Of runs whose worth is open, only the newest is asked about; the others are no noise either.
        settled[-1] = True
        newest, state = _suspected(scores(present[settled], better), vigilance), State.SUSPECTED
    if newest is None:
        return QUIET
    direction, runs = newest
    return Sighting(
        state=state,
        direction=direction,
        position=int(positions[settled][-runs]),
        runs=runs,
        before=float(present[settled][:-runs].mean()),
        after=float(present[settled][-runs:].mean()),
        shape=shape_of(present[settled]),
    )


def replay(
    samples: ArrayLike, *, better: Better, since: int = 0, vigilance: Vigilance = DEFAULT_VIGILANCE
) -> tuple[Sighting, ...]:
    """Repeat what :func:`monitor` said after each run, beginning anew after each confirmed change.

    A change is told from its first sighting on, every day until it is confirmed or gone.

    :param samples: run averages, shape (n,), as for :func:`monitor`.
    :returns: n - since sightings, the first that of the run at ``since``. Takes O(n²).
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


def _suspected(scored: Scores, vigilance: Vigilance) -> tuple[Direction, int] | None:
    """Return the direction of a newest run that lies off, and 1; None where it does not."""
    if not scored.weight.size:
        return None
    rates = vigilance.rates(vigilance.suspicions_per_1000)
    for direction, side in SIDES.items():
        if side * scored.worse[0] >= NormalDist().inv_cdf(1 - rates[direction]):
            return direction, 1
    return None
