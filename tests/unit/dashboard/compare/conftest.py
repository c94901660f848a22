from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from perftrend.archive import patch_report
from perftrend.dashboard.compare import gerrit_post
from perftrend.report.perftest import PerftestSubject, document
from perftrend.settings import Settings
from perftrend.store import Store
from perftrend.store.verdicts import PatchTest
from tests.doubles.gerrit import GerritDouble, running
from tests.unit.dashboard.conftest import TESTBEDS, TESTS
from tests.unit.report.perftest.reports import compared

Stored = Callable[..., PatchTest]
JOB = "perftrend-perftest-2n-clx"
LEVELS = {f"{TESTS[0]} mrr": (10e6, 9e6), f"{TESTS[1]} mrr": (20e6, 20e6), "unknown-test": (1e6, 1.2e6)}


def reported(build: int, levels: Any = None, *, ended: bool = True, number: int = 8, **subject: Any) -> bytes:
    """Return the report of a per-patch test, as the job writes it."""
    about = PerftestSubject(**{
        "testbed": TESTBEDS[0], "parent": "a" * 40, "patch": "b" * 40, "change": 1, "patch_set": 1,
        "page": "https://review.example/c/router/+/1", **subject,
    })  # fmt: skip
    report = document(compared(levels or LEVELS, subject=about, job=JOB, build=build, number=number))
    return json.dumps(report | {"ended": ended}).encode()


@pytest.fixture
def stored(store: Store) -> Stored:
    """Put a per-patch test into the store, as ``./run ingest`` does."""

    def put(build: int = 7, levels: Any = None, **others: Any) -> PatchTest:
        content = reported(build, levels, **others)
        test, traces = patch_report.parse(content, job=JOB, build=build, name="report")
        store.patch_tests.add(test, traces)
        return test

    return put


@pytest.fixture
def gerrit(monkeypatch: pytest.MonkeyPatch) -> Iterator[GerritDouble]:
    # A login from somebody's ~/.netrc is none of the test's.
    monkeypatch.setenv("NETRC", "/dev/null")
    monkeypatch.setattr(gerrit_post, "RACE_S", 0.0)
    with running() as double:
        yield double


@pytest.fixture
def settings(gerrit: GerritDouble) -> Settings:
    return Settings.load(
        environment={"PERFTREND_GERRIT_TOKEN": "secret"},
        overrides={
            "dashboard.editors": "eva",
            "dashboard.url": "https://perf.example.org",
            "gerrit.url": gerrit.url,
            "gerrit.user": "perftrend",
            "gerrit.timeout_s": 5.0,
            "gerrit.attempts": 1,
        },
    )
