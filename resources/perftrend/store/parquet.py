"""Runs and results as Parquet files, for DuckDB, Spark or pandas, and the way back into a store.

A folder has the tables ``traces``, ``runs`` and ``results``. The last two are partitioned by testbed and by
the month in which a run started, in directories ``testbed=…/month=…`` that these programs read as columns.
The rows of a run are adjacent. See ``docs/formats/parquet.rst``.

Every file is replaced as a whole. The traces are written last, so a folder without them is unfinished.
"""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from itertools import groupby
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import sqlalchemy as sa
from sqlalchemy import Row
from sqlalchemy.engine import Connection

from perftrend.errors import StoreError
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import result_queries, rows
from perftrend.store.connection import read_transaction
from perftrend.store.maintenance import open_newest
from perftrend.store.schema import details, results, runs, traces
from perftrend.store.store import Store

_MOMENT = pa.timestamp("us", tz="UTC")
_TEXTS = pa.map_(pa.string(), pa.string())
_RUN = [
    pa.field("job", pa.string(), nullable=False),
    pa.field("build", pa.int64(), nullable=False),
    pa.field("started", _MOMENT, nullable=False),
]
"""The columns that identify a run of a testbed."""

TRACES = pa.schema(
    [
        pa.field("trace", pa.string(), nullable=False),
        pa.field("parameters", _TEXTS, nullable=False),
        pa.field("unit", pa.string(), nullable=False),
        pa.field("better", pa.string(), nullable=False),
    ]
)
RUNS = pa.schema(
    [
        *_RUN,
        pa.field("finished", _MOMENT, nullable=False),
        pa.field("suites_started", _MOMENT),
        pa.field("suites_finished", _MOMENT),
        pa.field("versions", _TEXTS, nullable=False),
        pa.field("environment", _TEXTS, nullable=False),
        pa.field("experiment", pa.string(), nullable=False),
        pa.field("archive", pa.string(), nullable=False),
        pa.field("simulated", pa.bool_(), nullable=False),
    ]
)
RESULTS = pa.schema(
    [
        *_RUN,
        pa.field("trace", pa.string(), nullable=False),
        pa.field("status", pa.string(), nullable=False),
        pa.field("value", pa.float64()),
        pa.field("samples", pa.list_(pa.float64()), nullable=False),
        pa.field("invalid", pa.string(), nullable=False),
        pa.field("message", pa.string(), nullable=False),
        pa.field("details", pa.string()),
    ]
)

_MOMENTS = ("started", "finished", "suites_started", "suites_finished")
_TRACES_FILE = "traces.parquet"
_PART_FILE = "part.parquet"
_ROWS_AT_ONCE = 10_000
_RUNS_AT_ONCE = 20
_SAMPLE_BYTES = 8

_Trace = tuple[TraceKey, str, Better]
_RunId = tuple[str, int, Any]


@dataclass(frozen=True, slots=True)
class Imported:
    """The numbers of runs that an import has read."""

    added: int
    known: int
    """Those that the store had already."""


@dataclass(frozen=True, slots=True)
class Exported:
    """What an export has written."""

    runs: int
    results: int


def export_folder(place: str | Path, folder: Path) -> Exported:
    """Write all runs and results of a store into a folder.

    Results have the current names of their traces, and marks by users are reasons why values are not valid.
    Months of which the store has no run any more remain in the folder.

    :param place: of the store, as for :meth:`Store.open`.
    :raises StoreError: if the store cannot be read, or is not of the newest version.
    :raises OSError: if a file cannot be written.
    """
    count = entered = 0
    with open_newest(place) as engine, read_transaction(engine) as connection:
        for testbed in connection.execute(sa.select(runs.c.testbed).distinct()).scalars().all():
            for month, of_month in _by_month(result_queries.runs_of(connection, testbed)):
                count += len(of_month)
                part = Path(f"testbed={quote(testbed, safe='')}", f"month={month}", _PART_FILE)
                _write(folder / "runs" / part, RUNS, [_table_of_runs(of_month.values())])
                tables = _tables_of_results(connection, of_month)
                entered += _write(folder / "results" / part, RESULTS, tables)
        _write(folder / _TRACES_FILE, TRACES, _tables_of_traces(connection))
    return Exported(count, entered)


