"""The verdict of a run is what its newest analysis found."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from perftrend.model import Better, Change, Direction, Group, Outcome, Run, Series, TraceKey, Verdict
from perftrend.store import Store
from perftrend.store.verdicts import MOST_DECLINES, Decline, RunVerdict

TESTBED = "2n-clx"
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)


def run_of(build: int) -> Run:
    started = MOMENT + timedelta(days=build)
    return Run(TESTBED, "nightly", build, started, started, {"device": f"{build:06x}c"})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        for build in range(3):
            opened.add(run_of(build), [])
        yield opened


def verdict_of(
    test: str, outcome: Outcome, change: float = float("nan"), better: Better = Better.HIGHER
) -> Verdict:
    unit = "pps" if better is Better.HIGHER else "us"
    series = Series(TraceKey.of(testbed=TESTBED, test=test), unit, better, (), np.empty(0))
    return Verdict(series, outcome, "", long_term_change=change)


VERDICT = RunVerdict(MOMENT, {Outcome.NORMAL: 40, Outcome.REGRESSION: 1}, 2, (Decline("ab" * 16, -0.25),))


def test_newest_runs_come_with_their_verdicts(store: Store) -> None:
    store.verdicts.save(run_of(1), VERDICT)
    assert [(run_of(2), None), (run_of(1), VERDICT)] == store.verdicts.newest(TESTBED, last=2)
    assert [] == store.verdicts.newest("another", last=2)


def test_later_analysis_replaces_the_verdict(store: Store) -> None:
    later = replace(VERDICT, outcomes={Outcome.FAILED: 1}, judged=MOMENT + timedelta(hours=1), declines=())
    store.verdicts.save(run_of(2), VERDICT)
    store.verdicts.save(run_of(2), later)
    assert [(run_of(2), later)] == store.verdicts.newest(TESTBED, last=1)


def test_verdict_of_a_run_that_is_not_stored_is_dropped(store: Store) -> None:
    store.verdicts.save(run_of(7), VERDICT)
    assert [None] * 3 == [verdict for _, verdict in store.verdicts.newest(TESTBED, last=9)]


def test_suspected_step_is_not_among_the_worst_trends() -> None:
    groups = (Group(0, 9, 2.0, 0.1, 1.0), Group(9, 10, 1.0, 0.0, 1.0))
    verdict = replace(verdict_of("a", Outcome.NORMAL, -0.5), groups=groups)

    def declines(suspected: Change | None) -> list[float]:
        judged = RunVerdict.of([replace(verdict, suspected=suspected)], judged=MOMENT)
        return [each.change for each in judged.declines]

    assert [] == declines(Change(9, 2.0, 1.0, Direction.REGRESSION))
    # The trend itself is certain if the doubt is about another step.
    assert [-0.5] == declines(Change(5, 2.0, 1.0, Direction.REGRESSION)) == declines(None)


def test_outcomes_are_counted_and_the_worst_trends_are_first() -> None:
    step = Change(0, 1.0, 2.0, Direction.REGRESSION)
    verdicts = [
        verdict_of("a", Outcome.NORMAL, -0.02),
        verdict_of("b", Outcome.REGRESSION, -0.3),
        # A latency that has risen is worse, one that has fallen is not.
        verdict_of("c", Outcome.NORMAL, 0.1, Better.LOWER),
        verdict_of("d", Outcome.NORMAL, -0.5, Better.LOWER),
        verdict_of("e", Outcome.PROGRESSION, 0.4),
        verdict_of("f", Outcome.MISSING),
        replace(verdict_of("g", Outcome.NORMAL, 0.0), suspected=step),
    ]
    found = RunVerdict.of(verdicts, judged=MOMENT)
    assert {"normal": 4, "regression": 1, "progression": 1, "missing": 1} == found.outcomes
    assert 1 == found.suspected
    assert [-0.3, 0.1, -0.02] == [each.change for each in found.declines]
    assert verdicts[1].series.key.hash == found.declines[0].trace
    many = [verdict_of(str(number), Outcome.NORMAL, -0.1) for number in range(30)]
    assert MOST_DECLINES == len(RunVerdict.of(many, judged=MOMENT).declines)
