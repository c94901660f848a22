"""The message in Gerrit, and the console's text."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perftrend import trigger
from perftrend.bisect import BisectOutcome, Culprit, MeasureStep, OutcomeKind, Suspicion
from perftrend.clients.gerrit.reviews import shorten
from perftrend.errors import BuildError
from perftrend.report.bisect import NamedCommit, console, culprit_message, message, sentence, step
from tests.unit.report.bisect.reports import (
    KINDS,
    SLOWER,
    found,
    measured,
    name,
    report,
    slower,
    state,
)

SLOWER_MESSAGE = """\
000000000002 "Commit number 2" made 1 of 2 tests slower by 10 %, with a probability of 99.7 %.

000000000002 "Commit number 2", by Ada Example:

    test      before       after  difference           interval  verdict
    acl   10.00 Mpps  9.000 Mpps     -10.0 %  -11.0 % to -9.0 %  slower
    ip4   5.000 Mpps  5.010 Mpps      +0.2 %   -1.0 % to +1.2 %  the same

What was measured, oldest first:

    commit        runs         acl         ip4  what it is
    000000000000     1  10.00 Mpps  5.000 Mpps  [old] Commit number 0
    000000000001     1  10.00 Mpps  5.000 Mpps  Commit number 1
    000000000002     1  9.000 Mpps  5.000 Mpps  [CHANGED HERE] Commit number 2
    000000000004     1  9.000 Mpps  5.000 Mpps  [new] Commit number 4

Searched from 000000000000 "Commit number 0" to 000000000004 "Commit number 4" on 1n-veth by the strategy \
adaptive: 4 commits, 4 builds, 4 measurements, 12 minutes.

- Ended because there is hardly another change.

To repeat it by hand:

    ./run bisect --testbed 1n-veth --old 000000000000ffffffffffffffffffffffffffff --change 1234

Whole report: https://jenkins.example/job/b/7/artifact/report/index.html
"""


def many(commits: int, tests: int, measurements: int, culprits: int, **others: Any) -> Any:
    names = [f"64b-{place}c-ethip4-ip4base-with-a-long-name-mrr" for place in range(tests)]
    step = commits // measurements
    done = [measured(number, dict.fromkeys(names, 1e6)) for number in range(0, commits + 1, step)]
    found_here = [
        Culprit((name((place + 1) * commits // (culprits + 1)),), 0.99, dict.fromkeys(names, SLOWER))
        for place in range(culprits)
    ]
    ended = found(*found_here) if found_here else BisectOutcome(OutcomeKind.NO_DIFFERENCE, "")
    return report(ended, state(commits, done), **others)


def test_message_has_the_answer_the_proof_and_the_way_to_repeat_it() -> None:
    assert SLOWER_MESSAGE == message(KINDS["slower"])


CULPRIT_MESSAGE = """\
This change, as commit 000000000002, made 1 of 2 tests slower by 10 %, with a probability of 99.7 %.

    test      before       after  difference           interval  verdict
    acl   10.00 Mpps  9.000 Mpps     -10.0 %  -11.0 % to -9.0 %  slower
    ip4   5.000 Mpps  5.010 Mpps      +0.2 %   -1.0 % to +1.2 %  the same

Searched from 000000000000 "Commit number 0" to 000000000004 "Commit number 4" on 1n-veth by the strategy \
adaptive: 4 commits, 4 builds, 4 measurements, 12 minutes.

Requested on https://review.example/c/router/+/1234

To repeat it by hand:

    ./run bisect --testbed 1n-veth --old 000000000000ffffffffffffffffffffffffffff --change 1234

Whole report: https://jenkins.example/job/b/7/artifact/report/index.html
"""


def test_guilty_change_is_told_what_it_did_and_who_asked() -> None:
    told = KINDS["slower"]

    assert CULPRIT_MESSAGE == culprit_message(told, told.outcome.culprits[0])


def test_simulation_is_told_as_such_to_the_guilty_change() -> None:
    told = KINDS["slower"]
    simulated = replace(told, subject=replace(told.subject, simulated=True))

    assert culprit_message(simulated, told.outcome.culprits[0]).startswith("SIMULATED: This change, ")


def test_commits_that_hide_a_change_are_marked() -> None:
    rows = [line.split("  ")[-1] for line in message(KINDS["hidden"]).splitlines() if "HERE]" in line]

    assert [
        "[MAYBE HERE] [does not build] Commit number 1",
        "[MAYBE HERE] [does not build] Commit number 2",
        "[MAYBE HERE] [new] Commit number 3",
    ] == [row.strip() for row in rows]


def test_last_lines_of_an_end_that_does_not_build_are_shown() -> None:
    assert "\n\n    router.c:4: error\n        make: *** [all] Error 1\n\n" in message(KINDS["not built"])


def test_path_on_the_machine_that_measured_is_not_told() -> None:
    for told in KINDS.values():
        assert "/srv" not in message(replace(told, archive="/srv/archives/b/7"))


@pytest.mark.parametrize("culprits", [0, 1, 3])
def test_message_of_a_thousand_commits_and_sixty_tests_fits(culprits: int) -> None:
    text = message(many(1000, 60, 150 if culprits else 500, culprits))

    assert text == shorten(text) + "\n"
    assert "more commits and 57 more tests in the whole report." in text
    assert text.count("… and 48 more tests") == culprits


def test_rows_around_the_change_are_shown_of_many_commits() -> None:
    lines = message(many(1000, 1, 100, 1)).splitlines()

    shown = [int(line.split()[0]) for line in lines if line.startswith("    000000")]
    assert {0, 490, 500, 510, 1000} <= set(shown)
    assert 15 == len(shown)


def test_long_names_do_not_push_the_message_over_the_limit() -> None:
    text = message(many(100, 60, 100, 3, names={name(0): NamedCommit("x" * 5000, "y" * 5000)}))

    assert text == shorten(text) + "\n"


HOSTILE = [
    "\nbisecttest-1n-veth 1234567",
    "\x1b[2J\x07 owned",
    "\u202egnp.exe",
    "perftest-1n-veth mrr\r\nperftest-1n-veth mrr",
    "\n\n* item\n> quote\n```",
]


@pytest.mark.parametrize("text", HOSTILE)
def test_what_others_wrote_stays_within_its_line(text: str) -> None:
    """Subjects, authors, test names and units are anybody's; none begins a line, or asks for a job."""
    culprit = Culprit((name(1),), 0.99, {text: SLOWER})
    done = [measured(0, {text: 10e6}, unit=text), measured(1, {text: 9e6}, {f"{text} 2": text}, unit=text)]
    names = {name(number): NamedCommit(text, text) for number in range(2)}

    hostile = message(report(found(culprit), state(1, done), names=names, command=text))

    usual = [measured(0, {"t": 10e6}), measured(1, {"t": 9e6}, {"u": "w"})]
    plain = message(report(found(replace(culprit, effects={"t": SLOWER})), state(1, usual)))
    assert len(plain.splitlines()) == len(hostile.splitlines())
    assert [] == trigger.parse(hostile)
    assert not [character for character in hostile if ord(character) < 32 and character != "\n"]
    assert "\u202e" not in hostile


def test_nothing_of_a_diff_is_told_in_gerrit() -> None:
    assert "acl.c" not in message(slower())


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
    for each in KINDS.values():
        lines = console(each).splitlines()

        assert sentence(each) == lines[0]
        if each.state.measured:
            assert lines[-1].startswith("  Test result classification: ")


def test_last_lines_of_an_end_that_does_not_build_are_in_the_console() -> None:
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
