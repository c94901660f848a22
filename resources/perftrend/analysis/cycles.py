"""Why a test became slower: the parts of the device that take more CPU cycles per packet than before.

Cycles per packet are compared around a change by the same shifts as a reference build (:mod:`.reference`), in
cycles. A part without a value in a run in which others have one took no cycles: a node of the graph that no
packet reaches is not counted.

If cycles moved from one part to another and their sum stayed the same, nothing became slower: a function that
was inlined into its caller, or a node that was split. Such a move is no change.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeAlias

import numpy as np

from perftrend.analysis.families import values_by_run
from perftrend.analysis.reference import Shift, ends_of, estimate_shift
from perftrend.measurement import cycle_part
from perftrend.model import Direction, Outcome, Samples, Series, TraceKey, Verdict, reported_change

_MOST_PARTS = 3
"""Maximum number of parts in a sentence."""
_LEAST_SCALE = 0.01
"""Relative deviation of the cycles of a part that no packet had reached before."""
_SMALL = 0.1
"""A smaller fraction of the increase is not worth a name."""


TestName: TypeAlias = tuple[tuple[str, str], ...]
"""The parameters of a trace without its metric."""


@dataclass(frozen=True, slots=True)
class PartShift:
    """The change of the cycles per packet of a part of the device."""

    part: str
    shift: Shift
    """In cycles per packet; positive for more."""
    share: float
    """Of the increase of all parts together."""

    def __str__(self) -> str:
        size, reach = abs(self.shift.size), self.shift.reach
        more = "more" if self.shift.size > 0 else "fewer"
        name = "the device" if self.part == "total" else self.part
        explained = f", {self.share:.0%} of the increase" if 0 < self.share < 1 else ""
        return (
            f"{name} takes {size:.3g} {more} cycles per packet "
            f"({max(size - reach, 0.0):.3g} to {size + reach:.3g}{explained})"
        )


@dataclass(frozen=True, slots=True, eq=False)
class CycleHistory:
    """The cycles per packet of the parts of a device in one test."""

    moments: Sequence[datetime]
    """When each run started, ascending."""
    parts: Mapping[str, Samples]
    """By part, shape (runs,); NaN in runs without any cycles."""

    @classmethod
    def of(cls, moments: Sequence[datetime], parts: Mapping[str, Samples]) -> CycleHistory:
        """Return the history; a part without a value in a run in which others have one took no cycles."""
        counted = np.any([np.isfinite(values) for values in parts.values()], axis=0)
        return cls(
            moments,
            {
                part: np.where(counted, np.nan_to_num(values, nan=0.0), np.nan)
                for part, values in parts.items()
            },
        )

    def total(self, last_good: datetime, first_changed: datetime) -> Shift | None:
        """Return the shift of all parts together; None if there are too few runs."""
        values = np.sum(list(self.parts.values()), axis=0)
        return self._shift(values, last_good, first_changed)

    def shifts(self, last_good: datetime, first_changed: datetime) -> list[PartShift]:
        """Return the parts whose cycles have certainly changed, the largest increase first."""
        total = self.total(last_good, first_changed)
        if total is None:
            return []
        found = {part: self._shift(values, last_good, first_changed) for part, values in self.parts.items()}
        certain = [
            PartShift(part, shift, shift.size / total.size if total.size > total.reach else np.nan)
            for part, shift in found.items()
            if shift and abs(shift.size) > shift.reach
        ]
        return sorted(certain, key=lambda each: -each.shift.size)

    def costly(self, last_good: datetime, first_changed: datetime) -> list[PartShift]:
        """Return the parts that make the most of an increase, the largest first, at most three."""
        found = self.shifts(last_good, first_changed)
        return [each for each in found if each.shift.size > 0 and not each.share < _SMALL][:_MOST_PARTS]

    def has_moved(self, part: str, last_good: datetime, first_changed: datetime) -> bool:
        """Whether cycles of a part moved to or from others: all together changed by less than half of it."""
        own = self._shift(self.parts[part], last_good, first_changed)
        total = self.total(last_good, first_changed)
        if own is None or total is None or len(self.parts) == 1:
            return False
        return abs(total.size) + total.reach < abs(own.size) / 2

    def _shift(self, values: Samples, last_good: datetime, first_changed: datetime) -> Shift | None:
        return estimate_shift(self.moments, values, last_good, first_changed, least_scale=_LEAST_SCALE)


def part_of(key: TraceKey) -> str:
    """Return the part of the device whose cycles a trace has; empty if it has another metric."""
    return next((cycle_part(value) for name, value in key.parameters if name == "metric"), "")


def without_metric(key: TraceKey) -> TestName:
    """Return the name of the test that a trace is a metric of."""
    return tuple(pair for pair in key.parameters if pair[0] != "metric")


def explain_by_cycles(verdicts: Iterable[Verdict], series: Iterable[Series]) -> tuple[Verdict, ...]:
    """Return verdicts with the parts of the device that explain a regression.

    A part whose cycles have only moved to or from others is normal.
    """
    tests: dict[TestName, dict[str, Series]] = {}
    for one in series:
        if part := part_of(one.key):
            tests.setdefault(without_metric(one.key), {})[part] = one
    return tuple(_explain(verdict, tests.get(without_metric(verdict.series.key), {})) for verdict in verdicts)


def _explain(verdict: Verdict, parts: Mapping[str, Series]) -> Verdict:
    change, runs = reported_change(verdict), verdict.series.runs
    if not parts or change is None or change.position >= len(runs) or verdict.outcome is Outcome.TESTBED:
        return verdict
    first, last = (runs[at].started for at in ends_of(change, len(runs)))
    history = _history(parts)
    if own := part_of(verdict.series.key):
        if not history.has_moved(own, first, last):
            return verdict
        reason = f"{verdict.reason}; the cycles of all parts together are the same: they have only moved"
        return replace(verdict, outcome=Outcome.NORMAL, reason=reason)
    if verdict.outcome.value != Direction.REGRESSION.value:
        return verdict
    costly = history.costly(first, last)
    if not costly:
        return verdict
    return replace(verdict, reason=f"{verdict.reason}; {'; '.join(map(str, costly))}")


def _history(parts: Mapping[str, Series]) -> CycleHistory:
    runs, values = values_by_run(list(parts.values()))
    return CycleHistory.of([run.started for run in runs], dict(zip(parts, values.T, strict=True)))