def import_folder(folder: Path, place: str | Path) -> Imported:
    """Add the runs of a folder, with their results, to a store; runs that it has are not changed.

    Each run is added as a whole. After an error, an import can be repeated.

    :raises StoreError: as :func:`read_folder` and :meth:`Store.add`.
    """
    added = known = 0
    with Store.open(place) as store:
        for run, found in read_folder(folder):
            is_new = store.add(run, found)
            added, known = added + is_new, known + (not is_new)
    return Imported(added, known)


def read_folder(folder: Path) -> Iterator[tuple[Run, list[Result]]]:
    """Yield the runs of a folder with their results, testbed by testbed in the order of time.

    :raises StoreError: if a file is missing or damaged, lacks a column, or contradicts another one.
    """
    known = _read_traces(folder / _TRACES_FILE)
    for directory in sorted((folder / "runs").glob("testbed=*/month=*")):
        testbed = unquote(directory.parent.name.removeprefix("testbed="))
        waiting = {_id_of(each): each for each in _read_runs(directory, testbed)}
        of_runs = folder / "results" / directory.relative_to(folder / "runs")
        _check_results(of_runs, waiting)
        for identity, found in _read_results(of_runs, known):
            yield waiting.pop(identity), found
        for without_results in waiting.values():
            yield without_results, []


def _id_of(run: Run) -> _RunId:
    return run.job, run.build, run.started


def _by_month(by_id: Mapping[int, Run]) -> Iterator[tuple[str, dict[int, Run]]]:
    """Yield the months and their runs.

    :param by_id: the runs of a testbed, in the order of time.
    """
    for month, entered in groupby(by_id.items(), lambda each: f"{each[1].started:%Y-%m}"):
        yield month, dict(entered)


# ---- writing


def _write(path: Path, schema: pa.Schema, tables: Iterable[pa.Table]) -> int:
    """Write a file as a whole, and return the number of its rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(8)}.unfinished")
    count = 0
    try:
        with pq.ParquetWriter(unfinished, schema, compression="zstd") as writer:
            for table in tables:
                writer.write_table(table)
                count += table.num_rows
        unfinished.replace(path)
    finally:
        unfinished.unlink(missing_ok=True)
    return count


def _table_of_runs(of_month: Iterable[Run]) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {
                name: list(value.items()) if isinstance(value := getattr(run, name), Mapping) else value
                for name in RUNS.names
            }
            for run in of_month
        ],
        RUNS,
    )


def _tables_of_traces(connection: Connection) -> Iterator[pa.Table]:
    query = sa.select(traces).where(~rows.IS_FORMER_TRACE).order_by(traces.c.id)
    for part in connection.execute(query).partitions(_ROWS_AT_ONCE):
        entered = [
            {
                "trace": row.hash,
                "parameters": list(json.loads(row.parameters).items()),
                "unit": row.unit,
                "better": row.better,
            }
            for row in part
        ]
        yield pa.Table.from_pylist(entered, TRACES)


def _tables_of_results(connection: Connection, of_month: Mapping[int, Run]) -> Iterator[pa.Table]:
    names = rows.names_of(connection)
    columns = (results.c.status, results.c.value, results.c.samples, rows.INVALID, results.c.message)
    query = (
        sa.select(
            results.c.run_id,
            results.c.trace_id,
            traces.c.hash,
            names.counts.label("counts"),
            details.c.details,
            *columns,
        )
        .select_from(results.join(traces, traces.c.id == names.trace_id.element))
        .outerjoin(details, result_queries.is_same_result())
        .order_by(results.c.run_id, results.c.trace_id)
    )
    for ids in rows.parts(list(of_month), _RUNS_AT_ONCE):
        found = connection.execute(query.where(results.c.run_id.in_(ids))).all()
        by_run = {run_id: list(of_run) for run_id, of_run in groupby(found, lambda row: row.run_id)}
        yield _table_of_results([(of_month[each], by_run.get(each, [])) for each in ids])


def _table_of_results(by_run: Sequence[tuple[Run, Sequence[Row[Any]]]]) -> pa.Table:
    entered: list[tuple[Run, Row[Any]]] = []
    written: list[str | None] = []
    for run, of_run in by_run:
        # Details may refer to those of a result that does not count.
        of_traces = rows.details_by_trace((row.trace_id, row.details) for row in of_run)
        counted = [row for row in of_run if row.counts]
        entered += [(run, row) for row in counted]
        written += [json.dumps(found) if (found := of_traces[row.trace_id]) else None for row in counted]
    sizes = [len(row.samples) // _SAMPLE_BYTES for _, row in entered]
    samples = np.frombuffer(b"".join(row.samples for _, row in entered), "<f8")
    return pa.Table.from_arrays(
        [
            pa.array([run.job for run, _ in entered], pa.string()),
            pa.array([run.build for run, _ in entered], pa.int64()),
            pa.array([run.started for run, _ in entered], _MOMENT),
            pa.array([row.hash for _, row in entered], pa.string()),
            pa.array([row.status for _, row in entered], pa.string()),
            pa.array([row.value for _, row in entered], pa.float64()),
            pa.ListArray.from_arrays(
                pa.array(np.concatenate([[0], np.cumsum(sizes)]), pa.int32()), pa.array(samples)
            ),
            pa.array([row.invalid for _, row in entered], pa.string()),
            pa.array([row.message for _, row in entered], pa.string()),
            pa.array(written, pa.string()),
        ],
        schema=RESULTS,
    )


# ---- reading


@contextmanager
def _reporting(path: Path) -> Iterator[None]:
    """Raise StoreError with the path for a file that cannot be read as a table of this module."""
    try:
        yield
    except FileNotFoundError:
        raise StoreError(f"{path}: the file does not exist; the folder is not a finished export") from None
    except OSError as error:
        raise StoreError(f"{path}: {error.strerror or error}") from error
    except (pa.ArrowException, KeyError, TypeError, ValueError) as error:
        raise StoreError(f"{path}: it is not a table of an export: {error}") from error


def _read(path: Path, schema: pa.Schema) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of a file in parts; columns that the schema does not have are ignored."""
    with _reporting(path), pq.ParquetFile(path) as file:
        if missing := [name for name in schema.names if name not in file.schema_arrow.names]:
            raise KeyError(f"it lacks the column {missing[0]}")
        for batch in file.iter_batches(_ROWS_AT_ONCE, columns=schema.names):
            yield pa.Table.from_batches([batch]).select(schema.names).cast(schema).to_pylist()


