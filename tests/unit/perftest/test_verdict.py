"""The findings of tests, and the verdict of the change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend import errors
from perftrend.model import NOT_VALID, Better, BuildMeasurement, MetricSamples
from perftrend.perftest import (
    Broken,
    BuildSide,
    PatchFinding,
    PatchTestResults,
    PatchTestVerdict,
    PatchVerdict,
    Round,
    judge,
)
from tests.unit.perftest.made import CRITERIA, measured, noisy, of_levels, rounds

NOTHING = PatchTestResults({}, {}, {})


def judged(done: Sequence[Round], test: str = "mrr") -> PatchTestVerdict:
    [found] = judge(done, [test], CRITERIA).tests
    return found


def failing(reason: str, number: int = 3) -> list[BuildMeasurement]:
    return [measured(index, failed={"mrr": reason}) for index in range(number)]


def working(number: int = 3) -> list[BuildMeasurement]:
    return [measured(index, {"mrr": samples}) for index, samples in enumerate(noisy(1e6, rounds=number))]


# ---- one test


@pytest.mark.parametrize(
    ("patch", "finding"),
    [(0.95e6, PatchFinding.REGRESSION), (1.05e6, PatchFinding.PROGRESSION), (1.0e6, PatchFinding.SAME)],
)
def test_levels_are_compared(patch: float, finding: PatchFinding) -> None:
    found = judged(of_levels("mrr", 1e6, patch, number=6))

    assert (finding, True) == (found.finding, found.is_settled)
    assert found.comparison
    assert found.comparison.relative == pytest.approx(patch / 1e6 - 1, abs=0.005)


def test_less_is_better_where_the_unit_says_so() -> None:
    done = [
        Round(
            measured(2 * index, {}),
            measured(2 * index + 1, {}),
        )
        for index in range(6)
    ]
    slow, quick = noisy(2.0, rounds=6), noisy(1.8, rounds=6, seed=2)
    done = [
        Round(
            replace(each.parent, values={"t": MetricSamples(tuple(slow[index]), "s", Better.LOWER)}),
            replace(each.current, values={"t": MetricSamples(tuple(quick[index]), "s", Better.LOWER)}),
        )
        for index, each in enumerate(done)
    ]

    found = judged(done, "t")

    assert (PatchFinding.PROGRESSION, "s", Better.LOWER) == (found.finding, found.unit, found.better)


def test_documented_classification_stands_beside_ours() -> None:
    found = judged(of_levels("mrr", 1e6, 0.95e6))

    assert found.documented
    assert "regression" == found.documented.classification
    assert (15, 15) == (len(found.documented.parent.samples), len(found.documented.current.samples))


def test_test_that_fails_with_the_patch_alone_is_told_as_such() -> None:
    found = judged(rounds(working(), failing("device died")))

    assert (PatchFinding.FAILS, True) == (found.finding, found.is_settled)
    assert ["device died"] * 3 == list(found.current.failed.values())


def test_test_that_fails_with_the_parent_alone_is_not_the_fault_of_the_patch() -> None:
    assert PatchFinding.REPAIRED is judged(rounds(failing("died"), working())).finding


def test_test_that_fails_with_both_says_nothing_of_the_patch() -> None:
    found = judged(rounds(failing("died"), failing("died")))

    assert (PatchFinding.NOT_MEASURED, True) == (found.finding, found.is_settled)


def test_patch_is_not_blamed_for_a_test_that_fails_now_and_then_without_it() -> None:
    parent = [*working(2), *failing("died", 1)]

    assert PatchFinding.NOT_MEASURED is judged(rounds(parent, failing("died"))).finding


def test_single_failure_among_results_that_are_not_valid_is_not_blamed_on_the_patch() -> None:
    patch = [*failing("died", 1), *failing(f"{NOT_VALID}the generator was late", 5)]

    assert PatchFinding.NOT_MEASURED is judged(rounds(working(6), patch)).finding


def test_failure_is_not_blamed_on_the_patch_if_the_parent_hardly_worked() -> None:
    parent = [*working(1), *failing(f"{NOT_VALID}the generator was late", 2)]

    found = judged(rounds(parent, failing("died")))

    assert (PatchFinding.NOT_MEASURED, False) == (found.finding, found.is_settled)


def test_result_that_cannot_be_trusted_is_no_failure_and_is_measured_again() -> None:
    found = judged(rounds(working(), failing(f"{NOT_VALID}the generator was late")))

    assert (PatchFinding.NOT_MEASURED, False) == (found.finding, found.is_settled)
    assert ["the generator was late"] * 3 == list(found.current.untrusted.values())


def test_what_is_not_trusted_is_left_out_and_replaced_by_a_later_round() -> None:
    done = of_levels("mrr", 1e6, 0.95e6, number=10)
    done[1] = Round(done[1].parent, replace(done[1].current, values={}, failed={"mrr": f"{NOT_VALID}late"}))

    after_six, after_ten = judged(done[:6]), judged(done)

    assert not after_six.is_settled
    assert (PatchFinding.REGRESSION, True) == (after_ten.finding, after_ten.is_settled)


def test_test_that_fails_in_some_rounds_is_judged_by_the_others() -> None:
    done = of_levels("mrr", 1e6, 1e6, number=6)
    done[1] = Round(done[1].parent, replace(done[1].current, values={}, failed={"mrr": "died"}))

    found = judged(done)

    assert (PatchFinding.SAME, True) == (found.finding, found.fails_at_times)


def test_test_that_a_measurement_does_not_tell_of_failed_as_all_of_it_did() -> None:
    crashed = [measured(index, failed={"command": "ended with 2"}) for index in range(3)]

    found = judged(rounds(working(), crashed))

    assert (PatchFinding.FAILS, "ended with 2") == (found.finding, found.current.failed[1])


# ---- all tests


def verdict(*findings: PatchFinding) -> PatchVerdict:
    return PatchVerdict(
        tuple(PatchTestVerdict(finding, finding, NOTHING, NOTHING) for finding in findings), rounds=3
    )


@pytest.mark.parametrize(
    ("findings", "vote", "exit_code"),
    [
        ([PatchFinding.SAME, PatchFinding.PROGRESSION], 1, errors.EXIT_PASS),
        ([PatchFinding.SAME, PatchFinding.REPAIRED], 1, errors.EXIT_PASS),
        ([PatchFinding.SAME, PatchFinding.UNDECIDED], 0, errors.EXIT_PASS),
        ([PatchFinding.SAME, PatchFinding.NOT_MEASURED], 0, errors.EXIT_TESTBED),
        ([PatchFinding.SAME, PatchFinding.REGRESSION, PatchFinding.PROGRESSION], -1, errors.EXIT_REGRESSION),
        ([PatchFinding.NOT_MEASURED, PatchFinding.FAILS], -1, errors.EXIT_REGRESSION),
        ([], 0, errors.EXIT_TESTBED),
    ],
)
def test_vote_and_exit_code_follow_from_the_findings(
    findings: list[PatchFinding], vote: int, exit_code: int
) -> None:
    found = verdict(*findings)

    assert (vote, exit_code) == (found.vote, found.exit_code())


@given(st.lists(st.sampled_from(PatchFinding), min_size=1, max_size=5), st.permutations(range(5)))
def test_order_of_the_tests_does_not_matter(findings: list[PatchFinding], order: list[int]) -> None:
    shuffled = [findings[place] for place in order if place < len(findings)]

    assert verdict(*findings).vote == verdict(*shuffled).vote
    assert verdict(*findings).exit_code() == verdict(*shuffled).exit_code()


def test_regression_may_make_the_job_unstable() -> None:
    assert errors.EXIT_UNSTABLE == verdict(PatchFinding.REGRESSION).exit_code(unstable=True)
    assert errors.EXIT_PASS == verdict(PatchFinding.SAME).exit_code(unstable=True)


def test_patch_that_fails_at_times_gets_no_praise() -> None:
    flaky = PatchTestResults({1: MetricSamples((1.0,))}, {2: "died"}, {})
    steady = PatchTestResults({1: MetricSamples((1.0,))}, {}, {})

    praised = PatchVerdict((PatchTestVerdict("t", PatchFinding.SAME, steady, steady),))
    not_praised = PatchVerdict((PatchTestVerdict("t", PatchFinding.SAME, steady, flaky),))

    assert (1, 0) == (praised.vote, not_praised.vote)


@pytest.mark.parametrize(("side", "vote"), [(BuildSide.CURRENT, -1), (BuildSide.PARENT, 0)])
def test_build_that_fails_is_the_verdict(side: BuildSide, vote: int) -> None:
    found = PatchVerdict(broken=Broken(side, "make ended with 2"))

    assert (vote, errors.EXIT_USAGE) == (found.vote, found.exit_code())


def test_worst_tests_come_first_and_the_largest_differences_among_them() -> None:
    levels = {"a": 1e6, "b": 0.95e6, "c": 0.90e6, "d": 1.05e6}
    series = {test: of_levels(test, 1e6, level, number=10) for test, level in levels.items()}
    done = [
        Round(
            replace(series["a"][index].parent, values={t: series[t][index].parent.values[t] for t in levels}),
            replace(
                series["a"][index].current, values={t: series[t][index].current.values[t] for t in levels}
            ),
        )
        for index in range(10)
    ]

    found = judge(done, list(levels), CRITERIA)

    assert ["c", "b", "d", "a"] == [test.test for test in found.tests]
    assert found.is_settled


def beside_a_loud_test(quiet: float, loud: float, *, maximum: int) -> PatchVerdict:
    """Judge a quiet and a loud test after eight rounds, by the levels of the patch."""
    done = [
        Round(*(replace(one[side], values={**one[side].values, **other[side].values}) for side in BuildSide))
        for one, other in zip(
            of_levels("quiet", 1e6, quiet, number=8),
            of_levels("loud", 1e6, loud, number=8, deviation=0.05),
            strict=True,
        )
    ]
    criteria = replace(CRITERIA, minimum_rounds=8, maximum_rounds=maximum)
    return judge(done, ["quiet", "loud"], criteria)


@pytest.mark.parametrize(
    ("quiet", "loud", "maximum", "settled"),
    [
        (1e6, 0.985e6, 16, False),
        (0.9e6, 0.985e6, 16, True),
        (0.9e6, 0.985e6, 20, False),
        (0.9e6, 0.98e6, 16, False),
    ],
    ids=["no vote yet", "the vote is clear", "not half of the rounds", "it may well be decided"],
)
def test_hardly_decidable_test_is_not_waited_for_once_the_vote_is_clear(
    quiet: float, loud: float, maximum: int, settled: bool
) -> None:
    found = beside_a_loud_test(quiet, loud, maximum=maximum)

    [open_] = [test for test in found.tests if test.test == "loud"]
    assert (PatchFinding.UNDECIDED, True) == (open_.finding, open_.chance > 0.05)
    assert (settled, settled) == (open_.is_settled, found.is_settled)
    assert (-1 if quiet < 1e6 else 0) == found.vote
