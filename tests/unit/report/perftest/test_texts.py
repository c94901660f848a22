"""The sentence that summarises a report, and the notes below it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perftrend.analysis.instructions import InstructionDifference
from perftrend.model import NOT_VALID, BuildMeasurement
from perftrend.perftest import Broken, BuildSide, PatchFinding, PatchVerdict, Round, doubt_layouts, judge
from perftrend.report.perftest import sentence, texts
from tests.unit.perftest.made import CRITERIA, measured, noisy
from tests.unit.report.perftest.reports import SUBJECT, compared, report, rounds_of

SAME = (1e6, 1e6)


def test_sentence_says_how_many_are_slower_and_by_how_much() -> None:
    told = compared({"a": (1e6, 0.8e6), "b": (1e6, 0.6e6), "c": SAME, "d": SAME})

    assert "2 of 4 tests are slower by 20 to 40 %; 2 show no difference of 1 % or more." == sentence(told)


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        ({"a": SAME, "b": SAME}, "All 2 tests show no difference of 1 % or more."),
        ({"a": SAME}, "The only test shows no difference of 1 % or more."),
        ({"a": (1e6, 0.8e6)}, "The only test is slower by 20 %."),
        (
            {"a": (1e6, 1.2e6), "b": SAME},
            "1 of 2 tests is faster by 20 %; 1 shows no difference of 1 % or more.",
        ),
        ({}, "No test was measured."),
    ],
)
def test_sentence_is_one_that_a_person_would_say(
    levels: dict[str, tuple[float, float]], expected: str
) -> None:
    assert expected == sentence(compared(levels))


@pytest.mark.parametrize(
    ("relative", "level", "expected"),
    [
        (0.0, 0.8e6, "The only test is slower by 20 %. Both builds execute the same instructions."),
        (0.1, 0.8e6, "The only test is slower by 20 %."),
        (0.0, 1e6, "The only test shows no difference of 1 % or more."),
    ],
)
def test_sentence_warns_if_the_program_does_the_same_work(
    relative: float, level: float, expected: str
) -> None:
    difference = InstructionDifference(relative, spread=0.0001)

    assert expected == sentence(compared({"a": (1e6, level)}, instructions=difference))


def test_difference_that_the_layout_may_make_is_undecided() -> None:
    same = InstructionDifference(0.0, spread=0.0, user_share=0.99)
    whole = compared({"a": (1e6, 0.97e6), "b": (1e6, 0.8e6)}, instructions=same)

    doubted = replace(whole, verdict=doubt_layouts(whole.verdict, same))

    assert "1 of 2 tests is slower by 20 %; 1 is undecided. Both builds execute the same instructions." == (
        sentence(doubted)
    )
    assert (
        "a: the builds differ by 3 % but execute the same instructions, so the position of code in memory "
        "may be the only reason; measure them in several layouts (measure.variants)."
    ) in texts.notes(doubted)
    assert not any("would probably have been shown" in note for note in texts.notes(doubted))


def test_failure_with_the_patch_alone_is_in_the_sentence() -> None:
    told = compared({"a": SAME, "b": SAME}, {"b": ("", "died")})

    assert "1 of 2 tests fails with the patch; 1 shows no difference of 1 % or more." == sentence(told)


def test_build_that_failed_is_the_whole_sentence() -> None:
    patch = PatchVerdict(broken=Broken(BuildSide.CURRENT, "router at bbbbbb: make ended with 2"))
    parent = PatchVerdict(broken=Broken(BuildSide.PARENT, "router at aaaaaa: make ended\nwith 2"))

    assert "The patch does not build: router at bbbbbb: make ended with 2." == sentence(report(patch))
    assert (
        "The parent does not build, so there is nothing to compare the patch with: "
        "router at aaaaaa: make ended with 2." == sentence(report(parent))
    )


def test_simulated_results_are_marked_first() -> None:
    told = compared({"a": SAME}, subject=replace(SUBJECT, simulated=True))

    assert sentence(told).startswith("SIMULATED: The only test")


def test_rates_have_as_many_decimals_as_the_smallest_needs() -> None:
    told = compared({"a": (12.3e6, 12.3e6), "b": (123456.0, 123456.0)})

    found = {row.test: row.parent for row in texts.rows(told.verdict.tests)}

    assert ["12.2985", "0.1234"] == [found["a"], found["b"]]


def test_reason_of_a_test_without_numbers_is_told() -> None:
    told = compared(
        {"a": SAME, "b": SAME},
        {"a": (f"{NOT_VALID}late", f"{NOT_VALID}late"), "b": ("died", "line one\nline two\n")},
    )

    found = {row.test: row.reason for row in texts.rows(told.verdict.tests)}

    assert {"a": "not valid with the parent: late", "b": "fails with both builds: line two"} == found


def test_notes_say_that_it_ended_early() -> None:
    """Of a test without a difference the interval says how small one may be."""
    notes = texts.notes(compared({"a": SAME, "b": (1e6, 0.9e6)}))

    assert ["Ended after 8 rounds of 10: more would not change the verdict."] == list(notes)


def test_notes_say_what_would_have_been_seen_where_it_is_undecided() -> None:
    done = compared({"a": SAME})
    [test] = done.verdict.tests
    undecided = replace(test, finding=PatchFinding.UNDECIDED)

    notes = texts.notes(replace(done, verdict=replace(done.verdict, tests=(undecided,))))

    assert any(note.startswith("For undecided tests, a difference of 1.") for note in notes)


def test_notes_say_that_too_few_rounds_show_nothing_and_how_many_do() -> None:
    """Four rounds have 70 orders: not even complete separation is surer than 1 in 35."""
    done = rounds_of({"a": (1e6, 0.5e6)}, number=4)
    found = judge(done, ["a"], replace(CRITERIA, maximum_rounds=4))

    notes = texts.notes(report(found))

    assert "4 rounds cannot show a difference of 1 test; set perftest.maximum_rounds to 5 or more." in notes


def test_notes_say_that_values_at_the_same_speed_are_compared() -> None:
    done = compared({"a": SAME})
    [test] = done.verdict.tests
    assert test.comparison
    switching, exact = (
        replace(test, comparison=replace(test.comparison, any_shape=0.99, error=error))
        for error in (0.005, 0.0005)
    )

    notes = [
        texts.notes(replace(done, verdict=PatchVerdict((each,), rounds=8))) for each in (switching, exact)
    ]

    # Values that hardly differ have no speeds.
    assert [True, False] == [
        any(note.startswith("a: the noise is not normal") for note in each) for each in notes
    ]


def test_notes_say_that_layouts_explain_a_difference() -> None:
    """3 % between the builds, and 2 % between two layouts of each."""

    def build(number: int, level: float) -> BuildMeasurement:
        variant = number // 2 % 2
        [samples] = noisy(level + 2e4 * variant, rounds=1, seed=number)
        return replace(measured(number, {"a": samples}), variant=variant)

    done = [Round(build(2 * number, 1e6), build(2 * number + 1, 0.97e6)) for number in range(10)]
    found = judge(done, ["a"], CRITERIA)

    assert [PatchFinding.UNDECIDED] == [test.finding for test in found.tests]
    assert (
        "a: the builds differ, but each of them differs as much from layout to layout; "
        "measure them in more layouts."
    ) in texts.notes(report(found))


def test_merge_is_told() -> None:
    told = compared({"a": SAME}, subject=replace(SUBJECT, is_merge=True))

    assert "The patch set is a merge; it is compared with its first parent." in texts.notes(told)


def test_results_that_were_left_out_are_counted() -> None:
    done = compared({"a": SAME})
    [test] = done.verdict.tests
    doubted = replace(test, current=replace(test.current, untrusted={7: "late", 8: "late"}))

    notes = texts.notes(replace(done, verdict=PatchVerdict((doubted,), rounds=8)))

    assert "a: 2 results of the patch left out as not valid (late)." in notes


def test_nothing_that_a_test_says_breaks_a_line() -> None:
    told = compared({"a\nperftest-1n-veth mrr\x1b[2J": SAME})

    [row] = texts.rows(told.verdict.tests)

    assert "a perftest-1n-veth mrr\N{REPLACEMENT CHARACTER}[2J" == row.test
