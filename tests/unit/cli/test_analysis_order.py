"""Analyses of several runs that end in another order than the runs, or at the same time."""

from __future__ import annotations

import fcntl
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from perftrend.model import Verdict
from perftrend.report.mails import PendingRuns, delivery
from perftrend.settings import Settings
from perftrend.store import Store
from tests.unit.cli.test_analysis import STEADY, measured, night, result


@pytest.fixture(autouse=True)
def on_jenkins(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILD_URL", "https://jenkins.example.org/job/analysis/7/")


def mailed(bench: Any, build: int) -> Counter[tuple[str, int]]:
    """Analyse a run, and return the regressions of its mail: tests, and the runs in which they began."""
    bench.analysis("--job", "trending", "--build", str(build))
    mail = Path("report/mails/regressions.txt")
    text = mail.read_text() if mail.exists() else ""
    rows = re.finditer(r"^64b-1c-(\S+)-mrr .*?(?:and run|since run) (\d+)$", text, re.MULTILINE | re.DOTALL)
    return Counter((row[1], int(row[2])) for row in rows)


def test_analyses_out_of_order_report_every_regression_once(bench: Any) -> None:
    measured(
        lasting=[*STEADY, 9.0, 9.01, 8.99],
        twice=[*STEADY, 9.0, 9.01, 7.0],
        back=[*STEADY, 9.0, 10.0, 10.01],
        steady=[*STEADY, 10.0, 10.01, 10.0],
    )
    mailed(bench, 12)

    found = mailed(bench, 15) + mailed(bench, 13) + mailed(bench, 14) + mailed(bench, 15)

    assert Counter([("lasting", 13), ("twice", 13), ("twice", 15), ("back", 13)]) == found


def test_analyses_at_the_same_time_report_one_after_the_other(bench: Any) -> None:
    locked = []

    def judged(pending: PendingRuns) -> Sequence[Verdict]:
        with next(Path("mails").glob("*.lock")).open() as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                locked.append(pending.runs)
        return ()

    delivery.write_and_send(Settings(), judged, run=night(3), runs=lambda: [night(3)], notices=(), new_runs=1)

    assert [(night(3),)] == locked


def test_run_that_is_stored_during_an_analysis_is_reported_by_its_own(
    bench: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Store.open("perftrend.sqlite") as store:
        for build, rate in enumerate(STEADY, 1):
            store.add(night(build), [result("ip4", rate)])
        store.add(night(14), [result("ip4", 10.0)])
    mailed(bench, 12)
    tell = delivery.write_and_send

    def store_and_tell(*arguments: Any, **options: Any) -> int:
        with Store.open("perftrend.sqlite") as store:
            store.add(night(13), [result("ip4", 9.0)])
        return tell(*arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(delivery, "write_and_send", store_and_tell)
        assert Counter() == mailed(bench, 14)

    assert Counter([("ip4", 13)]) == mailed(bench, 13)
