"""Quality of the comparison of two builds: false alarms, detected differences, and rounds.

::

    python -m benchmarks.comparing [--json] [--patches 1000] [--maximum-rounds 20] [--only 1n-veth drift …]
        [--differences 0 -0.03 …] [--samples 5] [--recordings FILE:PROGRAM …]

Simulated patches with a known difference are compared block after block, from six rounds on, until the
verdict is settled. The same noise is used for the CSIT method, with the five samples of one start and
with five starts, their averages or all samples; and for the tests of Welch and of Mann and Whitney: once,
after as many rounds as perftrend needed, and after every round until they show a difference.

``1n-veth`` is the embedded testbed, whose restarts move the result by 2 %. Other cells, and differences other
than 0 and -3 %, are measured with a fifth of the patches. The numbers do not depend on the speed of the
machine. By default it takes less than three minutes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from rich.console import Console
from rich.progress import Progress

from benchmarks.comparing import methods
from benchmarks.comparing.methods import Ending
from benchmarks.comparing.patches import CELLS, Cell, Patch, cell_from_recording, patch
from benchmarks.output import grid, per_1000, share

TESTBED = "1n-veth"
DIFFERENCES = (0.0, -0.01, -0.02, -0.03, -0.05, -0.1, 0.03)
MAIN_DIFFERENCES = (0.0, -0.03)
OWN, OWN_WITH_HISTORY = "perftrend", "perftrend, noise known"


@dataclass(frozen=True, slots=True)
class Row:
    """The results of a method for the patches of a cell with one true difference."""

    cell: str
    difference: float
    method: str
    patches: int
    lower: float
    """Fraction of the patches that were reported as lower; a false alarm if they are not."""
    higher: float
    undecided: float
    mean_rounds: float
    median_rounds: float
    coverage: float | None
    """Fraction of the intervals that contain the true difference; None without intervals."""


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate the chosen cells and print the results of the methods."""
    options = _parser().parse_args(argv)
    cells = [CELLS[name] for name in options.only] + [
        cell_from_recording(each) for each in options.recordings
    ]
    plan = list(_plan(cells, options.patches, options.differences))
    console = Console(stderr=True)
    rows: list[Row] = []
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("patches", total=sum(count for _, _, count in plan))
        for cell, difference, count in plan:
            rows += _rows(cell, difference, count, options, lambda: progress.advance(task))
    if options.json:
        print(json.dumps({"rows": [asdict(row) for row in rows]}, indent=1))
    else:
        _print(rows)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.comparing", description=__doc__.split("\n")[0]
    )
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    parser.add_argument("--patches", type=int, default=1000, help="patches of a row (default: %(default)s)")
    parser.add_argument("--maximum-rounds", type=int, default=20, help="default: %(default)s")
    parser.add_argument(
        "--differences",
        nargs="+",
        type=float,
        metavar="RATIO",
        help="true ones, such as 0 -0.03; default: all",
    )
    parser.add_argument("--samples", type=int, default=5, help="of each start (default: %(default)s)")
    parser.add_argument("--only", nargs="*", choices=list(CELLS), default=list(CELLS), help="default: all")
    parser.add_argument(
        "--recordings", nargs="+", metavar="FILE:PROGRAM", default=[], help="cells that replay a machine"
    )
    return parser


