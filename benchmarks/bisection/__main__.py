"""Reliability and cost of bisections: correct results, measurements, builds and minutes.

::

    python -m benchmarks.bisection [--json] [--histories 300 | --full] [--only CELL …]
        [--strategies adaptive documented-5 …] [--seed 0] [--first 0] [--processes N] [--each]
        [--recording FILE PROGRAM]

Compared are the default strategy, the CSIT strategy with every build measured once, five times, and as
often as needed to be as reliable as the first of ``--strategies``; ``git bisect run`` with a threshold; and
git_bayesect from PyPI. All use the same histories, and the same noise when they measure the same commit the
same number of times. A build takes 10 minutes, a measurement of five samples 50 seconds, both simulated. A
prefix of the names of several cells selects all of these; ``adaptive,confidence=0.995`` passes an option to a
strategy.

All cells take more than an hour of two cores; ``--only base-r2 none --histories 40`` less than a minute.
``--recording`` bisects histories without a change, and with changes of -20 to 50 %, under the recorded noise
of a program on a machine; docs/method/histories describes the file.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from benchmarks.bisection import calibration, goals, tables
from benchmarks.bisection.cells import CELLS, Cell, cells_from_recording, cells_named
from benchmarks.bisection.figures import Row
from benchmarks.bisection.running import BenchmarkPlan, Bisected, run
from benchmarks.bisection.strategies import DEFAULT, EQUAL, strategy_named
from benchmarks.output import finite
from perftrend import errors

FULL = 1000


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables, or the same as JSON."""
    options = _parser().parse_args(argv)
    with errors.report_to_stderr() as outcome:
        _bisect(options)
    return outcome.exit_code


def _bisect(options: argparse.Namespace) -> None:
    plan = BenchmarkPlan(
        strategies=tuple(options.strategies),
        first=options.first,
        histories=FULL if options.full else options.histories,
        seed=options.seed,
        processes=options.processes,
    )
    known = (
        cells_from_recording(Path(options.recording[0]), options.recording[1]) if options.recording else CELLS
    )
    cells = _cells(options.only, known)
    if plan.histories < 1 or plan.processes < 1:
        raise errors.UsageError("--histories and --processes are numbers from 1")
    if plan.strategies[0] == EQUAL:
        raise errors.UsageError(f"--strategies: {EQUAL} is compared with the first; name another one first")
    console = Console(stderr=True)
    found: list[Bisected] = []
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("histories", total=len(cells) * len(plan.strategies) * plan.histories)
        if not options.json:
            print(tables.heading())
        for each in run(cells, plan, lambda number: progress.advance(task, number)):
            found.append(each)
            if not options.json:
                print(*tables.lines(Row.of(each)), sep="\n", flush=True)
    rows = [Row.of(each) for each in found]
    first = plan.strategies[0]
    named, leading = calibration.of_named(found, first), calibration.of_leading(found, first)
    verdicts = goals.verdicts(rows, named)
    if options.json:
        report = _report(rows, named, leading, verdicts)
        print(json.dumps(finite({**report, **(_histories(found) if options.each else {})}), indent=1))
    else:
        tables.print_end(named, leading, verdicts)


def _cells(names: Sequence[str], cells: Sequence[Cell]) -> list[Cell]:
    try:
        return cells_named(names, cells)
    except ValueError as error:
        known = [cell.name for cell in cells]
        raise errors.UsageError(f"--only: {error} is unknown{errors.nearest(str(error), known)}") from None


def _report(
    rows: Sequence[Row],
    named: Sequence[calibration.Calibration],
    leading: Sequence[calibration.Calibration],
    verdicts: Sequence[goals.Verdict],
) -> dict[str, Any]:
    return {
        "cells": [{**asdict(row), "ratio": row.ratio, "more": row.more} for row in rows],
        "calibration": [asdict(of) for of in named],
        "leading": [asdict(of) for of in leading],
        "goals": [{**asdict(verdict), "reached": verdict.reached} for verdict in verdicts],
    }


def _histories(found: Sequence[Bisected]) -> dict[str, Any]:
    return {
        "histories": {
            each.cell.name: {name: [asdict(score) for score in of] for name, of in each.scores.items()}
            for each in found
        }
    }


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bisection", description=__doc__.split("\n")[0]
    )
    number = parser.add_mutually_exclusive_group()
    number.add_argument("--histories", type=int, default=300, help="of a cell (default: %(default)s)")
    number.add_argument("--full", action="store_true", help=f"{FULL} of them")
    parser.add_argument("--only", nargs="+", default=[], metavar="CELL", help="names or beginnings of them")
    parser.add_argument("--recording", nargs=2, metavar=("FILE", "PROGRAM"), help="the noise of a machine")
    parser.add_argument("--strategies", nargs="+", type=_strategy, default=[*DEFAULT], metavar="STRATEGY")
    parser.add_argument("--seed", type=int, default=0, help="other histories (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first history of a cell")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, help="default: all cores")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--each", action="store_true", help="with every history, in JSON")
    return parser


def _strategy(name: str) -> str:
    try:
        if name != EQUAL:
            strategy_named(name)
    except (ValueError, TypeError):
        raise argparse.ArgumentTypeError(f"{name!r} is not a strategy") from None
    return name


if __name__ == "__main__":
    sys.exit(main())
