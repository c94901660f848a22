"""Conversion between rows of the tables and classes of the model."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from sqlalchemy import Row

from perftrend.model import Better, Result, Run, Status, TraceKey, finite

_STATUS = {status.value: status for status in Status}


def pack_samples(samples: tuple[float, ...]) -> bytes:
    """Pack samples as little-endian float64, eight bytes each."""
    return struct.pack(f"<{len(samples)}d", *samples)


def unpack_samples(samples: bytes) -> tuple[float, ...]:
    """Undo :func:`pack_samples`."""
    return struct.unpack(f"<{len(samples) // 8}d", samples)


def row_of_run(run: Run) -> dict[str, Any]:
    """Return the columns of a run."""
    return {
        "job": run.job,
        "build": run.build,
        "testbed": run.testbed,
        "started": run.started,
        "finished": run.finished,
        "versions": dict(run.versions),
        "archive": run.archive,
        "simulated": run.simulated,
        "suites_started": run.suites_started,
        "suites_finished": run.suites_finished,
        "experiment": run.experiment,
    }


def run_of_row(row: Row[Any]) -> Run:
    """Return the run of a row that has all columns of ``runs``."""
    return Run(
        testbed=row.testbed,
        job=row.job,
        build=row.build,
        started=row.started,
        finished=row.finished,
        versions=row.versions,
        archive=row.archive,
        simulated=row.simulated,
        suites_started=row.suites_started,
        suites_finished=row.suites_finished,
        experiment=row.experiment,
    )


def row_of_result(result: Result) -> dict[str, Any]:
    """Return the columns of a result, except its run and its trace."""
    return {
        "status": result.status.value,
        "value": finite(result.value),
        "samples": pack_samples(result.samples),
        "invalid": result.invalid,
        "message": result.message,
    }


def details_columns(of_traces: Iterable[tuple[int, Mapping[str, Any]]]) -> Iterator[dict[str, Any]]:
    """Yield the columns of the details of a run's results, except the run; omit results without details.

    NDR and PDR of one search have the same details, and details are most of a store. So the second row has
    the id of the trace whose row has them. :func:`details_by_trace` resolves it.
    """
    first: dict[str, int] = {}
    for trace, details in of_traces:
        if details:
            # In Python, 1 equals True; in JSON, they differ.
            same = first.setdefault(json.dumps(dict(details)), trace)
            yield {"trace_id": trace, "details": dict(details) if same == trace else same}


def details_by_trace(
    rows: Iterable[tuple[int, Mapping[str, Any] | int | None]],
) -> dict[int, Mapping[str, Any]]:
    """Return the details of a run's results from the ids of their traces and their columns ``details``."""
    stored = dict(rows)
    resolved = {
        trace: stored.get(details) if isinstance(details, int) else details
        for trace, details in stored.items()
    }
    return {trace: details if isinstance(details, Mapping) else {} for trace, details in resolved.items()}


def result_of_columns(  # noqa: PLR0917 - called for every row, by the columns' order
    trace: tuple[TraceKey, str, Better],
    details: Mapping[str, Any],
    status: str,
    value: float | None,
    samples: bytes,
    invalid: str,
    message: str,
) -> Result:
    """Return the result of a trace: its details, and the columns of ``results`` from ``status`` on."""
    return Result(
        *trace,
        _STATUS[status],
        unpack_samples(samples),
        math.nan if value is None else value,
        invalid,
        message,
        details,
    )


class KeyReader:
    """A fast reader of the keys of many traces, which share the objects of equal parameters."""

    def __init__(self) -> None:
        self._shared: dict[tuple[str, str], tuple[str, str]] = {}

    def read(self, parameters: Sequence[str]) -> list[TraceKey]:
        """Return the keys of the column ``parameters``; its JSON is sorted, as keys are."""
        shared = self._shared.setdefault
        pairs = json.loads(f"[{','.join(parameters)}]", object_pairs_hook=tuple)
        return [TraceKey(tuple([shared(pair, pair) for pair in each])) for each in pairs]


def trace_of_row(row: Row[Any]) -> tuple[TraceKey, str, Better]:
    """Return the key, the unit and the better direction of a row that has the columns of ``traces``."""
    return TraceKey.of(**json.loads(row.parameters)), row.unit, Better(row.better)
