"""The strategy of CSIT: git's order of halving, and the three-way rule at each step.

Old and new are built and measured, then the commits that ``git bisect`` chooses. Each middle build
becomes the new old or the new new end, according to :func:`perftrend.bisect.decide`. A commit that does
not build is skipped. The strategy always names a commit, even if old and new hardly differ.

Source: "Bisecting", sections Basic operation and Temporary specifics, which name jumpavg 0.1.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from perftrend.analysis.description import OLDER
from perftrend.bisect.decide import BuildPair, compare, decide
from perftrend.bisect.outcome import BisectOutcome, Culprit, Effect, MeasureStep, OutcomeKind
from perftrend.bisect.state import BisectState


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
