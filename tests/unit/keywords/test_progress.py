from __future__ import annotations

import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import cast

import pytest
from robot import result, running

from perftrend import message
from perftrend.keywords.progress import Progress
from perftrend.model import Interval, Measurement

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
MRR = Measurement("mrr", "simulated", "64B", 64, NOON, NOON, samples=(1e6, 2e6))
SEARCH = Measurement(
    "ndrpdr",
    "simulated",
    "64B",
    64,
    NOON,
    NOON,
    intervals={"ndr": Interval(9e5, 1e6), "pdr": Interval(1e6, 2e6)},
)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    monkeypatch.setattr(sys, "__stdout__", written := StringIO())
    return written


def told(terminal: StringIO, status: str, text: str) -> str:
    test = result.TestCase("64b-mrr", status=status, message=text, elapsed_time=timedelta(seconds=3.2))
    Progress().end_test(cast(running.TestCase, None), test)
    return " ".join(terminal.getvalue().split())


@pytest.mark.parametrize(
    ("status", "text", "line"),
    [
        ("PASS", message.render(MRR), "64b-mrr MRR 1.5000 Mpps (3 s)"),
        ("PASS", message.render(SEARCH), "64b-mrr NDR 0.9000 Mpps, PDR 1.0000 Mpps (3 s)"),
        (
            "PASS",
            message.render(replace(MRR, invalid="a cat on the cable")),
            "64b-mrr MRR 1.5000 Mpps, NOT VALID: a cat on the cable (3 s)",
        ),
        ("PASS", "fine", "64b-mrr passed (3 s)"),
        ("FAIL", "no cable\nat all", "64b-mrr FAILED: no cable (3 s)"),
        ("FAIL", "", "64b-mrr FAILED: no reason given (3 s)"),
        ("SKIP", "not tonight", "64b-mrr SKIPPED: not tonight (3 s)"),
    ],
)
def test_each_test_is_told_in_one_line(status: str, text: str, line: str, terminal: StringIO) -> None:
    assert line == told(terminal, status, text)
    assert 1 == terminal.getvalue().count("\n")


def test_broken_message_is_told_and_stops_nothing(terminal: StringIO) -> None:
    assert "the message's JSON is broken" in told(terminal, "PASS", "perftrend: {")


@pytest.mark.parametrize("part", ["setup", "teardown"])
def test_suite_whose_set_up_or_tear_down_failed_is_told(part: str, terminal: StringIO) -> None:
    suite = result.TestSuite("Nightly", message="no cable")
    getattr(suite, part).config(name="Open Testbed", status="FAIL")

    Progress().end_suite(cast(running.TestSuite, None), suite)

    assert "  Nightly: no cable" in terminal.getvalue()


def test_suite_that_went_well_needs_no_line(terminal: StringIO) -> None:
    suite = result.TestSuite("Nightly")
    suite.setup.config(name="Open Testbed", status="PASS")

    Progress().end_suite(cast(running.TestSuite, None), suite)

    assert terminal.getvalue() == ""
