"""Renames: a parameter of traces, such as their test, has a new value, and their history continues.

A rename is stored once and applies wherever results are read
(:mod:`perftrend.store.rows`). Results stay under the former name, so a rename can be undone.
The transaction of a rename marks the tiles that it changes as not trusted. Readers use the results instead
until these tiles are rebuilt.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import combinations
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from perftrend.errors import UsageError, nearest
from perftrend.model import TraceKey
from perftrend.store.activity import record
from perftrend.store.connection import alone, read_transaction, write_transaction
from perftrend.store.schema import (
    renamed_traces,
    renames,
    results,
    runs,
    tile_axes,
    tile_runs,
    trace_params,
    traces,
)
from perftrend.store.tiles import axes

LONGEST_NAME = 1000
"""Characters; the store cannot hold a longer value of a parameter."""
_LONGEST_PARAMETER = 255
_AT_ONCE = 1000
"""Values in one condition of a query."""

Former = Mapping[str, Mapping[str, str]]
"""From a parameter and a former value of it to the current value."""


@dataclass(frozen=True, slots=True)
class Rename:
    """A value of a parameter that was replaced by another."""

    parameter: str
    old: str
    new: str
    author: str
    moment: datetime

    def __str__(self) -> str:
        return f"{self.parameter} {self.old} is {self.new} now"


@dataclass(frozen=True, slots=True)
class FormerTrace:
    """A trace that is shown under its current name only."""

    hash: str
    key: TraceKey
    current_id: int


@dataclass(frozen=True, slots=True)
class StatedRename:
    """A rename to be checked; ``str()`` is the first part of the message that rejects it."""

    parameter: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.parameter} {self.old!r} cannot be renamed to {self.new!r}"


class Names:
    """Current names by former ones."""

    def __init__(self, stated: Iterable[tuple[str, str, str]]) -> None:
        self._new: dict[str, dict[str, str]] = {}
        for parameter, old, new in stated:
            self._new.setdefault(parameter, {})[old] = new

    def __bool__(self) -> bool:
        return bool(self._new)

    def path(self, parameter: str, value: str) -> list[str]:
        """Return a value and its successive replacements."""
        new = self._new.get(parameter, {})
        path = [value]
        # Renames have no cycle: see Renames.add.
        while path[-1] in new:
            path.append(new[path[-1]])
        return path

    def current(self, key: TraceKey) -> TraceKey:
        """Return the current key of a trace."""
        return TraceKey.of(**{name: self.path(name, value)[-1] for name, value in key.parameters})

    def steps(self, key: TraceKey) -> int:
        """Return the number of renames between a key and the current one."""
        return sum(len(self.path(name, value)) - 1 for name, value in key.parameters)

    @property
    def former(self) -> Former:
        """The current values by former ones."""
        return {
            parameter: {old: self.path(parameter, old)[-1] for old in new}
            for parameter, new in self._new.items()
        }


class Renames:
    """The renames of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def all(self) -> list[Rename]:
        """Return the renames in the order in which they were added."""
        query = sa.select(renames).order_by(renames.c.id)
        with read_transaction(self._engine) as connection:
            return [
                Rename(row.parameter, row.old, row.new, row.author, row.moment)
                for row in connection.execute(query)
            ]

    def names(self) -> Names:
        """Return the current names by former ones."""
        with read_transaction(self._engine) as connection:
            return _names(connection)

    def version(self) -> Hashable:
        """Return a value that changes with every rename and every renamed trace; cheap to query."""
        stated = sa.select(sa.func.count(), sa.func.max(renames.c.id))
        applied = sa.select(sa.func.count(), sa.func.max(renamed_traces.c.trace_id))
        with read_transaction(self._engine) as connection:
            return tuple(connection.execute(stated).one()), tuple(connection.execute(applied).one())

    def former_traces(self) -> list[FormerTrace]:
        """Return the traces of former names."""
        query = sa.select(traces.c.hash, traces.c.parameters, renamed_traces.c.current_id)
        query = query.join(renamed_traces, renamed_traces.c.trace_id == traces.c.id)
        with read_transaction(self._engine) as connection:
            return [
                FormerTrace(name, TraceKey.of(**json.loads(parameters)), current)
                for name, parameters, current in connection.execute(query)
            ]

    def add(self, parameter: str, old: str, new: str, *, author: str) -> int:
        """Rename a value of a parameter; its traces continue under the new value.

        :returns: the number of traces that get another name.
        :raises UsageError: if a name is not valid, if no trace has the old value, if it is renamed already,
            if the renames would form a cycle, if two former names have results in one run, or if traces of
            both names have different units or directions; nothing is changed.
        """
        _check_names(parameter, old, new)
        stated = StatedRename(parameter, old, new)
        with write_transaction(self._engine) as connection:
            alone(connection)
            names = _names(connection)
            if len(names.path(parameter, old)) > 1:
                present = names.path(parameter, old)[1]
                raise UsageError(f"{stated}: it is already renamed to {present!r}; undo that first")
            path = names.path(parameter, new)
            if path[-1] == old:
                raise UsageError(f"{stated}: {' -> '.join([repr(old), *map(repr, path)])} is a cycle")
            _require_known(connection, parameter, old)
            row = {"parameter": parameter, "old": old, "new": new}
            connection.execute(sa.insert(renames), {**row, "author": author, "moment": datetime.now(UTC)})
            changed = _apply(connection, stated=stated)
            record(connection, author, "renamed", _subject(parameter, old), f"is {new} now")
        return changed

    def remove(self, parameter: str, old: str, *, author: str) -> int:
        """Undo a rename: its traces are shown under their old names again.

        :returns: the number of traces that get another name.
        :raises UsageError: if the value is not renamed.
        """
        with write_transaction(self._engine) as connection:
            alone(connection)
            stated = (renames.c.parameter == parameter) & (renames.c.old == old)
            new = connection.execute(sa.select(renames.c.new).where(stated)).scalar()
            if new is None:
                query = sa.select(renames.c.old).where(renames.c.parameter == parameter)
                known = nearest(old, connection.execute(query).scalars())
                raise UsageError(f"{parameter} {old!r} is not renamed{known}")
            connection.execute(sa.delete(renames).where(stated))
            changed = _apply(connection)
            record(connection, author, "restored", _subject(parameter, old), f"was {new}")
        return changed


