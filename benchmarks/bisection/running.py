"""Bisects the histories of cells in several processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import get_context

from benchmarks.bisection.cells import Cell
from benchmarks.bisection.scores import Score, score_history
from benchmarks.bisection.strategies import EQUAL, strategy_named

REPEATS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20)
"""The numbers of measurements per build with which the CSIT strategy may be as reliable."""
_AT_ONCE = 20
"""Histories per task of a process."""
_THREADS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")


@dataclass(frozen=True, slots=True)
class BenchmarkPlan:
    """The histories of each cell to bisect, and the strategies."""

    strategies: tuple[str, ...]
    """The first is the reference of the comparisons."""
    first: int = 0
    histories: int = 300
    seed: int = 0
    processes: int = 1

    @property
    def numbers(self) -> range:
        """The numbers of the histories."""
        return range(self.first, self.first + self.histories)


@dataclass(frozen=True, slots=True)
class Equal:
    """The CSIT strategy, with the repeats that make it as reliable as another one."""

    repeats: int | None
    """Measurements of each build; None: even the most of :data:`REPEATS` is not as reliable."""
    scores: tuple[Score, ...]
    """The scores with these repeats; with the most if ``repeats`` is None."""


@dataclass(frozen=True, slots=True)
class Bisected:
    """A cell, and its results."""

    cell: Cell
    scores: Mapping[str, tuple[Score, ...]]
    """By strategy, in the order of the histories."""
    equal: Equal | None = None


def run(cells: Sequence[Cell], plan: BenchmarkPlan, advance: Callable[[int], object]) -> Iterator[Bisected]:
    """Bisect cells, and yield each as soon as it is ready.

    :param advance: called with the number of finished bisections.
    """
    plain = [name for name in plan.strategies if name != EQUAL]
    with _single_threaded(), ProcessPoolExecutor(plan.processes, get_context("spawn")) as pool:
        for cell in cells:
            scores = {}
            for name in plain:
                scores[name] = _bisect_cell(pool, cell, name, plan, advance)
            equal = None
            if EQUAL in plan.strategies and plain and len(cell.ratios) == 1:
                equal = _equal(pool, cell, scores[plain[0]], plan, advance)
            yield Bisected(cell, scores, equal)


def _bisect_cell(
    pool: ProcessPoolExecutor, cell: Cell, name: str, plan: BenchmarkPlan, advance: Callable[[int], object]
) -> tuple[Score, ...]:
    found: list[Score] = []
    futures: list[Future[list[Score]]] = [
        pool.submit(several, cell, name, plan.seed, plan.numbers[start : start + _AT_ONCE])
        for start in range(0, plan.histories, _AT_ONCE)
    ]
    for future in as_completed(futures):
        found += future.result()
        advance(len(future.result()))
    return tuple(sorted(found, key=lambda score: score.number))


def _equal(
    pool: ProcessPoolExecutor,
    cell: Cell,
    like: Sequence[Score],
    plan: BenchmarkPlan,
    advance: Callable[[int], object],
) -> Equal:
    """Find the fewest repeats with as many right histories as another strategy, less one history."""
    misses = sum(not score.right for score in like) + 1
    futures = [
        pool.submit(until, cell, f"{EQUAL}-{repeats}", plan.seed, plan.numbers, misses) for repeats in REPEATS
    ]
    for repeats, future in zip(REPEATS, futures, strict=True):
        scores = future.result()
        if sum(not score.right for score in scores) <= misses:
            for each in futures:
                each.cancel()
            advance(plan.histories)
            return Equal(repeats, tuple(scores))
    return Equal(None, _bisect_cell(pool, cell, f"{EQUAL}-{REPEATS[-1]}", plan, advance))


def several(cell: Cell, name: str, seed: int, numbers: Sequence[int]) -> list[Score]:
    """Bisect some histories of a cell by one strategy."""
    strategy = strategy_named(name)
    return [score_history(strategy, cell.history(number, seed), number) for number in numbers]


def until(cell: Cell, name: str, seed: int, numbers: Sequence[int], misses: int) -> list[Score]:
    """Bisect some histories like :func:`several`, and stop after more than ``misses`` misses."""
    strategy = strategy_named(name)
    found: list[Score] = []
    for number in numbers:
        found.append(score_history(strategy, cell.history(number, seed), number))
        misses -= not found[-1].right
        if misses < 0:
            break
    return found


@contextmanager
def _single_threaded() -> Iterator[None]:
    """Start processes whose algebra has one thread: the matrices are small, and all cores have a process."""
    before = {name: os.environ.get(name) for name in _THREADS}
    os.environ.update(dict.fromkeys(_THREADS, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
