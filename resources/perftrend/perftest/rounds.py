"""Rounds: the parent and the patch measured alternately, until the verdict is settled.

In each round both builds are measured once. Odd rounds begin with the parent and even ones with the
patch: what drifts slowly, such as the machine's temperature, then moves both alike.

Measuring is injected and may be a look into the archive: a job that was killed and is started again goes
through the rounds that it has in no time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from perftrend.model import Measured


class Side(StrEnum):
    """One of the two builds. The archive's folders have these names.

    Source: "Bisecting", section Basic operation.
    """

    PARENT = "parent"
    CURRENT = "current"
    """The patch."""


Measure: TypeAlias = Callable[[Side, int], Measured]
"""Measures a build in a round, counted from 1."""


@dataclass(frozen=True, slots=True)
class Round:
    """Both builds, measured one after the other."""

    parent: Measured
    current: Measured

    def __getitem__(self, side: Side) -> Measured:
        return self.parent if side is Side.PARENT else self.current


def order(number: int) -> tuple[Side, Side]:
    """Return which build a round measures first, and which then.

    :param number: of the round, from 1.
    """
    first = (Side.PARENT, Side.CURRENT)
    return first if number % 2 else first[::-1]


def measured_rounds(measure: Measure, maximum: int) -> Iterator[Sequence[Round]]:
    """Yield all rounds up to now after each one, as long as the caller takes them.

    :param maximum: rounds after which it ends.
    """
    done: list[Round] = []
    for number in range(1, maximum + 1):
        measured = {side: measure(side, number) for side in order(number)}
        done.append(Round(measured[Side.PARENT], measured[Side.CURRENT]))
        yield tuple(done)
