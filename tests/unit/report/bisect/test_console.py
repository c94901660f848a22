"""The console's text: steps as they come, the documented form of each test, the answer."""

from __future__ import annotations

from perftrend.bisect import MeasureStep, Suspicion
from perftrend.errors import BuildError
from perftrend.report.bisect import console, sentence, step
from tests.unit.report.bisect.reports import KINDS, measured, name

DOCUMENTED = """\
parent: 000000000001 "Commit number 1"
current: 000000000002 "Commit number 2"
Test 0: acl
  Values of parent in the order of time: [10000000, 10020000, 9980000]
  Values of parent by value: [9980000, 10000000, 10020000]
  Values of current in the order of time: [9000000, 9018000, 8982000]
  Values of current by value: [8982000, 9000000, 9018000]
  Difference of averages: -10.000 % of the parent average
"""


def test_each_test_is_told_in_the_documented_form() -> None:
    """Source: "Bisecting", section Console output."""
    text = console(KINDS["slower"])
    lines = text.splitlines()

    assert DOCUMENTED in text
    assert ["parent", "current", "combined"] == [
        line.split()[3].rstrip(":") for line in lines if line.startswith("  jumpavg representation of")
    ][:3]
    assert "  The description as two groups is the shorter one by " in text[: text.index("Test 1: ip4")]
    assert ["regression", "normal"] == [line.split()[-1] for line in lines if "classification:" in line]


def test_ends_are_compared_where_nothing_was_found() -> None:
    text = console(KINDS["nothing"])

    assert '\nparent: 000000000000 "Commit number 0"\ncurrent: 000000000002 "Commit number 2"\n' in text


def test_test_without_values_in_a_build_is_failed_and_has_no_average() -> None:
    text = console(KINDS["failing"])

    assert "Difference of averages: none, because a build has no values" in text
    assert "Test result classification: failed" in text
    assert "nan" not in text


def test_answer_comes_first_and_the_form_of_csit_last() -> None:
    for report in KINDS.values():
        lines = console(report).splitlines()

        assert sentence(report) == lines[0]
        if report.state.measured:
            assert lines[-1].startswith("  Test result classification: ")


def test_last_lines_of_an_end_that_does_not_build_are_shown() -> None:
    assert "router.c:4: error\n    make: *** [all] Error 1\n" in console(KINDS["not built"])


def test_step_says_what_is_measured_why_and_who_is_suspect() -> None:
    belief = (Suspicion((), 0.1), Suspicion((name(1),), 0.2), Suspicion((name(2), name(3)), 0.7))

    line = step(MeasureStep(name(2), "it is expected to give 0.9 bits", belief, remaining=21), 5)

    assert (
        "step 5, about 21 to go: measuring 000000000002, it is expected to give 0.9 bits; "
        "most likely so far: 000000000002 to 000000000003 (70.0 %), 000000000001 (20.0 %)"
    ) == line


def test_step_of_a_pair_names_both_commits() -> None:
    line = step(
        MeasureStep(name(2), "to confirm or refute what is suspected", against=name(1), remaining=18), 7
    )

    assert (
        "step 7, about 18 to go: measuring 000000000002 in turn with 000000000001, "
        "to confirm or refute what is suspected"
    ) == line


def test_step_says_what_a_measurement_gave() -> None:
    assert "  000000000001: acl 10.00 Mpps, ip4 failed" == step(measured(1, {"acl": 10e6}, {"ip4": "died"}))
    assert "  000000000001: nothing was measured" == step(measured(1, {}))


def test_step_says_what_does_not_build_in_one_line() -> None:
    assert "  does not build: make\N{REPLACEMENT CHARACTER} ended with 2" == step(
        BuildError("make\x1b\nended with 2")
    )
