"""Progress for users: the state of a search, the trials and the result of each test.

Results are shown as text, not as JSON. On a terminal a search has one line, which changes with
each trial; in a log it has one more line a minute. The trials are a table in Robot Framework's log.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from types import TracebackType
from typing import TextIO

from robot import result, running
from typing_extensions import override

from perftrend import message
from perftrend.console import ProgressLine
from perftrend.errors import ArchiveError
from perftrend.execution.robot import TERMINAL
from perftrend.measure import search
from perftrend.measurement import GeneratorHealth, Interval, Trial
from perftrend.model import NOT_SUPPORTED
from perftrend.text import NOTHING, align, format_count

_MEGA = 1e6


class SuiteProgress:
    """Writes to standard output as tests end; see the option ``--listener`` of Robot Framework."""

    ROBOT_LISTENER_API_VERSION = 3

    def __init__(self) -> None:
        self._not_supported: Counter[str] = Counter()

    def end_test(self, data: running.TestCase, result: result.TestCase) -> None:
        """Print the result of a test; tests that the testbed cannot run are counted."""
        del data
        if result.skipped and result.message.startswith(NOT_SUPPORTED):
            self._not_supported[result.message] += 1
            return
        seconds = result.elapsed_time.total_seconds()
        _output().write(f"  {result.name:<40} {_format_result(result)}  ({seconds:.0f} s)\n")
        _output().flush()

    def end_suite(self, data: running.TestSuite, result: result.TestSuite) -> None:
        """Print why a suite's set-up or tear-down failed: its tests do not show it."""
        del data
        if (result.setup and result.setup.failed) or (result.teardown and result.teardown.failed):
            _output().write(f"  {result.name}: {result.message}\n")

    def close(self) -> None:
        """Print the reasons of the tests that the testbed cannot run, each once, at the end of the run."""
        for reason, count in self._not_supported.items():
            _output().write(f"  {format_count(count, 'test')} {reason}\n")
        _output().flush()


class SearchProgress(ProgressLine):
    """Shows the progress of a search, from entering to leaving; use it as ``on_step`` of the search."""

    def __init__(self) -> None:
        self._of_job = _terminal_of_job()
        super().__init__(_output(), terminal=self._of_job)

    @override
    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, traceback)
        if self._of_job is not None:
            self._of_job.close()

    def show_step(self, step: search.TrialProgress) -> None:
        """Show the progress after a trial."""
        self.show(_format_progress(step))


def format_trials(trials: Sequence[Trial]) -> str:
    """Return a table of trials, with a dash for what a generator does not know."""
    heading = (
        "Mpps", "s", "reached", "sent", "lost", "unsent", "load", "core", "queue full", "not valid",
    )  # fmt: skip
    return "\n".join(align([heading, *map(_row_of_trial, trials)], left=0))


def _row_of_trial(trial: Trial) -> tuple[str, ...]:
    health = trial.generator_health or GeneratorHealth()
    # Of a trial that was ended early, the rate may be unknown.
    reached = trial.sent / trial.sending_s / trial.rate_pps if trial.sending_s and trial.rate_pps else None
    return (
        f"{trial.rate_pps / _MEGA:.4f}",
        f"{trial.duration_s:.4g}",
        _known(reached, ".2%"),
        f"{trial.sent:,}",
        f"{trial.sent - trial.received:,}",
        _known(trial.unsent, ",d"),
        _known(health.load, ".0%"),
        _known(health.core_share, ".0%"),
        _known(health.queue_full, ",d"),
        trial.invalid,
    )


def _known(number: float | None, form: str) -> str:
    return NOTHING if number is None else f"{number:{form}}"


def _terminal_of_job() -> TextIO | None:
    """Return the terminal of the job that started this process; None if standard output suffices."""
    name = os.environ.get(TERMINAL)
    if not name or _output().isatty():
        return None
    try:
        # It belongs to the job, and must not become the terminal that controls this process.
        descriptor = os.open(name, os.O_WRONLY | os.O_NOCTTY)
    except OSError:
        return None
    return os.fdopen(descriptor, "w", encoding="utf-8")


def _output() -> TextIO:
    """Return the real standard output: Robot Framework captures ``sys.stdout`` while tests run."""
    return sys.__stdout__ or sys.stdout


def _format_progress(step: search.TrialProgress) -> str:
    """Return one line: ``  ~62 s left, final: NDR 11.9800 to 12.0400, PDR … Mpps``."""
    known = zip(step.loss_ratios, step.intervals, strict=False)
    is_one_pdr = sum(map(bool, step.loss_ratios)) <= 1
    bounds = ", ".join(
        f"{_rate(ratio, is_one_pdr=is_one_pdr)} {_bounds(interval)}" for ratio, interval in known
    )
    return f"  ~{step.seconds_left:.0f} s left, {step.phase}" + (f": {bounds} Mpps" if bounds else "")


def _rate(loss_ratio: float, *, is_one_pdr: bool) -> str:
    if not loss_ratio:
        return "NDR"
    return "PDR" if is_one_pdr else f"PDR {100 * loss_ratio:g} %"


def _bounds(interval: Interval) -> str:
    return f"{interval.lower / _MEGA:.4f} to {interval.upper / _MEGA:.4f}"


def _format_result(test: result.TestCase) -> str:
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
    text = ", ".join(f"{name.upper()} {rate / _MEGA:.4f} Mpps" for name, rate in averages.items())
    if found := measured.reconfiguration:
        text = f"lost {found.lost} packets, {found.lost_s:.6g} s, at {found.rate_pps / _MEGA:.4f} Mpps"
    doubt = f"NOT VALID: {measured.invalid}" if measured.invalid else ""
    return ", ".join(filter(None, [text, doubt]))
