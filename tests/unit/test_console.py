"""A reader of a job's output that goes away, such as ``head``."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from perftrend import errors
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