def follow_new_traces(connection: Connection) -> None:
    """Apply the renames to traces that have just been inserted.

    A trace whose current name has another unit or direction remains a separate trace: a measurement is never
    rejected because of a rename.
    """
    names = _names(connection)
    if names:
        _replace(connection, _resolve_renames(connection, names)[0])


def _check_names(parameter: str, old: str, new: str) -> None:
    for what, text, longest in (
        ("the parameter", parameter, _LONGEST_PARAMETER),
        ("the old name", old, LONGEST_NAME),
        ("the new name", new, LONGEST_NAME),
    ):
        if not text:
            raise UsageError(f"{what} is empty; write it")
        if len(text) > longest:
            raise UsageError(f"{what} has {len(text)} characters; write at most {longest}")
        if not text.isprintable():
            raise UsageError(f"{what}, {text!r}, has characters that cannot be printed; leave them out")
    if parameter == "testbed":
        raise UsageError("a testbed cannot be renamed: not only traces belong to it, but also runs")
    if old == new:
        raise UsageError(f"{parameter} {old!r} cannot be renamed to itself; give another new name")


def _require_known(connection: Connection, parameter: str, old: str) -> None:
    of_parameter = trace_params.c.name == parameter
    query = sa.select(trace_params.c.value).where(of_parameter, trace_params.c.value == old).limit(1)
    if connection.execute(query).first() is None:
        values = sa.select(trace_params.c.value).where(of_parameter).distinct()
        close = difflib.get_close_matches(old, connection.execute(values.limit(_AT_ONCE)).scalars(), n=1)
        hint = f"; did you mean {close[0]!r}?" if close else ""
        raise UsageError(f"the store has no trace with {parameter} {old!r}{hint}")


