"""Time to read values, to select traces, and to update tiles, with many traces.

::

    python -m benchmarks.tiles [--sizes 100000x1000] [--full] [--store URL] [--json]

A testbed has a number of traces and commits; ``--full`` adds a million of 200. The commits are rounded up
to whole tiles, so that the measured nights have most to write. The store is an SQLite file in a
temporary folder, or the database of the URL, which must be empty. The table shows seconds by the clock and of
this process's CPU (the former includes a server's work), once for writes, the median of five for the rest:

* ``night``: a run with a result of each trace is stored, with its tiles; ``… that fills a tile`` has the
  coarser scales to make as well; ``tiles of it`` is the part for the tiles;
* ``remake``: the tiles of the two nights are made again from their results;
* ``traces``, ``table``: the work of a server once when it starts;
* ``select …``, ``choices``: the traces that match a query, and the number left by each further value;
* the rest: values are read, of traces scattered among all.

The older commits have tiles but no results: their values are drawn from a normal distribution while the tiles
are made, since the measurements do not read their results.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import islice, product
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import numpy as np
from sqlalchemy.engine import Connection

from perftrend.analysis.query import TraceTable, parse
from perftrend.model import Better, Result, Run, Samples, Status, TraceKey
from perftrend.store import Store
from perftrend.store import store as storing
from perftrend.store.tiles import POINTS, StoredTrace, TileColumn, newest, writer
from perftrend.store.tiles.reader import Ids

SIZES = ((100_000, 1000),)
FULL = (1_000_000, 200)
TESTBED = "2n-clx"
REPETITIONS = 5
SOME = 100
"""The number of traces on a page."""
BEGIN = datetime(2020, 1, 1, tzinfo=UTC)
QUERIES = {
    "select by two values": "frame=64B&metric=mrr",
    "select by an expression": "test=~ip[46].*1$&driver!=avf",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.tiles", description=__doc__.split("\n", 1)[0])
    parser.add_argument(
        "--sizes", nargs="+", default=SIZES, type=traces_and_commits, metavar="TRACESxCOMMITS"
    )
    parser.add_argument("--full", action="store_true", help="add a million traces of 200 commits")
    parser.add_argument("--store", metavar="URL", help="an empty database; by default an SQLite file")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(argv)
    sizes = [*options.sizes, *([FULL] if options.full else [])]
    if options.store and len(sizes) > 1:
        parser.error("one store takes one size")
    report = [measure(traces, commits, options.store) for traces, commits in sizes]
    print(json.dumps(report, indent=2) if options.json else "\n\n".join(map(table, report)))
    return 0


def traces_and_commits(text: str) -> tuple[int, int]:
    """Read a size such as ``20000x1000``.

    :raises argparse.ArgumentTypeError: for anything else.
    """
    found = re.fullmatch(r"([1-9]\d{2,6})x([1-9]\d{1,4})", text)
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r}: give traces and commits, such as 20000x1000")
    return int(found[1]), int(found[2])


def measure(traces: int, commits: int, url: str | None) -> dict[str, Any]:
    """Measure one size."""
    commits = -(-commits // POINTS) * POINTS
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "store.sqlite"
        with Store.open(url or file) as store:
            cells = list(_cells(store, keys(traces), commits))
        megabytes = round(sum(each.stat().st_size for each in Path(folder).iterdir()) / 1e6)
    return {
        "traces": traces,
        "commits": commits,
        "database": url.partition(":")[0] if url else "sqlite",
        "megabytes": megabytes if not url else None,
        "peak_megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1000,
        "cells": cells,
    }


def keys(number: int) -> list[TraceKey]:
    """Return traces like those of a laboratory: each test in all sizes, on all cores, by all drivers."""
    parts = product(
        range(-(-number // 360)),
        ("ip4", "ip6", "l2", "acl", "nat"),
        ("64B", "1518B", "IMIX"),
        ("1c", "2c", "4c"),
        ("mrr", "ndr", "pdr", "latency"),
        ("avf", "rdma"),
    )
    return [
        TraceKey.of(
            testbed=TESTBED, test=f"{frame}-{cores}-{kind}-{n}", suite=f"{kind}-{n}", frame=frame,
            cores=cores, metric=metric, driver=driver,
        )
        for n, kind, frame, cores, metric, driver in islice(parts, number)
    ]  # fmt: skip


def _cells(store: Store, traces: Sequence[TraceKey], commits: int) -> Iterator[dict[str, Any]]:
    generator = np.random.default_rng(1)
    yield _once("first night", lambda: night(store, traces, 0, generator))
    for build in range(1, commits - 2):
        store.add(run_of(build), [])
    store.tiles.forget()
    with _random_tiles(len(traces), generator):
        yield _once(f"tiles of {commits - 2} commits", store.tiles.remake)
    yield from _nights(store, traces, commits, generator)
    yield _once("axis", lambda: store.tiles.axis(TESTBED))
    found: list[StoredTrace] = []
    yield _once("traces", lambda: found.extend(store.tiles.traces()))
    tables: list[TraceTable] = []
    units = {"unit": [trace.unit for trace in found], "better": [trace.better.value for trace in found]}
    yield _once("table", lambda: tables.append(TraceTable([trace.key for trace in found], units)))
    fresh = TraceTable([TraceKey.of(testbed=TESTBED, test=f"new-{number}") for number in range(10)])
    yield _often("table with ten more", lambda: tables[0].concatenate(fresh))
    yield from _measure_selection(tables[0])
    yield from _measure_reading(store, [trace.trace_id for trace in found], generator)


def _nights(
    store: Store, traces: Sequence[TraceKey], commits: int, generator: np.random.Generator
) -> Iterator[dict[str, Any]]:
    for build, name in ((commits - 2, "night"), (commits - 1, "night that fills a tile")):
        spent: list[float] = []
        with _record_tile_times(spent):
            yield _once(name, partial(night, store, traces, build, generator))
        yield {"name": "  tiles of it", "seconds": sum(spent), "cpu_s": None}
    before = store.tiles.distrust(TESTBED, commits - 2)
    yield _once("remake", store.tiles.remake)
    after = store.tiles.axis(TESTBED).whole
    if (before, after) != (commits - 2, commits):
        raise RuntimeError(f"the tiles of {before} to {after} commits were made, not those of the last two")


def _measure_selection(traces: TraceTable) -> Iterator[dict[str, Any]]:
    for name, text in QUERIES.items():
        query = parse(text)
        yield _often(name, partial(traces.rows, query))
    query = parse("frame=64B&metric=mrr")
    yield _often("choices", lambda: traces.choices(query))


def _measure_reading(
    store: Store, ids: list[int], generator: np.random.Generator
) -> Iterator[dict[str, Any]]:
    axis = store.tiles.axis(TESTBED)
    every = range(len(axis.columns))
    window = range(max(len(every) - POINTS, 0), len(every))
    for number in (1, SOME, 10 * SOME):
        some = np.sort(generator.choice(ids, number, replace=False))
        yield _often(f"{number} traces, all commits", partial(store.tiles.values, axis, some, every))
    some = np.sort(generator.choice(ids, SOME, replace=False))
    for scale in (0, 1, 3, 5):
        tile = newest(len(every), scale)
        yield _often(f"{SOME} traces, a tile of scale {scale}", partial(store.tiles.tile, axis, some, tile))
    yield _often("all traces, last 128 commits", lambda: store.tiles.values(axis, ids, window))


def run_of(build: int) -> Run:
    """Return a run of a commit of its own."""
    started = BEGIN + timedelta(days=build)
    return Run(TESTBED, "nightly", build, started, started, {"device": f"{build:011x}c"})


def night(store: Store, traces: Sequence[TraceKey], build: int, generator: np.random.Generator) -> None:
    """Store a result of each trace."""
    values = generator.normal(1e7, 1e5, len(traces)).tolist()
    results = [
        Result(key, "pps", Better.HIGHER, Status.PASS, (value,) * 10, value)
        for key, value in zip(traces, values, strict=True)
    ]
    store.add(run_of(build), results)


@contextmanager
def _random_tiles(traces: int, generator: np.random.Generator) -> Iterator[None]:
    """Make tiles from random values."""

    def values_of(_: Connection, columns: Sequence[TileColumn], ids: Ids) -> Samples:
        values = generator.normal(1e7, 1e5, (len(columns), len(ids)))
        values[:, (ids < 1) | (ids > traces)] = np.nan
        return values

    with (
        mock.patch.object(writer, "values_of", values_of),
        mock.patch.object(writer, "range_of", return_value=(1, traces)),
    ):
        yield


@contextmanager
def _record_tile_times(spent: list[float]) -> Iterator[None]:
    """Record the time for the tiles of a run."""

    def follow(connection: Connection, testbed: str, run_id: int) -> None:
        begin = time.perf_counter()
        writer.follow(connection, testbed, run_id)
        spent.append(time.perf_counter() - begin)

    with mock.patch.object(storing, "follow", follow):
        yield


def _once(name: str, do: Callable[[], object]) -> dict[str, Any]:
    seconds, cpu = _time_call(do)
    return {"name": name, "seconds": seconds, "cpu_s": cpu}


def _often(name: str, do: Callable[[], object]) -> dict[str, Any]:
    do()
    seconds, cpu = zip(*(_time_call(do) for _ in range(REPETITIONS)), strict=True)
    return {"name": name, "seconds": median(seconds), "cpu_s": median(cpu)}


def _time_call(do: Callable[[], object]) -> tuple[float, float]:
    begin, cpu = time.perf_counter(), time.process_time()
    do()
    return time.perf_counter() - begin, time.process_time() - cpu


def table(report: dict[str, Any]) -> str:
    """Return a report as text."""
    size = f", {report['megabytes']} MB on disk" if report["megabytes"] else ""
    lines = [
        f"{report['traces']} traces x {report['commits']} commits, {report['database']}{size}, "
        f"{report['peak_megabytes']} MB of memory at most",
        f"{'':40}{'seconds':>10}{'CPU':>10}",
    ]
    for cell in report["cells"]:
        cpu = "" if cell["cpu_s"] is None else f"{cell['cpu_s']:10.4f}"
        lines.append(f"{cell['name']:40}{cell['seconds']:10.4f}{cpu}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
