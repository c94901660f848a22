"""Verdicts: of each run, and of per-patch tests.

The analysis of a run stores how many of its results were normal, slower, failed and so on, so that pages show
the verdict that the job printed instead of computing another one. A later analysis of the same run replaces
it.

A per-patch test has the results of a patch set and of its parent, measured alternately. They have their own
tables, so that they never enter a trend, tile, alert or cluster. A test that is in progress is stored in its
current state. Each later state replaces the earlier one. An earlier state that arrives late changes nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Self

import sqlalchemy as sa
from sqlalchemy import Row
from sqlalchemy.engine import Connection, Engine

from perftrend.errors import UsageError
from perftrend.model import Better, Outcome, Run, Trials, Verdict
from perftrend.store import result_queries, rows
from perftrend.store.activity import record
from perftrend.store.connection import alone, read_transaction, write_transaction
from perftrend.store.ingestions import note_read
from perftrend.store.invalidations import validate_reason
from perftrend.store.schema import patch_tests, patch_traces, run_verdicts, runs

MOST_DECLINES = 20
"""Number of the worst long-term changes that are stored of a run."""


@dataclass(frozen=True, slots=True)
class Decline:
    """A trace whose trend is worse than its best trend between three months and one week ago."""

    trace: str
    """The hash of the trace."""
    change: float
    """Relative long-term change: negative if the values have fallen."""


@dataclass(frozen=True, slots=True)
class RunVerdict:
    """The verdict of a run."""

    judged: datetime
    """When the run was analysed, UTC."""
    outcomes: Mapping[Outcome, int] = field(hash=False)
    """The number of results by outcome."""
    suspected: int = 0
    """The number of results whose trend may have changed; the next runs decide."""
    declines: tuple[Decline, ...] = ()
    """The worst long-term changes, the worst first, at most :data:`MOST_DECLINES`."""

    @classmethod
    def of(cls, verdicts: Sequence[Verdict], *, judged: datetime) -> Self:
        """Return the verdict of a run from those of its results."""
        return cls(
            judged,
            Counter(verdict.outcome for verdict in verdicts),
            sum(verdict.suspected is not None for verdict in verdicts),
            tuple(_declines(verdicts)),
        )


JudgedRun = tuple[Run, RunVerdict | None]
"""A run with its verdict; None: it was not analysed."""


class RunVerdicts:
    """The verdicts of a store's runs; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def save(self, run: Run, verdict: RunVerdict) -> None:
        """Store the verdict of a run instead of an earlier one; nothing if the store does not have the run.

        :raises StoreError: if it cannot be written; the earlier one is retained then.
        """
        with write_transaction(self._engine) as connection:
            alone(connection, run.name)
            run_id = result_queries.find_run(connection, run)
            if run_id is None:
                return
            connection.execute(sa.delete(run_verdicts).where(run_verdicts.c.run_id == run_id))
            connection.execute(sa.insert(run_verdicts).values(run_id=run_id, **_columns(verdict)))

    def newest(self, testbed: str, *, last: int) -> list[JudgedRun]:
        """Return the newest runs of a testbed with their verdicts, the newest first."""
        query = sa.select(runs, run_verdicts).outerjoin(run_verdicts).where(runs.c.testbed == testbed)
        query = query.order_by(runs.c.started.desc(), runs.c.build.desc()).limit(last)
        with read_transaction(self._engine) as connection:
            return [(rows.run_of_row(row), _verdict_of(row)) for row in connection.execute(query)]

    def of_run(self, run: Run) -> RunVerdict | None:
        """Return the verdict of a run; None if it was not analysed."""
        with read_transaction(self._engine) as connection:
            run_id = result_queries.find_run(connection, run)
            row = connection.execute(sa.select(run_verdicts).where(run_verdicts.c.run_id == run_id)).first()
            return _verdict_of(row) if row else None


def _columns(verdict: RunVerdict) -> dict[str, Any]:
    return {
        "judged": verdict.judged,
        "outcomes": {outcome.value: number for outcome, number in verdict.outcomes.items()},
        "suspected": verdict.suspected,
        "declines": [[each.trace, each.change] for each in verdict.declines],
    }


def _verdict_of(row: sa.Row[tuple[Any, ...]]) -> RunVerdict | None:
    if row.judged is None:
        return None
    return RunVerdict(
        row.judged,
        {Outcome(name): number for name, number in row.outcomes.items()},
        row.suspected,
        tuple(Decline(trace, change) for trace, change in row.declines),
    )