def _plan(
    cells: Sequence[Cell], patches: int, differences: Sequence[float] | None
) -> Iterator[tuple[Cell, float, int]]:
    fewer = max(patches // 5, 1)
    for cell in cells:
        for difference in differences or (DIFFERENCES if cell.name == TESTBED else MAIN_DIFFERENCES):
            is_main = cell.name == TESTBED and difference in MAIN_DIFFERENCES
            yield cell, difference, patches if is_main else fewer


def _rows(
    cell: Cell, difference: float, count: int, options: argparse.Namespace, advance: Callable[[], None]
) -> list[Row]:
    found: dict[str, list[Ending]] = {}
    for number in range(count):
        rounds = max(options.maximum_rounds, methods.DOCUMENTED_ROUNDS)
        simulated = patch(cell, difference, number=number, rounds=rounds, samples=options.samples)
        for method, ending in _endings(cell, simulated, number, options.maximum_rounds):
            found.setdefault(method, []).append(ending)
        advance()
    return [_row(cell.name, difference, method, endings) for method, endings in found.items()]


def _endings(cell: Cell, simulated: Patch, number: int, maximum_rounds: int) -> Iterator[tuple[str, Ending]]:
    own = methods.sequential(maximum_rounds)(simulated)
    yield OWN, own
    if cell.name == TESTBED and simulated.difference in MAIN_DIFFERENCES:
        known = methods.history_of(cell, number)
        yield OWN_WITH_HISTORY, methods.sequential(maximum_rounds, known_deviation=known)(simulated)
    yield "documented, one start", methods.csit_one_start(simulated)
    yield "documented, 5 starts", methods.csit_round_averages(simulated)
    yield "documented, 5 starts, all samples", methods.csit_all_samples(simulated)
    for name, test in (("Welch", methods.welch), ("Mann-Whitney", methods.mann_whitney)):
        yield f"{name}, own rounds", methods.apply_test(test, simulated, own.rounds)
        yield f"{name}, each round", methods.apply_test_each_round(test, maximum_rounds)(simulated)
    strict = methods.apply_test_each_round(methods.welch, maximum_rounds, level=methods.STRICT_LEVEL)
    yield "Welch at 0.001, each round", strict(simulated)


def _row(cell: str, difference: float, method: str, endings: Sequence[Ending]) -> Row:
    rounds = [each.rounds for each in endings]
    held = [each.held for each in endings if each.held is not None]
    return Row(
        cell=cell,
        difference=difference,
        method=method,
        patches=len(endings),
        lower=sum(each.shown < 0 for each in endings) / len(endings),
        higher=sum(each.shown > 0 for each in endings) / len(endings),
        undecided=sum(each.undecided for each in endings) / len(endings),
        mean_rounds=statistics.fmean(rounds),
        median_rounds=statistics.median(rounds),
        coverage=sum(held) / len(held) if held else None,
    )


def _print(rows: Sequence[Row]) -> None:
    for cell in dict.fromkeys(row.cell for row in rows):
        for difference in dict.fromkeys(row.difference for row in rows if row.cell == cell):
            chosen = [row for row in rows if row.cell == cell and row.difference == difference]
            _table(f"{cell}: {chosen[0].patches} patches, true difference {difference:+.0%}", chosen)
    _print_summary(rows)


def _table(title: str, rows: Sequence[Row]) -> None:
    nothing = rows[0].difference == 0.0
    shown = "false alarms" if nothing else "shown"
    heads = ("method", shown, "lower", "higher", "undecided", "rounds, mean", "median", "interval holds")
    lines = (
        (
            row.method,
            per_1000(row.lower + row.higher) if nothing else share(_right(row)),
            share(row.lower),
            share(row.higher),
            "" if row.coverage is None else share(row.undecided),
            f"{row.mean_rounds:.1f}",
            f"{row.median_rounds:g}",
            "" if row.coverage is None else share(row.coverage),
        )
        for row in rows
    )
    grid(title, heads, lines)


def _print_summary(rows: Sequence[Row]) -> None:
    """Print for each method the detection rate of -3 %, and the false alarms without a difference."""
    found = {(row.cell, row.method, row.difference): row for row in rows}
    pairs = (
        (cell, method, quiet, found[cell, method, -0.03])
        for (cell, method, difference), quiet in found.items()
        if difference == 0.0 and (cell, method, -0.03) in found
    )
    lines = (
        (
            cell,
            method,
            per_1000(quiet.lower + quiet.higher),
            share(slower.lower),
            f"{quiet.mean_rounds:.1f}",
            f"{slower.mean_rounds:.1f}",
        )
        for cell, method, quiet, slower in pairs
    )
    heads = ("cell", "method", "false alarms", "-3 % shown", "rounds at 0", "rounds at -3 %")
    grid("all cells", heads, lines)


def _right(row: Row) -> float:
    return row.lower if row.difference < 0 else row.higher


if __name__ == "__main__":
    sys.exit(main())
