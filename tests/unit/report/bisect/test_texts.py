"""The sentence of a bisection, and its notes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perftrend.analysis.instructions import InstructionDifference
from perftrend.bisect import BisectOutcome, Culprit, Effect, OutcomeKind, Suspicion
from perftrend.bisect.runner import ExplainedCulprit
from perftrend.report.bisect import sentence, texts
from perftrend.text import format_probability
from tests.unit.report.bisect.reports import (
    KINDS,
    SLOWER,
    SUBJECT,
    found,
    measured,
    name,
    nothing,
    report,
    slower,
    state,
    undecided,
)

SENTENCES = {
    "slower": (
        '000000000002 "Commit number 2" made 1 of 2 tests slower by 10 %, with a probability of 99.7 %.'
    ),
    "hidden": (
        "One of 3 commits, 000000000001 to 000000000003, made the only test slower by 10 %, with a "
        "probability of over 99.9 %; which one is unknown, because not all of them build."
    ),
    "nothing": (
        "No change above 1.2 to 3.1 %, depending on the test, was found between 000000000000 "
        '"Commit number 0" and 000000000002 "Commit number 2".'
    ),
    "undecided": (
        "Undecided, because 150 measurements were made, and no commit is sure enough; most likely, with "
        "70.0 %: 2 commits, 000000000001 to 000000000002; about 24 more measurements might decide it."
    ),
    "not built": (
        'The old commit 000000000000 "Commit number 0" does not build: router at 000000000000: build failed: '
        "make ended with 2; name another."
    ),
    "failing": (
        '000000000002 "Commit number 2" made 1 of 2 tests fail, with a probability of 99.8 %; 000000000001 '
        '"Commit number 1" made 1 of 2 tests faster by 20 %, with a probability of 99.2 %.'
    ),
}
NOTES = {
    "slower": ["Ended because there is hardly another change."],
    "hidden": [
        "Ended because there is hardly another change.",
        "2 commits do not build: 000000000001, 000000000002.",
    ],
    "nothing": ["1 value left out as an outlier."],
    "undecided": [
        "What may have changed: 70.0 %: 2 commits, 000000000001 to 000000000002; 20.0 %: nothing changed; "
        '10.0 %: 000000000003 "Commit number 3".',
        "A change above 8 % would probably have been found.",
        "Run the same command again to continue with the same number of measurements.",
    ],
    "not built": [],
    "failing": ["Ended because there is hardly another change.", "acl failed in 000000000002: no route."],
}


@pytest.mark.parametrize("kind", KINDS)
def test_sentence_is_what_a_busy_person_has_to_know(kind: str) -> None:
    assert SENTENCES[kind] == sentence(KINDS[kind])


@pytest.mark.parametrize(
    ("relative", "warning"), [(0.0, ", although it executes the same instructions"), (0.1, "")]
)
def test_sentence_warns_if_the_program_does_the_same_work(relative: float, warning: str) -> None:
    (culprit,) = KINDS["slower"].outcome.culprits
    explained = ExplainedCulprit(culprit, name(1), name(2), InstructionDifference(relative, spread=0.0001))

    assert SENTENCES["slower"].replace(" %.", f" %{warning}.") == sentence(slower(explained=[explained]))


@pytest.mark.parametrize("kind", KINDS)
def test_notes_say_what_is_needed_to_trust_it(kind: str) -> None:
    assert NOTES[kind] == texts.notes(KINDS[kind])


def test_reasons_of_failures_are_told_without_where_the_log_was() -> None:
    done = [measured(0, {}, {f"t{number}": "no route.; see /home/ada/x.log" for number in range(5)})]

    told = texts.notes(report(BisectOutcome(OutcomeKind.UNDECIDED, "none has a value"), state(1, done)))

    assert [f"t{number} failed in 000000000000: no route." for number in range(3)] == told[:3]
    assert ["2 more tests failed."] == told[3:]


def test_tests_that_some_commits_do_not_have_are_told() -> None:
    both, one = {"kept": 1.0, "gone": 1.0}, {"kept": 1.0}
    done = [measured(0, both), measured(1, both), measured(2, one), measured(3, one), measured(3, one)]

    told = texts.notes(report(BisectOutcome(OutcomeKind.UNDECIDED, ""), state(3, done)))

    assert ["gone has no result in 2 commits, such as 000000000002."] == told


def test_simulated_answer_is_marked() -> None:
    assert sentence(slower(subject=replace(SUBJECT, simulated=True))).startswith("SIMULATED: ")


def test_regression_is_told_from_progression_by_what_is_better() -> None:
    """A time of 9 ms instead of 10 ms is good news."""
    done = [measured(0, {"t": 10.0}, unit="ms"), measured(1, {"t": 9.0}, unit="ms")]
    faster = Culprit((name(1),), 0.99, {"t": replace(SLOWER, before=10.0, after=9.0)})
    told = report(found(faster), state(1, done))

    assert not told.regressed
    assert "made the only test better by 10 %" in sentence(told)


@pytest.mark.parametrize(("kind", "regressed"), [("slower", True), ("failing", True), ("nothing", False)])
def test_regression_is_a_test_that_is_worse_or_fails(kind: str, regressed: bool) -> None:
    assert regressed == KINDS[kind].regressed


def test_rule_without_probabilities_blames_only_where_two_groups_are_shorter() -> None:
    """The documented strategy always names a commit; where nothing is worse, nothing failed."""
    same = [measured(0, {"acl": 10e6}), measured(1, {"acl": 10.001e6})]
    apart = [measured(0, {"acl": 10e6}), measured(1, {"acl": 9e6})]
    tiny, large = Effect(10e6, 10.001e6, 0.0001), Effect(10e6, 9e6, -0.1)

    named = report(found(Culprit((name(1),), effects={"acl": tiny})), state(1, same))
    blamed = report(found(Culprit((name(1),), effects={"acl": large})), state(1, apart))

    assert (False, True) == (named.regressed, blamed.regressed)
    assert "is named, although no single test is known to have changed" in sentence(named)
    assert '000000000001 "Commit number 1" made the only test slower by 10 %.' == sentence(blamed)


def test_undecided_without_suspects_says_why() -> None:
    told = undecided(
        outcome=BisectOutcome(OutcomeKind.UNDECIDED, "it was interrupted", belief=(Suspicion((), 1.0),))
    )

    assert "Undecided, because it was interrupted." == sentence(told)


@pytest.mark.parametrize(
    ("probability", "told"),
    [
        (1.0, "over 99.9 %"),
        (0.99951, "over 99.9 %"),
        (0.9994, "99.9 %"),
        (0.5, "50.0 %"),
        (0.0, "under 0.1 %"),
    ],
)
def test_probability_is_never_told_as_certainty(probability: float, told: str) -> None:
    assert told == format_probability(probability)


def test_one_visible_difference_needs_no_span() -> None:
    outcome = BisectOutcome(OutcomeKind.NO_DIFFERENCE, "", smallest_visible={"acl": 0.012})

    assert sentence(nothing(outcome=outcome)).startswith("No change above 1.2 % was found between ")
