from __future__ import annotations

import os
import pty
import re
import select
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from io import StringIO
from typing import cast

import pytest
from robot import result, running

from perftrend import message
from perftrend.keywords.measurement import TERMINAL, SearchProgress, SuiteProgress, format_trials
from perftrend.measure import search
from perftrend.measurement import (
    CriticalLoad,
    GeneratorHealth,
    Interval,
    Measurement,
    Reconfiguration,
    Trial,
)
from perftrend.model import NOT_SUPPORTED
from perftrend.text import NOTHING

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

SOAK = replace(
    MRR,
    kind="soak",
    samples=(),
    intervals={"soak": Interval(9e5, 2e6)},
    critical_load=CriticalLoad(1e6, target_loss_ratio=1e-7, credibility=0.95),
)


RECONF = replace(
    MRR,
    kind="reconf",
    samples=(),
    reconfiguration=Reconfiguration(2e6, {"routes": "9"}, 0.5, lost=1000, baseline_lost=0),
)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> StringIO:
    monkeypatch.setattr(sys, "__stdout__", written := StringIO())
    return written


def told(terminal: StringIO, status: str, text: str) -> str:
    test = result.TestCase("64b-mrr", status=status, message=text, elapsed_time=timedelta(seconds=3.2))
    SuiteProgress().end_test(cast(running.TestCase, None), test)
    return " ".join(terminal.getvalue().split())


@pytest.mark.parametrize(
    ("status", "text", "line"),
    [
        ("PASS", message.render(MRR), "64b-mrr MRR 1.5000 Mpps (3 s)"),
        ("PASS", message.render(SEARCH), "64b-mrr NDR 0.9000 Mpps, PDR 1.0000 Mpps (3 s)"),
        ("PASS", message.render(SOAK), "64b-mrr SOAK 1.0000 Mpps (3 s)"),
        ("PASS", message.render(RECONF), "64b-mrr lost 1000 packets, 0.0005 s, at 2.0000 Mpps (3 s)"),
        (
            "PASS",
            message.render(replace(RECONF, reconfiguration=None, invalid="no NDR")),
            "64b-mrr NOT VALID: no NDR (3 s)",
        ),
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


def test_trials_are_a_table_with_a_dash_for_what_is_not_known() -> None:
    ended_early = Trial(2e6, 1.0, 0.4, 800_000, 300_000)
    slow = Trial(
        1e6, 1.0, 1.3, 1_000_000, 999_900, invalid="too slow", sending_s=1.25,
        unsent=0, generator_health=GeneratorHealth(load=0.991, core_share=0.8, queue_full=1204),
    )  # fmt: skip

    assert [
        "  Mpps  s  reached       sent     lost  unsent  load  core  queue full  not valid",
        "2.0000  1        -    800,000  500,000       -     -     -           -",
        "1.0000  1   80.00%  1,000,000      100       0   99%   80%       1,204  too slow",
    ] == format_trials([ended_early, slow]).replace(NOTHING, "-").splitlines()


def test_broken_message_is_told_and_stops_nothing(terminal: StringIO) -> None:
    assert "the message's JSON is broken" in told(terminal, "PASS", "perftrend: {")


def test_tests_that_the_testbed_cannot_run_are_counted_at_the_end(terminal: StringIO) -> None:
    progress = SuiteProgress()
    for number, reason in enumerate(("no tunnels", "no VLANs", "no tunnels")):
        message = f"{NOT_SUPPORTED}{reason}"
        test = result.TestCase(f"test-{number}", status="SKIP", message=message)
        progress.end_test(cast(running.TestCase, None), test)
    before = terminal.getvalue()

    progress.close()

    assert "" == before
    assert [
        "  2 tests not supported: no tunnels",
        "  1 test not supported: no VLANs",
    ] == terminal.getvalue().splitlines()


@pytest.mark.parametrize("part", ["setup", "teardown"])
def test_suite_whose_set_up_or_tear_down_failed_is_told(part: str, terminal: StringIO) -> None:
    suite = result.TestSuite("Nightly", message="no cable")
    getattr(suite, part).config(name="Open Testbed", status="FAIL")

    SuiteProgress().end_suite(cast(running.TestSuite, None), suite)

    assert "  Nightly: no cable" in terminal.getvalue()


def test_suite_that_went_well_needs_no_line(terminal: StringIO) -> None:
    suite = result.TestSuite("Nightly")
    suite.setup.config(name="Open Testbed", status="PASS")

    SuiteProgress().end_suite(cast(running.TestSuite, None), suite)

    assert terminal.getvalue() == ""


BEGUN = search.TrialProgress("initial", (0.0, 0.005), (), 1.0, 131.4)
NEARLY = search.TrialProgress(
    "final", (0.0, 0.005), (Interval(11.98e6, 12.04e6), Interval(12e6, 12.06e6)), 60.0, 29.6
)
NEARLY_TOLD = "~30 s left, final: NDR 11.9800 to 12.0400, PDR 12.0000 to 12.0600 Mpps"


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Give a clock that is set by hand."""
    now = [0.0]
    monkeypatch.setattr("perftrend.console.time.monotonic", lambda: now[0])
    return now


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Give a terminal that the job has and we have not; what is written there can be read."""
    reader, writer = pty.openpty()
    monkeypatch.setenv(TERMINAL, os.ttyname(writer))
    yield reader
    os.close(reader)
    os.close(writer)


def received(screen: int) -> bytes:
    """Return all that was written to the terminal; the kernel hands it over a moment later."""
    written = b""
    while select.select([screen], [], [], 0.3)[0]:
        written += os.read(screen, 100_000)
    return written


def shown(screen: int) -> list[str]:
    """Return what stood on the terminal's line, one after the other."""
    text = received(screen).decode()
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text))
    return [line.strip() for line in lines if line.strip()]


