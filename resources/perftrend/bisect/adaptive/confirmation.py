"""Confirmation of a suspected commit by pairs: it and its parent are measured alternately.

The posterior of the search rests on a model of the noise, and machines can behave in ways that no model
covers. So a suspicion is only a reason to measure the suspected commit and the one before it in pairs,
adjacent in time, in random order within each pair. Only these pairs count. See
:mod:`perftrend.analysis.comparison.paired_test` for why no noise can imitate the evidence.

A candidate is *confirmed* if the capital of the bets reaches a limit, *refuted* if the pairs make a change of
half the suspected size improbable, and *open* otherwise. Limits double from one candidate to the next, so
that all of them together name an innocent commit with a probability below :data:`ERROR`.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

import numpy as np

from perftrend.analysis.comparison.distributions import log_sum
from perftrend.analysis.comparison.observations import Levels
from perftrend.analysis.comparison.paired_test import (
    MeasurementPair,
    PairedEvidence,
    Value,
    estimate_difference,
    evidence,
    log_odds,
    pool_evidence,
)
from perftrend.bisect.adaptive.posterior import AFFECTED, TestData
from perftrend.bisect.history import CommitHistory
from perftrend.bisect.state import BisectState

ERROR = 1 / 128
"""Upper bound of the probability that any innocent commit is named, whatever the noise."""
NEEDED = 1 - ERROR / 2
"""Minimum probability for naming a commit: of the first one by its pairs, of each by all measurements."""
FEWEST_PAIRS, MOST_PAIRS = 5, 40
"""Number of pairs before a candidate is confirmed or refuted, and after which it is left open."""
REFUTED = 0.05
"""A change of half the suspected size is excluded below this probability."""
_GROWING = math.log(3)
"""With more evidence than this, nothing is refuted."""
_USUAL_GAIN, _USUAL_PAIRS = 0.6, 3
"""Usual increase of the logarithm of the capital by a pair, and its weight as a number of pairs."""
_BEFORE = 30
"""Maximum number of measurements of each side that the bets learn from."""


class ConfirmationStatus(StrEnum):
    """The result for a candidate."""

    CONFIRMED = "confirmed"
    REFUTED = "refuted"
    OPEN = "open"
    """The permitted pairs were measured, without a result."""
    UNDER_WAY = "under way"


@dataclass(frozen=True, slots=True, eq=False)
class Confirmation:
    """The pairs of one candidate, and their evidence."""

    parent: str
    """A measured commit without the change."""
    candidate: str
    """A measured commit with the change."""
    tests: Mapping[str, PairedEvidence]
    log_e: float
    """Logarithm of the capital of all tests together."""
    limit: float
    """The value of ``log_e`` that confirms the candidate."""
    pairs: int
    next: str
    """The commit to measure next."""
    changed: int
    """The set of commits that the candidate contains and the parent does not."""
    maximum_pairs: int = MOST_PAIRS

    @property
    def status(self) -> ConfirmationStatus:
        """The result for the candidate."""
        if self.pairs >= FEWEST_PAIRS:
            if self.log_e >= self.limit:
                return ConfirmationStatus.CONFIRMED
            claimed = max((each.claimed for each in self.tests.values()), default=0.0)
            if claimed < REFUTED and self.log_e < _GROWING:
                return ConfirmationStatus.REFUTED
        return ConfirmationStatus.UNDER_WAY if self.pairs < self.maximum_pairs else ConfirmationStatus.OPEN

    @property
    def probability(self) -> float:
        """The probability that the candidate differs from its parent, by the pairs alone."""
        return 1 / (1 + math.exp(-self.log_e))

    @property
    def remaining(self) -> int:
        """Estimated number of measurements until it is confirmed, if they continue like those so far."""
        rate = (max(self.log_e, 0.0) + _USUAL_PAIRS * _USUAL_GAIN) / (self.pairs + _USUAL_PAIRS)
        return estimate_remaining(max(self.limit - self.log_e, 0.0), rate)


def confirmations(
    state: BisectState, data: Sequence[TestData], confidence: float, maximum_pairs: int = MOST_PAIRS
) -> tuple[Confirmation, ...]:
    """Return the confirmations of all candidates so far, in the order in which they were suspected.

    :param data: the tests that count.
    :param confidence: the minimum probability for naming a commit.
    :param maximum_pairs: of one candidate. The evidence holds for any number (Ville), so it may grow.
    """
    known = {state.range.old, *state.history.commits}
    begun: dict[frozenset[str], list[int]] = {}
    for position, each in enumerate(state.measured):
        if each.against in known and _is_contained(state.history, each.commit, each.against):
            begun.setdefault(frozenset({each.commit, each.against}), []).append(position)
    found: list[Confirmation] = []
    for positions in begun.values():
        one = _confirmation(state, data, positions, found, confidence)
        found.append(replace(one, maximum_pairs=maximum_pairs))
    return tuple(found)


def estimate_remaining(left: float = math.log(2 / ERROR), rate: float = _USUAL_GAIN) -> int:
    """Return the estimated number of measurements for a gain; by default, for the first commit to be named.

    :param left: the gain of the logarithm of the capital.
    :param rate: the gain by one pair.
    """
    return 2 * math.ceil(left / rate)


def begin(parent: str, candidate: str) -> str:
    """Return which of the two is measured first."""
    return _order(parent, candidate, 0)[0]


def _confirmation(
    state: BisectState,
    data: Sequence[TestData],
    positions: Sequence[int],
    earlier: Sequence[Confirmation],
    confidence: float,
) -> Confirmation:
    first = state.measured[positions[0]]
    parent, candidate = sorted((first.commit, first.against), key=state.history.index)
    of = [state.measured[position].commit for position in positions]
    complete = min(of.count(parent), of.count(candidate))
    order = _order(parent, candidate, complete)
    sides = _sides(state, parent, candidate, positions[0], earlier)
    tests, odds = {}, {}
    paired = list(_pair_positions(positions, of, parent))
    for test in data:
        found = [
            _weigh_pairs(_values(test, levels), paired, *sides)
            for levels in (test.levels, test.best)
            if levels is not None
        ]
        tests[test.name] = pool_evidence([evidence for evidence, _ in found])
        odds[test.name] = max(known for _, known in found)
    return Confirmation(
        parent=parent,
        candidate=candidate,
        tests=tests,
        log_e=_together(tests, odds),
        limit=max(math.log(2 / ERROR) + len(earlier) * math.log(2), math.log(confidence / (1 - confidence))),
        changed=_commits_between(state.history, parent, candidate),
        pairs=complete,
        next=order[(of.count(parent) + of.count(candidate)) % 2],
    )


def _weigh_pairs(
    values: Mapping[int, Value], paired: Sequence[tuple[int, int]], *sides: Sequence[int]
) -> tuple[PairedEvidence, float]:
    """Return the evidence of pairs, and the log odds that were known before them.

    :param paired: positions of the measurements of the parent and of the candidate.
    :param sides: positions of measurements before the pairs: those like the parent, those like the candidate.
    """
    known = [[value for at in side if (value := values.get(at)) is not None] for side in sides]
    parent_before, candidate_before = (each[-_BEFORE:] for each in known)
    shown = evidence(
        [
            MeasurementPair(values[one], values[other])
            for one, other in paired
            if one in values and other in values
        ],
        parent_before=parent_before,
        candidate_before=candidate_before,
        claim=estimate_difference(parent_before, candidate_before),
    )
    if not shown.pairs and not any(known):
        # A test that failed in all builds is no reason to suspect the candidate.
        shown = replace(shown, claimed=0.0)
    return shown, log_odds(parent_before, candidate_before)


def _is_contained(history: CommitHistory, one: str, other: str) -> bool:
    """Return whether one of two commits contains the other. Otherwise changes of both differ between them."""
    older, newer = sorted((one, other), key=history.index)
    return history.contains(newer, older)


def _commits_between(history: CommitHistory, parent: str, candidate: str) -> int:
    return history.reachable_from(candidate) & ~history.reachable_from(parent)


def _order(parent: str, candidate: str, number: int) -> tuple[str, str]:
    """Return the order of a pair: pseudorandom, and the same in each replay of the session."""
    coin = hashlib.sha256(f"{parent} {candidate} {number}".encode()).digest()[0] & 1
    return (candidate, parent) if coin else (parent, candidate)


def _sides(
    state: BisectState, parent: str, candidate: str, until: int, earlier: Sequence[Confirmation]
) -> tuple[list[int], list[int]]:
    """Return the measurements before the first pair that are like the parent, and like the candidate."""
    history = state.history
    changed = _commits_between(history, parent, candidate)
    named = [each.changed for each in earlier if each.status is ConfirmationStatus.CONFIRMED]
    sides: tuple[list[int], list[int]] = ([], [])
    for position, measured in enumerate(state.measured[:until]):
        inside = history.reachable_from(measured.commit)
        for side, like in zip(sides, (parent, candidate), strict=True):
            same = history.reachable_from(like)
            if inside & changed == same & changed and all(inside & each == same & each for each in named):
                side.append(position)
    return sides


def _values(test: TestData, levels: Levels) -> dict[int, Value]:
    """Return the level of each measurement that includes a test, by position; None if the test failed."""
    found: dict[int, Value] = dict.fromkeys(test.positions)
    for at, y in zip(levels.positions, levels.y, strict=True):
        # Rounded, so that cached results for the same values are found again after another measurement.
        found[test.positions[at]] = round(float(y) + levels.middle, 9)
    return found


def _pair_positions(positions: Sequence[int], of: Sequence[str], parent: str) -> Iterator[tuple[int, int]]:
    """Yield the positions of parent and candidate of each complete pair."""
    for first, second in zip(positions[::2], positions[1::2], strict=False):
        yield (first, second) if of[positions.index(first)] == parent else (second, first)


def _together(tests: Mapping[str, PairedEvidence], odds: Mapping[str, float]) -> float:
    """Return the evidence of all tests: the average of their capitals, weighted by the odds known before."""
    if not tests:
        return -math.inf
    logs = np.array([odds[name] for name in tests]) if len(tests) > 1 else np.zeros(1)
    shares = 1 / (1 + np.exp(np.clip(math.log((1 - AFFECTED) / AFFECTED) - logs, -700, 700)))
    capitals = np.array([each.log_e for each in tests.values()])
    return float(log_sum(np.log(shares / shares.sum()) + capitals))
