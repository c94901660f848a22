"""Detection of changes: precision, recall, and runs until a small drop is reported.

::

    python -m benchmarks.power [--json] [--only accuracy delay outliers noises suspicion shape intervals]
        [--series 40] [--size 180] [--traces 100] [--quiet-runs 150] [--new-runs 150]
        [--detectors "ruptures linear" …]

Compared are perftrend's partition, plain and with outliers separated, its sequential detector,
jumpavg, ruptures, Apache Otava and asv on the same synthetic traces, every cell printed. The numbers
do not depend on the speed of the machine. asv and Otava take milliseconds per run: without them it
takes minutes, else an hour.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console
from rich.progress import Progress

from benchmarks.output import finite, grid
from benchmarks.power import accuracy, curve, noises, shapes
from benchmarks.power.delay import NOISES, Alarms, Cell
from benchmarks.power.detectors import SEQUENTIAL, Detector, detectors, versions
from benchmarks.power.series import SCENARIOS

PARTS = ("accuracy", "delay", "outliers", "noises", "suspicion", "shape", "intervals")
_WIDTH = 170
_COLUMNS = 8


def main(argv: Sequence[str] | None = None) -> int:
    """Measure the chosen parts and print them."""
    options = _parser().parse_args(argv)
    known = {name: each for name, each in detectors().items() if name in (options.detectors or [name])}
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("cells", total=_steps(options, known))
        report = _measure(options, known, lambda: progress.advance(task))
    if options.json:
        print(json.dumps(finite(_plain(report)), indent=1))
    else:
        _print(report)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.power", description=__doc__.split("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=[*PARTS], help="default: all")
    parser.add_argument("--series", type=int, default=40, help="traces of a scenario (default: %(default)s)")
    parser.add_argument("--size", type=int, default=180, help="runs of such a trace (default: %(default)s)")
    parser.add_argument("--traces", type=int, default=100, help="traces of a cell (default: %(default)s)")
    parser.add_argument("--quiet-runs", type=int, default=150, help="runs without a change, after 60")
    parser.add_argument("--new-runs", type=int, default=150, help="runs after a drop")
    parser.add_argument("--detectors", nargs="+", metavar="NAME", help="default: all that are installed")
    return parser


def _peers(known: dict[str, Detector]) -> dict[str, Detector]:
    """Return the peers of the sequential detector; the partition replaces jumpavg."""
    return {name: each for name, each in known.items() if name not in {SEQUENTIAL, "jumpavg"}}


def _steps(options: argparse.Namespace, known: dict[str, Detector]) -> int:
    detectors_of_a_cell = len(_peers(known)) + 1
    steps = {
        "accuracy": len(SCENARIOS) * len(known),
        "delay": len(NOISES) * detectors_of_a_cell,
        "outliers": detectors_of_a_cell,
    }
    return sum(count for part, count in steps.items() if part in options.only)


def _measure(
    options: argparse.Namespace, known: dict[str, Detector], advance: Callable[[], None]
) -> dict[str, Any]:
    sizes = curve.Sizes(options.traces, options.quiet_runs, options.new_runs)
    report: dict[str, Any] = {"versions": versions(), "new_runs": options.new_runs}
    if "accuracy" in options.only:
        report["accuracy"] = accuracy.measure(
            known, series=options.series, size=options.size, advance=advance
        )
    if "delay" in options.only:
        report["delay"] = curve.clean_sweep(_peers(known), sizes, advance)
    if "outliers" in options.only:
        report["outliers"] = curve.outlier_sweep(_peers(known), sizes, advance)
    if "noises" in options.only:
        report["noises"] = noises.count_false_alarms(3 * options.traces, options.quiet_runs)
    if "suspicion" in options.only:
        report["suspicion"] = curve.suspicions(20 * options.traces)
    if "shape" in options.only:
        report["shape"] = shapes.namings(2 * options.traces)
    if "intervals" in options.only:
        report["intervals"] = shapes.intervals(5 * options.traces)
    return report


def _plain(report: dict[str, Any]) -> dict[str, Any]:
    """Convert the measurements to JSON values; infinite and NaN numbers are not converted yet."""

    def cell(each: Cell) -> dict[str, Any]:
        return {
            "detector": each.detector,
            "noise": each.noise,
            "drop": each.drop,
            "median_runs": each.median,
            "share_within_15": each.share_within(15),
            "traces": len(each.runs),
        }

    plain: dict[str, Any] = {}
    for name, part in report.items():
        if isinstance(part, tuple):
            alarms, cells = part
            plain[name] = {
                "alarms": [asdict(each) | {"per_1000": each.per_1000} for each in alarms],
                "cells": [cell(each) for each in cells],
            }
        elif name == "noises":
            plain[name] = {noise: asdict(each) | {"per_1000": each.per_1000} for noise, each in part.items()}
        elif name == "accuracy":
            plain[name] = [
                asdict(each) | {"precision": each.precision, "recall": each.recall, "f1": each.f1}
                for each in part
            ]
        else:
            plain[name] = [asdict(each) for each in part] if isinstance(part, list) else part
    return plain


def _print(report: dict[str, Any]) -> None:
    print(", ".join(f"{name} {version}" for name, version in report["versions"].items()))
    if "accuracy" in report:
        _print_accuracy(report["accuracy"])
    for name, part in report.items():
        if isinstance(part, tuple):
            alarms, cells = part
            _print_alarms(name, alarms)
            _print_cells(name, cells)
            _print_comparisons(name, alarms, cells, report["new_runs"])
    if "noises" in report:
        counts = (
            (
                noise,
                f"{each.per_1000:.2f}",
                *map(str, (each.regressions, each.progressions, each.exposure, each.before)),
            )
            for noise, each in report["noises"].items()
        )
        headings = ("noise", "per 1,000", "regressions", "progressions", "quiet runs", "left out")
        _table("first false alarms of the sequential detector", headings, counts)
    if "suspicion" in report:
        rows = (
            (each.noise, f"{each.drop:.0%}", f"{each.suspected:.2%}", f"{each.changed:.2%}")
            for each in report["suspicion"]
        )
        _table("one new run", ("noise", "lower by", "suspected", "changed"), rows)
    if "shape" in report:
        courses = (
            (each.course, f"{each.median_runs:.0f}", *(f"{share:.0%}" for share in each.called_drift))
            for each in report["shape"]
        )
        heads = (f"called a drift {later} runs later" for later in shapes.LATER)
        _table("steps and drifts, in sigmas", ("course", "seen after, median", *heads), courses)
    if "intervals" in report:
        widths = (
            (f"{each.step:g}", f"{each.place_held:.0%}", f"{each.place_runs:.0f}", f"{each.size_held:.0%}")
            for each in report["intervals"]
        )
        columns = ("step in sigmas", "place held", "median width in runs", "size held")
        _table("intervals of 95 %", columns, widths)


def _print_accuracy(found: list[accuracy.Accuracy]) -> None:
    names = list(dict.fromkeys(each.detector for each in found))
    by_scenario = {
        scenario: {each.detector: each for each in found if each.scenario == scenario}
        for scenario in dict.fromkeys(each.scenario for each in found)
    }
    rows = (
        (
            scenario,
            *(f"{cells[name].f1:.3f} {cells[name].precision:.2f}/{cells[name].recall:.2f}" for name in names),
        )
        for scenario, cells in by_scenario.items()
    )
    _table("F1 precision/recall", ("scenario", *names), rows)


def _print_alarms(part: str, alarms: list[Alarms]) -> None:
    rows = (
        (each.detector, f"{each.noise:.1%}", f"{each.per_1000:.2f}", str(each.alarms), str(each.exposure))
        for each in alarms
    )
    _table(f"{part}: false alarms", ("detector", "noise", "per 1,000", "alarms", "quiet runs"), rows)


def _print_cells(part: str, cells: list[Cell]) -> None:
    names = list(dict.fromkeys(each.detector for each in cells))
    found = {(each.detector, each.noise, each.drop): each for each in cells}
    pairs = list(dict.fromkeys((each.noise, each.drop) for each in cells))
    for start in range(0, len(names), _COLUMNS):
        chosen = names[start : start + _COLUMNS]
        rows = (
            (
                f"{drop:.1%} at {noise:.1%}",
                *(
                    f"{_runs(cell.median)} {cell.share_within(15):.2f}"
                    for cell in (found[name, noise, drop] for name in chosen)
                ),
            )
            for noise, drop in pairs
        )
        heads = (name.replace("perftrend ", "") for name in chosen)
        _table(f"{part}: median of new runs until reported, share within 15", ("cell", *heads), rows)


def _print_comparisons(part: str, alarms: list[Alarms], cells: list[Cell], new_runs: int) -> None:
    found = curve.comparisons(alarms, cells, new_runs)
    rows = (
        (
            f"{each.drop:.1%} at {each.noise:.1%}",
            each.peer,
            f"{each.peer_alarms:.2f}",
            f"{_runs(each.peer_runs)} ({each.peer_mean:.1f})",
            f"{each.own_alarms:.2f}",
            f"{_runs(each.own_runs)} ({each.own_mean:.1f})",
            each.verdict,
        )
        for each in found
    )
    heads = ("cell", "peer", "alarms", "median (mean)", "own alarms", "own median (mean)", "own runs are")
    _table(f"{part}: at no more false alarms than the peer", heads, rows)
    for peer in dict.fromkeys(each.peer for each in found):
        verdicts = [each.verdict for each in found if each.peer == peer]
        kinds = ("fewer", "equal", "more", "unmatched")
        print(f"{peer}:", ", ".join(f"{verdicts.count(kind)} {kind}" for kind in kinds))


def _runs(median: float) -> str:
    return f"{median:.0f}" if math.isfinite(median) else "never"


def _table(title: str, heads: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    grid(title, heads, rows, width=_WIDTH)


if __name__ == "__main__":
    sys.exit(main())
