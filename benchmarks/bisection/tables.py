"""Prints cells, calibration and goals."""

from __future__ import annotations

import math
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from benchmarks.bisection.calibration import Calibration
from benchmarks.bisection.figures import Figures, Row, Share
from benchmarks.bisection.goals import Verdict

WIDTH = 150
LEGEND = (
    "right: only smallest sets with a change are named, or none if nothing changed; "
    "wrong: commits that changed nothing; complete: all changes; ±: standard errors, in %. "
    "runs: measurements; ratio: of the runs of the first strategy to these. "
    "stated, holds: confidence of what is named, and how often it is true, in %. "
    "sized: intervals of 95 % that contain the true size of the change, in %."
)
_COLUMNS = (
    *("right %", "wrong %", "complete %", "undec.", "runs", "90 %", "builds", "minutes", "ratio"),
    *("stated", "holds", "sized"),
)


def heading() -> str:
    """Return the heading of the cells."""
    return _line("cell", "r", "strategy", _COLUMNS)


def lines(row: Row) -> list[str]:
    """Return the lines of a cell."""
    first, *_ = row.figures
    every = [*row.figures, *([row.equal] if row.equal else [])]
    names = [*(each.strategy for each in row.figures), row.equal_name]
    return [
        _line(
            row.cell if number == 0 else "",
            f"{row.r:.1f}" if number == 0 else "",
            name,
            _figures(each, first),
        )
        for number, (name, each) in enumerate(zip(names, every, strict=False))
    ]


def print_end(
    calibrations: Sequence[Calibration], leading: Sequence[Calibration], goals: Sequence[Verdict]
) -> None:
    """Print the tables after the cells."""
    console = Console()
    console.width = max(console.width, WIDTH)
    console.print(LEGEND, "\n", highlight=False)
    console.print(_calibration("stated confidence of what was named", calibrations))
    console.print(_calibration("probability of the most suspected commits, step by step", leading))
    console.print(_goals(goals))


def _line(cell: str, r: str, strategy: str, values: Sequence[str]) -> str:
    widths = (11, 11, 11, 6, 12, 6, 6, 7, 5, 6, 6, 5)
    cells = " ".join(f"{value:>{width}}" for value, width in zip(values, widths, strict=True))
    return f"{cell:15} {r:>4} {strategy:19} {cells}".rstrip()


def _figures(of: Figures, first: Figures) -> tuple[str, ...]:
    return (
        _share(of.right),
        _share(of.wrong),
        _share(of.complete),
        f"{100 * of.undecided:.1f}",
        f"{of.measurements:.1f} ±{of.measurements_error:.1f}",
        f"{of.measurements_90:.0f}",
        f"{of.builds:.1f}",
        f"{of.minutes:.0f}",
        f"{first.measurements / of.measurements:.2f}",
        *("" if math.isnan(each) else f"{100 * each:.2f}" for each in (of.stated, of.holds.value)),
        "" if math.isnan(of.sized.value) else f"{100 * of.sized.value:.0f}",
    )


def _share(share: Share) -> str:
    return "" if math.isnan(share.value) else f"{100 * share.value:.1f} ±{100 * share.error:.1f}"


def _calibration(title: str, calibrations: Sequence[Calibration]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("of", no_wrap=True)
    for column in ("number", "stated %", "holds %", "more than stated, points"):
        table.add_column(column, justify="right")
    for each in calibrations:
        if each.count:
            table.add_row(
                each.of,
                str(each.count),
                f"{100 * each.stated:.2f}",
                f"{100 * each.holds.value:.2f} ±{100 * each.holds.error:.2f}",
                f"{100 * each.surplus:+.2f}",
            )
    return table


def _goals(verdicts: Sequence[Verdict]) -> Table:
    table = Table(title="goals: the worst of each", title_justify="left")
    for column in ("goal", "", "worst", "where", "missed by"):
        table.add_column(column)
    for each in verdicts:
        state = "[green]reached[/]" if each.reached else "[red]missed[/]" if each.of else "not measured"
        missed = (
            f"{len(each.missed)} of {each.of}: {', '.join(each.missed)}" if each.missed else f"0 of {each.of}"
        )
        table.add_row(each.goal, state, f"{each.figure:.4g}" if each.of else "", each.where, missed)
    return table
