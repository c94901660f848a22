from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perftrend.dashboard.compare import posting
from perftrend.report.perftest import Subject, document
from perftrend.settings import Settings
from tests.doubles.gerrit import GerritDouble, running
from tests.unit.dashboard.conftest import TESTBEDS, TESTS
from tests.unit.report.perftest.reports import compared

Archived = Callable[..., Path]
JOB = "perftrend-perftest-2n-clx"
LEVELS = {f"{TESTS[0]} mrr": (10e6, 9e6), f"{TESTS[1]} mrr": (20e6, 20e6), "unknown-test": (1e6, 1.2e6)}


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    folder = tmp_path / "archives"
    folder.mkdir()
    return folder


@pytest.fixture
def archived(archive: Path) -> Archived:
    """Put the report of a per-patch test into the archive, as the job does."""

    def put(build: int = 7, levels: Any = None, **subject: Any) -> Path:
        about = Subject(**{
            "testbed": TESTBEDS[0], "parent": "a" * 40, "patch": "b" * 40, "change": 1, "patch_set": 1,
            "page": "https://review.example/c/router/+/1", **subject,
        })  # fmt: skip
        report = compared(levels or LEVELS, subject=about, job=JOB, build=build)
        folder = archive / JOB / str(build) / "report"
        folder.mkdir(parents=True)
        file = folder / "perftest.json"
        file.write_text(json.dumps(document(report)))
        return file

    return put


@pytest.fixture
def gerrit(monkeypatch: pytest.MonkeyPatch) -> Iterator[GerritDouble]:
    # A login from somebody's ~/.netrc is none of the test's.
    monkeypatch.setenv("NETRC", "/dev/null")
    monkeypatch.setattr(posting, "RACE_S", 0.0)
    with running() as double:
        yield double


@pytest.fixture
def settings(archive: Path, gerrit: GerritDouble) -> Settings:
    return Settings.load(
        environment={"PERFTREND_GERRIT_TOKEN": "secret"},
        overrides={
            "dashboard.editors": "eva",
            "dashboard.url": "https://perf.example.org",
            "archive": str(archive),
            "gerrit.url": gerrit.url,
            "gerrit.user": "perftrend",
            "gerrit.timeout_s": 5.0,
            "gerrit.attempts": 1,
        },
    )
