"""Values of many traces at a commit, a day or a time, and their distance from it.

Testbeds measure different commits. A testbed that did not measure the commit itself still has a place for it:
between the columns that started before and after another testbed first measured that commit.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, time
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.ratios import Values, noise_of_history, noise_of_samples
from perftrend.dashboard.catalog import Traces
from perftrend.dashboard.compare.models import FallbackRule
from perftrend.errors import UsageError
from perftrend.model import Samples
from perftrend.settings.values import moment_of
from perftrend.store import Store
from perftrend.store.tiles import Axis, StoredTrace, TileColumn

REACH = 128
"""Distance in columns from which on a value is not used for a place."""
_HISTORY = 32
"""Number of columns from which the noise is estimated."""
_CLOSE = 2
"""Number of columns after a place that are read first."""
_HASH = re.compile(r"[0-9a-f]{7,40}")

_Numbers = NDArray[np.int64]
ValuesAt: TypeAlias = Callable[[Axis, _Numbers, range], Samples]
"""Function from an axis, ids of its traces and columns to values, shape (n, columns)."""


@dataclass(frozen=True, slots=True)
class AxisPlace:
    """Columns of an axis: those of the commit, or a gap.

    ``first`` to ``last`` are the columns of the commit. If there are none, ``last`` is the column before the
    gap and ``first`` the one after it, so first is greater.
    """

    first: int
    last: int


def newest(axes: Mapping[str, Axis]) -> dict[str, AxisPlace]:
    """Return the place of the newest column of each testbed."""
    return {
        testbed: AxisPlace(len(axis.columns) - 1, len(axis.columns) - 1) for testbed, axis in axes.items()
    }


def places_of(text: str, axes: Mapping[str, Axis]) -> dict[str, AxisPlace]:
    """Return the place of a commit or of a time on each testbed.

    :param text: a prefix of a hash with at least seven digits, a day or a time.
    :raises UsageError: if it is neither, if no testbed has measured the commit, or if several commits match.
    """
    wanted = text.lower()
    # Eight digits may also be a day without hyphens; commits take precedence.
    if _HASH.fullmatch(wanted) and (found := _of_commit(wanted, axes)):
        return found
    try:
        moment = moment_of(text, of_day=time.max)
    except ValueError:
        if _HASH.fullmatch(wanted):
            raise UsageError(
                f"no testbed of these traces has measured commit {wanted}; "
                "enter a measured commit, or a day such as 2026-03-02"
            ) from None
        raise UsageError(
            "enter a commit of 7 to 40 hex digits, or a time such as 2026-03-02 or 2026-03-02T18:00Z"
        ) from None
    return {testbed: _gap(axis.columns, moment) for testbed, axis in axes.items()}


def _of_commit(wanted: str, axes: Mapping[str, Axis]) -> dict[str, AxisPlace]:
    """Return the places of a commit; empty if no testbed has measured it."""
    numbers = {
        testbed: [number for number, column in enumerate(axis.columns) if _is_same(column.revision, wanted)]
        for testbed, axis in axes.items()
    }
    measured = [axes[testbed].columns[number] for testbed, each in numbers.items() for number in each]
    if not measured:
        return {}
    revisions = {column.revision for column in measured}
    longest = max(revisions, key=len)
    if not all(longest.startswith(revision) for revision in revisions):
        matches = ", ".join(sorted(revision[:12] for revision in revisions)[:3])
        raise UsageError(f"several commits begin with {wanted}: {matches}; enter more digits")
    begun = min(column.started for column in measured)
    return {
        testbed: AxisPlace(min(each), max(each)) if each else _gap(axes[testbed].columns, begun)
        for testbed, each in numbers.items()
    }


def _is_same(revision: str, wanted: str) -> bool:
    return bool(revision) and (revision.startswith(wanted) or wanted.startswith(revision))


def _gap(columns: Sequence[TileColumn], moment: datetime) -> AxisPlace:
    before = sum(column.started <= moment for column in columns)
    return AxisPlace(before, before - 1)


@dataclass(frozen=True, slots=True, eq=False)
class TraceValues:
    """The values of n traces; arrays of the shape (n,)."""

    now: Traces
    places: NDArray[np.intp]
    """Places of the traces in the table."""
    axes: tuple[Axis, ...]
    """Axes of all testbeds."""
    axis: _Numbers
    """Index of the axis of each trace in ``axes``."""
    columns: _Numbers
    """Column of that axis in which each value was measured; -1 if there is no value."""
    distance: _Numbers
    """Number of columns from the place to the value; negative: before it; 0: at the place."""
    values: Values

    @property
    def testbeds(self) -> tuple[str, ...]:
        """The testbeds of all traces."""
        return tuple(axis.testbed for axis in self.axes)

    def trace(self, number: int) -> StoredTrace:
        """Return one of the traces."""
        return self.now.stored[int(self.places[number])]

    def column(self, number: int) -> TileColumn | None:
        """Return the column in which a value was measured; None if there is no value."""
        column = self.columns[number]
        return self.axes[self.axis[number]].columns[column] if column >= 0 else None

    def part(self, chosen: slice) -> TraceValues:
        """Return a part of the traces."""
        values = Values(self.values.value[chosen], self.values.error[chosen], self.values.freedom[chosen])
        return replace(
            self,
            places=self.places[chosen],
            axis=self.axis[chosen],
            columns=self.columns[chosen],
            distance=self.distance[chosen],
            values=values,
        )


def read_nearest_values(  # noqa: PLR0917 - what, when and where
    values_at: ValuesAt,
    now: Traces,
    places: NDArray[np.intp],
    axes: Mapping[str, Axis],
    at: Mapping[str, AxisPlace],
    rule: FallbackRule,
) -> TraceValues:
    """Return the value of each trace that is nearest to a place, on the side that the rule allows.

    :param values_at: a function that reads values, such as ``store.tiles.values``.
    :param places: the places of the traces in the table.
    :param axes: the axes of the testbeds of all traces.
    :param at: the place on each testbed.
    """
    count = len(places)
    value, error = np.full(count, np.nan), np.full(count, np.nan)
    freedom, distance, of_axis = (np.zeros(count, dtype=np.int64) for _ in range(3))
    columns = np.full(count, -1, dtype=np.int64)
    of_testbed = _of_testbed(now, places)
    for number, (testbed, numbers) in enumerate(of_testbed.items()):
        axis, place = axes[testbed], at[testbed]
        of_axis[numbers] = number
        for some, window in _windows(len(axis.columns), place):
            todo = numbers[columns[numbers] < 0]
            if not len(todo):
                break
            read = values_at(axis, now.ids[places[todo]], some)
            near = _nearest(read, place, some, window, rule)
            there = np.flatnonzero(near >= 0)
            index, near, read = todo[there], near[there], read[there]
            error[index], freedom[index] = noise_of_history(_history(read, near))
            value[index] = read[np.arange(len(near)), near]
            columns[index] = near + some.start
            distance[index] = _distance(columns[index], place)
    found = tuple(axes[testbed] for testbed in of_testbed)
    return TraceValues(now, places, found, of_axis, columns, distance, Values(value, error, freedom))


def with_samples(store: Store, side: TraceValues) -> Values:
    """Return values with the noise of their samples, if the history of the trace is too short to estimate it.

    A sufficient history is preferred: samples of one start do not contain the noise between starts.
    """
    unknown = [
        (number, column.runs, side.trace(number).trace_id)
        for number in np.flatnonzero(side.values.freedom == 0).tolist()
        if (column := side.column(number)) is not None
    ]
    wanted: dict[tuple[int, ...], list[int]] = {}
    for _, runs, trace in unknown:
        wanted.setdefault(runs, []).append(trace)
    samples = store.replicates.of(wanted)
    error, freedom = side.values.error.copy(), side.values.freedom.copy()
    for number, runs, trace in unknown:
        error[number], freedom[number] = noise_of_samples(samples.get((runs, trace), ()))
    return Values(side.values.value, error, freedom)


def axes_of(store: Store, now: Traces, places: NDArray[np.intp]) -> dict[str, Axis]:
    """Return the columns of the testbeds of traces."""
    return {testbed: store.tiles.axis(testbed) for testbed in sorted(_of_testbed(now, places))}


def _of_testbed(now: Traces, places: NDArray[np.intp]) -> dict[str, NDArray[np.intp]]:
    """Return the numbers of the traces of each testbed; the empty string has those without a testbed."""
    found: dict[str, list[NDArray[np.intp]]] = {}
    for testbed, numbers in now.table.by_value("testbed", places).items():
        found.setdefault(testbed or "", []).append(numbers)
    return {testbed: np.sort(np.concatenate(numbers)) for testbed, numbers in found.items()}


def _windows(columns: int, place: AxisPlace) -> tuple[tuple[range, range], ...]:
    """Return the columns to read one after the other, each with the range in which values may be used.

    Nearly all values are at the place, so that few tiles are read for most traces.
    """
    whole = range(max(0, place.last + 1 - REACH), min(columns, place.first + REACH))
    first, last = sorted((place.first, place.last))
    close = range(max(whole.start, first - 2 * _HISTORY), min(whole.stop, last + _CLOSE))
    return ((close, whole), (whole, whole))


def _nearest(read: Samples, place: AxisPlace, some: range, whole: range, rule: FallbackRule) -> _Numbers:
    """Return the column of each trace's value, counted from the first one that was read.

    :param read: shape (n, columns), values of the columns ``some``.
    :param whole: the columns that are searched for the nearest.
    :returns: shape (n,); -1 if there is none, or if columns that were not read may be nearer or are needed to
        estimate the noise.
    """
    near = np.full(len(read), -1, dtype=np.int64)
    left = np.arange(len(read))
    for column in _by_distance(place, whole, rule):
        number = column - some.start
        if column not in some or (number < _HISTORY - 1 and some.start > whole.start) or not len(left):
            break
        here = np.isfinite(read[left, number])
        near[left[here]] = number
        left = left[~here]
    return near


def _by_distance(place: AxisPlace, window: range, rule: FallbackRule) -> list[int]:
    """Return the columns whose values may be used, the nearest first."""
    numbers = np.arange(window.start, window.stop)
    far = _distance(numbers, place)
    allowed = {FallbackRule.BEFORE: numbers <= place.last, FallbackRule.AFTER: numbers >= place.first}
    usable = (np.abs(far) < REACH) & allowed.get(rule, np.True_)
    # At equal distances, the earlier column is first; of several columns of the commit, the last measured.
    order = np.lexsort((np.where(far == 0, -numbers, 0), 2 * np.abs(far) + (far > 0)))
    found: list[int] = numbers[order][usable[order]].tolist()
    return found


def _distance(numbers: _Numbers, place: AxisPlace) -> _Numbers:
    """Return the distance of columns from a place: negative before it, 0 at it."""
    after = np.where(numbers > place.last, numbers - place.last, 0)
    return np.where(numbers < place.first, numbers - place.first, after)


def _history(read: Samples, near: _Numbers) -> Samples:
    """Return the values up to the one that is used, shape (n, 32), NaN if missing."""
    found = np.full((len(near), _HISTORY), np.nan)
    for number in np.unique(near).tolist():
        rows = near == number
        values = read[rows, max(number + 1 - _HISTORY, 0) : number + 1]
        found[rows, _HISTORY - values.shape[1] :] = values
    return found
