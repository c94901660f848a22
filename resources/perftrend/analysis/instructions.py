"""How many instructions two builds execute, function by function.

Unlike time, the number of instructions of a program hardly depends on what else the machine does. It shows
which functions do more work after a change, and whether more work is the cause at all: a build that is slower
with the same number of instructions waits longer for memory, for the kernel or for other processes.

A program may also execute another number of instructions in each start, such as one that repeats its work
until a time has passed. So each build is counted more than once. Only a difference that is several times as
large as those between the starts of the same build is reported.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from perftrend.text import percent, share

CallPath: TypeAlias = tuple[str, ...]
"""A function, the last one, and those that called it, the outermost first, as far as they are known."""
InstructionCounts: TypeAlias = Mapping[CallPath, int]
"""The instructions that functions execute in one start of a program, without those of functions they call."""

MOST_FUNCTIONS = 3
"""Maximum number of functions in a sentence."""
_CERTAIN = 3.0
"""A difference counts if it is this much larger than the largest one between starts of the same build."""
_SMALLEST = 0.001
"""Smaller relative differences are not distinguished from none: the loader and the environment make some."""
_UNSTEADY = 0.02
"""If starts of the same build differ by more than this ratio, the numbers explain nothing."""
_BY_LAYOUT = 0.05
"""Up to this ratio, the position of code and data in memory may be the reason of a difference in time. Up to
8 % were found in large programs by Mytkowicz, Diwan, Hauswirth and Sweeney, "Producing wrong data without
doing anything obviously wrong!", ASPLOS 2009; small ones had 1.5 %, which a search took for 3 %."""
_COMPUTES = 0.8
"""A command that computes for less than this fraction of its time also waits, which may be the reason."""
_SMALL_PART = 0.1
"""A smaller fraction of the largest difference of a function is not worth a name."""


@dataclass(frozen=True, slots=True)
class FunctionDifference:
    """The difference of one function."""

    function: str
    share: float
    """The difference of its instructions, relative to all instructions before."""


@dataclass(frozen=True, slots=True)
class InstructionDifference:
    """The difference of two builds."""

    relative: float
    """The difference of all instructions together, relative to those before."""
    spread: float
    """The largest relative difference between starts of the same build."""
    functions: tuple[FunctionDifference, ...] = ()
    """Those with a certain difference, the largest first."""
    user_share: float = math.nan
    """The fraction of its time in which the command executes instructions in user space, which are those that
    are counted; NaN: unknown, or not needed. It exceeds 1 if several processes run at once."""
    layouts: int = 1
    """The number of layouts in which both builds were measured."""
    stacks: tuple[InstructionCounts, InstructionCounts] = field(default=({}, {}), hash=False, repr=False)
    """The instructions before and after with all callers; empty if these are not known."""

    @property
    def margin(self) -> float:
        """The largest relative difference that may be none."""
        return max(_CERTAIN * self.spread, _SMALLEST)

    @property
    def is_none(self) -> bool:
        """Whether no difference is certain, neither of all instructions nor of a function."""
        return abs(self.relative) <= self.margin and not self.functions

    def explains_none_of(self, difference: float) -> bool:
        """Return whether both builds certainly execute the same instructions, function by function.

        :param difference: the relative difference in time; the instructions must be known to a third of it.
        """
        return self.is_none and self.margin <= max(abs(difference) / 3, _SMALLEST)

    def may_be_layout(self, difference: float) -> bool:
        """Return whether the position of code and data in memory may be the only reason of a difference.

        That is so if a command that computes all the time executes the same instructions in nearly the same
        time, and the builds were measured in one layout only.

        :param difference: the relative difference in time.
        """
        is_small = abs(difference) <= _BY_LAYOUT and self.layouts == 1
        return is_small and self.user_share >= _COMPUTES and self.explains_none_of(difference)

    def describe(self, before: str, after: str) -> str:
        """Return the difference in one sentence.

        :param before: the name of the earlier build.
        :param after: that of the later one, as the beginning of a sentence.
        """
        if self.spread > _UNSTEADY:
            return (
                f"{after} and {before} cannot be compared by their instructions: starts of the same build "
                f"differ by up to {share(self.spread)}."
            )
        parts = ", ".join(
            f"{each.function} {percent(each.share)}" for each in self.functions[:MOST_FUNCTIONS]
        )
        if abs(self.relative) > self.margin:
            size = f"{share(self.relative)} {'more' if self.relative > 0 else 'fewer'} instructions"
            return f"{after} executes {size} than {before}{f': {parts}' if parts else ''}."
        same = f"{after} and {before} execute the same number of instructions within {share(self.margin)}"
        if parts:
            return f"{same}, but not in the same functions: {parts}."
        return (
            f"{same}, so the program itself does the same work: look at where code and data lie in memory, "
            "at the kernel and at waiting."
        )


def compare_instructions(
    before: Sequence[InstructionCounts], after: Sequence[InstructionCounts]
) -> InstructionDifference:
    """Compare the instructions of two builds.

    :param before: those of each start of the earlier build; at least two starts, each with instructions.
    :param after: those of the later build.
    :raises ValueError: if there are fewer.
    """
    if min(len(before), len(after)) < 2:  # noqa: PLR2004 - one start has no spread
        raise ValueError("at least two starts of each build are needed")
    sides = tuple([_by_function(each) for each in side] for side in (before, after))
    totals = [[each.total() for each in side] for side in sides]
    if not min(map(min, totals)):
        raise ValueError("a start without instructions")
    whole = _average(totals[0])
    spread = max((max(side) - min(side)) / min(side) for side in totals)
    certain = sorted(_certain_functions(*sides, whole=whole), key=lambda each: -abs(each.share))
    least = _SMALL_PART * abs(certain[0].share) if certain else 0.0
    return InstructionDifference(
        relative=_average(totals[1]) / whole - 1,
        spread=spread,
        functions=tuple(each for each in certain if abs(each.share) >= least),
    )


def _by_function(counts: InstructionCounts) -> Counter[str]:
    found: Counter[str] = Counter()
    for path, count in counts.items():
        found[path[-1]] += count
    return found


def _certain_functions(
    before: Sequence[Counter[str]], after: Sequence[Counter[str]], *, whole: float
) -> Iterator[FunctionDifference]:
    names = dict.fromkeys(name for each in (*before, *after) for name in each)
    for name in names:
        sides = [[each[name] for each in side] for side in (before, after)]
        difference = (_average(sides[1]) - _average(sides[0])) / whole
        spread = max(max(side) - min(side) for side in sides) / whole
        if abs(difference) > max(_CERTAIN * spread, _SMALLEST):
            yield FunctionDifference(name, difference)


def _average(values: Sequence[float]) -> float:
    return sum(values) / len(values)
