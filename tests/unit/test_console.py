"""The log of a job, and a reader of its output that goes away, such as ``head``."""

from __future__ import annotations

import importlib
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from perftrend import console, errors
from perftrend.cli import options

CHECKOUT = Path(__file__).resolve().parents[2]
JOBS = sorted(file.stem for file in (CHECKOUT / "jobs").glob("[a-z]*.py") if file.stem != "tests")


@contextmanager
def unread() -> Iterator[None]:
    """Give output that nobody reads; the end of the block writes what is still buffered, as Python's does."""
    reader, writer = os.pipe()
    os.close(reader)
    with (
        os.fdopen(writer, "w", encoding="utf-8") as output,
        os.fdopen(os.dup(writer), "w", encoding="utf-8") as diagnostics,
        redirect_stdout(output),
        redirect_stderr(diagnostics),
    ):
        yield


def test_work_goes_on_to_its_own_exit_code() -> None:
    with unread(), options.report_errors() as outcome:
        sys.stdout.write("written by the flush")
        sys.stdout.flush()
        sys.stdout.write("more than a buffer holds" * 10_000)
        sys.stderr.write("a warning\n")
        sys.stderr.flush()
        outcome.exit_code = errors.EXIT_REGRESSION

    assert errors.EXIT_REGRESSION == outcome.exit_code


def test_output_that_is_still_buffered_is_discarded() -> None:
    with unread(), options.report_errors() as outcome:
        sys.stdout.write("a line")

    assert errors.EXIT_PASS == outcome.exit_code


def test_error_that_nobody_reads_has_its_exit_code() -> None:
    with unread(), options.report_errors() as outcome:
        raise errors.TestbedError("no carrier")

    assert errors.EXIT_TESTBED == outcome.exit_code


@pytest.mark.parametrize("job", JOBS)
def test_help_that_nobody_reads_ends_well(job: str) -> None:
    with unread(), pytest.raises(SystemExit) as ended:
        importlib.import_module(f"jobs.{job}").main(["--help"])

    assert not ended.value.code


def test_output_that_is_read_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout, sys.stderr
    with options.report_errors():
        sys.stdout.write("verdict\n")
        sys.stderr.write("warning\n")

    assert ("verdict\n", "warning\n") == tuple(capsys.readouterr())
    assert before == (sys.stdout, sys.stderr)


def test_output_may_be_closed_from_the_start() -> None:
    """Python then has no stream at all."""
    with redirect_stdout(None), options.report_errors() as outcome:
        sys.stdout.write("read by nobody")
        assert not sys.stdout.isatty()
        outcome.exit_code = errors.EXIT_REGRESSION

    assert errors.EXIT_REGRESSION == outcome.exit_code


LEVELS = ("debug", "info", "warning", "error")


@pytest.mark.parametrize("least", LEVELS)
def test_log_has_the_events_from_a_level_on(least: str, capsys: pytest.CaptureFixture[str]) -> None:
    log = logging.getLogger("perftrend.listener")
    with console.show_log(least):
        for level in LEVELS:
            log.log(getattr(logging, level.upper()), "at %s", level)
    log.info("after the block")

    expected = [f"perftrend: at {level}" for level in LEVELS[LEVELS.index(least) :]]
    assert expected == capsys.readouterr().err.splitlines()


def test_event_of_the_log_is_one_line_without_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    with console.show_log("info"):
        logging.getLogger("perftrend").warning("%s: started", "perftest \x1b[2J\nperftrend: forged")

    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("perftrend: perftest ")
    assert "\x1b" not in line
