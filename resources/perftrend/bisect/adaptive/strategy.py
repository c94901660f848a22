"""The adaptive strategy: measure the commit with the most information, and confirm suspicions by pairs.

The posterior of the search rests on a model of the noise, so it does not name commits. It suspects a commit;
this commit and the one before it are then measured alternately until these pairs alone show a change, or
that there is none (see :mod:`.confirmation`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from perftrend import errors
from perftrend.bisect.adaptive.acquisition import Costs, choose, choose_for_layouts
from perftrend.bisect.adaptive.candidates import Suspects
from perftrend.bisect.adaptive.confirmation import (
    FEWEST_PAIRS,
    NEEDED,
    REFUTED,
    Confirmation,
    ConfirmationStatus,
    begin,
    confirmations,
    estimate_remaining,
)
from perftrend.bisect.adaptive.confirmation import MOST_PAIRS as CONFIRMING_PAIRS
from perftrend.bisect.adaptive.effects import (
    effects,
    further_change_probability,
    outliers,
    smallest_further_visible,
    smallest_visible,
)
from perftrend.bisect.adaptive.posterior import Belief, TestData, test_data
from perftrend.bisect.state import BisectOutcome, BisectState, Culprit, MeasureStep, OutcomeKind, Suspicion
from perftrend.text import format_probability

FIRST_PAIRS, MOST_PAIRS = 1, 20
"""Measurements of old and new each, before commits between are measured, and before the search gives up."""
HOPELESS = 0.5
"""With a higher probability of no change, the search gives up after ``MOST_PAIRS``; before, the ends are
measured again."""
LEAVE = 0.1
"""With a higher probability of no change, only the ends are measured, until commits between have been."""
INSIDE_RUNS = 3
"""Measurements of each commit between the ends, if these do not differ."""
MISSED, MISSED_LATE = 0.005, 0.05
"""A further change of this probability is no longer searched for, before and after twice ``MOST_PAIRS``
measurements."""
LEFT_OUT_RUNS = 3
"""A commit that has only outliers is measured up to this many times."""
SUSPECTED = 0.9
"""A commit with at least this probability is measured in pairs with the one before it."""
_USUAL_BITS = 0.7
"""Usual information of a measurement, in bits, if the change is clearly visible."""
_SHOWN = 0.01
_UNSURE = (ConfirmationStatus.OPEN, ConfirmationStatus.UNDER_WAY)


@dataclass(frozen=True, slots=True)
class Adaptive:
    """A strategy with a probability for each commit; it chooses the run with the most information per time.

    :param confidence: the probability that a commit needs to be named.
    :param maximum_measurements: the search ends after this many, whatever its state.
    :param maximum_changes: the search ends after this many changes were found.
    :param continued: how often it was continued after it had ended undecided; each time permits as many pairs
        of a candidate as the first search.
    :param inside: whether to measure commits between, too, before reporting that old and new do not differ:
        it finds changes that cancel each other, for three more builds.
    :param known_deviations: by test, the deviation between runs in per cent, from its history.
    :param build_s: assumed duration of a build, in seconds, until one was made.
    :param measure_s: assumed duration of a measurement, until one was made.
    :raises SettingsError: if a value is invalid.
    """

    confidence: float = 0.99
    maximum_measurements: int = 200
    maximum_changes: int = 3
    continued: int = 0
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
        """The name in the settings."""
        return "adaptive"

    @property
    def options(self) -> Mapping[str, Any]:
        """The parameters, without the limits: a search can continue with higher ones."""
        limits = ("maximum_measurements", "continued")
        return {name: value for name, value in asdict(self).items() if name not in limits}

    def next(self, state: BisectState) -> MeasureStep | BisectOutcome:
        """Return the next measurement, or the outcome."""
        for end, name in ((state.range.old, "old"), (state.history.new, "new")):
            if end in state.broken:
                return BisectOutcome(
                    OutcomeKind.NOT_BUILT, f"the {name} commit {end} does not build: {state.broken[end]}"
                )
        if _pairs_of_ends(state) < FIRST_PAIRS:
            return MeasureStep(_next_end(state), "the ends of the range show whether there is a change")
        compared = state.compared
        # A test that is missing at one end would never give the information that is expected of it.
        data = [each for each in test_data(state, self.known_deviations) if each.name in compared]
        if not any(len(each.levels) for each in data):
            lacking = "has a value at either end" if compared else "was measured at both ends"
            return BisectOutcome(OutcomeKind.UNDECIDED, f"no test {lacking} of the range")
        return self._decide(state, data)

    def _decide(self, state: BisectState, data: Sequence[TestData]) -> MeasureStep | BisectOutcome:
        suspects = Suspects.of(state.history, [each.commit for each in state.measured], state.broken)
        tried = confirmations(state, data, self.confidence, (1 + self.continued) * CONFIRMING_PAIRS)
        spent = len(state.measured) >= self.maximum_measurements
        if tried and tried[-1].status is ConfirmationStatus.UNDER_WAY and not spent:
            return _pair(tried[-1].parent, tried[-1].candidate, tried[-1].next, left=tried[-1].remaining)
        beliefs = self._beliefs(data, suspects, tried)
        outcome = self._conclude(state, beliefs, tried)
        if outcome is None:
            if spent:
                return self._undecided_outcome(state, beliefs, tried)
            return (
                _begin_confirmation(beliefs[-1], tried)
                or _learn_layouts(state, beliefs[-1], tried)
                or self._choose_step(state, beliefs[-1])
            )
        if spent:
            return outcome
        inside = self._choose_between_ends(state) if outcome.kind is OutcomeKind.NO_DIFFERENCE else None
        return inside or _remeasure_outlier(state, beliefs[-1]) or outcome

    def _beliefs(
        self, data: Sequence[TestData], suspects: Suspects, tried: Sequence[Confirmation]
    ) -> list[Belief]:
        """Return the posteriors before and after each change that was found; refuted classes hold none."""
        refuted = [each.changed for each in tried if each.status is ConfirmationStatus.REFUTED]
        cleared = [
            at for at, chosen in enumerate(suspects.classes) if any(not chosen & ~each for each in refuted)
        ]
        beliefs = [Belief(data, suspects, (), cleared)]
        # If the layouts of a build were varied, their deviation is measured instead of assumed.
        varied = any(each.levels.variants.any() for each in data)
        needed = self.confidence if varied else max(self.confidence, NEEDED)
        for each in tried:
            if each.status is ConfirmationStatus.CONFIRMED:
                last = beliefs[-1]
                found = suspects.most_suspected(each.changed, last.held)
                if last.by_all_builds(found) >= needed:
                    beliefs.append(Belief(data, suspects, (*last.found, found), last.cleared - {found}))
        return beliefs

    def _conclude(
        self, state: BisectState, beliefs: list[Belief], tried: Sequence[Confirmation]
    ) -> BisectOutcome | None:
        """Return the outcome according to the posteriors; None if the search continues."""
        last = beliefs[-1]
        if any(each.status in _UNSURE for each in tried):
            return self._undecided_outcome(state, beliefs, tried)
        if not last.found:
            hopeless = _pairs_of_ends(state) >= MOST_PAIRS and last.none >= HOPELESS
            excluded = last.none >= self.confidence and not last.hides_large_change
            return self._no_difference_outcome(last) if hopeless or excluded else None
        if len(last.found) >= self.maximum_changes:
            return self._culprit_outcome(beliefs, tried, "the maximum number of changes was found")
        another = further_change_probability(beliefs)
        if another <= (MISSED if len(state.measured) < 2 * MOST_PAIRS else MISSED_LATE):
            reason = f"another change that matters has a probability of {format_probability(another)}"
            return self._culprit_outcome(beliefs, tried, reason)
        return None

    def _choose_step(self, state: BisectState, belief: Belief) -> MeasureStep:
        """Measure the ends until they differ, and then the commit with the most information."""
        between = set(belief.suspects.measured) - {state.range.old, state.history.new}
        doubtful = belief.none > (HOPELESS if between else LEAVE)
        if not belief.found and doubtful and _pairs_of_ends(state) < MOST_PAIRS:
            reason = f"that nothing changed has a probability of {format_probability(_none(belief))}"
            return MeasureStep(
                _next_end(state), reason, _suspicions(belief), remaining=_estimate_remaining(belief)
            )
        choice = choose(state, belief, Costs.of(state, Costs(self.build_s, self.measure_s)))
        reason = f"it is expected to give {choice.information:.2f} bits"
        return MeasureStep(choice.commit, reason, _suspicions(belief), remaining=_estimate_remaining(belief))

    def _choose_between_ends(self, state: BisectState) -> MeasureStep | None:
        """Return a missing measurement of a commit between the ends; None if none is missing."""
        if not self.inside:
            return None
        whole = Suspects.of(state.history, [state.range.old, state.history.new], state.broken)
        for commit in whole.candidates(whole.classes[0]):
            if state.times_measured(commit) < INSIDE_RUNS:
                return MeasureStep(commit, "old and new do not differ, but changes may cancel each other")
        return None

    def _no_difference_outcome(self, belief: Belief) -> BisectOutcome:
        none = format_probability(_none(belief))
        reason = f"no difference was shown; the probability that there is none is {none}"
        return BisectOutcome(
            OutcomeKind.NO_DIFFERENCE,
            reason,
            belief=_suspicions(belief),
            smallest_visible=smallest_visible(belief),
            outliers=outliers(belief),
        )

    def _culprit_outcome(
        self, beliefs: list[Belief], tried: Sequence[Confirmation], reason: str
    ) -> BisectOutcome:
        last = beliefs[-1]
        culprits = []
        for belief, chosen in zip(beliefs, last.found, strict=False):
            suspected = last.suspects.classes[chosen]
            commits = last.suspects.history.hashes(suspected)
            by_pairs = next(
                each
                for each in tried
                if each.status is ConfirmationStatus.CONFIRMED and not suspected & ~each.changed
            )
            # When the first change was found, the others were not yet known to be separate changes.
            others = [each for each in last.found if each != chosen]
            alone = Belief([each.data for each in last.tests], last.suspects, others, last.cleared)
            confidence = min(
                by_pairs.probability * last.suspects.alone(chosen, by_pairs.changed, belief.held),
                belief.by_all_builds(chosen),
            )
            culprits.append(Culprit(commits, confidence, effects(alone, chosen, others, by_pairs)))
        culprits.sort(key=_size, reverse=True)
        return BisectOutcome(
            OutcomeKind.FOUND,
            reason,
            tuple(culprits),
            belief=_suspicions(beliefs[len(beliefs) - 2], confirmed=True),
            smallest_visible=smallest_further_visible(beliefs),
            outliers=outliers(last),
        )

    def _undecided_outcome(
        self, state: BisectState, beliefs: list[Belief], tried: Sequence[Confirmation]
    ) -> BisectOutcome:
        """End without a result, or without deciding whether there is another change."""
        reason = f"{len(state.measured)} measurements were made"
        unsure = [each for each in tried if each.status in _UNSURE]
        if unsure and unsure[-1].pairs >= FEWEST_PAIRS:
            pairs = unsure[-1].pairs
            reason = f"{pairs} pairs of measurements neither confirm nor refute the most suspected commit"
        reason += _machine(beliefs[-1])
        if len(beliefs) > 1:
            return self._culprit_outcome(beliefs, tried, f"{reason}; there may be another change")
        belief = beliefs[0]
        return BisectOutcome(
            OutcomeKind.UNDECIDED,
            f"{reason}, and no commit is sure enough",
            belief=_suspicions(belief),
            smallest_visible=smallest_visible(belief),
            outliers=outliers(belief),
            remaining=unsure[-1].remaining if unsure else _estimate_remaining(belief),
        )


def _machine(belief: Belief) -> str:
    """Return a note that the machine seems to switch between speeds, to append to a reason; or nothing."""
    most = int(np.argmax(belief.held))
    suspected = most if belief.held[most] > belief.none else None
    known = [test.density.apart(suspected) for test in belief.tests if test.density is not None]
    apart = max((each for each in known if each is not None), default=None)
    if apart is None:
        return ""
    return f" on a machine that seems to switch between two speeds, {math.exp(apart / 100):.2g} times apart"


def _begin_confirmation(belief: Belief, tried: Sequence[Confirmation]) -> MeasureStep | None:
    """Return the first measurement of the pairs for a new suspicion; None if none is strong enough."""
    suspected = belief.find_suspect(SUSPECTED)
    if suspected is None:
        return None
    parent, candidate = belief.suspects.sides(suspected, belief.held)
    if any((parent, candidate) == (each.parent, each.candidate) for each in tried):
        return None
    return _pair(parent, candidate, begin(parent, candidate), _suspicions(belief), estimate_remaining())


def _learn_layouts(state: BisectState, belief: Belief, tried: Sequence[Confirmation]) -> MeasureStep | None:
    """Return a measurement that shows how much builds differ by their layouts; None if none is needed.

    If pairs confirmed a candidate and all builds together leave it in doubt, its build or that of its parent
    may have an unusual layout. More runs of these two would not show it.
    """
    if not any(each.variant for each in state.measured):
        return None
    confirmed = [each.changed for each in tried if each.status is ConfirmationStatus.CONFIRMED]
    doubtful = [
        each for each in confirmed if not any(belief.suspects.classes[at] & each for at in belief.found)
    ]
    if not doubtful:
        return None
    suspected = belief.suspects.most_suspected(doubtful[-1], belief.held)
    commit = choose_for_layouts(state, belief, suspected)
    if commit is None:
        return None
    reason = "layouts of more builds show whether these explain the difference"
    return MeasureStep(commit, reason, _suspicions(belief), remaining=_estimate_remaining(belief))


def _pair(
    parent: str, candidate: str, first: str, belief: tuple[Suspicion, ...] = (), left: int | None = None
) -> MeasureStep:
    other = parent if first == candidate else candidate
    reason = "to confirm or refute what is suspected"
    return MeasureStep(first, reason, belief, other, left)


def _estimate_remaining(belief: Belief) -> int | None:
    """Return the estimated number of measurements until a commit is named; None if probably none will be."""
    if belief.none > HOPELESS or belief.found:
        return None
    sizes = np.array([chosen.bit_count() for chosen in belief.suspects.classes])
    shares = np.maximum(belief.shares, 1e-12) / (1 - belief.none)
    bits = float(shares @ np.log2(sizes / shares))
    return math.ceil(max(bits, 0.0) / _USUAL_BITS) + estimate_remaining()


def _pairs_of_ends(state: BisectState) -> int:
    return min(state.times_measured(end) for end in (state.range.old, state.history.new))


def _next_end(state: BisectState) -> str:
    """Return the end to measure in the order old, new, new, old, …, in which drift cancels."""
    old, new = state.range.old, state.history.new
    counts = [state.times_measured(end) for end in (old, new)]
    if counts[0] != counts[1]:
        return old if counts[0] < counts[1] else new
    return old if counts[0] % 2 == 0 else new


def _remeasure_outlier(state: BisectState, belief: Belief) -> MeasureStep | None:
    """Return another measurement of a commit that has only outliers so far; None if there is none.

    An outlier looks like a change next to its commit, and may be mistaken for one. Another measurement
    distinguishes them, so the search does not end before it.
    """
    for test in belief.tests:
        left_out = {state.measured[at].commit for at in test.outliers}
        retained = {state.measured[at].commit for at in test.retained}
        for commit in sorted(left_out - retained):
            if state.times_measured(commit) < LEFT_OUT_RUNS:
                return MeasureStep(commit, "all that was measured of it lies far off", _suspicions(belief))
    return None


def _suspicions(belief: Belief, *, confirmed: bool = False) -> tuple[Suspicion, ...]:
    """Return the probabilities of changes; each of two changes counts half, so that the sum is at most 1.

    :param confirmed: whether pairs have confirmed a change.
    """
    shares = belief.shares if confirmed else belief.shown_shares
    shown = [
        Suspicion(belief.suspects.history.hashes(chosen), float(share))
        for chosen, share in zip(belief.suspects.classes, shares, strict=True)
        if share >= _SHOWN
    ]
    return (Suspicion((), _none(belief)), *shown)


def _none(belief: Belief) -> float:
    """Return the probability that nothing changed: a refuted suspicion is improbable, but not impossible."""
    return min(belief.none, 1 - REFUTED) if belief.cleared else belief.none


def _size(culprit: Culprit) -> float:
    sizes = [abs(each.relative) for each in culprit.effects.values() if np.isfinite(each.relative)]
    fails = any(np.isnan(each.before) != np.isnan(each.after) for each in culprit.effects.values())
    return max([*sizes, float("inf") if fails else 0.0])
