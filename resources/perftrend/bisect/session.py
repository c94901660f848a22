"""A bisection from its first build to its end, which can be killed at any point and resumed.

The session is a loop: the strategy chooses a commit, which is built, unless it is already, and measured,
and each of these facts is recorded before the next step. The state is a function of the records, and the
strategy one of the state, so opening the file again, on this machine or another, resumes with the same
step. An interrupted build or measurement is repeated; recorded ones are not.

The file is a journal of records, which are plain values of JSON. One record is one fact: the range and
strategy (``range``), a build (``built``), one that failed (``broken``), a measurement (``measured``), the
decision to measure a commit (``decided``), the end (``ended``). See docs/formats/bisection.rst.

A record is valid once its line is complete and on the disk. A kill during a write leaves a torn last line,
which is cut off when the file is opened again. Only one process at a time may have the file open.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Protocol, Self, TypeVar

from perftrend.bisect.state import (
    BisectOutcome,
    BisectState,
    CommitRange,
    MeasureStep,
    RangeCommit,
    Strategy,
    Suspicion,
    likely,
)
from perftrend.errors import BuildError, UsageError
from perftrend.files import lock_descriptor
from perftrend.model import Better, BuildMeasurement, MetricSamples, finite

FORMAT = "perftrend-bisection-1"

Record = dict[str, Any]


def of_range(commit_range: CommitRange, strategy: Strategy) -> Record:
    """Return the first record."""
    return {
        "record": "range",
        "format": FORMAT,
        "old": commit_range.old,
        "first_parent": commit_range.first_parent,
        "strategy": strategy.name,
        "options": dict(strategy.options),
        "commits": [[each.hash, *each.parents] for each in commit_range.commits],
    }


def of_built(commit: str, seconds: float) -> Record:
    """Return the record of a build."""
    return {"record": "built", "commit": commit, "seconds": round(seconds, 3)}


def of_broken(commit: str, reason: str) -> Record:
    """Return the record of a build that failed."""
    return {"record": "broken", "commit": commit, "reason": reason}


def of_measured(measured: BuildMeasurement) -> Record:
    """Return the record of a measurement; a sample that is not finite becomes null."""
    values = {
        test: {
            "samples": [finite(sample) for sample in each.samples],
            "unit": each.unit,
            "better": each.better.value,
        }
        for test, each in measured.values.items()
    }
    return {
        "record": "measured",
        "commit": measured.commit,
        "started": _format_time(measured.started),
        "finished": _format_time(measured.finished),
        "values": values,
        "failed": dict(measured.failed),
        "archive": measured.archive,
        **_present(against=measured.against, variant=measured.variant, disturbed=measured.disturbed),
    }


def of_decided(step: MeasureStep) -> Record:
    """Return the record of a decision."""
    return {
        "record": "decided",
        "commit": step.commit,
        "reason": step.reason,
        "belief": _suspicions(step.belief),
        **_present(against=step.against),
        **_of_remaining(step.remaining),
    }


def of_ended(outcome: BisectOutcome) -> Record:
    """Return the record of the outcome, for users and programs; a replay does not need it."""
    return {
        "record": "ended",
        "kind": outcome.kind.value,
        "reason": outcome.reason,
        "culprits": [
            {
                "commits": list(culprit.commits),
                "confidence": finite(culprit.confidence),
                "effects": {
                    test: {
                        name: finite(getattr(effect, name))
                        for name in ("before", "after", "relative", "low", "high", "probability")
                    }
                    for test, effect in culprit.effects.items()
                },
            }
            for culprit in outcome.culprits
        ],
        "belief": _suspicions(outcome.belief),
        "smallest_visible": {test: finite(size) for test, size in outcome.smallest_visible.items()},
        "outliers": {test: list(which) for test, which in outcome.outliers.items()},
        **_of_remaining(outcome.remaining),
    }


def range_of(record: Mapping[str, Any]) -> CommitRange:
    """Parse the range in the first record.

    :raises LookupError, TypeError, ValueError: if it is not a range.
    """
    if record["record"] != "range" or record["format"] != FORMAT:
        raise ValueError(f"no {FORMAT}")
    commits = tuple(RangeCommit(str(each[0]), tuple(map(str, each[1:]))) for each in record["commits"])
    return CommitRange(str(record["old"]), commits, bool(record["first_parent"]))


def replay(state: BisectState, record: Mapping[str, Any]) -> BisectState:
    """Return the state after one more record.

    :raises LookupError, TypeError, ValueError: if it is invalid.
    """
    kind = record["record"]
    if kind == "built":
        return state.with_built(str(record["commit"]), float(record["seconds"]))
    if kind == "broken":
        return state.with_broken(str(record["commit"]), str(record["reason"]))
    if kind == "measured":
        return state.with_measured(_parse_measurement(record))
    if kind == "decided":
        step = MeasureStep(
            str(record["commit"]),
            str(record["reason"]),
            _parse_belief(record["belief"]),
            str(record.get("against", "")),
            record.get("remaining"),
        )
        return state.with_step(step)
    if kind == "ended":
        return state
    raise ValueError(f"unknown record {kind!r}")


def _parse_measurement(record: Mapping[str, Any]) -> BuildMeasurement:
    values = {
        str(test): MetricSamples(
            tuple(math.nan if sample is None else float(sample) for sample in each["samples"]),
            str(each["unit"]),
            Better(each["better"]),
        )
        for test, each in record["values"].items()
    }
    return BuildMeasurement(
        str(record["commit"]),
        datetime.fromisoformat(record["started"]),
        datetime.fromisoformat(record["finished"]),
        values,
        {str(test): str(reason) for test, reason in record["failed"].items()},
        str(record["archive"]),
        str(record.get("against", "")),
        int(record.get("variant", 0)),
        str(record.get("disturbed", "")),
    )


def _present(**values: str | int) -> Record:
    """Leave out values that are empty or 0."""
    return {name: value for name, value in values.items() if value}


def _of_remaining(measurements: int | None) -> Record:
    return {} if measurements is None else {"remaining": measurements}


def _suspicions(belief: Sequence[Suspicion]) -> list[list[Any]]:
    return [[round(each.probability, 6), *each.commits] for each in belief]


def _parse_belief(belief: Sequence[Sequence[Any]]) -> tuple[Suspicion, ...]:
    return tuple(Suspicion(tuple(map(str, each[1:])), float(each[0])) for each in belief)


def _format_time(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat()


class Journal:
    """The records of a file, one line of JSON each, and a way to add to them.

    :param file: created, with its folder, if it does not exist.
    :raises UsageError: if another process has it open, or a line before the last one is not a record.
    :raises OSError: if it cannot be read or written.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        file.parent.mkdir(parents=True, exist_ok=True)
        self._handle = os.open(file, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            self._lock()
            self.records: list[dict[str, Any]] = self._read()
        except BaseException:
            os.close(self._handle)
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._handle)

    def append(self, record: Mapping[str, Any]) -> None:
        """Add a record; it is on the disk when this returns.

        :raises OSError: if it cannot be written; the record is then discarded.
        """
        line = (json.dumps(record, separators=(",", ":"), allow_nan=False) + "\n").encode("ascii")
        size = os.fstat(self._handle).st_size
        try:
            left = line
            while left:
                left = left[os.write(self._handle, left) :]
            os.fsync(self._handle)
        except OSError:
            os.ftruncate(self._handle, size)
            raise
        self.records.append(json.loads(line))
        if size == 0:
            self._sync_folder()

    def _lock(self) -> None:
        if not lock_descriptor(self._handle):
            raise UsageError(f"{self._file}: another process works on it; wait until it has ended")

    def _read(self) -> list[dict[str, Any]]:
        content = self._file.read_bytes()
        records: list[dict[str, Any]] = []
        whole = 0
        for line in content.splitlines(keepends=True):
            record = _parse(line)
            if record is None:
                break
            records.append(record)
            whole += len(line)
        if content[whole:].count(b"\n") > content[whole:].endswith(b"\n"):
            raise UsageError(
                f"{self._file}: line {len(records) + 1} is not a record; remove the file to start again"
            )
        if whole < len(content):
            os.ftruncate(self._handle, whole)
        return records

    def _sync_folder(self) -> None:
        folder = os.open(self._file.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _parse(line: bytes) -> dict[str, Any] | None:
    if not line.endswith(b"\n"):
        return None
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return record if isinstance(record, dict) else None


class Ready(Protocol):
    """A build that is ready to be measured."""

    @property
    def took_s(self) -> float:
        """Duration of the build, now or when it was made."""


Built = TypeVar("Built", bound=Ready)

SessionEvent = MeasureStep | BuildMeasurement | BisectOutcome | BuildError
"""The events of a session: the next measurement, its result, a failed build, the outcome."""


class BisectSession(Generic[Built]):
    """A bisection with its file.

    :param file: the file of the records; if it contains records, the bisection is resumed.
    :param commit_range: the range; it must be that of the file.
    :param strategy: it must be that of the file, with the same options.
    :param build: makes a commit ready to be measured; called once for each commit and start of this program,
        so that it should cache builds. Raises BuildError if the commit cannot be built.
    :param measure: measures a build once.
    :param cached: commits that take no time to build, if known; strategies prefer them.
    :param expect: is called before each measurement with the commits that will probably be built next, the
        most probable first, so that it can begin to build them. It does not affect decisions or records.
    :param notify: is called with each event.
    :raises UsageError: if the range is invalid, or the file is of another bisection or not a session.
    """

    def __init__(
        self,
        file: Path,
        commit_range: CommitRange,
        strategy: Strategy,
        *,
        build: Callable[[str], Built],
        measure: Callable[[Built], BuildMeasurement],
        cached: Collection[str] = (),
        expect: Callable[[Iterator[str]], object] = lambda _: None,
        notify: Callable[[SessionEvent], object] = lambda _: None,
    ) -> None:
        self._file = file
        self._commit_range = commit_range
        self._strategy = strategy
        self._build = build
        self._measure = measure
        self._cached = cached
        self._expect = expect
        self._notify = notify
        self._ready: dict[str, Built] = {}
        commit_range.history  # noqa: B018 - raises for an invalid range before a file is created

    def run(self) -> BisectOutcome:
        """Continue until the strategy ends the search.

        :raises PerftrendError: from measuring, and from building except for BuildError; run again to resume.
        :raises OSError: if the file cannot be written.
        """
        with Journal(self._file) as journal:
            state = self._load_state(journal)
            # Both ends first: if one does not build, there is nothing to measure, and the first
            # measurements should not be separated by a build.
            for end in (self._commit_range.old, self._commit_range.history.new):
                if not state.measured and end not in state.broken:
                    state = self._build_commit(journal, state, end)
            while True:
                step = self._strategy.next(state)
                if isinstance(step, BisectOutcome):
                    if journal.records[-1]["record"] != "ended":
                        journal.append(of_ended(step))
                    self._notify(step)
                    return step
                state = self._done(journal, state, step)

    def _load_state(self, journal: Journal) -> BisectState:
        first = of_range(self._commit_range, self._strategy)
        if not journal.records:
            journal.append(first)
            for commit in sorted(
                {self._commit_range.old, *self._commit_range.history.commits} & set(self._cached)
            ):
                journal.append(of_built(commit, 0.0))
        if journal.records[0] != first:
            raise UsageError(
                f"{self._file}: {_difference(journal.records[0], first)}; "
                "use the same ones, or choose another folder for the sessions"
            )
        return state_of(journal.records, self._file)

    def _done(self, journal: Journal, state: BisectState, step: MeasureStep) -> BisectState:
        decided = of_decided(step)
        # After a kill, the decision may be recorded already, perhaps with its build.
        if next(each for each in reversed(journal.records) if each["record"] != "built") != decided:
            journal.append(decided)
            state = replay(state, decided)
        self._notify(step)
        state = self._build_commit(journal, state, step.commit)
        if step.commit in state.broken:
            return state
        self._expect(likely(self._strategy, state, step))
        measured = replace(self._measure(self._ready[step.commit]), against=step.against)
        journal.append(of_measured(measured))
        self._notify(measured)
        # Replay the record, so that a session that was never killed decides the same.
        return replay(state, journal.records[-1])

    def _build_commit(self, journal: Journal, state: BisectState, commit: str) -> BisectState:
        """Build a commit, or record that it cannot be built."""
        if commit in self._ready:
            return state
        try:
            self._ready[commit] = self._build(commit)
        except BuildError as error:
            journal.append(of_broken(commit, " ".join(str(error).split())))
            self._notify(error)
            return replay(state, journal.records[-1])
        if commit in state.built:
            return state
        journal.append(of_built(commit, self._ready[commit].took_s))
        return replay(state, journal.records[-1])


def state_of(known: list[dict[str, Any]], file: Path) -> BisectState:
    """Return the state after records.

    :param file: the file of the records, for messages.
    :raises UsageError: if they are not a session.
    """
    line = 1
    try:
        state = BisectState(range_of(known[0]))
        for line, record in enumerate(known[1:], start=2):  # noqa: B007 - for the message
            state = replay(state, record)
    except (AttributeError, LookupError, TypeError, ValueError):
        raise UsageError(
            f"{file}: line {line} is not a record of a bisection; remove the file to start again"
        ) from None
    return state


def load(file: Path) -> BisectState:
    """Read a session for display.

    :raises UsageError: if it is not a session, or another process works on it.
    :raises OSError: if it cannot be read.
    """
    if not file.is_file():
        raise UsageError(f"{file} is not a file; give the file of a bisection")
    with Journal(file) as journal:
        if not journal.records:
            raise UsageError(f"{file} has no records; the bisection has not started")
        return state_of(journal.records, file)


def _difference(there: dict[str, Any], requested: dict[str, Any]) -> str:
    names = [name for name in requested if there.get(name) != requested[name]]
    return f"contains a bisection that differs in {' and '.join(name.replace('_', ' ') for name in names)}"
