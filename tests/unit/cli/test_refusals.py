"""A request that is refused leaves nothing in the working folder."""

from __future__ import annotations

import importlib
import os
from pathlib import Path

import pytest

SIMULATED = ["--testbed", "simulated"]
SEARCH = ["--old", "HEAD~1", "--new", "HEAD", "--profile", "embedded-router"]


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("PERFTREND_"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("job", "arguments"),
    [
        ("trending", [*SIMULATED, "--tags", "nosuchtag"]),
        ("trending", ["--testbed", "nosuch"]),
        ("trending", [*SIMULATED, "--device-option", "nosuch=1"]),
        ("analysis", ["--build", "3"]),
        ("ingest", []),
        ("ingest", ["nosuch"]),
        ("ingest", ["ftp://example.org/builds"]),
        ("ingest", [".", "--testbed-pattern", "("]),
        ("ingest", ["."]),
        ("perftest", [*SIMULATED, "--new", "HEAD", "--profile", "nosuch"]),
        ("perftest", ["--testbed", "nosuch", "--new", "HEAD", "--profile", "embedded-router"]),
        ("perftest", [*SIMULATED, "--tags", "nosuchtag", "--new", "HEAD", "--profile", "embedded-router"]),
        ("bisect", ["--testbed", "nosuch", *SEARCH]),
        ("bisect", [*SIMULATED, "--tags", "nosuchtag", *SEARCH]),
        ("bisect", ["--example", "--testbed", "nosuch"]),
        ("bisect", ["--example", "--tags", "nosuchtag"]),
        ("dashboard", ["--address", "nosuch"]),
        ("dashboard", ["--new-token", ""]),
        ("dashboard", ["--new-token", "nightly", "--days", "100000"]),
        ("dashboard", ["--example", "--new-token", ""]),
        ("listener", []),
        ("rebuild_tiles", []),
    ],
)
def test_refused_request_leaves_nothing(job: str, arguments: list[str]) -> None:
    assert importlib.import_module(f"jobs.{job}").main(arguments)
    assert [] == list(Path().iterdir())


def test_specification_is_read_before_anything_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFTREND_ANALYSIS_SPECIFICATION", "nosuch.yaml")

    test_refused_request_leaves_nothing("trending", SIMULATED)


def test_listener_without_a_jenkins_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERFTREND_GERRIT_URL", "http://127.0.0.1:9")

    test_refused_request_leaves_nothing("listener", ["--once"])
