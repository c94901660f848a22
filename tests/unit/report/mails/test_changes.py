"""Analyses that finish in another order than their runs, or that are repeated."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import permutations
from pathlib import Path

import numpy as np
import pytest

from perftrend.analysis import Criteria, evaluate
from perftrend.model import (
    Better,
    Outcome,
    Result,
    Run,
    Series,
    Status,
    TraceKey,
    Verdict,
    reported_change,
)
from perftrend.report.mails import MailRecord, reportable

STEADY = [10.0, 10.01, 9.99, 10.02, 9.98, 10.0, 10.01, 9.99, 10.0, 10.01, 9.99, 10.0]
TRACES = {
    "at-13": [9.0, 9.01, 8.99, 9.0],
    "at-14": [10.0, 9.0, 9.01, 8.99],
    "at-16": [10.0, 10.01, 9.99, 9.0],
    "twice": [9.0, 9.01, 7.0, 7.01],
    "back": [9.0, 10.0, 10.01, 9.99],
    "steady": [10.0, 10.01, 9.99, 10.0],
}
"""What the runs 13 to 16 measured, after twelve steady ones."""
REGRESSIONS = Counter(
    [("at-13", 13), ("at-14", 14), ("at-16", 16), ("twice", 13), ("twice", 15), ("back", 13)]
)
"""The runs in which the regressions of the traces began."""

Reported = Counter[tuple[str, int]]


def night(build: int) -> Run:
    started = datetime(2026, 3, 1, 2, tzinfo=UTC) + timedelta(days=build)
    return Run("2n-clx", "trending", build, started, started + timedelta(hours=1))


@dataclass
class Team:
    """A recipient, his record, and the runs that are in the store."""

    record: MailRecord
    stored: set[int] = field(default_factory=lambda: set(range(1, 17)))

    def mail(self, build: int) -> Reported:
        """Return the regressions in the mail of a run."""
        pending = self.record.find_pending(night(build), [night(each) for each in self.stored])
        if not pending.runs:
            return Counter()
        verdicts = reportable(self._evaluate, pending)
        self.record.mark(pending)
        return Counter(map(_began, (each for each in verdicts if each.outcome is Outcome.REGRESSION)))

    def mails(self, builds: Iterable[int]) -> Reported:
        return sum(map(self.mail, builds), Counter())

    def _evaluate(self, run: Run, *, new_runs: int = 1, without: Collection[Run] = ()) -> list[Verdict]:
        known = (each for each in sorted(self.stored) if each <= run.build and night(each) not in without)
        builds = tuple(known)
        return [_verdict(name, builds, new_runs) for name in TRACES]


@cache
def _verdict(name: str, builds: tuple[int, ...], new_runs: int) -> Verdict:
    key = TraceKey.of(test=name, suite="ip4", metric="mrr", testbed="2n-clx")
    values = np.array([[*STEADY, *TRACES[name]][build - 1] * 1e6 for build in builds])
    results = tuple(Result(key, "pps", Better.HIGHER, Status.PASS, (value,), value) for value in values)
    series = Series(key, "pps", Better.HIGHER, tuple(map(night, builds)), values, results)
    return evaluate(series, run=series.runs[-1], criteria=Criteria(new_runs=new_runs))


def _began(verdict: Verdict) -> tuple[str, int]:
    change = reported_change(verdict)
    assert change is not None
    return verdict.series.key.as_dict()["test"], verdict.series.runs[change.position].build


@pytest.fixture
def teams(tmp_path: Path) -> Iterator[Team]:
    """Yield teams without a record."""
    return (Team(MailRecord(tmp_path / str(number))) for number in range(100))


def test_analyses_in_order_find_what_the_other_orders_have_to_find(teams: Iterator[Team]) -> None:
    assert REGRESSIONS == next(teams).mails(range(12, 17))


@pytest.mark.parametrize("knows", [True, False], ids=["knows the runs before", "is new"])
def test_every_order_of_analyses_reports_every_regression_once(teams: Iterator[Team], knows: bool) -> None:
    for order, team in zip(permutations(range(13, 17)), teams, strict=False):
        if knows:
            team.mail(12)

        assert REGRESSIONS == team.mails(order), order


def test_analyses_that_are_repeated_report_nothing_again(teams: Iterator[Team]) -> None:
    for order, team in zip(permutations(range(13, 17)), teams, strict=False):
        team.mails(order)

        assert not team.mails(order), order


def test_regression_of_a_run_that_is_stored_late_is_reported_once(teams: Iterator[Team]) -> None:
    """The run of night 13 may take until the one of night 14 has been reported."""
    for order, team in zip(permutations(range(13, 17)), teams, strict=False):
        team.stored = set(range(1, 13))
        team.mail(12)
        found: Reported = Counter()
        for build in order:
            team.stored.add(build)
            found += team.mail(build)

        tests = Counter(test for test, _ in found.elements())
        assert {"at-13": 1, "at-14": 1, "at-16": 1} == {
            test: tests[test] for test in ("at-13", "at-14", "at-16")
        }, order
        assert not tests["steady"], order
