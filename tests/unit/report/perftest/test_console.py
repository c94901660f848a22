"""The console's text in the documented form."""

from __future__ import annotations

import json
import re

from perftrend.report.perftest import console
from tests.unit.report.perftest.reports import compared


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
