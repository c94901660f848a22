"""Time and correctness of searches for NDR and PDR on simulated devices.

::

    python -m benchmarks.search [--json | --plot FILE] [--devices 200] [--kinds hard soft …]
        [--final-duration 10 30 60] [--early-end | --no-early-end] [--width 0.005]
        [--strategies mdr …] [--no-bisections]

Compared are all strategies of perftrend, MLRsearch from PyPI, and bisections. A method's time is
that of its trials. It is shown relative to the unavoidable time of any search on that device
(``benchmarks.search.unavoidable``) and to that of MLRsearch on the same devices. A method that
returns a valid interval without the true rate is wrong; one that reports that it found none is not.
Each lower bound is then measured eight times more, to show whether it passed by luck.

Critical rates are spread log-uniformly over nearly two decades. Nothing is measured in real time,
so the load of the machine does not matter, and the same command prints the same table.

With ``--plot`` one search is drawn into an HTML file instead: that of the first device of the first
given kind, final duration and early end, by the first of ``--strategies``, or by the
default one.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import groupby, product
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from benchmarks.output import finite
from benchmarks.search.cells import Cell, Figures, Measured, first_device, measure
from benchmarks.search.goals import GOALS, Verdict
from benchmarks.search.methods import (
    BISECTIONS,
    MLRSEARCH,
    MLRSEARCH_STRICT,
    perftrend_method,
    perftrend_search,
    simulated_parameters,
)
from perftrend import errors
from perftrend.measure.search.mdr import DEFAULT_STRATEGY, STRATEGIES
from perftrend.measure.simulated_loss import KINDS
from perftrend.report import search_graph

_COLUMNS = (
    "mean s", "p95", "worst", "trials", "/unavoidable", "p95", "worst", "free", "/MLR", "p95", "dearer",
    "holds NDR", "PDR", "again NDR", "PDR", "flagged", "width",
)  # fmt: skip
_LEGEND = (
    "/unavoidable: per device, mean, p95, worst; free: mean where NDR's upper bound costs nothing. "
    f"/MLR: of the means and of the p95, relative to {MLRSEARCH}; dearer: share of devices. "
    "holds: share of intervals that hold the truth, flagged ones left out. "
    "again: share of further trials at the lower bound that pass. width: mean, %."
)
_TABLE_WIDTH = 180


def main(argv: Sequence[str] | None = None) -> int:
    """Run the chosen cells, and print them and the goals; or draw a search of the first."""
    options = _parser().parse_args(argv)
    with errors.report_to_stderr() as outcome:
        cells = _cells(options)
        if options.plot:
            strategy, *_ = options.strategies or [DEFAULT_STRATEGY]
            print(draw(cells[0], strategy, options.plot))
            return outcome.exit_code
        console = Console(stderr=True)
        with Progress(console=console, disable=not console.is_terminal) as progress:
            task = progress.add_task("cells", total=len(cells))
            measured = measure(cells, lambda ready: progress.advance(task, ready))
        if options.json:
            print(json.dumps(finite(_report(measured)), indent=1))
        else:
            _print(measured)
    return outcome.exit_code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.search", description=__doc__.split("\n")[0])
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument("--json", action="store_true", help="print JSON instead of tables")
    instead.add_argument("--plot", type=Path, metavar="FILE", help="draw one search as HTML instead")
    parser.add_argument("--devices", type=int, default=200, help="devices in a cell (default: %(default)s)")
    parser.add_argument("--kinds", nargs="+", default=[*KINDS], metavar="KIND", help="default: all")
    parser.add_argument("--final-duration", nargs="+", type=float, default=[10.0, 30.0, 60.0], metavar="S")
    parser.add_argument(
        "--early-end", action=argparse.BooleanOptionalAction, help="whether trials end early; default: both"
    )
    parser.add_argument("--width", type=float, default=0.005, help="relative width (default: %(default)s)")
    parser.add_argument("--strategies", nargs="+", metavar="NAME", help="default: all")
    parser.add_argument("--no-bisections", dest="bisections", action="store_false", help="leave them out")
    return parser


def _cells(options: argparse.Namespace) -> list[Cell]:
    for kind in options.kinds:
        if kind not in KINDS:
            raise errors.UsageError(f"--kinds: {kind!r} is unknown{errors.nearest(kind, KINDS)}")
    strategies = options.strategies or STRATEGIES
    for strategy in strategies:
        if strategy not in STRATEGIES:
            raise errors.UsageError(
                f"--strategies: {strategy!r} is unknown{errors.nearest(strategy, STRATEGIES)}"
            )
    if options.devices < 1:
        raise errors.UsageError(f"--devices is {options.devices}; give at least 1")
    names = (
        *map(perftrend_method, strategies),
        *(MLRSEARCH, MLRSEARCH_STRICT),
        *(BISECTIONS if options.bisections else ()),
    )
    early = (True, False) if options.early_end is None else (options.early_end,)
    return [
        Cell(kind, final_s, early_end, options.width, options.devices, names)
        for early_end, final_s, kind in product(early, options.final_duration, options.kinds)
    ]


def draw(cell: Cell, strategy: str, file: Path) -> str:
    """Draw the search of the first device of a cell, and return a description of the graph."""
    parameters = simulated_parameters(cell.final_s, cell.width)
    found = perftrend_search(first_device(cell), parameters, strategy)
    title = f"{strategy} search of a simulated device: {cell.kind}, final trials of {cell.final_s:g} s"
    search_graph.write(found.phases, found.loss_ratios, file, title=title)
    return search_graph.sentence(found.phases, found.loss_ratios)


def _strategies(measured: Sequence[Measured]) -> list[str]:
    ours = set(map(perftrend_method, STRATEGIES))
    return [name for name in measured[0][0].methods if name in ours]


def _verdicts(measured: Sequence[Measured], method: str) -> list[Verdict]:
    return [goal.judge(measured, method) for goal in GOALS]


def _report(measured: Sequence[Measured]) -> dict[str, Any]:
    return {
        "cells": [
            {**asdict(cell), "methods": {name: asdict(figures) for name, figures in of.items()}}
            for cell, of in measured
        ],
        "goals": {
            method: [
                {**asdict(verdict), "reached": verdict.reached} for verdict in _verdicts(measured, method)
            ]
            for method in _strategies(measured)
        },
    }


def _print(measured: Sequence[Measured]) -> None:
    console = Console()
    console.width = max(console.width, _TABLE_WIDTH)
    for (early, final_s), cells in groupby(measured, lambda of: (of[0].early, of[0].final_s)):
        console.print(_cell_table(early, final_s, cells))
    console.print(_LEGEND, "\n")
    console.print(_goal_table(measured))


def _cell_table(early: bool, final_s: float, cells: Iterable[Measured]) -> Table:
    ending = "trials end early" if early else "trials run to their end"
    table = Table(title=f"final trials of {final_s:g} s, {ending}", title_justify="left")
    table.add_column("device", no_wrap=True)
    table.add_column("method", no_wrap=True)
    for column in _COLUMNS:
        table.add_column(column, justify="right")
    for cell, of in cells:
        for number, (name, figures) in enumerate(of.items()):
            table.add_row("" if number else cell.kind, name, *_row(figures))
        table.add_section()
    return table


def _row(figures: Figures) -> list[str]:
    return [
        f"{figures.mean_s:.1f}",
        f"{figures.p95_s:.1f}",
        f"{figures.worst_s:.1f}",
        f"{figures.trials:.1f}",
        f"{figures.ratio_mean:.2f}",
        f"{figures.ratio_p95:.2f}",
        f"{figures.ratio_worst:.2f}",
        f"{figures.free_upper_ratio_mean:.2f}",
        f"{figures.peer_mean:.2f}",
        f"{figures.peer_p95:.2f}",
        f"{figures.peer_dearer:.0%}",
        *("" if math.isnan(held) else f"{held:.1%}" for held in figures.held),
        *("" if math.isnan(again) else f"{again:.1%}" for again in figures.again),
        f"{figures.flagged:.1%}" if figures.flagged else "",
        f"{100.0 * figures.width_mean:.3f}",
    ]


def _goal_table(measured: Sequence[Measured]) -> Table:
    strategies = _strategies(measured)
    table = Table(title="goals: the worst cell of each", title_justify="left")
    table.add_column("goal", no_wrap=True)
    for strategy in strategies:
        table.add_column(strategy)
    for of_goal in zip(*(_verdicts(measured, strategy) for strategy in strategies), strict=True):
        table.add_row(of_goal[0].goal, *map(_verdict, of_goal))
    return table


def _verdict(verdict: Verdict) -> str:
    if not verdict.of:
        return "not measured"
    figure = f"{verdict.figure:.2f} ({verdict.where})"
    if verdict.reached:
        return f"[green]reached[/]: {figure}"
    return f"[red]missed[/]: {figure}, {verdict.missed} of {verdict.of} cells"


if __name__ == "__main__":
    sys.exit(main())
