"""Statistics of the bisections of a cell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.bisection.cells import Cell
from benchmarks.bisection.running import REPEATS, Bisected
from benchmarks.bisection.scores import Score


@dataclass(frozen=True, slots=True)
class Share:
    """A fraction of histories."""

    value: float
    error: float
    """Its standard error, with one history of each kind added, so that 0 of 300 has one, too."""

    @classmethod
    def of(cls, found: Sequence[bool]) -> Share:
        """Return the fraction of true values; NaN if there are none."""
        count, yes = len(found), sum(found)
        if not count:
            return cls(math.nan, math.nan)
        near = (yes + 1) / (count + 2)
        return cls(yes / count, math.sqrt(near * (1 - near) / (count + 2)))


@dataclass(frozen=True, slots=True)
class Figures:
    """The results of one strategy in one cell."""

    strategy: str
    histories: int
    right: Share
    wrong: Share
    complete: Share
    undecided: float
    """Fraction of undecided histories."""
    no_difference: float
    measurements: float
    measurements_error: float
    measurements_90: float
    """Nine of ten histories needed at most this number."""
    builds: float
    minutes: float
    stated: float
    """Mean confidence of the named commits; NaN if none was stated."""
    holds: Share
    """Fraction of them that contain a change."""
    sized: Share
    """Fraction of the stated intervals of sizes, of 95 %, that contain the true one."""
    reversed: Share
    """Fraction of histories in which the direction of a change was stated wrongly."""
    overlooked: Share
    """Fraction of histories with a change that ended as "no change above x %" with an x below it."""

    @classmethod
    def of(cls, strategy: str, scores: Sequence[Score]) -> Figures:
        """Return the figures of at least one bisection."""
        measurements = np.array([score.measurements for score in scores], np.float64)
        named = [each for score in scores for each in score.named]
        return cls(
            strategy=strategy,
            histories=len(scores),
            right=Share.of([score.right for score in scores]),
            wrong=Share.of([score.wrong for score in scores]),
            complete=Share.of([score.complete for score in scores]),
            undecided=mean(score.kind == "undecided" for score in scores),
            no_difference=mean(score.kind == "no difference shown" for score in scores),
            measurements=float(measurements.mean()),
            measurements_error=float(measurements.std() / math.sqrt(measurements.size)),
            measurements_90=float(np.percentile(measurements, 90)),
            builds=mean(score.builds for score in scores),
            minutes=mean(score.minutes for score in scores),
            stated=mean(confidence for confidence, _ in named),
            holds=Share.of([holds for _, holds in named]),
            sized=Share.of([each for score in scores for each in score.sizes]),
            reversed=Share.of([score.reversed for score in scores]),
            overlooked=Share.of([score.overlooked for score in scores]),
        )


@dataclass(frozen=True, slots=True)
class Row:
    """A cell and its figures."""

    cell: str
    r: float
    percent: float
    changes: int
    figures: tuple[Figures, ...]
    """By strategy; the reference of the comparisons is first."""
    fewest: float
    """The least number of measurements of any strategy: old, new, and each halving, once."""
    equal_repeats: int | None
    """Of the CSIT strategy that is as reliable as the first one, see :class:`.running.Equal`."""
    equal: Figures | None
    """None if it was not searched for."""

    @classmethod
    def of(cls, found: Bisected) -> Row:
        """Return the row of a cell."""
        equal = found.equal
        return cls(
            cell=found.cell.name,
            r=found.cell.r,
            percent=found.cell.percent,
            changes=len(found.cell.ratios),
            figures=tuple(Figures.of(name, scores) for name, scores in found.scores.items()),
            fewest=_fewest(found.cell),
            equal_repeats=equal.repeats if equal else None,
            equal=Figures.of("documented", equal.scores) if equal else None,
        )

    @property
    def ratio(self) -> float:
        """Measurements of the first strategy relative to the CSIT one that is as reliable.

        If none is as reliable, relative to the one with the most repeats; NaN if it was not searched for.
        """
        return self.figures[0].measurements / self.equal.measurements if self.equal else math.nan

    @property
    def more(self) -> float:
        """Measurements beyond the fewest possible."""
        return self.figures[0].measurements - self.fewest

    @property
    def equal_name(self) -> str:
        """The name of the CSIT strategy with its number of measurements per build."""
        return (
            f"documented-{self.equal_repeats}" if self.equal_repeats else f"documented-{REPEATS[-1]}, worse"
        )


def mean(values: Iterable[float]) -> float:
    """Return the average; NaN without values."""
    listed = list(values)
    return math.fsum(listed) / len(listed) if listed else math.nan


def _fewest(cell: Cell, sample: int = 10) -> float:
    """Return 2 + log2 of the number of distinguishable sets of commits, by the first histories."""
    if not cell.model.broken:
        return 2 + math.log2(cell.model.size)
    sizes = [
        len({history.smallest_set(commit) for commit in history.range.history.commits})
        for history in map(cell.history, range(sample))
    ]
    return 2 + mean(math.log2(size) for size in sizes)
