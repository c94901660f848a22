"""The goals of perftrend's searches, and whether they are reached.

A goal is judged by the worst of its cells. If chance decides whether an
interval contains the true rate, the fraction of those that do is compared with that of MLRsearch in
standard errors of their difference. A full run makes more than a hundred such comparisons, so a
cell may be worse by three of them: with 200 devices each, by 15 % if the fraction is one half.
All cells in which trials end early together may be worse by two: about 1 %.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from benchmarks.search.cells import DETERMINISTIC, Cell, Figures, Measured
from benchmarks.search.methods import MLRSEARCH

MISLEADING = ("short-optimistic", "throttling", "short-pessimistic", "warm-up-once")
"""The kinds whose short trials do not show the result of long ones."""

LOSING = ("loss-floor", "exponential")
"""The deterministic kinds that lose at every rate, so that a search may report that there is no NDR."""

_STANDARD_ERRORS = 3.0
_STANDARD_ERRORS_TOGETHER = 2.0


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of one method for one goal."""

    goal: str
    figure: float
    """The worst; NaN if none of its cells was measured."""
    where: str
    """The cell of the worst figure."""
    missed: int
    of: int
    """The cells that miss the goal, and all its cells."""

    @property
    def reached(self) -> bool:
        """Whether the goal has cells, and all reach it."""
        return self.of > 0 and self.missed == 0


@dataclass(frozen=True, slots=True)
class Goal:
    """A limit on a figure of some cells."""

    name: str
    limit: float
    about: Callable[[Cell], bool]
    figure: Callable[[Cell, Figures, Figures], float]
    """A function of a cell, the method and MLRsearch; at most the limit. NaN: it does not apply."""

    def judge(self, measured: Sequence[Measured], method: str) -> Verdict:
        """Judge a method by all cells of the goal."""
        figures = [
            (self.figure(cell, of[method], of[MLRSEARCH]), cell) for cell, of in measured if self.about(cell)
        ]
        figures = [(figure, cell) for figure, cell in figures if not math.isnan(figure)]
        if not figures:
            return Verdict(self.name, math.nan, "", 0, 0)
        worst, cell = max(figures, key=lambda figure: figure[0])
        missed = sum(figure > self.limit + 1e-9 for figure, _ in figures)
        return Verdict(self.name, worst, place(cell), missed, len(figures))


@dataclass(frozen=True, slots=True)
class Together:
    """A limit on a figure of all cells together, in standard errors."""

    name: str
    limit: float
    about: Callable[[Cell], bool]
    differences: Callable[[Figures, Figures], Iterable[tuple[float, float]]]
    """A function of the method and MLRsearch: how much less often it is right, with the standard error."""

    def judge(self, measured: Sequence[Measured], method: str) -> Verdict:
        """Judge a method by the sum over all cells."""
        found = [
            difference
            for cell, of in measured
            if self.about(cell)
            for difference in self.differences(of[method], of[MLRSEARCH])
        ]
        if not found:
            return Verdict(self.name, math.nan, "", 0, 0)
        error = math.sqrt(math.fsum(error * error for _, error in found))
        figure = math.fsum(less for less, _ in found) / error if error else 0.0
        return Verdict(self.name, figure, "all cells", int(figure > self.limit), 1)


def place(cell: Cell) -> str:
    """Return the name of a cell."""
    return f"{cell.kind}, {cell.final_s:g} s" + ("" if cell.early else ", to the end")


def _early(*kinds: str) -> Callable[[Cell], bool]:
    return lambda cell: cell.early and (not kinds or cell.kind in kinds)


def _by_chance(cell: Cell) -> bool:
    return cell.kind not in DETERMINISTIC


def _wrong(_: Cell, figures: Figures, __: Figures) -> float:
    return 1.0 - min((held for held in figures.held if not math.isnan(held)), default=1.0)


def _less_held(figures: Figures, peer: Figures) -> list[tuple[float, float]]:
    """Return how much less often the truth is contained than by MLRsearch, with the standard error."""
    found = []
    for ours, theirs, n, m in zip(figures.held, peer.held, figures.counted, peer.counted, strict=True):
        if n and m:  # a flagged interval is not a wrong result
            both = (ours * n + theirs * m) / (n + m)
            found.append((theirs - ours, math.sqrt(both * (1.0 - both) * (1.0 / n + 1.0 / m))))
    return found


def _less_often(_: Cell, figures: Figures, peer: Figures) -> float:
    """Return the difference to MLRsearch in containing the truth, in standard errors, at worst."""
    return max((less / error for less, error in _less_held(figures, peer) if error), default=0.0)


def _passes_less_often(_: Cell, figures: Figures, peer: Figures) -> float:
    """Return by how many standard errors NDR's lower bound passes less often again than MLRsearch's."""
    error = math.hypot(figures.again_error[0], peer.again_error[0])
    return (peer.again[0] - figures.again[0]) / error if error else 0.0


def _against_both(name: str, limit: float, about: Callable[[Cell], bool]) -> tuple[Goal, Goal]:
    return (
        Goal(f"{name} of MLRsearch", limit, about, lambda _, figures, __: figures.peer_mean),
        Goal(f"{name} of MLRsearch, exceed 0", limit, about, lambda _, figures, __: figures.strict_mean),
    )


GOALS: tuple[Goal | Together, ...] = (
    Goal(
        "hard, soft, gentle: ≤ 1.15 of unavoidable",
        1.15,
        _early("hard", "soft", "gentle"),
        lambda _, figures, __: figures.ratio_mean,
    ),
    *_against_both("hard: ≤ 0.85", 0.85, _early("hard")),
    *_against_both("soft, gentle, jitter: ≤ 0.70", 0.70, _early("soft", "gentle", "jitter")),
    Goal("p95 ≤ that of MLRsearch", 1.0, _early(), lambda _, figures, __: figures.peer_p95),
    Goal("p95 ≤ that of MLRsearch, exceed 0", 1.0, _early(), lambda _, figures, __: figures.strict_p95),
    Goal("deterministic devices: truth missed by none", 0.0, lambda cell: cell.kind in DETERMINISTIC, _wrong),
    Goal(
        "deterministic devices that need not lose: none flagged",
        0.0,
        lambda cell: cell.kind in DETERMINISTIC and cell.kind not in LOSING,
        lambda _, figures, __: figures.flagged,
    ),
    Goal(
        f"others, each cell: held as often as MLRsearch, ≤ {_STANDARD_ERRORS:g} s.e. less",
        _STANDARD_ERRORS,
        _by_chance,
        _less_often,
    ),
    Together(
        f"others, all together: the same, ≤ {_STANDARD_ERRORS_TOGETHER:g} s.e. less",
        _STANDARD_ERRORS_TOGETHER,
        # With and without early end the noise is the same, so one of them contains all information.
        lambda cell: cell.early and _by_chance(cell),
        _less_held,
    ),
    Goal(
        f"bursts, stalls: NDR's lower bound passes again as often, ≤ {_STANDARD_ERRORS_TOGETHER:g} s.e. less",
        _STANDARD_ERRORS_TOGETHER,
        _early("bursty", "stalls"),
        _passes_less_often,
    ),
    Goal(
        "pauses, stalls: none flagged",
        0.0,
        lambda cell: cell.kind == "stalls" or cell.kind.startswith("pauses"),
        lambda _, figures, __: figures.flagged,
    ),
    *_against_both("short trials mislead: ≤ 1.20", 1.2, _early(*MISLEADING)),
    *_against_both("trials run to their end: ≤ 1", 1.0, lambda cell: not cell.early),
)
"""The speeds are those of the means, unless stated otherwise."""
