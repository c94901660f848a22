"""Rounds: the parent and the patch measured in random order, until the verdict is settled.

In each round both builds are measured once. The rounds form blocks; within a block all orders of its
measurements have the same probability, so that noise does not appear as a difference: see
:mod:`perftrend.analysis.comparison.randomization`.

The measure function is injected and may read results from the archive: a job that was killed and is started
again repeats the finished rounds in no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from perftrend.analysis.comparison import PARENT, Design
from perftrend.model import BuildMeasurement


class BuildSide(StrEnum):
    """One of the two builds. The archive's folders have these names.

    Source: "Bisecting", section Basic operation.
    """

    PARENT = "parent"
    CURRENT = "current"
    """The patch."""


Measure: TypeAlias = Callable[[BuildSide, int], BuildMeasurement]
"""Measures a build in a round, counted from 1."""


@dataclass(frozen=True, slots=True)
class Round:
    """Both builds, each measured once."""

    parent: BuildMeasurement
    current: BuildMeasurement

    def __getitem__(self, side: BuildSide) -> BuildMeasurement:
        return self.parent if side is BuildSide.PARENT else self.current


def measure_rounds(measure: Measure, design: Design, *, seed: str) -> Iterator[Sequence[Round]]:
    """Yield all rounds up to now after each block, until the caller stops.

    :param seed: what distinguishes this comparison from others; the same one repeats the order.
    """
    done: dict[BuildSide, list[BuildMeasurement]] = {side: [] for side in BuildSide}
    for block in range(len(design.blocks)):
        for build in design.order(seed, block):
            side = BuildSide.PARENT if build == PARENT else BuildSide.CURRENT
            done[side].append(measure(side, len(done[side]) + 1))
        yield tuple(
            Round(*both) for both in zip(done[BuildSide.PARENT], done[BuildSide.CURRENT], strict=True)
        )
