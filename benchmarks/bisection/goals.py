"""The goals of bisections, and whether they are reached.

A goal is evaluated by the worst of its cells. Fractions are used without their errors: of 300 histories
297 have to be right for 99 %, although a strategy that reaches it on average misses it in a third of all runs
of 300. The standard errors next to the fractions show their precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.bisection.calibration import Calibration
from benchmarks.bisection.figures import Row

_R2 = 1.99
_ENOUGH = 100
"""The least number of statements for the evaluation of a calibration."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a strategy for a goal."""

    goal: str
    figure: float
    """The worst, in the unit of the goal; NaN if none of its cells was measured."""
    where: str
    """The cell of the worst figure."""
    missed: tuple[str, ...]
    """Cells that miss it."""
    of: int
    """The number of cells of the goal."""

    @property
    def reached(self) -> bool:
        """Whether the goal has cells, and all reach it."""
        return self.of > 0 and not self.missed


@dataclass(frozen=True, slots=True)
class Goal:
    """A limit on a figure of some cells."""

    name: str
    limit: float
    """The figure is at most this."""
    about: Callable[[Row], bool]
    figure: Callable[[Row], float]

    def judge(self, rows: Sequence[Row]) -> Verdict:
        """Evaluate the first strategy of the rows."""
        return worst(self.name, self.limit, [(row.cell, self.figure(row)) for row in rows if self.about(row)])


def worst(goal: str, limit: float, figures: Sequence[tuple[str, float]]) -> Verdict:
    """Find the largest figure, and those beyond the limit; NaN is ignored."""
    known = [(name, figure) for name, figure in figures if not math.isnan(figure)]
    if not known:
        return Verdict(goal, math.nan, "", (), 0)
    where, figure = max(known, key=lambda each: each[1])
    missed = tuple(name for name, each in known if each > limit + 1e-9)
    return Verdict(goal, figure, where, missed, len(known))


GOALS = (
    Goal(
        "any cell: a commit without a change named in ≤ 0.5 %",
        0.005,
        lambda _: True,
        lambda row: row.figures[0].wrong.value,
    ),
    Goal(
        "one change, r from 2 on: neither right nor undecided in ≤ 1 %",
        0.01,
        lambda row: row.changes == 1 and row.r >= _R2,
        lambda row: 1 - row.figures[0].right.value - row.figures[0].undecided,
    ),
    Goal(
        "three layouts, r from 2 on: not right in ≤ 5 %",
        0.05,
        lambda row: row.cell.startswith("variants"),
        lambda row: 1 - row.figures[0].right.value,
    ),
    Goal(
        "two changes: not both named in ≤ 2 %",
        0.02,
        lambda row: row.changes == 2,  # noqa: PLR2004 - as the goal says
        lambda row: 1 - row.figures[0].complete.value,
    ),
    Goal(
        "any cell: the direction of a change stated wrongly in no history",
        0.0,
        lambda _: True,
        lambda row: row.figures[0].reversed.value,
    ),
    Goal(
        'any cell: "no change above x %" with a change above x % in ≤ 1 %',
        0.01,
        lambda _: True,
        lambda row: row.figures[0].overlooked.value,
    ),
)


def verdicts(rows: Sequence[Row], calibrations: Sequence[Calibration]) -> list[Verdict]:
    """Evaluate the first strategy of the rows by all goals.

    :param calibrations: the calibrations of the commits that it named.
    """
    known = [(each.of, -each.surplus) for each in calibrations if each.count >= _ENOUGH]
    return [
        *(goal.judge(rows) for goal in GOALS),
        worst("what is stated as p holds in at least p - 1 %", 0.01, known),
    ]
