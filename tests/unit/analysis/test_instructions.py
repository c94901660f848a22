"""The instructions of two builds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.instructions import FunctionDifference, InstructionDifference
from perftrend.analysis.instructions import compare_instructions as compare_paths

BEFORE = {"main": 1_000, "lookup": 600_000, "copy": 399_000}


def compare_instructions(
    before: Sequence[Mapping[str, int]], after: Sequence[Mapping[str, int]]
) -> InstructionDifference:
    """Compare counts without callers."""
    return compare_paths(
        *([{(name,): count for name, count in each.items()} for each in side] for side in (before, after))
    )


def described(before: Sequence[Mapping[str, int]], after: Sequence[Mapping[str, int]]) -> str:
    return compare_instructions(before, after).describe("the old one", "The new one")


def test_function_that_does_more_work_is_named_with_its_part_of_the_whole() -> None:
    after = {**BEFORE, "lookup": 850_000}

    assert "The new one executes 25 % more instructions than the old one: lookup +25.0 %." == described(
        [BEFORE] * 2, [after] * 2
    )


def test_improvement_has_fewer_instructions() -> None:
    after = {**BEFORE, "lookup": 500_000, "copy": 379_000}

    assert (
        "The new one executes 12 % fewer instructions than the old one: lookup -10.0 %, copy -2.0 %."
        == described([BEFORE] * 2, [after] * 2)
    )


def test_new_function_and_removed_one_are_compared_with_none() -> None:
    after = {"main": 1_000, "find": 650_000, "copy": 399_000}

    found = compare_instructions([BEFORE] * 2, [after] * 2)

    assert {"find": pytest.approx(0.65), "lookup": pytest.approx(-0.6)} == {
        each.function: each.share for each in found.functions
    }


def test_at_most_three_functions_are_named_and_none_that_hardly_counts() -> None:
    before = {f"f{number}": 200_000 for number in range(5)}
    after = {
        name: count + extra
        for (name, count), extra in zip(before.items(), (9000, 5000, 40_000, 3000, 20_000), strict=True)
    }

    assert described([before] * 2, [after] * 2).endswith(": f2 +4.0 %, f4 +2.0 %, f0 +0.9 %.")
    assert "f3" not in {each.function for each in compare_instructions([before] * 2, [after] * 2).functions}


def test_same_work_is_no_cause() -> None:
    assert (
        "The new one and the old one execute the same number of instructions within 0.1 %, so the program "
        "itself does the same work: look at where code and data lie in memory, at the kernel and at waiting."
        == described([BEFORE, BEFORE], [{**BEFORE, "main": 1_100}, BEFORE])
    )


SAME = InstructionDifference(0.0002, spread=0.0001, user_share=0.98)


@pytest.mark.parametrize("difference", [0.01, 0.05, -0.03])
def test_small_difference_of_the_same_work_may_be_layout(difference: float) -> None:
    assert SAME.may_be_layout(difference)


@pytest.mark.parametrize(
    ("found", "difference"),
    [
        (SAME, 0.06),
        (SAME, math.nan),
        (SAME, math.inf),
        (replace(SAME, relative=0.02), 0.03),
        (replace(SAME, functions=(FunctionDifference("lookup", 0.01),)), 0.03),
        (replace(SAME, user_share=0.7), 0.03),
        (replace(SAME, user_share=math.nan), 0.03),
        (replace(SAME, layouts=3), 0.03),
        (replace(SAME, spread=0.019), 0.05),
    ],
    ids=["large", "fails", "infinite", "more", "moved", "waits", "unknown", "layouts", "unsteady"],
)
def test_difference_with_another_reason_is_not_layout(
    found: InstructionDifference, difference: float
) -> None:
    assert not found.may_be_layout(difference)


def test_work_of_a_program_that_runs_for_a_fixed_time_moves_between_functions() -> None:
    """A benchmark that repeats its work until a second has passed always executes about as much."""
    after = {"main": 1_000, "lookup": 700_000, "copy": 299_000}

    assert described([BEFORE] * 2, [after] * 2).endswith(
        "within 0.1 %, but not in the same functions: lookup +10.0 %, copy -10.0 %."
    )


def test_starts_that_differ_by_more_than_the_builds_show_nothing() -> None:
    noisy = {**BEFORE, "lookup": 605_000}
    after = [{**BEFORE, "lookup": 608_000}, {**BEFORE, "lookup": 611_000}]

    found = compare_instructions([BEFORE, noisy], after)

    assert not found.functions
    assert "same number of instructions within 1.5 %" in found.describe("the old one", "The new one")


def test_unsteady_program_is_not_compared() -> None:
    other = {**BEFORE, "lookup": 640_000}

    assert (
        "The new one and the old one cannot be compared by their instructions: starts of the same build "
        "differ by up to 4 %." == described([BEFORE, other], [BEFORE] * 2)
    )


@pytest.mark.parametrize(
    "before", [[BEFORE], [], [BEFORE, {}], [BEFORE, {"main": 0}]], ids=["one", "none", "empty", "zero"]
)
def test_too_little_to_compare_is_an_error(before: list[dict[str, int]]) -> None:
    with pytest.raises(ValueError, match=r"starts of each build|without instructions"):
        compare_instructions(before, [BEFORE] * 2)


COUNTS = st.dictionaries(st.sampled_from("abcd"), st.integers(1, 10**12), min_size=1)


@given(COUNTS, COUNTS)
def test_builds_that_are_the_same_in_each_start_differ_only_by_what_differs(
    before: dict[str, int], after: dict[str, int]
) -> None:
    found = compare_instructions([before] * 2, [after] * 2)

    assert 0.0 == found.spread
    assert sum(after.values()) / sum(before.values()) - 1 == pytest.approx(found.relative)
    assert {each.function for each in found.functions} <= {
        name for name in {*before, *after} if before.get(name) != after.get(name)
    }


def test_function_counts_wherever_it_is_called_from() -> None:
    before = {("main", "copy"): 500, ("main", "lookup", "copy"): 400, ("main",): 100}
    after = {("main", "find", "copy"): 900, ("main",): 300}

    found = compare_paths([before] * 2, [after] * 2)

    assert {"main": pytest.approx(0.2)} == {each.function: each.share for each in found.functions}