def _read_traces(path: Path) -> dict[str, _Trace]:
    found: dict[str, _Trace] = {}
    for part in _read(path, TRACES):
        with _reporting(path):
            for row in part:
                key = TraceKey.of(**dict(row["parameters"]))
                if key.hash != row["trace"]:
                    raise ValueError(f"the parameters of trace {row['trace']} have the hash {key.hash}")
                found[key.hash] = key, row["unit"], Better(row["better"])
    return found


def _read_runs(directory: Path, testbed: str) -> Iterator[Run]:
    for _, row in _read_rows(directory, RUNS):
        texts = {name: dict(row[name]) for name in ("versions", "environment")}
        moments = {name: row[name] and row[name].astimezone(UTC) for name in _MOMENTS}
        yield Run(testbed=testbed, **row | texts | moments)


def _check_results(directory: Path, known: Collection[_RunId]) -> None:
    """Raise StoreError unless the rows of each run are adjacent, so that it can be added as a whole."""
    met = set()
    for identity, _ in groupby(_read_rows(directory, pa.schema(_RUN)), lambda each: _identity_of(each[1])):
        if identity in met or identity not in known:
            reason = "its rows are not adjacent" if identity in met else "the table runs lacks it"
            raise StoreError(f"{directory}: {identity[0]}/{identity[1]}: {reason}; export the folder again")
        met.add(identity)


def _read_rows(directory: Path, schema: pa.Schema) -> Iterator[tuple[Path, dict[str, Any]]]:
    for path in sorted(directory.glob("*.parquet")):
        for part in _read(path, schema):
            yield from ((path, row) for row in part)


def _read_results(directory: Path, known: Mapping[str, _Trace]) -> Iterator[tuple[_RunId, list[Result]]]:
    """Yield the results of each run, whose rows have to be adjacent."""
    for identity, of_run in groupby(_read_rows(directory, RESULTS), lambda each: _identity_of(each[1])):
        yield identity, [_result_of(path, row, known) for path, row in of_run]


def _identity_of(row: Mapping[str, Any]) -> _RunId:
    return row["job"], row["build"], row["started"].astimezone(UTC)


def _result_of(path: Path, row: Mapping[str, Any], known: Mapping[str, _Trace]) -> Result:
    with _reporting(path):
        if row["trace"] not in known:
            raise ValueError(f"{_TRACES_FILE} has no trace {row['trace']}; export the folder again")
        return Result(
            *known[row["trace"]],
            Status(row["status"]),
            tuple(row["samples"]),
            math.nan if row["value"] is None else row["value"],
            row["invalid"],
            row["message"],
            json.loads(row["details"]) if row["details"] else {},
        )