def _declines(verdicts: Iterable[Verdict]) -> Iterable[Decline]:
    found = [
        (-each.long_term_change if each.series.better is Better.HIGHER else each.long_term_change, each)
        for each in verdicts
        if not _is_trend_suspected(each)
    ]
    worse = sorted(
        (pair for pair in found if pair[0] > 0), key=lambda pair: (-pair[0], pair[1].series.key.hash)
    )
    return (Decline(each.series.key.hash, each.long_term_change) for _, each in worse[:MOST_DECLINES])


def _is_trend_suspected(verdict: Verdict) -> bool:
    """Return whether the newest group may be outliers, so that its average is no trend yet."""
    step = verdict.suspected
    return step is not None and bool(verdict.groups) and step.position == verdict.groups[-1].start


@dataclass(frozen=True, slots=True)
class PatchTest:
    """A build that compares a patch with its parent."""

    job: str
    build: int
    testbed: str
    parent: str
    """The full hash of the parent's commit."""
    patch: str
    """The full hash of the patch's commit."""
    started: datetime
    updated: datetime
    """When its newest round ended, UTC."""
    rounds: int
    """Number of rounds; each round measures both commits."""
    ended: bool = True
    """False if it is in progress or was aborted."""
    change: int | None = None
    """Number in Gerrit; None if two commits were named."""
    patch_set: int | None = None
    simulated: bool = False
    sentence: str = ""
    """The verdict."""
    page: str = ""
    """Address of the change."""
    archive: str = ""
    """The path or URL that it was read from."""
    invalid: str = ""
    """Why a user marked it as invalid; empty if it is valid."""

    @property
    def name(self) -> str:
        """``job/build``."""
        return f"{self.job}/{self.build}"

    def subject(self, trace: str = "") -> str:
        """Return the test, or one trace of it, as text for messages and the activity log."""
        return f"per-patch test {self.name}" + (f", test {trace}" if trace else "")


@dataclass(frozen=True, slots=True)
class PatchTrace:
    """The values of one test of a per-patch test, before and after the patch."""

    test: str
    """Its name in the report: with metric and suite if several tests have the name."""
    unit: str
    better: Better
    finding: str
    """The verdict of the per-patch test on it."""
    parent: Trials
    """Samples of the parent, by round."""
    current: Trials
    """Samples of the patch, by round."""
    invalid: str = ""
    """Why a user marked it as invalid; empty if it is valid."""


