"""The strategy of CSIT: git's order of halving, and the three-way rule of description length.

Old and new are built and measured, then the commits that ``git bisect`` chooses. Each middle build
becomes the new old or the new new end, according to :func:`decide`. A commit that does
not build is skipped. The strategy always names a commit, even if old and new hardly differ.

The three-way rule decides the side of a middle build. Three builds in the order of history, E (early), M
(middle) and L (late), were measured. Their samples are grouped in three ways, (E+M, L), (E, M+L) and (E, M,
L), and the way with the shortest description wins. If M joins a side, it becomes that end of the range. If it
stays apart, it becomes the end that leaves the larger relative difference of averages between the new ends.
Bits are counted for each test, with one maximum over all its samples, and summed over the tests.

The result does not depend on which direction is better: a relative difference is relative to the larger
of both averages, so that a rate and its inverse, a time, give the same one. The direction only names the
change, see :meth:`BuildPair.direction`.

A test without a value in a build counts as zeros there, as many as the most that another build has:
forwarding nothing is a change, too. Samples that are not finite are ignored, and so are tests whose
samples are all zero. This module does no input or output.

Source: "Bisecting", sections Basic operation, Console output and Temporary specifics; the last one names
jumpavg 0.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from perftrend.analysis.description import NEWER, OLDER, Floats, Formula, formula_named
from perftrend.bisect.state import BisectOutcome, BisectState, Culprit, Effect, MeasureStep, OutcomeKind
from perftrend.model import Better, Direction, Group

Side: TypeAlias = Literal["early", "late"]
Grouping: TypeAlias = Literal["early", "late", "apart"]
TestSamples: TypeAlias = Mapping[str, Sequence[float]]
"""Samples by the name of the test."""

_WAYS: tuple[Grouping, ...] = ("early", "late", "apart")


@dataclass(frozen=True, slots=True)
class CsitHalving:
    """The strategy of the CSIT document.

    :param formula: the formula of the description length.
    :param repeats: measurements of every build; the document makes one.
    """

    formula: str = OLDER
    repeats: int = 1

    @property
    def name(self) -> str:
        """The name in the settings."""
        return "documented"

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters."""
        return asdict(self)

    def next(self, state: BisectState) -> MeasureStep | BisectOutcome:
        """Apply the rule to all measurements, and return the first missing one or the outcome."""
        old, new = state.range.old, state.history.new
        for end, name in ((old, "old"), (new, "new")):
            if end in state.broken:
                return BisectOutcome(
                    OutcomeKind.NOT_BUILT, f"the {name} commit {end} does not build: {state.broken[end]}"
                )
            if self._lacks(state, end):
                return MeasureStep(end, f"the {name} end of the range")
        if not state.compared:
            return BisectOutcome(OutcomeKind.UNDECIDED, "no test was measured at both ends of the range")
        if not any(samples for end in (old, new) for samples in state.samples(end).values()):
            return BisectOutcome(OutcomeKind.UNDECIDED, "no test has a value at either end of the range")
        good, bad = [old], new
        while True:
            halving = state.history.next_commit(good=good, bad=bad, skipped=state.broken)
            middle = halving.commit
            if middle is None:
                return self._culprit_outcome(state, good[-1], bad, halving.suspects)
            if self._lacks(state, middle):
                return MeasureStep(middle, f"halves what is between {good[-1]} and {bad}")
            builds = (state.samples(commit) for commit in (good[-1], middle, bad))
            if decide(*builds, formula=self.formula).replaces == "early":
                good.append(middle)
            else:
                bad = middle

    def _lacks(self, state: BisectState, commit: str) -> bool:
        return state.times_measured(commit) < self.repeats

    def _culprit_outcome(
        self, state: BisectState, early: str, late: str, suspects: tuple[str, ...]
    ) -> BisectOutcome:
        before, after = state.samples(early), state.samples(late)
        effects = {}
        for test in dict.fromkeys([*before, *after]):
            pair = compare(before.get(test, ()), after.get(test, ()), formula=self.formula)
            if pair is not None:
                effects[test] = _effect(pair, fails=(not before.get(test), not after.get(test)))
        culprit = Culprit(suspects, effects=effects)
        hidden = "; commits among them do not build" if len(suspects) > 1 else ""
        return BisectOutcome(
            OutcomeKind.FOUND, f"no commit is left between {early} and {late}{hidden}", (culprit,)
        )


def _effect(pair: BuildPair, *, fails: tuple[bool, bool]) -> Effect:
    means = [math.nan if failed else group.mean for group, failed in zip(pair.apart, fails, strict=True)]
    return Effect(means[0], means[1], math.nan if any(fails) else pair.difference)


@dataclass(frozen=True, slots=True)
class GroupingWeights:
    """The three groupings of one test."""

    bits: Mapping[Grouping, float]
    groups: Mapping[Grouping, tuple[Group, ...]]
    """Their positions refer to the concatenated samples of early, middle and late."""
    early_difference: float
    """Relative difference of the averages of early and middle, at least 0."""
    late_difference: float
    """The same for middle and late."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The side of the middle build."""

    grouping: Grouping
    """The end that the middle build joins, or ``apart``."""
    replaces: Side
    """The end that the middle build becomes."""
    bits: Mapping[Grouping, float]
    """Of each grouping, summed over the tests."""
    tests: Mapping[str, GroupingWeights]


