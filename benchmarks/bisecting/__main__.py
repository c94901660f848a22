"""How often bisections are right, and what they take: measurements, builds and minutes.

::

    python -m benchmarks.bisecting [--histories 6] [--cells base-r2 none …] [--strategies adaptive …]
        [--confidence 0.99] [--first 0] [--json]

Compared are the adaptive strategy, the documented one with every build measured once, or as often as
the number after it says (``documented-5``), and ``git bisect run`` with a threshold. All see the same
histories and, for the same commit measured as often, the same noise. A build takes 10 minutes, a
measurement of five samples 50 seconds. With 6 histories of each of the usual cells it takes one or two
minutes; ``--cells all`` takes all cells.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.progress import Progress

from benchmarks.bisecting.bisections import Score, bisected, mean
from benchmarks.bisecting.histories import CELLS, Cell, Simulated
from benchmarks.bisecting.peers import Threshold
from perftrend.bisect import Adaptive, Documented, Strategy

USUAL = (
    "base-r2",
    "base-r3",
    "base-r5",
    "walk-r2",
    "outliers-r2",
    "broken-r2",
    "merges-r4",
    "layout-r4",
    "none",
    "two-opposite",
    "tests-one",
)
STRATEGIES = ("adaptive", "documented-1", "documented-5", "documented-14", "threshold-5")


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table, or the same as JSON."""
    options = _parser().parse_args(argv)
    names = [cell.name for cell in CELLS] if options.cells == ["all"] else options.cells
    cells = [cell for cell in CELLS if cell.name in names]
    console = Console(stderr=True)
    rows = []
    with Progress(console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("histories", total=len(cells) * len(options.strategies) * options.histories)
        if not options.json:
            print(_heading())
        for cell in cells:
            for row in _measured(cell, options, lambda: progress.advance(task)):
                rows.append(row)
                if not options.json:
                    print(_line(row), flush=True)
    if options.json:
        print(json.dumps(rows, indent=1))
    return 0


def strategy_named(name: str, confidence: float) -> Strategy:
    """Return what is compared under a name.

    :raises ValueError: if there is none of that name.
    """
    kind, _, repeats = name.partition("-")
    if name == "adaptive":
        return Adaptive(confidence=confidence)
    if kind == "documented":
        return Documented(repeats=int(repeats))
    if kind == "threshold":
        return Threshold(int(repeats))
    raise ValueError(name)


def summary(cell: str, strategy: str, scores: Sequence[Score]) -> dict[str, Any]:
    """Sum up bisections of one cell by one strategy; shares from 0 to 1."""
    stated = [score for score in scores if not math.isnan(score.confidence)]
    return {
        "cell": cell,
        "strategy": strategy,
        "histories": len(scores),
        "right": mean([score.right for score in scores]),
        "wrong": mean([score.wrong for score in scores]),
        "complete": mean([score.complete for score in scores]),
        "measurements": mean([score.measurements for score in scores]),
        "builds": mean([score.builds for score in scores]),
        "minutes": mean([score.minutes for score in scores]),
        "stated": mean([score.confidence for score in stated]) if stated else None,
        "of those right": mean([score.right for score in stated]) if stated else None,
    }


def _measured(cell: Cell, options: argparse.Namespace, advance: Any) -> Iterator[dict[str, Any]]:  # noqa: ANN401
    first: dict[str, Any] | None = None
    for name in options.strategies:
        scores = []
        for seed in range(options.first, options.first + options.histories):
            scores.append(bisected(strategy_named(name, options.confidence), Simulated(cell, seed)))
            advance()
        row = summary(cell.name, name, scores)
        first = first or row
        row["ratio"] = row["measurements"] / first["measurements"]
        yield row


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.bisecting", description=__doc__.split("\n")[0]
    )
    known = [cell.name for cell in CELLS]
    parser.add_argument("--histories", type=int, default=6, help="histories of a cell (default: %(default)s)")
    parser.add_argument("--first", type=int, default=0, help="number of the first of them")
    parser.add_argument("--cells", nargs="+", choices=[*known, "all"], default=[*USUAL], metavar="CELL")
    parser.add_argument("--strategies", nargs="+", type=_strategy, default=[*STRATEGIES], metavar="STRATEGY")
    parser.add_argument("--confidence", type=float, default=0.99, help="when the adaptive strategy stops")
    parser.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _strategy(name: str) -> str:
    strategy_named(name, 0.99)
    return name


def _heading() -> str:
    return (
        f"{'cell':15} {'strategy':14} {'right':>6} {'wrong':>6} {'all':>6} {'runs':>6} {'builds':>6} "
        f"{'minutes':>7} {'ratio':>6} {'stated':>7}"
    )


def _line(row: dict[str, Any]) -> str:
    stated = "" if row["stated"] is None else f"{100 * row['stated']:7.2f}"
    return (
        f"{row['cell']:15} {row['strategy']:14} {100 * row['right']:6.1f} {100 * row['wrong']:6.1f} "
        f"{100 * row['complete']:6.1f} {row['measurements']:6.1f} {row['builds']:6.1f} {row['minutes']:7.0f} "
        f"{row['ratio']:6.2f} {stated}"
    )


if __name__ == "__main__":
    sys.exit(main())
