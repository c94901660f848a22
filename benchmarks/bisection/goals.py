"""What bisections are to reach, and whether they do.

A goal is judged by the worst of the cells that it is about. Shares are taken as they are: of 300 histories
297 have to be right for 99 %, although one that reaches it on average misses it in a third of all runs of
300. The standard errors beside the shares tell what a number is worth.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.bisection.calibration import Calibration
from benchmarks.bisection.figures import Row

_STANDARD_ERRORS = 2.0
_R2, _R4, _R5, _LARGEST = 1.99, 4.01, 4.99, 1e3
_ENOUGH = 100
"""Statements that a calibration is judged by; fewer say too little."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a strategy stands to a goal."""

    goal: str
    figure: float
    """The worst, in the unit of the goal; NaN when nothing was measured that it is about."""
    where: str
    """The cell of the worst figure."""
    missed: tuple[str, ...]
    """Cells that miss it."""
    of: int
    """Cells that it is about."""

    @property
    def reached(self) -> bool:
        """Whether all cells reach it, and there is any."""
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
        """Judge the first strategy of the rows."""
        return worst(self.name, self.limit, [(row.cell, self.figure(row)) for row in rows if self.about(row)])


def worst(goal: str, limit: float, figures: Sequence[tuple[str, float]]) -> Verdict:
    """Find the largest figure, and those beyond the limit; NaN does not count."""
    known = [(name, figure) for name, figure in figures if not math.isnan(figure)]
    if not known:
        return Verdict(goal, math.nan, "", (), 0)
    where, figure = max(known, key=lambda each: each[1])
    missed = tuple(name for name, each in known if each > limit + 1e-9)
    return Verdict(goal, figure, where, missed, len(known))


def _one(row: Row, low: float, high: float = math.inf) -> bool:
    return row.changes == 1 and low <= row.r <= high


GOALS = (
    Goal(
        "one change, r from 2 on: not right in ≤ 1 %",
        0.01,
        lambda row: _one(row, _R2),
        lambda row: 1 - row.figures[0].right.value,
    ),
    Goal(
        "r = 2 to 4: ≤ 0.55 of the runs of documented, repeated until as right",
        0.55,
        lambda row: _one(row, _R2, _R4),
        lambda row: row.ratio,
    ),
    Goal(
        "r from 5 on: ≤ 4 runs more than the fewest possible",
        4.0,
        lambda row: _one(row, _R5, _LARGEST),
        lambda row: row.more,
    ),
    Goal(
        "no change: a culprit named in ≤ 0.5 %",
        0.005,
        lambda row: row.changes == 0,
        lambda row: row.figures[0].wrong.value,
    ),
    Goal(
        "two changes: not both named in ≤ 2 %",
        0.02,
        lambda row: row.changes == 2,  # noqa: PLR2004 - as the goal says
        lambda row: 1 - row.figures[0].complete.value,
    ),
)


def verdicts(rows: Sequence[Row], calibrations: Sequence[Calibration]) -> list[Verdict]:
    """Judge the first strategy of the rows by all goals.

    :param calibrations: of what it named.
    """
    known = [each for each in calibrations if each.count >= _ENOUGH]
    off = [(each.of, abs(each.surplus)) for each in known]
    sure = [(each.of, -each.surplus / each.by_chance) for each in known if each.by_chance]
    return [
        *(goal.judge(rows) for goal in GOALS),
        worst("stated confidence within 2 points of what holds", 0.02, off),
        worst(f"never too sure: by ≤ {_STANDARD_ERRORS:g} standard errors", _STANDARD_ERRORS, sure),
    ]
