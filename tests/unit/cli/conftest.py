"""What the tests of jobs lean on: a folder to work in, and a job that runs there as a person starts it."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perftrend.cli import analysis, trending
from perftrend.measure import lock
from tests.doubles import gerrit
from tests.doubles.gerrit import GerritDouble

REPOSITORY = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Ended:
    """How a job ended, and what it said."""

    exit_code: int
    out: str
    err: str


class Bench:
    """A working folder with jobs on the simulated testbed, which loses nothing by chance."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.archives = folder / "archives"

    def trending(self, *arguments: str) -> Ended:
        return self._job(trending.main, ["--testbed", "simulated", *arguments])

    def analysis(self, *arguments: str) -> Ended:
        return self._job(analysis.main, ["--testbed", "simulated", *arguments])

    def _job(self, main: Callable[[Sequence[str]], int], arguments: Sequence[str]) -> Ended:
        before = signal.getsignal(signal.SIGTERM)
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = main(arguments)
            except SystemExit as end:
                code = int(end.code or 0)
            finally:
                signal.signal(signal.SIGTERM, before)
        return Ended(code, out.getvalue(), err.getvalue())

    def outcomes(self) -> dict[str, str]:
        """Return what the report says of each test."""
        return {test["parameters"]["test"]: test["outcome"] for test in self.report()["tests"]}

    def report(self) -> Any:
        return json.loads((self.folder / "report" / "report.json").read_text())


def _environment(folder: Path) -> dict[str, str | None]:
    """Return the variables that a job must see; None: not at all."""
    strange = {name: None for name in os.environ if name.startswith("PERFTREND_")}
    return {
        **strange,
        **dict.fromkeys(("JOB_NAME", "BUILD_NUMBER", "BUILD_URL", "GERRIT_EVENT_COMMENT_TEXT", lock.HELD)),
        # Some machines permit no sandbox; it has tests of its own.
        "PERFTREND_PROJECT_TRUSTED": "true",
        "PYTHONPATH": f"{REPOSITORY}{os.pathsep}{REPOSITORY / 'resources'}",
    }


@contextlib.contextmanager
def _at(folder: Path) -> Iterator[Bench]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        # Nobody else's job on this machine is to be waited for.
        patch.setattr(lock, "FOLDER", folder)
        for name, value in _environment(folder).items():
            patch.delenv(name, raising=False) if value is None else patch.setenv(name, value)
        yield Bench(folder)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    with _at(tmp_path) as here:
        yield here


@pytest.fixture(scope="module")
def shared_bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    with _at(tmp_path_factory.mktemp("bench")) as here:
        yield here


@pytest.fixture
def gerrit_double(monkeypatch: pytest.MonkeyPatch) -> Iterator[GerritDouble]:
    """Run Gerrit's double, which the jobs are told to use."""
    with gerrit.running() as double:
        everybody = "global:Registered-Users"
        told = {"URL": double.url, "USER": "perftrend", "TOKEN": "secret", "GROUPS": everybody}
        for name, value in told.items():
            monkeypatch.setenv(f"PERFTREND_GERRIT_{name}", value)
        yield double


def commented(monkeypatch: pytest.MonkeyPatch, double: GerritDouble, text: str, author: int = 1) -> None:
    """Write this comment under the first patch set of change 1, and let a job think that it started it."""
    double.messages.append({
        "id": f"c{len(double.messages)}", "author": {"_account_id": author, "username": f"dev{author}"},
        "date": gerrit.MOMENT, "_revision_number": 1, "message": f"Patch Set 1:\n\n{text}",
    })  # fmt: skip
    monkeypatch.setenv("GERRIT_EVENT_COMMENT_TEXT", base64.b64encode(text.encode()).decode())
    monkeypatch.setenv("GERRIT_CHANGE_NUMBER", "1")
    monkeypatch.setenv("GERRIT_PATCHSET_NUMBER", "1")
