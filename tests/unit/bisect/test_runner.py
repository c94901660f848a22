"""Which of the changes that a search has found are named."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from perftrend.analysis.instructions import InstructionDifference
from perftrend.bisect import BisectOutcome, Culprit, Effect, OutcomeKind, Suspicion
from perftrend.bisect.runner import ExplainedCulprit, name_no_doubtful

SAME = InstructionDifference(0.0, spread=0.0001, user_share=0.99)
MORE = replace(SAME, relative=0.03)


def culprit(commit: str, *sizes: float, probability: float = 0.99) -> Culprit:
    effects = {
        f"t{number}": Effect(100.0, 100.0 * (1 + size), size, probability=probability)
        for number, size in enumerate(sizes)
    }
    return Culprit((commit * 40,), 0.997, effects)


def explained(found: Culprit, instructions: InstructionDifference) -> ExplainedCulprit:
    return ExplainedCulprit(found, "0" * 40, found.commits[0], instructions)


def outcome(*culprits: Culprit) -> BisectOutcome:
    belief = (Suspicion(culprits[0].commits, 0.997),)
    return BisectOutcome(OutcomeKind.FOUND, "there is hardly another change", culprits, belief)


def test_small_change_of_the_same_instructions_is_not_named() -> None:
    found = culprit("a", -0.03)

    named = name_no_doubtful(outcome(found), [explained(found, SAME)])

    assert (OutcomeKind.UNDECIDED, (), ()) == (named.kind, named.culprits, named.belief)
    assert named.remaining is None
    assert named.reason == (
        "aaaaaaaaaaaa differs from 000000000000 by 3 % but executes the same instructions, so the position "
        "of its code in memory may be the only reason"
    )


def test_change_of_the_work_is_still_named() -> None:
    work, layout = culprit("a", -0.05), culprit("b", 0.02)

    named = name_no_doubtful(outcome(work, layout), [explained(work, MORE), explained(layout, SAME)])

    assert (OutcomeKind.FOUND, (work,)) == (named.kind, named.culprits)
    assert len(named.belief) == 1


@pytest.mark.parametrize(
    "found",
    [
        culprit("a", -0.03, -0.2),
        culprit("a", -0.03, math.nan),
        culprit("a", -0.2),
        culprit("a", -0.03, probability=0.1),
        Culprit(("a" * 40,)),
    ],
    ids=["one test larger", "one fails", "larger", "no test is known", "no effects"],
)
def test_change_that_layout_does_not_explain_is_named(found: Culprit) -> None:
    whole = outcome(found)

    assert whole is name_no_doubtful(whole, [explained(found, SAME)])


def test_tests_that_hardly_are_affected_do_not_count() -> None:
    effects = {
        "slower": Effect(100.0, 97.0, -0.03, probability=0.99),
        "noisy": Effect(100.0, 120.0, 0.2, probability=0.1),
    }
    found = Culprit(("a" * 40,), 0.99, effects)

    assert OutcomeKind.UNDECIDED is name_no_doubtful(outcome(found), [explained(found, SAME)]).kind


def test_change_whose_instructions_were_not_counted_is_named() -> None:
    whole = outcome(culprit("a", -0.03))

    assert whole is name_no_doubtful(whole, [])
