"""A listener that tells, one line a test, what was measured: results are for people, JSON is not."""

from __future__ import annotations

import sys
from typing import TextIO

from robot import result, running

from perftrend import message
from perftrend.errors import ArchiveError

_MEGA = 1e6


class Progress:
    """Writes to standard output as tests end; see the option ``--listener`` of Robot Framework."""

    ROBOT_LISTENER_API_VERSION = 3

    def end_test(self, data: running.TestCase, result: result.TestCase) -> None:
        """Tell how a test ended."""
        del data
        seconds = result.elapsed_time.total_seconds()
        _terminal().write(f"  {result.name:<40} {_told(result)}  ({seconds:.0f} s)\n")
        _terminal().flush()

    def end_suite(self, data: running.TestSuite, result: result.TestSuite) -> None:
        """Tell why a suite's set-up or tear-down failed: its tests cannot."""
        del data
        if (result.setup and result.setup.failed) or (result.teardown and result.teardown.failed):
            _terminal().write(f"  {result.name}: {result.message}\n")


def _terminal() -> TextIO:
    """Return the real standard output: Robot Framework captures the other one while tests run."""
    return sys.__stdout__ or sys.stdout


def _told(test: result.TestCase) -> str:
    if not test.passed:
        ended = "SKIPPED" if test.skipped else "FAILED"
        return f"{ended}: {test.message.splitlines()[0] if test.message else 'no reason given'}"
    try:
        measured = message.parse(test.message)
    except ArchiveError as error:
        return str(error)
    if measured is None:
        return "passed"
    rates = {name: interval.lower for name, interval in measured.intervals.items()}
    if measured.samples:
        rates = {measured.kind: sum(measured.samples) / len(measured.samples)}
    told = ", ".join(f"{name.upper()} {rate / _MEGA:.4f} Mpps" for name, rate in rates.items())
    return f"{told}, NOT VALID: {measured.invalid}" if measured.invalid else told