@dataclass(frozen=True, slots=True)
class BuildPair:
    """One test in two builds, described as one group and as two."""

    together: Group
    apart: tuple[Group, Group]
    """The later group's bits include the effect of the earlier one's average."""

    @property
    def saved_bits(self) -> float:
        """Bits that two groups save compared with one; not positive if nothing changed."""
        return self.together.bits - sum(group.bits for group in self.apart)

    @property
    def difference(self) -> float:
        """Late minus early average, relative to the early one; NaN if that is zero."""
        early, late = (group.mean for group in self.apart)
        return (late - early) / early if early else math.nan

    def direction(self, better: Better) -> Direction | None:
        """Return the direction of the change; None if one group is shorter.

        Nothing else depends on whether higher or lower is better.
        """
        early, late = (group.mean for group in self.apart)
        if self.saved_bits <= 0 or early == late:
            return None
        good = (late > early) == (better is Better.HIGHER)
        return Direction.PROGRESSION if good else Direction.REGRESSION


def decide(
    early: TestSamples,
    middle: TestSamples,
    late: TestSamples,
    *,
    formula: str = NEWER,
    unit: float | None = None,
) -> Decision:
    """Decide which end of the range a middle build becomes.

    Of groupings with equally many bits the first of early, late and apart wins; if both differences are
    equal, middle becomes the early end.

    :param early: samples of the early build by test, any unit, any number.
    :param middle: samples of the middle build.
    :param late: samples of the late build.
    :param formula: ``jumpavg-0.4``, or ``jumpavg-0.1``, which the CSIT document names and whose unit of 1
        is too coarse for values near 1.
    :param unit: resolution of the samples; None: that of the formula.
    :raises SettingsError: if the formula does not exist.
    """
    counting = formula_named(formula)
    # Names in the order of the builds, so that sums come out the same on every run.
    names = dict.fromkeys(name for build in (early, middle, late) for name in build)
    weighings = {}
    for name in names:
        parts = _fill_with_zeros([build.get(name, ()) for build in (early, middle, late)])
        if parts:
            weighings[name] = _weigh(parts, _Counter(counting, parts, unit))
    bits = {way: math.fsum(each.bits[way] for each in weighings.values()) for way in _WAYS}
    grouping = min(_WAYS, key=bits.__getitem__)
    return Decision(grouping, _choose_side(grouping, weighings), bits, weighings)


def compare(
    early: Sequence[float], late: Sequence[float], *, formula: str = NEWER, unit: float | None = None
) -> BuildPair | None:
    """Compare two builds by one test, as the console reports old and new.

    :param early: samples of the early build; if empty, it failed there, and counts as zeros.
    :param late: samples of the late build.
    :returns: None if there is nothing to compare: no sample, or none above zero.
    :raises SettingsError: if the formula does not exist.
    """
    counting = formula_named(formula)
    parts = _fill_with_zeros([early, late])
    if not parts:
        return None
    counter = _Counter(counting, parts, unit)
    (together,), (first, second) = counter.groups([np.concatenate(parts)]), counter.groups(parts)
    return BuildPair(together, (first, second))


def relative_difference(one: float, other: float) -> float:
    """Return the difference of two averages relative to the larger; 0 if both are zero."""
    largest = max(abs(one), abs(other))
    return abs(one - other) / largest if largest else 0.0


class _Counter:
    """A counter of the bits of groups of one test's samples."""

    def __init__(self, formula: Formula, parts: Sequence[Floats], unit: float | None) -> None:
        top = max(float(part.max()) for part in parts)
        self._formula = formula
        self._unit = unit or formula.default_unit(top)
        self._maximum = top / self._unit

    def groups(self, parts: Sequence[Floats]) -> tuple[Group, ...]:
        found: list[Group] = []
        for part in parts:
            start = found[-1].stop if found else 0
            mean, stdev = float(part.mean()), float(part.std())
            bits = self._alone(part.size, stdev) + self._average(mean, found[-1].mean if found else None)
            found.append(Group(start, start + part.size, mean, stdev, bits))
        return tuple(found)

    def _alone(self, size: int, stdev: float) -> float:
        in_units = np.array([stdev / self._unit])
        return float(self._formula.alone_bits(np.array([size]), in_units, self._maximum)[0])

    def _average(self, mean: float, previous: float | None) -> float:
        if previous is None:
            return self._formula.first_bits(self._maximum)
        in_units = np.array([mean, previous]) / self._unit
        return float(self._formula.later_bits(in_units[:1], in_units[1:], self._maximum)[0])


def _fill_with_zeros(builds: Sequence[Sequence[float]]) -> list[Floats]:
    """Return the samples, with zeros for builds without any; an empty list if no sample is above zero."""
    parts = [np.array([value for value in samples if math.isfinite(value)], float) for samples in builds]
    most = max(part.size for part in parts)
    if not any((part > 0).any() for part in parts):
        return []
    return [part if part.size else np.zeros(most) for part in parts]


def _weigh(parts: Sequence[Floats], counter: _Counter) -> GroupingWeights:
    early, middle, late = parts
    groups = {
        "early": counter.groups([np.concatenate([early, middle]), late]),
        "late": counter.groups([early, np.concatenate([middle, late])]),
        "apart": counter.groups(parts),
    }
    first, second, third = (group.mean for group in groups["apart"])
    return GroupingWeights(
        {way: math.fsum(group.bits for group in groups[way]) for way in _WAYS},
        {way: groups[way] for way in _WAYS},
        relative_difference(first, second),
        relative_difference(second, third),
    )


def _choose_side(grouping: Grouping, weighings: Mapping[str, GroupingWeights]) -> Side:
    if grouping != "apart":
        return grouping
    early = math.fsum(each.early_difference for each in weighings.values())
    late = math.fsum(each.late_difference for each in weighings.values())
    return "late" if early > late else "early"