def _subject(parameter: str, old: str) -> str:
    return f"{parameter} {old}"[:255]


def _names(connection: Connection) -> Names:
    query = sa.select(renames.c.parameter, renames.c.old, renames.c.new)
    return Names((row.parameter, row.old, row.new) for row in connection.execute(query))


def _apply(connection: Connection, *, stated: StatedRename | None = None) -> int:
    """Apply the stored renames, and mark tiles whose values change as not trusted.

    :param stated: a new rename, which is rejected if it contradicts the stored results.
    :returns: the number of traces whose current name changes.
    :raises UsageError: if the new rename is rejected.
    """
    # A concurrent ingestion ends before, and its run is found here, or it reads the new names.
    testbeds = sa.select(tile_axes.c.testbed).order_by(tile_axes.c.testbed)
    states = [axes.lock_axis(connection, each) for each in connection.execute(testbeds).scalars().all()]
    before = {row.trace_id: row.current_id for row in connection.execute(sa.select(renamed_traces))}
    names = _names(connection)
    found, contradictions = _resolve_renames(connection, names)
    after = {each.trace_id: each.current_id for each in found}
    changed = {each for each in before.keys() | after.keys() if before.get(each) != after.get(each)}
    if stated:
        for key, contradiction in contradictions:
            if stated.old in names.path(stated.parameter, key.as_dict().get(stated.parameter, "")):
                raise UsageError(f"{stated}: {contradiction}")
        _require_no_overlap(connection, names, found, changed, stated)
    _replace(connection, found)
    _distrust(connection, states, changed)
    return len(changed - _delete_unused(connection, set(before.values()) - set(after.values())))


@dataclass(frozen=True, slots=True)
class _FormerTrace:
    """A trace of a former name."""

    trace_id: int
    key: TraceKey
    current_id: int
    steps: int


def _resolve_renames(
    connection: Connection, names: Names
) -> tuple[list[_FormerTrace], list[tuple[TraceKey, str]]]:
    """Return the traces of former names; insert their current traces if these were not measured yet.

    :returns: the renamed traces, and those that stay separate because the current trace has another unit or
        direction, each with this reason.
    """
    found, contradictions = [], []
    for row in _of_former_names(connection, names):
        key = TraceKey.of(**json.loads(row.parameters))
        current = names.current(key)
        target = _target(connection, current, row.unit, row.better)
        if (target.unit, target.better) == (row.unit, row.better):
            found.append(_FormerTrace(row.id, key, target.id, names.steps(key)))
        else:
            reason = (
                f"trace {key} is in {row.unit}, {row.better} is better, "
                f"but {current} is in {target.unit}, {target.better} is better"
            )
            contradictions.append((key, reason))
    return found, contradictions


def _of_former_names(connection: Connection, names: Names) -> Sequence[sa.Row[*tuple[Any, ...]]]:
    ids: set[int] = set()
    for parameter, values in names.former.items():
        old = list(values)
        for start in range(0, len(old), _AT_ONCE):
            some = trace_params.c.value.in_(old[start : start + _AT_ONCE])
            query = sa.select(trace_params.c.trace_id).where(trace_params.c.name == parameter, some)
            ids.update(connection.execute(query).scalars())
    query = sa.select(traces.c.id, traces.c.parameters, traces.c.unit, traces.c.better)
    ordered = sorted(ids)
    return [
        row
        for start in range(0, len(ordered), _AT_ONCE)
        for row in connection.execute(query.where(traces.c.id.in_(ordered[start : start + _AT_ONCE])))
    ]


