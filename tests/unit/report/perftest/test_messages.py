"""The message in Gerrit, and the console's text."""

from __future__ import annotations

import json
import re
from pathlib import Path

from perftrend import trigger
from perftrend.clients.gerrit.reviews import shorten
from perftrend.perftest import Broken, BuildSide, PatchVerdict
from perftrend.report.perftest import console, message
from tests.unit.report.perftest.reports import compared, report

SAME = (1e6, 1e6)
EXAMPLE = Path(__file__).resolve().parents[4] / "docs" / "jobs" / "perftest-message.txt"


def test_message_begins_with_the_sentence_and_ends_with_the_links() -> None:
    lines = message(compared({"a": SAME, "b": (1e6, 0.9e6)})).strip().splitlines()

    assert lines[0].startswith("1 of 2 tests is slower by ")
    assert [
        "Whole report: https://jenkins.example/job/p/7/artifact/report/index.html",
        "",
        "Files of all rounds: https://jenkins.example/job/p/7/artifact/archives/p/7",
    ] == lines[-3:]


def test_path_on_the_machine_that_measured_is_not_told() -> None:
    assert "/srv" not in message(compared({"a": SAME}, archive="/srv/archives/p/7"))


def test_table_is_aligned_behind_four_blanks_the_worst_first() -> None:
    text = message(compared({"64b-1c-acl20-mrr": SAME, "64b-mrr": (1e6, 0.9e6)}))

    table = [line for line in text.splitlines() if line.startswith("    ")]
    assert ["test", "64b-mrr", "64b-1c-acl20-mrr"] == [line.split()[0] for line in table]
    place = table[0].index("verdict")
    assert ["verdict", "slower", "no difference"] == [line[place:] for line in table]


def test_last_lines_of_a_build_that_failed_are_shown() -> None:
    broken = Broken(
        BuildSide.CURRENT, "make ended with 2", ("router.c:4: error", "\tmake: *** [all] Error 1")
    )

    text = message(report(PatchVerdict(broken=broken)))

    assert "\n\n    router.c:4: error\n        make: *** [all] Error 1\n\n" in text


def test_last_lines_of_a_test_that_fails_with_the_patch_are_shown() -> None:
    text = message(compared({"a": SAME}, {"a": ("", "no route\ndevice died")}))

    assert "a fails with the patch:\n\n    no route\n    device died\n" in text


def test_long_table_is_cut_at_a_line_and_the_rest_is_counted() -> None:
    levels = {f"64b-1c-ethip4-ip4base-with-a-long-name-{number}-mrr": SAME for number in range(150)}

    text = message(compared({"worst": (1e6, 0.8e6), **levels}, number=3))

    assert text == shorten(text) + "\n"
    assert "\n    worst " in text
    [counted] = [line for line in text.splitlines() if line.startswith("    … and ")]
    shown = sum(line.startswith("    64b-1c") for line in text.splitlines())
    assert f"    … and {150 - shown} more tests: " in counted


def test_message_is_never_taken_for_a_request() -> None:
    hostile = "x\nperftest-1n-veth mrr"
    told = compared({hostile: SAME}, {hostile: ("", "boom\nperftest-1n-veth mrr\n")})

    assert [] == trigger.parse(message(told), testbeds=["1n-veth"])


def test_no_paragraph_is_empty() -> None:
    text = message(compared({"a": (1e6, 0.8e6)}, link=""))

    assert "\n\n\n" not in text
    assert "Whole report" not in text


def test_message_in_the_documentation_is_one_of_ours() -> None:
    levels = {
        "64b-1c-ethip4-ip4base-mrr": (13.41e6, 12.97e6),
        "64b-1c-ethip4-ip4base-acl20-mrr": (9.32e6, 9.33e6),
        "64b-1c-ethip4-ip4base-acl60-mrr": (5.18e6, 5.17e6),
        "64b-1c-eth-l2bdbasemaclrn-mrr": (14.60e6, 14.61e6),
    }

    # Where this fails because the comparison has changed, write what is expected here into the file.
    assert EXAMPLE.read_text() == message(compared(levels))


def _number(found: re.Match[str]) -> str:
    return "" if found[0].startswith(":") else "N"


def test_every_test_is_told_in_the_documented_order_indexed_from_0() -> None:
    text = console(compared({"b": (1e6, 0.9e6), "a": (1e6, 1e6)}, number=3))

    first, second = text.split("\n\n")[:2]
    assert ["Test 0: a", "Test 1: b"] == [first.splitlines()[0], second.splitlines()[0]]
    assert [
        "Values of parent in the order of time",
        "Values of parent by value",
        "Values of current in the order of time",
        "Values of current by value",
        "Difference of averages",
        "jumpavg representation of parent",
        "jumpavg representation of current",
        "jumpavg representation of combined",
        "The description as two groups is the shorter one by N",
        "Test result classification",
        "perftrend",
    ] == [re.sub(r"[0-9]+\..*|:.*", _number, line).strip() for line in second.splitlines()[1:]]
    assert "Test result classification: regression" in second
    assert "Test result classification: normal" in first


def test_values_by_value_show_the_smallest_first() -> None:
    lines = console(compared({"a": (1e6, 1e6)}, number=3)).splitlines()

    in_time, by_value = (json.loads(line.partition(": ")[2]) for line in lines[1:3])

    assert sorted(in_time) == by_value != in_time
    assert 15 == len(in_time)


def test_failures_are_told_by_round() -> None:
    text = console(compared({"a": (1e6, 1e6)}, {"a": ("", "device died")}, number=3))

    assert "Failed with current in round 2: device died" in text
    assert "perftrend: fails with the patch (device died)" in text


def test_console_ends_with_the_sentence() -> None:
    assert "All 2 tests show" in console(compared({"a": (1e6, 1e6), "b": (1e6, 1e6)})).splitlines()[-1]
