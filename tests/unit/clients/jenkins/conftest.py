from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tenacity

from perftrend.clients.jenkins import Jenkins
from tests.doubles.jenkins import JenkinsDouble, running

Client = Callable[..., Jenkins]


@pytest.fixture
def double() -> Iterator[JenkinsDouble]:
    with running() as double:
        yield double


@pytest.fixture
def client(double: JenkinsDouble, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Make a client of the double that does not pause."""
    # A login from somebody's ~/.netrc is none of the test's.
    monkeypatch.setenv("NETRC", "/dev/null")

    def make(**options: Any) -> Jenkins:
        quick = {"timeout_s": 5.0, "attempts": 3, "wait": tenacity.wait_none(), "sleep": not_at_all}
        return Jenkins(double.url, **{**quick, **options})

    return make


def not_at_all(pause_s: float) -> None:
    """Sleep no time."""
