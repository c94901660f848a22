from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tenacity

from perftrend.clients.gerrit import Gerrit
from tests.doubles.gerrit import GerritDouble, running

Client = Callable[..., Gerrit]


@pytest.fixture
def double() -> Iterator[GerritDouble]:
    with running() as double:
        yield double


@pytest.fixture
def client(double: GerritDouble, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Make a client of the double that does not pause."""
    # A login from somebody's ~/.netrc is none of the test's.
    monkeypatch.setenv("NETRC", "/dev/null")

    def make(**options: Any) -> Gerrit:
        quick = {"timeout_s": 5.0, "attempts": 3, "wait": tenacity.wait_none()}
        return Gerrit(double.url, **{**quick, **options})

    return make
