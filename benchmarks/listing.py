"""Requests and time of listing a job with 20,000 builds, compared with python-jenkins.

::

    python -m benchmarks.listing [--builds 20000] [--details 500] [--repeat 3] [--json]

The server is the double of the tests in its own process on this machine, so a request costs almost
nothing, and the times are those of writing and parsing JSON on both sides. Over a network each request
adds a round trip: the value of fewer requests depends on that.

``get_job_info`` with ``fetch_all_builds`` returns numbers and addresses only. Results, parameters and
artifacts then need one ``get_build_info`` for each build; ``--details`` of them are made, and their
time is extrapolated to all builds, which is marked by a ~. The times are the best of the repetitions,
ratios are relative to perftrend, and the memory is the peak of a listing of all builds at once.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any
from unittest import mock

import jenkins  # type: ignore[import-untyped]  # it has no types
import requests

from perftrend.clients.jenkins import Jenkins
from tests.doubles.jenkins import Job, running

JOB = "perftrend-trending-nightly-1n-veth"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure both clients and print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.listing", description=__doc__.split("\n", 1)[0])
    parser.add_argument("--builds", type=int, default=20_000)
    parser.add_argument("--details", type=int, default=500)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(argv)
    details = min(options.details, options.builds)
    with run_double(options.builds) as url:
        rows = {name: measure(way, options.repeat) for name, way in ways(url, details).items()}
    report = {
        "builds": options.builds,
        "details": details,
        "ways": combine_steps(rows, options.builds, details),
    }
    print(json.dumps(report, indent=2) if options.json else table(report))
    return 0


@contextmanager
def run_double(builds: int) -> Iterator[str]:
    """Run the double in its own process; yield its address."""
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=serve, args=(builds, theirs), daemon=True)
    process.start()
    try:
        yield ours.recv()
    finally:
        ours.send("end")
        process.join()


def serve(builds: int, caller: Connection) -> None:
    """Run the double until the caller sends a message."""
    with running() as double:
        double.jobs[JOB] = Job(list(range(builds, 0, -1)))
        caller.send(double.url)
        caller.recv()


def ways(url: str, details: int) -> dict[str, Callable[[], int]]:
    """Return the functions to measure: each returns the number of builds that it fetched."""
    theirs = jenkins.Jenkins(url)

    def info_of_some() -> int:
        numbers = [build["number"] for build in theirs.get_job_info(JOB)["builds"]]
        return sum(
            "result" in theirs.get_build_info(JOB, numbers[at % len(numbers)]) for at in range(details)
        )

    return {
        "perftrend, all of each build": lambda: sum(1 for _ in Jenkins(url).builds(JOB)),
        "get_job_info, numbers only": lambda: len(theirs.get_job_info(JOB, fetch_all_builds=True)["builds"]),
        "get_build_info of some": info_of_some,
    }


def measure(way: Callable[[], int], repeat: int) -> dict[str, float]:
    """Return requests, best time and peak memory of one function."""
    times = []
    for _ in range(repeat):
        started = time.perf_counter()
        way()
        times.append(time.perf_counter() - started)
    tracemalloc.start()
    send = requests.Session.send
    with mock.patch.object(requests.Session, "send", autospec=True, side_effect=send) as sent:
        builds = way()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return {"requests": sent.call_count, "elapsed_s": min(times), "peak_mb": peak / 1e6, "builds": builds}


def combine_steps(
    rows: dict[str, dict[str, float]], builds: int, details: int
) -> dict[str, dict[str, float]]:
    """Combine the two steps of python-jenkins, the second extrapolated to all builds."""
    ours, numbers, some = rows.values()
    share = builds / details
    both = {
        "requests": numbers["requests"] + builds,
        "elapsed_s": numbers["elapsed_s"] + some["elapsed_s"] * share,
        "peak_mb": numbers["peak_mb"],
        "builds": builds,
        "extrapolated": 1,
    }
    names = list(rows)
    return {names[0]: ours, "python-jenkins, all of each build": both, names[1]: numbers}


def table(report: dict[str, Any]) -> str:
    """Format the report as a table."""
    ours = next(iter(report["ways"].values()))
    lines = [
        f"a job with {report['builds']} builds; {report['details']} of them requested one by one",
        f"{'way':36}{'requests':>10}{'time, s':>10}{'ratio':>9}{'memory, MB':>12}{'builds':>8}",
    ]
    for name, row in report["ways"].items():
        seconds = f"{'~' if row.get('extrapolated') else ''}{row['elapsed_s']:.2f}"
        ratio = row["elapsed_s"] / ours["elapsed_s"]
        cells = f"{row['requests']:10.0f}{seconds:>10}{ratio:9.2f}{row['peak_mb']:12.1f}{row['builds']:8.0f}"
        lines.append(f"{name:36}{cells}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
