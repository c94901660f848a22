"""A bisection from its first build to its end, which can be killed at any point and goes on.

The session is a loop: the strategy says what to measure, that commit is built unless it is, measured,
and each of these facts is recorded before the next thing is done. The state is a function of the
records, and the strategy one of the state, so whoever opens the file again, on this machine or another,
goes on with the same step. What was being built or measured at the kill is done again; what was recorded
is not.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from perftrend.bisect import records
from perftrend.bisect.journal import Journal
from perftrend.bisect.likely import likely
from perftrend.bisect.outcome import Measure, Outcome
from perftrend.bisect.state import Range, State, Strategy
from perftrend.errors import BuildError, UsageError
from perftrend.model import Measured


class Ready(Protocol):
    """What a build is to a session: ready to be measured."""

    @property
    def took_s(self) -> float:
        """How long it took to build, now or when that was."""


Built = TypeVar("Built", bound=Ready)

Told = Measure | Measured | Outcome | BuildError
"""What a listener hears of: what is measured next, what that gave, a failed build, the end."""


class Session(Generic[Built]):
    """A bisection with its file.

    :param file: where the records are kept; where they are there already, the bisection goes on.
    :param asked: the range; it must be that of the file.
    :param strategy: it must be that of the file, with the same options.
    :param build: makes a commit ready to be measured; asked once for each commit and start of this program,
        so that it should keep what it built. Raises BuildError where that cannot be done.
    :param measure: measures what was built, once.
    :param cached: commits that take no time to build, where that is known; strategies prefer them.
    :param expect: hears before each measurement which commits are probably to be built next, the most
        probable first, so that this may begin meanwhile. It changes nothing of what is decided or recorded.
    :param tell: hears of everything as it happens.
    :raises UsageError: if there is no range, or the file is of another bisection or no session.
    """

    def __init__(
        self,
        file: Path,
        asked: Range,
        strategy: Strategy,
        *,
        build: Callable[[str], Built],
        measure: Callable[[Built], Measured],
        cached: Collection[str] = (),
        expect: Callable[[Iterator[str]], object] = lambda _: None,
        tell: Callable[[Told], object] = lambda _: None,
    ) -> None:
        self._file = file
        self._asked = asked
        self._strategy = strategy
        self._build = build
        self._measure = measure
        self._cached = cached
        self._expect = expect
        self._tell = tell
        self._ready: dict[str, Built] = {}
        asked.history  # noqa: B018 - a range that is none is refused before a file is made

    def run(self) -> Outcome:
        """Go on until the strategy ends it.

        :raises PerftrendError: what measuring raises, and building but for BuildError; run again, it goes on.
        :raises OSError: if the file cannot be written.
        """
        with Journal(self._file) as journal:
            state = self._opened(journal)
            # Both ends first: if one does not build there is nothing to measure, and what is measured
            # first should not lie a build apart.
            for end in (self._asked.old, self._asked.history.new):
                if not state.measured and end not in state.broken:
                    state = self._built(journal, state, end)
            while True:
                step = self._strategy.next(state)
                if isinstance(step, Outcome):
                    if journal.records[-1]["record"] != "ended":
                        journal.append(records.of_ended(step))
                    self._tell(step)
                    return step
                state = self._done(journal, state, step)

    def _opened(self, journal: Journal) -> State:
        first = records.of_range(self._asked, self._strategy)
        if not journal.records:
            journal.append(first)
            for commit in sorted({self._asked.old, *self._asked.history.commits} & set(self._cached)):
                journal.append(records.of_built(commit, 0.0))
        if journal.records[0] != first:
            raise UsageError(
                f"{self._file}: {_difference(journal.records[0], first)}; "
                "ask for the same, or choose another folder for the sessions"
            )
        return state_of(journal.records, self._file)

    def _done(self, journal: Journal, state: State, step: Measure) -> State:
        decided = records.of_decided(step)
        # After a kill the decision is there already, perhaps with its build.
        if next(each for each in reversed(journal.records) if each["record"] != "built") != decided:
            journal.append(decided)
            state = records.replayed(state, decided)
        self._tell(step)
        state = self._built(journal, state, step.commit)
        if step.commit in state.broken:
            return state
        self._expect(likely(self._strategy, state, step))
        measured = replace(self._measure(self._ready[step.commit]), against=step.against)
        journal.append(records.of_measured(measured))
        self._tell(measured)
        # As it would be read again, so that a session that was never killed decides the same.
        return records.replayed(state, journal.records[-1])

    def _built(self, journal: Journal, state: State, commit: str) -> State:
        """Make a commit ready, or record that it cannot be."""
        if commit in self._ready:
            return state
        try:
            self._ready[commit] = self._build(commit)
        except BuildError as error:
            journal.append(records.of_broken(commit, " ".join(str(error).split())))
            self._tell(error)
            return records.replayed(state, journal.records[-1])
        if commit in state.built:
            return state
        journal.append(records.of_built(commit, self._ready[commit].took_s))
        return records.replayed(state, journal.records[-1])


def state_of(known: list[dict[str, Any]], file: Path) -> State:
    """Replay records.

    :param file: where they come from, for messages.
    :raises UsageError: if they are no session.
    """
    line = 1
    try:
        state = State(records.range_of(known[0]))
        for line, record in enumerate(known[1:], start=2):  # noqa: B007 - for the message
            state = records.replayed(state, record)
    except (AttributeError, LookupError, TypeError, ValueError):
        raise UsageError(
            f"{file}: line {line} is no record of a bisection; remove the file to begin anew"
        ) from None
    return state


def load(file: Path) -> State:
    """Read a session, to show it.

    :raises UsageError: if it is none, or another process works on it.
    :raises OSError: if it cannot be read.
    """
    if not file.is_file():
        raise UsageError(f"{file}: is no file; give that of a bisection")
    with Journal(file) as journal:
        if not journal.records:
            raise UsageError(f"{file}: holds no record; nothing was begun")
        return state_of(journal.records, file)


def _difference(there: dict[str, Any], asked: dict[str, Any]) -> str:
    names = [name for name in asked if there.get(name) != asked[name]]
    return f"holds a bisection with another {' and another '.join(name.replace('_', ' ') for name in names)}"
