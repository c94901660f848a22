"""How the work of a night grows with the number of traces, and what a result costs.

::

    python -m benchmarks.scale [--traces 250 1000] [--runs 180] [--only evaluation files] [--json]

All values are simulated (``perftrend.analysis.families.nights``): noise of 0.5 to 3 % (Student's t of 4
degrees of freedom), and 0.5 % that all traces of a run share.

* ``evaluation``: seconds for one evaluation of the newest run with the default settings, in one process and
  in one on each core, and for the changes that families of traces share. The exponent of the growth is that
  of the smallest and the largest number of traces.
* ``files``: the results of the last 30 runs are added to a store in SQLite, exported as Parquet files, and
  imported into another store. Results in a second, and bytes of a result.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.output import finite, grid
from perftrend.analysis import evaluate_all
from perftrend.analysis.families import find_family_changes
from perftrend.analysis.families.nights import simulate
from perftrend.execution.workers import EvaluationWorkers
from perftrend.model import Better, Result, Run, Samples, Series, Status, TraceKey
from perftrend.store import Store, parquet

PARTS = ("evaluation", "files")
TESTBED = "2n-clx"
_BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
_STORED_RUNS = 30


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.scale", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--traces", type=int, nargs="+", default=[250, 1000], help="numbers of traces")
    parser.add_argument("--runs", type=int, default=180, help="runs of each trace")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=PARTS, help="parts to measure")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    options = parser.parse_args(argv)
    report: dict[str, Any] = {"cores": len(os.sched_getaffinity(0))}
    if "evaluation" in options.only:
        rows = [measure_evaluation(count, options.runs) for count in sorted(options.traces)]
        report["evaluation"] = rows
        report["exponent"] = exponent_of(rows[0], rows[-1])
    if "files" in options.only:
        report["files"] = [measure_files(count, options.runs) for count in sorted(options.traces)]
    if options.json:
        print(json.dumps(finite(report), indent=2))
    else:
        _print(report)
    return 0


def measure_evaluation(traces: int, runs: int) -> dict[str, float]:
    """Return the seconds of one evaluation of all traces."""
    values, parameters = simulate(np.random.default_rng(1), traces=traces, runs=runs)
    series = made_series(values, parameters)
    newest = series[0].runs[-1]
    # What is loaded once does not count.
    evaluate_all(series[:1], run=newest)
    alone_s = _seconds(lambda: evaluate_all(series, run=newest))
    cores = len(os.sched_getaffinity(0))
    with EvaluationWorkers(cores) as workers:
        all_s = _seconds(lambda: evaluate_all(series, run=newest, mapped=workers.map))
    return {
        "traces": traces,
        "one_process_s": alone_s,
        "all_cores_s": all_s,
        "families_s": _seconds(lambda: find_family_changes(values, parameters)),
    }


def exponent_of(smallest: Mapping[str, float], largest: Mapping[str, float]) -> float:
    """Return the exponent of the growth of the time of one process; NaN if there is one number of traces."""
    if smallest["traces"] == largest["traces"]:
        return math.nan
    longer = largest["one_process_s"] / smallest["one_process_s"]
    return math.log(longer) / math.log(largest["traces"] / smallest["traces"])


def measure_files(traces: int, runs: int) -> dict[str, float]:
    """Return the rates and the sizes of a store and of its Parquet files."""
    values, parameters = simulate(np.random.default_rng(1), traces=traces, runs=runs)
    series = made_series(values[-_STORED_RUNS:], parameters)
    entered = [(run, [one.results[number] for one in series]) for number, run in enumerate(series[0].runs)]
    count = traces * len(entered)
    with tempfile.TemporaryDirectory() as name:
        place, other, folder = Path(name, "store.sqlite"), Path(name, "other.sqlite"), Path(name, "files")

        def add() -> None:
            with Store.open(place) as store:
                for run, results in entered:
                    store.add(run, results)

        return {
            "traces": traces,
            "results": count,
            "add_per_s": count / _seconds(add),
            "export_per_s": count / _seconds(lambda: parquet.export_folder(place, folder)),
            "import_per_s": count / _seconds(lambda: parquet.import_folder(folder, other)),
            "store_bytes": place.stat().st_size / count,
            "parquet_bytes": sum(each.stat().st_size for each in folder.rglob("*.parquet")) / count,
        }


def made_series(values: Samples, parameters: Sequence[Mapping[str, str]]) -> list[Series]:
    """Return the series of simulated values.

    :param values: shape (runs, traces).
    """
    runs = tuple(
        Run(TESTBED, "nightly", build + 1, start, start + timedelta(hours=1))
        for build, start in enumerate(_BEGIN + timedelta(days=day) for day in range(len(values)))
    )
    series = []
    for own, named in zip(values.T, parameters, strict=True):
        key = TraceKey.of(testbed=TESTBED, **named)
        results = [Result(key, "pps", Better.HIGHER, Status.PASS, (x,), x) for x in own.tolist()]
        series.append(Series(key, "pps", Better.HIGHER, runs, own.copy(), tuple(results)))
    return series


def _seconds(call: Any) -> float:  # noqa: ANN401 - anything without arguments
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def _print(report: Mapping[str, Any]) -> None:
    if rows := report.get("evaluation"):
        grid(
            "evaluation of a run",
            ["traces", "one process, s", f"{report['cores']} processes, s", "ratio", "families, s"],
            [
                [f"{each['traces']:,}", f"{each['one_process_s']:.1f}", f"{each['all_cores_s']:.1f}",
                 f"{each['one_process_s'] / each['all_cores_s']:.2f}", f"{each['families_s']:.2f}"]
                for each in rows
            ],
        )  # fmt: skip
        print(f"exponent of the growth with the number of traces: {report['exponent']:.2f}")
    if rows := report.get("files"):
        grid(
            "store and Parquet files",
            ["traces", "added, results/s", "exported", "imported", "bytes of a result, store", "Parquet"],
            [
                [f"{each['traces']:,}", f"{each['add_per_s']:,.0f}", f"{each['export_per_s']:,.0f}",
                 f"{each['import_per_s']:,.0f}", f"{each['store_bytes']:.0f}", f"{each['parquet_bytes']:.0f}"]
                for each in rows
            ],
        )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
