"""What a person who waits is told: how far a search is, and how each test ended.

Results are for people here, JSON is not. On a terminal a search has one line, which changes with
each trial; in a log it has one more line a minute. No thread runs for that: nothing shall disturb
the trials, so a line stands still while a trial is under way.
"""

from __future__ import annotations

import os
import sys
import time
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text
from robot import result, running

from perftrend import message
from perftrend.errors import ArchiveError
from perftrend.measure import search
from perftrend.model import Interval

TERMINAL = "TERMINAL_OF_PERFTREND"
"""The variable that names the terminal of the job, where standard output is a pipe to the job."""

_MEGA = 1e6
_LOG_EVERY_S = 60.0


class Progress:
    """Writes to standard output as tests end; see the option ``--listener`` of Robot Framework."""

    ROBOT_LISTENER_API_VERSION = 3

    def end_test(self, data: running.TestCase, result: result.TestCase) -> None:
        """Tell how a test ended."""
        del data
        seconds = result.elapsed_time.total_seconds()
        _output().write(f"  {result.name:<40} {_told(result)}  ({seconds:.0f} s)\n")
        _output().flush()

    def end_suite(self, data: running.TestSuite, result: result.TestSuite) -> None:
        """Tell why a suite's set-up or tear-down failed: its tests cannot."""
        del data
        if (result.setup and result.setup.failed) or (result.teardown and result.teardown.failed):
            _output().write(f"  {result.name}: {result.message}\n")


class SearchProgress:
    """Shows how far a search is, from entering to leaving; use it as ``on_step`` of the search."""

    def __init__(self) -> None:
        self._live: Live | None = None
        self._opened: TextIO | None = None
        self._logged = time.monotonic()

    def __enter__(self) -> SearchProgress:
        terminal = self._terminal()
        if terminal is not None:
            self._live = Live(
                console=Console(file=terminal, force_terminal=True, width=_columns(terminal)),
                auto_refresh=False,
                transient=True,
                redirect_stdout=False,
                redirect_stderr=False,
            )
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()
        if self._opened is not None:
            self._opened.close()

    def tell(self, step: search.Progress) -> None:
        """Show what is known after a trial."""
        if self._live is not None:
            self._live.update(Text(_searching(step), no_wrap=True, overflow="ellipsis"), refresh=True)
        elif time.monotonic() - self._logged >= _LOG_EVERY_S:
            self._logged = time.monotonic()
            _output().write(_searching(step) + "\n")
            _output().flush()

    def _terminal(self) -> TextIO | None:
        """Return the terminal that somebody looks at; None if nobody does."""
        if _output().isatty():
            return _output()
        name = os.environ.get(TERMINAL)
        if not name:
            return None
        try:
            # It belongs to the job, and must not become the terminal that controls this process.
            descriptor = os.open(name, os.O_WRONLY | os.O_NOCTTY)
        except OSError:
            return None
        self._opened = os.fdopen(descriptor, "w", encoding="utf-8")
        return self._opened


def _output() -> TextIO:
    """Return the real standard output: Robot Framework captures the other one while tests run."""
    return sys.__stdout__ or sys.stdout


def _columns(terminal: TextIO) -> int | None:
    """Return the width of a terminal, which need not be that of any standard stream; None: unknown."""
    try:
        return os.get_terminal_size(terminal.fileno()).columns or None
    except OSError:
        return None


def _searching(step: search.Progress) -> str:
    """Write one line: ``  ~62 s left, final: NDR 11.9800 to 12.0400, PDR … Mpps``."""
    known = zip(step.loss_ratios, step.intervals, strict=False)
    bounds = ", ".join(f"{'PDR' if ratio else 'NDR'} {_bounds(interval)}" for ratio, interval in known)
    return f"  ~{step.seconds_left:.0f} s left, {step.phase}" + (f": {bounds} Mpps" if bounds else "")


def _bounds(interval: Interval) -> str:
    return f"{interval.lower / _MEGA:.4f} to {interval.upper / _MEGA:.4f}"


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
    averages = {name: sum(samples) / len(samples) for name, samples in measured.rates.items()}
    told = ", ".join(f"{name.upper()} {rate / _MEGA:.4f} Mpps" for name, rate in averages.items())
    return f"{told}, NOT VALID: {measured.invalid}" if measured.invalid else told