class PatchTests:
    """The per-patch tests of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def add(self, test: PatchTest, traces: Sequence[PatchTrace], *, version: str = "") -> bool:
        """Store the current state of a per-patch test, in one transaction.

        A stored test is the same if it has the same job, build, testbed and commits, and started at the same
        moment, is in progress, or has no round. It is replaced if it has fewer rounds, or if it is in
        progress and this one has ended. Rounds are never lost, and marks are retained.

        :param version: of the archive, as its source lists it; empty if that is not known.
        :returns: whether anything was new.
        :raises UnstorableError: if the database cannot hold a value; nothing is changed.
        :raises StoreError: if it cannot be written; nothing is changed.
        """
        with write_transaction(self._engine) as connection:
            alone(connection, test.name)
            known = _find_execution(connection, test)
            is_new = known is None or test.rounds > known.rounds or (test.ended and not known.ended)
            if known is None:
                key = _insert(connection, test)
                _insert_traces(connection, key, traces)
            else:
                key = int(known.id)
                if is_new:
                    _replace(connection, known, test, traces)
            note_read(connection, test.archive, version, patch_test_id=key)
        return is_new

    def newest(self, limit: int) -> list[PatchTest]:
        """Return the valid tests that were updated last, the newest first."""
        query = sa.select(patch_tests).where(patch_tests.c.invalid == "")
        query = query.order_by(patch_tests.c.updated.desc(), patch_tests.c.id.desc()).limit(limit)
        with read_transaction(self._engine) as connection:
            return [_test_of(row) for row in connection.execute(query)]

    def of_build(self, job: str, build: int) -> PatchTest | None:
        """Return the test of a build; the newest one if several have this number."""
        return self._newest(patch_tests.c.job == job, patch_tests.c.build == build)

    def of_patch_set(self, change: int, patch_set: int) -> PatchTest | None:
        """Return the newest valid test of a patch set."""
        return self._newest(
            patch_tests.c.change == change, patch_tests.c.patch_set == patch_set, patch_tests.c.invalid == ""
        )

    def traces(self, test: PatchTest) -> list[PatchTrace]:
        """Return the traces of a test, in the order of its report; none if the store does not have it."""
        query = sa.select(patch_traces).join(patch_tests).where(_is(test)).order_by(patch_traces.c.number)
        with read_transaction(self._engine) as connection:
            return [_trace_of(row) for row in connection.execute(query)]

    def invalidate(self, test: PatchTest, reason: str, *, author: str, name: str = "") -> None:
        """Mark a test as invalid.

        :param name: of the trace that is invalid; empty if the whole test is.
        :raises UsageError: if the reason is empty or too long, if there is no such trace, or if it is marked
            already; nothing is changed.
        """
        self._mark(test, validate_reason(reason), author=author, name=name)

    def restore(self, test: PatchTest, *, author: str, name: str = "") -> None:
        """Remove the mark of a test or of one of its traces.

        :raises UsageError: if there is no such trace, or if it is not marked.
        """
        self._mark(test, "", author=author, name=name)

    def _newest(self, *conditions: sa.ColumnElement[bool]) -> PatchTest | None:
        query = sa.select(patch_tests).where(*conditions)
        newest_first = query.order_by(patch_tests.c.started.desc(), patch_tests.c.id.desc())
        with read_transaction(self._engine) as connection:
            row = connection.execute(newest_first.limit(1)).first()
        return _test_of(row) if row else None

    def _mark(self, test: PatchTest, reason: str, *, author: str, name: str) -> None:
        table = patch_traces if name else patch_tests
        owner = sa.select(patch_tests.c.id).where(_is(test)).scalar_subquery()
        marked = (
            (patch_traces.c.patch_test_id == owner) & (patch_traces.c.test == name) if name else _is(test)
        )
        subject = test.subject(name)
        with write_transaction(self._engine) as connection:
            alone(connection, test.name)
            earlier = connection.execute(sa.select(table.c.invalid).where(marked)).scalar()
            if earlier is None:
                raise UsageError(f"the store has no {subject}")
            if bool(earlier) == bool(reason):
                state = "already marked as invalid" if reason else "not marked as invalid"
                raise UsageError(f"{subject} is {state}")
            connection.execute(sa.update(table).where(marked).values(invalid=reason))
            detail = reason or f"was invalid: {earlier}"
            record(connection, author, "invalidated" if reason else "restored", subject, detail)


def _find_execution(connection: Connection, test: PatchTest) -> Row[Any] | None:
    """Return the row of the same execution; None if the store does not have it."""
    table = patch_tests.c
    same = (table.job == test.job) & (table.build == test.build) & (table.testbed == test.testbed)
    same &= (table.parent == test.parent) & (table.patch == test.patch)
    # Without a round, the start of the test is not known.
    same &= (table.started == test.started) | sa.not_(table.ended) | (table.rounds == 0)
    return connection.execute(sa.select(patch_tests).where(same).order_by(table.id.desc()).limit(1)).first()


def _replace(connection: Connection, known: Row[Any], test: PatchTest, traces: Sequence[PatchTrace]) -> None:
    values = asdict(replace(test, invalid=known.invalid))
    if test.rounds >= known.rounds:
        of_known = patch_traces.c.patch_test_id == known.id
        query = sa.select(patch_traces.c.test, patch_traces.c.invalid).where(of_known)
        marks = {name: invalid for name, invalid in connection.execute(query) if invalid}
        connection.execute(sa.delete(patch_traces).where(of_known))
        marked = [replace(each, invalid=marks.get(each.test, "")) for each in traces]
        _insert_traces(connection, known.id, marked)
    else:
        # The state of a build that failed in a later round does not contain the earlier rounds.
        values |= {"rounds": known.rounds, "started": known.started}
    connection.execute(sa.update(patch_tests).where(patch_tests.c.id == known.id).values(**values))


def _insert(connection: Connection, test: PatchTest) -> int:
    key = connection.execute(sa.insert(patch_tests), asdict(test)).inserted_primary_key
    return int(key[0]) if key else 0


def _insert_traces(connection: Connection, key: int, traces: Sequence[PatchTrace]) -> None:
    rows = [{"patch_test_id": key, "number": number, **asdict(each)} for number, each in enumerate(traces)]
    if rows:
        connection.execute(sa.insert(patch_traces), rows)


def _is(test: PatchTest) -> sa.ColumnElement[bool]:
    table = patch_tests.c
    return sa.and_(
        table.job == test.job,
        table.build == test.build,
        table.testbed == test.testbed,
        table.started == test.started,
    )


def _test_of(row: Row[Any]) -> PatchTest:
    values = dict(row._mapping)
    del values["id"]
    return PatchTest(**values)


def _trace_of(row: Row[Any]) -> PatchTrace:
    return PatchTrace(
        row.test,
        row.unit,
        Better(row.better),
        row.finding,
        _trials(row.parent),
        _trials(row.current),
        row.invalid,
    )


def _trials(rounds: Sequence[Sequence[float]]) -> Trials:
    return tuple(tuple(samples) for samples in rounds)
