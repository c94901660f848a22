"""What every test may lean on: the rule about skipping.

For a person a test that lacks a server, a program or a privilege is skipped with its reason. In
CI (``CI`` is set) that same skip is a failure: a check that silently did not run is none.
"""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import settings

Require = Callable[[object, str], None]

# A deadline would be a timed assertion. CI tells of a change and not of luck: it tries the same examples
# each time, and a person new ones.
settings.register_profile("perftrend", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("perftrend")


@pytest.fixture(scope="session")
def require() -> Require:
    """Skip the test with the reason unless the condition holds: ``require(which("nft"), "needs nft")``."""

    def requirement(condition: object, reason: str) -> None:
        if not condition:
            pytest.skip(reason)

    return requirement


def pytest_configure() -> None:
    # A shell that puts the checks into the background makes them, and all that they start, deaf to Ctrl-C.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("root") and not is_root():
        pytest.skip("needs root or passwordless sudo")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[Any]:
    report = yield
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


def is_root() -> bool:
    if os.geteuid() == 0:
        return True
    try:
        return subprocess.run(["sudo", "-n", "true"], capture_output=True, check=False).returncode == 0
    except FileNotFoundError:
        return False
