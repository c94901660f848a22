"""The adaptive strategy: measure what tells the most, until it is sure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from perftrend import errors
from perftrend.bisect.adaptive import further
from perftrend.bisect.adaptive.belief import Belief, believed, test_data
from perftrend.bisect.adaptive.choice import Costs, choose
from perftrend.bisect.adaptive.effects import effects, outliers, smallest_visible
from perftrend.bisect.adaptive.suspects import Suspects
from perftrend.bisect.outcome import Culprit, Kind, Measure, Outcome, Suspicion
from perftrend.bisect.state import State

FIRST_PAIRS, MOST_PAIRS = 1, 20
"""Measurements of old and new each, before the range is looked into, and before it is given up."""
HOPELESS = 0.5
"""With a greater probability of no change it is given up after these; before, these are measured again."""
LEAVE = 0.1
"""With a greater probability of no change only old and new are measured, until commits between were."""
INSIDE_RUNS = 3
"""Measurements of each commit between, where old and new do not differ."""
MISSED, MISSED_LATE = 0.005, 0.05
"""A further change of this probability is not looked for any longer, before and after as many measurements as
old and new may have."""
LEFT_OUT_RUNS = 3
"""Measurements of a commit of which all are left out as far off; with more it is not tried again."""
_TOLD = 0.01


@dataclass(frozen=True, slots=True)
class Adaptive:
    """Keeps a probability over all commits and chooses the run that tells the most for its time.

    :param confidence: how sure it has to be of a commit that it names.
    :param maximum_measurements: after so many it ends, whatever is known by then.
    :param maximum_changes: no more changes are looked for.
    :param inside: whether commits between are looked at, too, before old and new are said not to differ:
        it finds changes that cancel each other, for three more builds.
    :param known_deviations: by test, the deviation between runs in per cent, as its history knows it.
    :param build_s: what a build takes, in seconds, until one was made.
    :param measure_s: what a measurement takes, until one was made.
    :raises SettingsError: if a value has no meaning.
    """

    confidence: float = 0.99
    maximum_measurements: int = 200
    maximum_changes: int = 3
    inside: bool = False
    known_deviations: Mapping[str, float] = field(default_factory=dict, hash=False)
    build_s: float = 600.0
    measure_s: float = 50.0

    def __post_init__(self) -> None:
        if not 0.5 < self.confidence < 1:  # noqa: PLR2004 - below, a coin does better
            raise errors.SettingsError(
                f"confidence is {self.confidence}; give a probability above 0.5, below 1"
            )
        for name in ("maximum_measurements", "maximum_changes"):
            if getattr(self, name) < 1:
                raise errors.SettingsError(f"{name} is {getattr(self, name)}; give a number from 1")

    @property
    def name(self) -> str:
        """What settings call it."""
        return "adaptive"

    @property
    def options(self) -> Mapping[str, Any]:
        """What it was made with."""
        return asdict(self)

    def next(self, state: State) -> Measure | Outcome:
        """Say what to measure next, or how it ends."""
        old, new = state.range.old, state.history.new
        for end, name in ((old, "old"), (new, "new")):
            if end in state.broken:
                return Outcome(Kind.NOT_BUILT, f"the {name} commit {end} does not build: {state.broken[end]}")
        pairs = min(state.times_measured(end) for end in (old, new))
        if pairs < FIRST_PAIRS:
            return Measure(_alternating(state), "the ends of the range tell whether there is a change")
        compared = state.compared
        if not compared:
            return Outcome(Kind.UNDECIDED, "no test was measured at both ends of the range")
        suspects = Suspects.of(state.history, [each.commit for each in state.measured], state.broken)
        # Of a test that one end does not have, no run could ever tell what it is expected to tell.
        data = [each for each in test_data(state, self.known_deviations) if each.name in compared]
        if not any(len(each.levels) for each in data):
            return Outcome(Kind.UNDECIDED, "no test has a value at either end of the range")
        beliefs = believed(data, suspects, sure=self.confidence, limit=self.maximum_changes)
        step = self._judged(state, beliefs, pairs)
        if isinstance(step, Outcome) and len(state.measured) < self.maximum_measurements:
            return _confirming(state, beliefs[-1]) or step
        return step

    def _judged(self, state: State, beliefs: list[Belief], pairs: int) -> Measure | Outcome:
        last = beliefs[-1]
        between = set(last.suspects.measured) - {state.range.old, state.history.new}
        if len(beliefs) == 1:
            hopeless = pairs >= MOST_PAIRS and last.none >= HOPELESS
            if hopeless or last.none >= self.confidence:
                return self._looked_inside(state) or self._nothing(last)
        elif len(beliefs) > self.maximum_changes:
            return self._found(beliefs, "as many changes as are looked for were found")
        else:
            another = further.probability(beliefs)
            if another <= (MISSED if len(state.measured) < 2 * MOST_PAIRS else MISSED_LATE):
                return self._found(beliefs, f"another change that matters has a probability of {another:.2g}")
        if len(state.measured) >= self.maximum_measurements:
            return self._spent(beliefs)
        if len(beliefs) == 1 and last.none > (HOPELESS if between else LEAVE) and pairs < MOST_PAIRS:
            return Measure(
                _alternating(state),
                f"that nothing changed has a probability of {last.none:.3g}",
                _suspicions(last),
            )
        choice = choose(state, last, Costs.of(state, Costs(self.build_s, self.measure_s)))
        return Measure(
            choice.commit, f"a run is expected to tell {choice.information:.2f} bits", _suspicions(last)
        )

    def _looked_inside(self, state: State) -> Measure | None:
        """Return what is lacking of a look at commits between; None if nothing is."""
        if not self.inside:
            return None
        whole = Suspects.of(state.history, [state.range.old, state.history.new], state.broken)
        for commit in whole.candidates(whole.classes[0]):
            if state.times_measured(commit) < INSIDE_RUNS:
                return Measure(commit, "old and new do not differ, but changes may cancel each other")
        return None

    def _nothing(self, belief: Belief) -> Outcome:
        reason = f"no difference shown; that there is none has a probability of {belief.none:.3g}"
        return Outcome(
            Kind.NO_DIFFERENCE,
            reason,
            belief=_suspicions(belief),
            smallest_visible=smallest_visible(belief),
            outliers=outliers(belief),
        )

    def _found(self, beliefs: list[Belief], reason: str) -> Outcome:
        last = beliefs[-1]
        culprits = []
        for belief, chosen in zip(beliefs, last.found, strict=False):
            commits = last.suspects.history.hashes(last.suspects.classes[chosen])
            # Of the first that was found, the others were not yet known to be changes of their own.
            others = [each for each in last.found if each != chosen]
            known = effects(Belief([each.data for each in last.tests], last.suspects, others), chosen, others)
            culprits.append(Culprit(commits, float(belief.held[chosen]), known))
        culprits.sort(key=_size, reverse=True)
        return Outcome(
            Kind.FOUND,
            reason,
            tuple(culprits),
            belief=_suspicions(beliefs[len(beliefs) - 2]),
            smallest_visible=further.smallest_visible(beliefs),
            outliers=outliers(last),
        )

    def _spent(self, beliefs: list[Belief]) -> Outcome:
        reason = f"{self.maximum_measurements} measurements were made"
        if len(beliefs) > 1:
            return self._found(beliefs, f"{reason}; there may be another change")
        belief = beliefs[0]
        return Outcome(
            Kind.UNDECIDED,
            f"{reason}, and no commit is sure enough",
            belief=_suspicions(belief),
            smallest_visible=smallest_visible(belief),
            outliers=outliers(belief),
        )


def _alternating(state: State) -> str:
    """Return the end to measure in the order old, new, new, old, …, in which drift cancels."""
    old, new = state.range.old, state.history.new
    counts = [state.times_measured(end) for end in (old, new)]
    if counts[0] != counts[1]:
        return old if counts[0] < counts[1] else new
    return old if counts[0] % 2 == 0 else new


def _confirming(state: State, belief: Belief) -> Measure | None:
    """Return a second measurement of a commit that has only been left out so far; None if there is none.

    A run that is far off looks like a change beside its commit, and may be taken for it. One more tells them
    apart, so nothing ends before.
    """
    for test in belief.tests:
        left_out = {state.measured[at].commit for at in test.outliers}
        kept = {state.measured[at].commit for at in test.kept}
        for commit in sorted(left_out - kept):
            if state.times_measured(commit) < LEFT_OUT_RUNS:
                return Measure(commit, "all that was measured of it lies far off", _suspicions(belief))
    return None


def _suspicions(belief: Belief) -> tuple[Suspicion, ...]:
    classes = zip(belief.suspects.classes, belief.held, strict=True)
    told = [
        Suspicion(belief.suspects.history.hashes(chosen), float(held))
        for chosen, held in classes
        if held >= _TOLD
    ]
    return (Suspicion((), belief.none), *told)


def _size(culprit: Culprit) -> float:
    sizes = [abs(each.relative) for each in culprit.effects.values() if np.isfinite(each.relative)]
    fails = any(np.isnan(each.before) != np.isnan(each.after) for each in culprit.effects.values())
    return max([*sizes, float("inf") if fails else 0.0])
