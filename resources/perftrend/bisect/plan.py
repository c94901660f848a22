"""The request of a bisection, and the session that stores its progress.

The name of the session is a hash of the request. The same request resumes the session where it stopped:
after a kill, in another build, or on another machine with the same folder. A finished session is moved into
the archive; the same request then starts a new search.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from perftrend.bisect import Adaptive, BisectState, CommitRange, CsitHalving, OutcomeKind, Strategy
from perftrend.bisect.journal import Journal
from perftrend.bisect.session import state_of
from perftrend.builds import Builds
from perftrend.clients.git.file_locks import acquire
from perftrend.errors import UsageError
from perftrend.execution import scope, suite_measurement
from perftrend.execution.known_noise import read_deviations
from perftrend.execution.scope import JobScope
from perftrend.model import TraceKey

REQUEST_FILE, SESSION = "asked.json", "session.jsonl"
"""Files of a build's folder in the archive: the request, and the finished session."""


@dataclass(frozen=True, slots=True)
class BisectPlan:
    """The range, strategy, session and archive folder of a search."""

    chosen: JobScope
    commit_range: CommitRange
    strategy: Strategy
    names: Mapping[TraceKey, str]
    """The tests of the suites; empty if a command of the product's profile measures."""
    session: Path
    job: str
    build: int
    folder: Path
    """The build's folder in the archive."""

    @property
    def state(self) -> BisectState:
        """The state that the session has recorded so far."""
        records = _records(self.session)
        return state_of(records, self.session) if records else BisectState(self.commit_range)

    def close(self) -> None:
        """Move the session into the archive."""
        temporary = self.folder / f".{SESSION}.unfinished"
        shutil.copyfile(self.session, temporary)
        temporary.replace(self.folder / SESSION)
        self.session.unlink()


@contextmanager
def open_plan(
    chosen: JobScope, product: Builds, commit_range: CommitRange, *, job: str
) -> Iterator[BisectPlan]:
    """Choose the strategy, the session and the folder in the archive, and lock the session.

    :raises UsageError: if another process works on the same request, or the folder belongs to another one.
    """
    settings, wanted = chosen.settings, chosen.settings.bisect
    names = suite_measurement.names_of(chosen.keys)
    question = {
        "testbed": chosen.spec.name,
        "old": commit_range.old,
        "new": commit_range.history.new,
        "first_parent": commit_range.first_parent,
        "strategy": wanted.strategy,
        "confidence": wanted.confidence,
        "maximum_changes": wanted.maximum_changes,
        "inside": wanted.search_equal_ends,
        "tests": list(names.values()),
        **scope.how(settings, product),
    }
    key = hashlib.sha256(json.dumps(question, sort_keys=True).encode()).hexdigest()[:24]
    session = settings.bisect.sessions / f"{key}.jsonl"
    with _alone(session):
        folder = scope.archive_of(settings, job)
        build = scope.build_number(folder, resume=_is_unfinished(folder, question))
        _write_request(question, folder / str(build))
        strategy = _strategy(chosen, names, session)
        yield BisectPlan(chosen, commit_range, strategy, names, session, job, build, folder / str(build))


@contextmanager
def _alone(session: Path) -> Iterator[None]:
    lock_file = session.with_suffix(".lock")
    holding = acquire(lock_file, wait=False)
    if holding is None:
        raise UsageError(f"{session}: another process works on the same request; wait until it has ended")
    try:
        yield
    finally:
        lock_file.unlink(missing_ok=True)
        os.close(holding)


def _is_unfinished(folder: Path, question: Mapping[str, Any]) -> bool:
    """Return whether the newest build in the archive has the same request and is unfinished."""
    newest = folder / str(scope.newest_build(folder))
    return _read_request(newest) == question and not (newest / SESSION).exists()


def _write_request(question: Mapping[str, Any], folder: Path) -> None:
    stored = _read_request(folder)
    if stored is None and not folder.exists():
        folder.mkdir(parents=True)
    if stored is None and not any(folder.glob("[!.]*")):
        temporary = folder / f".{REQUEST_FILE}.unfinished"
        temporary.write_text(json.dumps(question, indent=1) + "\n", encoding="utf-8")
        temporary.replace(folder / REQUEST_FILE)
    elif stored != question:
        raise UsageError(f"{folder} contains the result of another request; remove it or use another number")


def _read_request(folder: Path) -> object:
    try:
        return json.loads((folder / REQUEST_FILE).read_bytes())
    except (FileNotFoundError, ValueError):
        return None


def _strategy(chosen: JobScope, names: Mapping[TraceKey, str], session: Path) -> Strategy:
    wanted = chosen.settings.bisect
    if wanted.strategy == "documented":
        return CsitHalving()
    # A resumed session uses the deviations known when it began, not those of the nights since.
    records = _records(session)
    deviations = (
        records[0].get("options", {}).get("known_deviations", {})
        if records
        else read_deviations(chosen.settings, chosen.spec.name, names)
    )
    return Adaptive(
        confidence=wanted.confidence,
        maximum_measurements=_count_measured_before(records) + wanted.maximum_measurements,
        maximum_changes=wanted.maximum_changes,
        inside=wanted.search_equal_ends,
        known_deviations=deviations,
    )


def _count_measured_before(records: Sequence[Mapping[str, Any]]) -> int:
    """Return the number of measurements after which the search last ended undecided; 0 if it did not."""
    measured = before = 0
    for each in records:
        measured += each["record"] == "measured"
        if each["record"] == "ended" and each["kind"] == OutcomeKind.UNDECIDED:
            before = measured
    return before


def _records(session: Path) -> list[dict[str, Any]]:
    if not session.is_file():
        return []
    with Journal(session) as journal:
        return journal.records
