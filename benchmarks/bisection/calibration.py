"""Calibration: whether results with a stated confidence of 99 % are true in 99 of 100 cases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.bisection.cells import Cell
from benchmarks.bisection.figures import Share, mean
from benchmarks.bisection.running import Bisected
from benchmarks.bisection.scores import Stated

BINS = (0.0, 0.2, 0.4, 0.6, 0.8, 0.9, 0.95, 0.98, 0.99, 1.0)
"""Bins of the probability of the most suspected commits, before the end."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The stated confidence of some commits, and how many of them are culprits."""

    of: str
    count: int
    stated: float
    """The mean; NaN without statements."""
    holds: Share

    @classmethod
    def by(cls, name: str, stated: Iterable[Stated]) -> Calibration:
        """Return the calibration of some statements."""
        listed = list(stated)
        return cls(
            name,
            len(listed),
            mean(each for each, _ in listed),
            Share.of([holds for _, holds in listed]),
        )

    @property
    def surplus(self) -> float:
        """The fraction of true statements less the stated one; negative: it was overconfident."""
        return self.holds.value - self.stated


def of_named(found: Sequence[Bisected], strategy: str) -> list[Calibration]:
    """Return the calibration of the confidence of culprits: of all of them, and by kinds of cells."""
    kinds: tuple[tuple[str, Callable[[Cell], bool]], ...] = (
        ("all", lambda _: True),
        ("r < 2", lambda cell: cell.r < _R2),
        ("r = 2, no drift", lambda cell: _small(cell) and not cell.model.drifts),
        ("r = 2, drift", lambda cell: _small(cell) and bool(cell.model.drifts)),
        ("r = 3 to 4", lambda cell: len(cell.ratios) == 1 and _SMALL <= cell.r < _LARGE),
        ("r from 5 on", lambda cell: len(cell.ratios) == 1 and cell.r >= _LARGE),
        ("several tests", lambda cell: len(cell.model.tests) > 1),
        ("one change", lambda cell: len(cell.ratios) == 1),
        ("two changes", lambda cell: len(cell.ratios) == 2),  # noqa: PLR2004 - as its name says
        ("no change", lambda cell: not cell.ratios),
    )
    return [
        Calibration.by(
            name,
            (
                each
                for bisected in found
                if about(bisected.cell)
                for score in bisected.scores[strategy]
                for each in score.named
            ),
        )
        for name, about in kinds
    ]


def of_leading(found: Sequence[Bisected], strategy: str) -> list[Calibration]:
    """Return the calibration of the most suspected commits at each step with one change, by probability."""
    stated = [
        each
        for bisected in found
        if len(bisected.cell.ratios) == 1
        for score in bisected.scores[strategy]
        for each in score.leading
    ]
    return [
        Calibration.by(
            f"{100 * low:g} to {100 * high:g} %", (each for each in stated if low <= each[0] < high)
        )
        for low, high in pairwise(BINS)
    ]


_R2, _SMALL, _LARGE = 1.999, 2.9, 5.0


def _small(cell: Cell) -> bool:
    return len(cell.ratios) == 1 and _R2 <= cell.r < _SMALL