def _target(connection: Connection, key: TraceKey, unit: str, better: str) -> sa.Row[*tuple[Any, ...]]:
    """Return the trace of a key; insert it if it was not measured yet."""
    query = sa.select(traces.c.id, traces.c.unit, traces.c.better).where(traces.c.hash == key.hash)
    row = connection.execute(query).first()
    if row is None:
        new = {"hash": key.hash, "parameters": key.json, "unit": unit, "better": better}
        connection.execute(sa.insert(traces), new)
        row = connection.execute(query).one()
        parameters = [{"trace_id": row.id, "name": name, "value": value} for name, value in key.parameters]
        connection.execute(sa.insert(trace_params), parameters)
    return row


def _require_no_overlap(
    connection: Connection,
    names: Names,
    found: Sequence[_FormerTrace],
    changed: Set[int],
    stated: StatedRename,
) -> None:
    """Reject two former names of one trace, neither of them newer, if a run has results of both.

    :raises UsageError: in that case.
    """
    of_current: dict[int, list[_FormerTrace]] = {}
    for each in found:
        of_current.setdefault(each.current_id, []).append(each)
    for several in of_current.values():
        unclear = [
            pair
            for pair in combinations(several, 2)
            if not changed.isdisjoint({each.trace_id for each in pair}) and not _is_clear(names, *pair)
        ]
        for one, other in unclear:
            first, second = results.alias(), results.alias()
            query = (
                sa.select(runs.c.job, runs.c.build)
                .join(first, first.c.run_id == runs.c.id)
                .join(second, second.c.run_id == runs.c.id)
                .where(first.c.trace_id == one.trace_id, second.c.trace_id == other.trace_id)
                .order_by(runs.c.id)
            )
            run = connection.execute(query.limit(1)).first()
            if run is not None:
                raise UsageError(
                    f"{stated}: run {run.job}/{run.build} has results of both {one.key} and {other.key}"
                )


def _is_clear(names: Names, one: _FormerTrace, other: _FormerTrace) -> bool:
    """Return whether one of two former names became the other on the way to the current one."""
    older, newer = sorted((one, other), key=lambda each: -each.steps)
    later = newer.key.as_dict()
    return all(later.get(name) in names.path(name, value) for name, value in older.key.parameters)


def _replace(connection: Connection, found: Sequence[_FormerTrace]) -> None:
    connection.execute(sa.delete(renamed_traces))
    if found:
        rows = [
            {"trace_id": each.trace_id, "current_id": each.current_id, "steps": each.steps} for each in found
        ]
        connection.execute(sa.insert(renamed_traces), rows)


def _distrust(connection: Connection, states: Sequence[axes.AxisState], trace_ids: Collection[int]) -> None:
    """Mark tiles as not trusted from the first run on that has results of these traces."""
    measured = sa.select(results.c.run_id).where(results.c.trace_id.in_(trace_ids))
    query = sa.select(tile_runs.c.axis_id, sa.func.min(tile_runs.c.number)).where(
        tile_runs.c.run_id.in_(measured)
    )
    first = {row[0]: row[1] for row in connection.execute(query.group_by(tile_runs.c.axis_id))}
    for state in states:
        if state.axis_id in first:
            axes.distrust(connection, state, first[state.axis_id])


def _delete_unused(connection: Connection, trace_ids: Collection[int]) -> set[int]:
    """Delete those of the given traces that exist only because of a rename, and return them.

    They have no results. A later rename may apply to their names.
    """
    query = sa.select(results.c.trace_id).where(results.c.trace_id.in_(trace_ids)).distinct()
    unused = set(trace_ids).difference(connection.execute(query).scalars()) if trace_ids else set()
    if unused:
        for column in (renamed_traces.c.trace_id, trace_params.c.trace_id, traces.c.id):
            connection.execute(sa.delete(column.table).where(column.in_(unused)))
    return unused
