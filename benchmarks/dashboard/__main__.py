"""Response times of the dashboard's pages, and the effect of a night and of many readers.

::

    python -m benchmarks.dashboard [--size 100000x1000] [--full] [--requests 20] [--json]
    python -m benchmarks.dashboard --plot [--size 100000x1000] [--requests 5] [--json]
    python -m benchmarks.dashboard --readers [--seconds 60] [--think 2] [--named] [--postgresql] [--json]
    python -m benchmarks.dashboard --clusters [--json]

A testbed has a number of traces and commits, rounded up to whole tiles; ``--full`` is a million of 200.
One trace in 50 became 6 % slower 20 commits ago, and an alert searches for that. ``./run dashboard`` serves
everything in its own process.

* By default each page is loaded by one reader, as HTML and as JSON, and rendered again each time: the first
  time, then the median and 95 % of the others; in addition, the median of a cached one. Then a night with a
  result of each trace is stored while it serves.
* ``--plot`` loads plots of many lines with Chromium, without a graphics card: the time of the server, not
  cached, and the times from the navigation until the plot is drawn and until the pointer finds a line in it;
  the first time, and the median of the others, for which the browser has the scripts.
* ``--readers`` lets 200 of them load pages, each another one after some seconds of reading (``--think 0``: at
  once), while nights are stored without a pause, by this process. All begin at the same moment, so that much
  less than a minute measures mostly the beginning.
* ``--clusters`` divides 30,000 and 100,000 traces of 15 commits, with scikit-learn for comparison as a ratio;
  it is ``benchmarks.clustering``.

The store is an SQLite file in a temporary folder; with ``--postgresql`` it is in a server that is started for
it. ``--store`` names a permanent one, a file or a database: the first run fills it in minutes, and the
others reuse it.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from benchmarks import clustering
from benchmarks.dashboard import pages, readers
from benchmarks.dashboard.filling import WATCHED, Nights, look_for_changes
from benchmarks.dashboard.process import serve
from benchmarks.output import grid
from benchmarks.tiles import traces_and_commits
from perftrend.store import Store
from perftrend.store.tiles import POINTS

SIZE = (100_000, 1000)
FULL = (1_000_000, 200)
CLUSTERED = ("30000x15", "100000x15")


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.dashboard", description=__doc__.split("\n", 1)[0])
    add = parser.add_argument
    add("--size", type=traces_and_commits, default=SIZE, metavar="TRACESxCOMMITS")
    add("--full", action="store_true", help="a million traces of 200 commits")
    add("--requests", type=int, default=20, help="how often each page is loaded")
    add("--plot", action="store_true", help="load plots of many lines with Chromium instead")
    add("--readers", action="store_true", help="let many readers load pages while nights are stored")
    add("--count", type=int, default=200, help="how many readers")
    add("--think", type=float, default=2.0, metavar="SECONDS", help="how long a reader looks at a page")
    add("--seconds", type=int, default=60, help="how long the readers read")
    add("--night", type=int, default=10_000, help="results of each night that is stored meanwhile")
    add("--named", action="store_true", help="make each reader another user, named by a proxy")
    add("--store", metavar="PATH", help="a file or a database to reuse; missing data is added")
    add("--postgresql", action="store_true", help="use a PostgreSQL server for the store")
    add("--clusters", action="store_true", help="measure k-means instead")
    add("--json", action="store_true", help="print JSON instead of the tables")
    options = parser.parse_args(argv)
    if options.clusters:
        return clustering.main(["--sizes", *CLUSTERED, *(["--json"] if options.json else [])])
    traces, commits = FULL if options.full else options.size
    report = measure(traces, -(-commits // POINTS) * POINTS, options)
    if options.json:
        print(json.dumps(report, indent=2))
    else:
        show(report)
    return 0


def measure(traces: int, commits: int, options: argparse.Namespace) -> dict[str, Any]:
    """Measure one size."""
    with tempfile.TemporaryDirectory() as name, _place(Path(name), options) as place:
        folder = Path(name)
        begin = time.perf_counter()
        with Store.open(place) as store:
            nights = Nights(store, traces)
            nights.fill(commits)
            report: dict[str, Any] = {
                "traces": traces,
                "commits": commits,
                "database": "postgresql" if place.startswith("postgresql") else "sqlite",
                "fill_s": time.perf_counter() - begin,
            }
            if options.plot:
                # It needs a browser.
                from benchmarks.dashboard import plot  # noqa: PLC0415

                with serve(folder, place, response_cache_bytes=None) as served:
                    report["plots"] = list(plot.measure(served.url, options.requests))
                    report["megabytes"] = served.megabytes()
                return report
            if not options.readers:
                begin = time.perf_counter()
                look_for_changes(store)
                report["look_s"] = time.perf_counter() - begin
                with serve(folder, place, response_cache_bytes=None) as served:
                    report["start_s"] = served.start_s
                    report["pages"] = list(pages.measure(served.url, options.requests))
            with serve(folder, place, **(readers.NAMED if options.named else {})) as served:
                if options.readers:
                    report["readers"] = readers.measure(served, nights, folder, options)
                else:
                    cached = pages.measure(served.url, options.requests)
                    for page, same in zip(report["pages"], cached, strict=True):
                        page["kept_s"] = same["median_s"]
                    begin = time.perf_counter()
                    nights.measure()
                    report["night_s"] = time.perf_counter() - begin
                report["megabytes"] = served.megabytes()
    return report


@contextmanager
def _place(folder: Path, options: argparse.Namespace) -> Iterator[str]:
    if options.store or not options.postgresql:
        yield options.store or str(folder / "store.sqlite")
        return
    if find_spec("psycopg") is None:
        raise SystemExit("--postgresql: psycopg is not installed; install the extra [postgresql]")
    # The tests contain code to start one.
    from tests.integration.servers import postgresql as server  # noqa: PLC0415 - needs psycopg

    with server.running() as running:
        yield running.database()


def show(report: dict[str, Any]) -> None:
    """Print a report as tables."""
    head = f"{report['traces']} traces x {report['commits']} commits, {report['database']}"
    print(f"{head}: filled in {report['fill_s']:.0f} s, {report.get('megabytes', 0)} MB of memory at most")
    if "pages" in report:
        grid(
            "pages",
            ["page", "form", "status", "kB", "first, s", "median, s", "95 %, s", "cached, s"],
            [
                [each["name"], each["form"], str(each["status"]), f"{each['kilobytes']:.0f}",
                 *(f"{each[figure]:.3f}" for figure in ("first_s", "median_s", "p95_s", "kept_s"))]
                for each in report["pages"]
            ],
        )  # fmt: skip
        print(
            f"starts in {report['start_s']:.1f} s; an alert looks at {WATCHED} in {report['look_s']:.1f} s; "
            f"a night of {report['traces']} results is stored in {report['night_s']:.1f} s"
        )
    if "plots" in report:
        grid(
            "plots in Chromium",
            ["plot", "kB", "server, s", "drawn, s", "hover, s", "first drawn, s", "first hover, s"],
            [
                [each["name"], f"{each['kilobytes']:.0f}", f"{each['server_s']:.2f}",
                 *(f"{times[name]:.2f}" for times in (each, each["first"])
                   for name in ("drawn_s", "hover_s"))]
                for each in report["plots"]
            ],
        )  # fmt: skip
    if "readers" in report:
        figures = report["readers"]
        first = ", ".join(f"{name} {seconds:.2f} s" for name, seconds in figures["first_s"].items())
        print(f"just started: {first}")
        print(
            f"{figures['readers']} readers, {figures['think_s']:g} s a page: {figures['requests']} pages in "
            f"{figures['seconds']:.0f} s, median {figures['median_s']:.3f} s, 95 % {figures['p95_s']:.3f} s, "
            f"99 % {figures['p99_s']:.3f} s; {figures['refused']} refused, {figures['broken']} broken, "
            f"{figures['late']} late, {figures['not_ok']} with errors; meanwhile {figures['nights']} nights, "
            f"{figures['night_s']:.1f} s each; {figures['cpu_s']:.0f} s of the CPU, "
            f"{1000 * figures['cpu_s'] / max(figures['requests'], 1):.1f} ms a page; "
            f"load {figures['load']:.1f}"
        )


if __name__ == "__main__":
    sys.exit(main())