def test_log_gets_one_line_a_minute_at_most(terminal: StringIO, clock: list[float]) -> None:
    with SearchProgress() as told:
        for clock[0] in (1.0, 59.0, 60.0, 61.0, 119.0, 121.0):
            told.show_step(NEARLY)

    assert [f"  {NEARLY_TOLD}"] * 2 == terminal.getvalue().splitlines()


def test_rates_of_several_loss_ratios_are_told_apart(terminal: StringIO, clock: list[float]) -> None:
    found = tuple(Interval(rate * 1e6, (rate + 0.06) * 1e6) for rate in (11.94, 12.0, 12.06))
    with SearchProgress() as progress:
        clock[0] = 60.0
        progress.show_step(search.TrialProgress("final", (0.0, 0.005, 0.01), found, 60.0, 29.6))

    assert (
        "NDR 11.9400 to 12.0000, PDR 0.5 % 12.0000 to 12.0600, PDR 1 % 12.0600 to 12.1200 Mpps"
        in terminal.getvalue()
    )


def test_terminal_shows_each_trial_on_one_line(screen: int, terminal: StringIO) -> None:
    with SearchProgress() as told:
        told.show_step(BEGUN)
        told.show_step(NEARLY)

    assert ["~131 s left, initial", NEARLY_TOLD] == shown(screen)[:2]
    assert terminal.getvalue() == ""


def test_terminal_is_clean_after_the_search(screen: int, terminal: StringIO) -> None:
    with SearchProgress() as told:
        told.show_step(NEARLY)

    assert received(screen).endswith(b"\x1b[2K")


def test_terminal_that_is_gone_is_done_without(
    terminal: StringIO, clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(TERMINAL, "/dev/pts/no-such-terminal")

    with SearchProgress() as told:
        clock[0] = 60.0
        told.show_step(BEGUN)

    assert "  ~131 s left, initial\n" == terminal.getvalue()
