"""A bisection from its first build to its end, which can be killed at any point and resumed.

The session is a loop: the strategy chooses a commit, which is built, unless it is already, and measured,
and each of these facts is recorded before the next step. The state is a function of the records, and the
strategy one of the state, so opening the file again, on this machine or another, resumes with the same
step. An interrupted build or measurement is repeated; recorded ones are not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from perftrend.bisect import records
from perftrend.bisect.records import Journal
from perftrend.bisect.state import BisectOutcome, BisectState, CommitRange, MeasureStep, Strategy, likely
from perftrend.errors import BuildError, UsageError
from perftrend.model import BuildMeasurement


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
                        journal.append(records.of_ended(step))
                    self._notify(step)
                    return step
                state = self._done(journal, state, step)

    def _load_state(self, journal: Journal) -> BisectState:
        first = records.of_range(self._commit_range, self._strategy)
        if not journal.records:
            journal.append(first)
            for commit in sorted(
                {self._commit_range.old, *self._commit_range.history.commits} & set(self._cached)
            ):
                journal.append(records.of_built(commit, 0.0))
        if journal.records[0] != first:
            raise UsageError(
                f"{self._file}: {_difference(journal.records[0], first)}; "
                "use the same ones, or choose another folder for the sessions"
            )
        return state_of(journal.records, self._file)

    def _done(self, journal: Journal, state: BisectState, step: MeasureStep) -> BisectState:
        decided = records.of_decided(step)
        # After a kill, the decision may be recorded already, perhaps with its build.
        if next(each for each in reversed(journal.records) if each["record"] != "built") != decided:
            journal.append(decided)
            state = records.replay(state, decided)
        self._notify(step)
        state = self._build_commit(journal, state, step.commit)
        if step.commit in state.broken:
            return state
        self._expect(likely(self._strategy, state, step))
        measured = replace(self._measure(self._ready[step.commit]), against=step.against)
        journal.append(records.of_measured(measured))
        self._notify(measured)
        # Replay the record, so that a session that was never killed decides the same.
        return records.replay(state, journal.records[-1])

    def _build_commit(self, journal: Journal, state: BisectState, commit: str) -> BisectState:
        """Build a commit, or record that it cannot be built."""
        if commit in self._ready:
            return state
        try:
            self._ready[commit] = self._build(commit)
        except BuildError as error:
            journal.append(records.of_broken(commit, " ".join(str(error).split())))
            self._notify(error)
            return records.replay(state, journal.records[-1])
        if commit in state.built:
            return state
        journal.append(records.of_built(commit, self._ready[commit].took_s))
        return records.replay(state, journal.records[-1])


def state_of(known: list[dict[str, Any]], file: Path) -> BisectState:
    """Return the state after records.

    :param file: the file of the records, for messages.
    :raises UsageError: if they are not a session.
    """
    line = 1
    try:
        state = BisectState(records.range_of(known[0]))
        for line, record in enumerate(known[1:], start=2):  # noqa: B007 - for the message
            state = records.replay(state, record)
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
