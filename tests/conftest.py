"""What every test may rely on: skips, tests that were not run, and how thorough a run is.

A test that lacks a server, a program or a privilege is skipped with its reason. In CI (``CI`` is
set) that same skip is a failure, because a check that silently did not run proves nothing. A test
that needs quiet cores and does not get them is *not run*: nobody can install quiet cores, so that is
reported and counted, and fails nothing.
"""

from __future__ import annotations

import gc
import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings

Require = Callable[[object, str], None]
RequireQuiet = Callable[[str], None]

NOT_RUN = "not run"

# A deadline would be a timed assertion. The gate tries the same examples each time, so that it reports a
# change and not luck; ``--thorough`` tries more of them, and others each time.
settings.register_profile("gate", deadline=None, derandomize=True, database=None, max_examples=15)
settings.register_profile("thorough", deadline=None)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--thorough", action="store_true", help="more and random examples, more kills, every store twice"
    )


def pytest_configure(config: pytest.Config) -> None:
    settings.load_profile("thorough" if config.getoption("thorough") else "gate")
    # To look for cycles after every 700 new objects takes a tenth of the time of the unit tests.
    gc.set_threshold(100_000, 20, 100)
    # A shell that puts the checks into the background makes them, and all that they start, deaf to Ctrl-C.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    # The tests themselves and what they import stay until the end.
    gc.freeze()


@pytest.fixture(scope="session")
def thorough(pytestconfig: pytest.Config) -> bool:
    """Whether the run may take its time."""
    return bool(pytestconfig.getoption("thorough"))


@pytest.fixture(scope="session")
def require() -> Require:
    """Skip the test with the reason unless the condition holds: ``require(which("nft"), "needs nft")``."""

    def requirement(condition: object, reason: str) -> None:
        if not condition:
            pytest.skip(reason)

    return requirement


@pytest.fixture(scope="session")
def shared_memory(require: Require) -> None:
    """Skip the test if processes of this user may not share memory, and so no semaphores."""
    folder = "/dev/shm"  # noqa: S108 - where Linux has it
    require(os.access(folder, os.W_OK), f"needs shared memory: {folder} cannot be written")


class BusyCoresError(Exception):
    """The cores were not quiet, which is no fault of what is tested."""


@pytest.fixture(scope="session")
def require_quiet() -> RequireQuiet:
    """End the test as *not run* if there is a reason: ``require_quiet(trial.invalid)``."""

    def requirement(reason: str) -> None:
        if reason:
            raise BusyCoresError(reason)

    return requirement


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") and not is_root():
        pytest.skip("needs root or passwordless sudo")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Iterator[Any]:
    report = yield
    if call.excinfo and call.excinfo.errisinstance(BusyCoresError):
        report.outcome = "skipped"
        report.not_run = str(call.excinfo.value)
        report.longrepr = (str(item.path), item.location[1] or 0, report.not_run)
        return report
    return report if hasattr(report, "wasxfail") else unskipped(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Iterator[Any]:
    report = yield
    return unskipped(report)


def unskipped(report: Any) -> Any:
    """Turn a skip into a failure where CI is set."""
    if report.skipped and os.environ.get("CI"):
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid} was skipped, which CI does not accept: {report.longrepr[2]}"
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_report_teststatus(report: Any) -> tuple[str, str, str] | None:
    return (NOT_RUN, "n", NOT_RUN.upper()) if hasattr(report, "not_run") else None


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reports = terminalreporter.getreports(NOT_RUN)
    if reports:
        terminalreporter.section(f"{NOT_RUN}, because the cores were not quiet")
        for report in reports:
            terminalreporter.line(f"NOT RUN {report.nodeid}: {report.not_run}")
    measured = [
        (report.nodeid, text)
        for report in terminalreporter.getreports("")
        if report.when == "teardown" and "measure" in report.keywords
        for name, text in report.user_properties
        if name == "measured"
    ]
    if measured:
        terminalreporter.section("measured")
        for test, text in measured:
            terminalreporter.line(f"{test}:")
            terminalreporter.line(f"{text}\n")


def is_root() -> bool:
    if os.geteuid() == 0:
        return True
    try:
        return subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
