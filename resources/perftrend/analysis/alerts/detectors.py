"""Detectors: the methods that find the changes of a trace, with their options.

``mdl``
    The steps of the partition that noise does not explain, and what the sequential detector sees at the
    newest runs (:mod:`perftrend.analysis.reportable_changes`): the method of the verdicts Regression and
    Progression of the nightly analysis.
``three-sigma``
    Runs outside the normal range of their window (:mod:`perftrend.analysis.trimmed_statistics`). The first of
    several in a row is the change.
``step``
    Windows whose step fit is beyond a cutoff (:mod:`perftrend.analysis.stepfit`). The best of several in a
    row is the change.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from perftrend import errors
from perftrend.analysis.change_details import groups_around, is_distinct_from
from perftrend.analysis.description import formula_named
from perftrend.analysis.mdl import DEFAULT_FORMULA
from perftrend.analysis.reportable_changes import (
    Findings,
    ReportingRule,
    as_change,
    counts,
    direction,
    findings,
    sight,
)
from perftrend.analysis.significance import Significance, certainty
from perftrend.analysis.stepfit import StepMethod, step_fits
from perftrend.analysis.trimmed_statistics import DEFAULT_WINDOW, MINIMUM_VALUES, moving_statistics
from perftrend.model import Better, Change, Direction, Group, Samples

METHODS = ("mdl", "three-sigma", "step")

_LEAST_HISTORY = 10
_LEAST_RADIUS = 2


@dataclass(frozen=True, slots=True)
class Detector:
    """A detector with its options.

    :raises SettingsError: if a value has no meaning.
    """

    method: str = "mdl"
    """One of :data:`METHODS`."""
    history: int = 180
    """The number of newest commits that are analysed."""
    formula: str = DEFAULT_FORMULA
    """mdl: the description length."""
    outliers: bool = True
    """mdl: whether single bad runs are separated from the groups. Otherwise each of them is a regression, and
    the next run a progression. The dashboard uses the setting ``analysis.outliers``."""
    window: int = DEFAULT_WINDOW
    """three-sigma: the number of earlier runs with a value that determine the normal range."""
    step: str = StepMethod.CORRECTED.value
    """step: the statistic, a :class:`~perftrend.analysis.StepMethod` or its name."""
    radius: int = 7
    """step: runs on each side."""
    cutoff: float = 7.0
    """step: the value from which on the statistic is interesting."""

    def __post_init__(self) -> None:
        for name, value, known in (
            ("detector", self.method, METHODS),
            ("step fit", self.step, [each.value for each in StepMethod]),
        ):
            if value not in known:
                raise errors.SettingsError(f"no {name} is named {value!r}{errors.nearest(value, known)}")
        formula_named(self.formula)
        least = {"history": _LEAST_HISTORY, "window": MINIMUM_VALUES, "radius": _LEAST_RADIUS}
        for name, minimum in least.items():
            if getattr(self, name) < minimum:
                raise errors.SettingsError(f"{name} is {getattr(self, name)}; give at least {minimum}")
        if not math.isfinite(self.cutoff):
            raise errors.SettingsError(f"cutoff is {self.cutoff}; give a number")


@dataclass(frozen=True, slots=True)
class ChangeSize:
    """A change of a trace, with its size and its place."""

    position: int
    """The first run after it."""
    last_before: int
    """Position of the last run that is before it at 95 %."""
    first_after: int
    """Position of the first run that is after it at 95 %."""
    before: float
    after: float
    direction: Direction
    low: float = math.nan
    """The least value of ``after - before`` at 95 %; NaN if not known."""
    high: float = math.nan
    confidence: float = math.nan


def changes_of(
    samples: Samples, *, better: Better, detector: Detector, minimum_change: float
) -> tuple[ChangeSize, ...]:
    """Return the changes that a detector finds in a trace.

    :param samples: run averages, shape (n,), any unit, NaN if a run has none.
    :param minimum_change: smaller ones do not count, relative to the value before.
    :returns: in the order of their positions.
    """
    if np.count_nonzero(np.isfinite(samples)) < 2:  # noqa: PLR2004 - a change has two sides
        return ()
    match detector.method:
        case "mdl":
            found = _by_groups(samples, better, detector, minimum_change)
        case "three-sigma":
            found = _by_range(samples, better, detector)
        case _:
            found = _by_steps(samples, better, detector)
    return tuple(each for each in found if abs(each.after - each.before) >= minimum_change * abs(each.before))


def _by_groups(
    samples: Samples, better: Better, detector: Detector, minimum_change: float
) -> Iterator[ChangeSize]:
    rule = ReportingRule(
        better, detector.formula, detector.outliers, Significance(minimum_change=minimum_change)
    )
    found = findings(samples, rule)
    groups = found.partition.groups
    certain = tuple(step for step, doubt in zip(found.steps, found.doubts, strict=True) if not doubt)
    for step in certain:
        yield _estimate_size(found, step, groups, found.index(step))
    sighting = sight(samples, found, rule)
    seen = as_change(sighting)
    if seen and counts(sighting, rule.significance) and is_distinct_from(seen, certain):
        around = groups_around(found, seen)
        yield _estimate_size(found, seen, around, len(around) - 1)


def _estimate_size(found: Findings, change: Change, groups: Sequence[Group], index: int) -> ChangeSize:
    known = certainty(found.values, groups, index)
    return ChangeSize(
        position=change.position,
        last_before=min(known.last_before, change.position - 1),
        first_after=max(known.first_after, change.position),
        before=change.before,
        after=change.after,
        direction=change.direction,
        low=known.low,
        high=known.high,
        confidence=known.confidence,
    )


def _by_range(samples: Samples, better: Better, detector: Detector) -> Iterator[ChangeSize]:
    moving = moving_statistics(samples, window=detector.window)
    present = np.flatnonzero(np.isfinite(samples)).tolist()
    earlier = None
    for rank, at in enumerate(present):
        before, after = float(moving.trimmed_average[at]), float(samples[at])
        # A comparison with NaN, the range of a short window, is False.
        outside = samples[at] < moving.low[at] or samples[at] > moving.high[at]
        now = direction(before, after, better) if outside else None
        if now and now is not earlier:
            yield ChangeSize(at, present[rank - 1], at, before, after, now)
        earlier = now


def _by_steps(samples: Samples, better: Better, detector: Detector) -> Iterator[ChangeSize]:
    method = StepMethod(detector.step)
    fits = step_fits(samples, radius=detector.radius, better=better, method=method)
    beyond = fits.mark_interesting(detector.cutoff)
    present = np.flatnonzero(np.isfinite(samples))
    signs = beyond[present]
    strength = np.abs(fits.statistic[present])
    if method in {StepMethod.MANN_WHITNEY, StepMethod.CONSTANT}:
        strength = -strength
    edges = [0, *(np.flatnonzero(np.diff(signs)) + 1).tolist(), len(signs)]
    for start, stop in pairwise(edges):
        if start == stop or not signs[start]:
            continue
            # A value reached the constant at the first run.
        best = start if method is StepMethod.CONSTANT else start + int(np.argmax(strength[start:stop]))
        before = samples[present[max(best - detector.radius, 0) : best]]
        after = samples[present[best : best + detector.radius]]
        if not before.size or before.mean() == after.mean():
            continue
        sign = Direction.PROGRESSION if signs[start] > 0 else Direction.REGRESSION
        at = int(present[best])
        yield ChangeSize(at, int(present[best - 1]), at, float(before.mean()), float(after.mean()), sign)
