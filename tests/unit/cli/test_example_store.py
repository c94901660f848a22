"""The year of made-up nights, and the store that --example fills with it."""

from __future__ import annotations

import re
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from itertools import islice
from pathlib import Path
from statistics import median

import pytest

from perftrend.cli import example_store
from perftrend.cli.example_store import (
    ALERT,
    DAYS,
    EVENTS,
    FAILING,
    GONE,
    NEW,
    Event,
    fill,
    judge_newest_runs,
    year,
)
from perftrend.dashboard import AppContext
from perftrend.errors import UsageError
from perftrend.listener.supervisor import lock_folder
from perftrend.model import Outcome, Result, Run, Status
from perftrend.settings import Settings
from perftrend.store import Store

LAST_DAY = date(2026, 6, 30)
Nights = list[tuple[Run, list[Result]]]


@pytest.fixture(scope="module")
def nights() -> Nights:
    return list(year(LAST_DAY))


@pytest.fixture
def few_nights(monkeypatch: pytest.MonkeyPatch) -> Nights:
    """Let a year have ten runs."""
    some = list(islice(year(LAST_DAY), 10))
    monkeypatch.setattr(example_store, "year", lambda *_, **__: iter(some))
    return some


def day_of(run: Run) -> int:
    return DAYS - 1 - (LAST_DAY - run.started.date()).days


def fits(result: Result, event: Event) -> bool:
    return all(re.fullmatch(form, result.key[name]) for name, form in event.where.items())


def test_same_seed_and_day_give_the_same_nights() -> None:
    assert list(islice(year(LAST_DAY, seed=3), 20)) == list(islice(year(LAST_DAY, seed=3), 20))
    assert list(islice(year(LAST_DAY, seed=3), 1)) != list(islice(year(LAST_DAY, seed=4), 1))


def test_no_run_is_told_of_twice_or_before_its_time(nights: Nights) -> None:
    runs = [run for run, _ in nights]

    assert len({(run.job, run.build) for run in runs}) == len(runs)
    assert runs == sorted(runs, key=lambda run: run.started)
    assert all(run.simulated for run in runs)
    assert timedelta(days=DAYS) > runs[-1].started - runs[0].started > timedelta(days=DAYS - 10)


@pytest.mark.parametrize("event", [each for each in EVENTS if not each.lasts], ids=lambda event: event.what)
def test_step_has_its_size_at_its_commit(nights: Nights, event: Event) -> None:
    """Of the median over all traces that it concerns, so that noise hardly counts."""
    ratios = []
    changed = [(day_of(run), each) for run, results in nights for each in results if fits(each, event)]
    for key in {each.key for _, each in changed}:
        values = {day: each.value for day, each in changed if each.key == key and each.usable}
        before = [value for day, value in values.items() if event.day - 7 <= day < event.day]
        after = [value for day, value in values.items() if event.day <= day < event.day + 7]
        if before and after:
            ratios.append(median(after) / median(before))

    assert pytest.approx(1 + event.size, abs=0.015) == median(ratios)


def test_step_comes_with_a_commit_that_no_night_before_it_had(nights: Nights) -> None:
    for event in EVENTS:
        before = {run.versions["device"] for run, _ in nights if day_of(run) < event.day}
        since = {run.versions["device"] for run, _ in nights if day_of(run) >= event.day}

        assert not before & since


def test_drift_is_slow_and_stays(nights: Nights) -> None:
    [drift] = [each for each in EVENTS if each.lasts]
    found = {
        when: [
            each.value
            for run, results in nights
            for each in results
            if fits(each, drift) and each.usable and each.key["cores"] == "1C" and day_of(run) in days
        ]
        for when, days in {
            "before": range(drift.day - 20, drift.day),
            "middle": range(drift.day + drift.lasts // 2 - 10, drift.day + drift.lasts // 2 + 10),
            "after": range(drift.day + drift.lasts, drift.day + drift.lasts + 20),
        }.items()
    }
    before, middle, after = (median(values) for values in found.values())

    assert before * (1 + drift.size / 4) > middle > after * (1 - drift.size / 4)


def test_tests_come_go_and_fail(nights: Nights) -> None:
    days = {
        test: [(day_of(run), each) for run, results in nights for each in results if each.key["test"] == test]
        for test in (FAILING[0], NEW[0], GONE[0])
    }

    assert NEW[1] <= min(day for day, _ in days[NEW[0]])
    assert GONE[1] > max(day for day, _ in days[GONE[0]])
    assert {Status.FAIL} == {each.status for day, each in days[FAILING[0]] if day >= FAILING[1]}


def test_one_testbed_is_silent_at_the_end(nights: Nights) -> None:
    newest = {run.testbed: run.started.date() for run, _ in nights}

    silent = [testbed for testbed, day in newest.items() if LAST_DAY - day > timedelta(days=20)]
    assert ["2n-zn2"] == silent


def test_store_has_what_was_made_and_its_tiles(tmp_path: Path, few_nights: Nights) -> None:
    fill(tmp_path / "new.sqlite")

    with Store.open(tmp_path / "new.sqlite") as store:
        for testbed in store.tiles.testbeds():
            axis = store.tiles.axis(testbed)
            assert len(axis.columns) == axis.whole
        stored = [
            (run, store.results(run)) for testbed in store.tiles.testbeds() for run in store.runs(testbed)
        ]
    assert sorted(few_nights, key=lambda one: (one[0].testbed, one[0].build)) == stored
    assert ["new.sqlite"] == [each.name for each in tmp_path.iterdir()]


@pytest.mark.usefixtures("few_nights")
def test_store_has_an_alert_for_all_of_it(tmp_path: Path) -> None:
    fill(tmp_path / "new.sqlite")

    with Store.open(tmp_path / "new.sqlite") as store:
        [alert] = store.alerts.all()
    assert ("", True) == (alert.rules.query, alert.rules.enabled)


def test_year_ends_today(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[date] = []

    def none(until: date, *, seed: int) -> Iterator[tuple[Run, list[Result]]]:
        asked.append(until)
        assert seed
        return iter(())

    monkeypatch.setattr(example_store, "year", none)
    before = datetime.now(UTC).date()
    fill(tmp_path / "new.sqlite")

    assert before <= asked[0] <= datetime.now(UTC).date()


def refused(place: str | Path) -> str:
    with pytest.raises(UsageError) as refusal:
        fill(place)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def test_existing_file_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "mine.sqlite").write_text("my notes")

    assert "already exists and is not changed" in refused(tmp_path / "mine.sqlite")
    assert "my notes" == (tmp_path / "mine.sqlite").read_text()


def test_file_that_came_meanwhile_stays_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def writing(*_: object, **__: object) -> Iterator[tuple[Run, list[Result]]]:
        (tmp_path / "mine.sqlite").write_text("my notes")
        return iter(())

    monkeypatch.setattr(example_store, "year", writing)

    assert "already exists and is not changed" in refused(tmp_path / "mine.sqlite")
    assert "my notes" == (tmp_path / "mine.sqlite").read_text()


@pytest.mark.parametrize(
    ("place", "reason"),
    [("postgresql://me:secret@host/x", "give --store a path"), ("missing/x.sqlite", "folder does not exist")],
)
def test_place_that_cannot_be_taken_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, reason: str
) -> None:
    monkeypatch.chdir(tmp_path)

    told = refused(place)
    assert reason in told
    assert "secret" not in told


@pytest.mark.usefixtures("few_nights")
def test_what_was_interrupted_leaves_nothing_and_can_be_done_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Store, "add_all", interrupted)
        with pytest.raises(KeyboardInterrupt):
            fill(tmp_path / "new.sqlite")

    assert [] == list(tmp_path.iterdir())
    fill(tmp_path / "new.sqlite")


@pytest.mark.usefixtures("few_nights")
def test_what_a_killed_one_left_goes(tmp_path: Path) -> None:
    left = tmp_path / ".new.sqlite.example"
    left.mkdir()
    (left / "new.sqlite").write_text("half of it")

    fill(tmp_path / "new.sqlite")

    assert ["new.sqlite"] == [each.name for each in tmp_path.iterdir()]


def test_two_do_not_make_the_same_one(tmp_path: Path) -> None:
    folder = tmp_path / ".new.sqlite.example"
    folder.mkdir()
    with lock_folder(folder):
        assert "another process is creating it" in refused(tmp_path / "new.sqlite")


def test_verdict_does_not_miss_a_test_that_was_removed_before(tmp_path: Path, nights: Nights) -> None:
    testbed = nights[0][0].testbed
    *_, last = recent = [(run, results[:4]) for run, results in nights if run.testbed == testbed][-4:]
    settings = Settings.load(environment={}, overrides={"store": str(tmp_path / "new.sqlite")})
    with Store.open(tmp_path / "new.sqlite") as store:
        # Each run has one result fewer than the run before it.
        store.add_all((run, results[: 4 - age]) for age, (run, results) in enumerate(recent[:-1]))
        store.add(last[0], last[1][:1])
        judge_newest_runs(AppContext.of(settings, store), threading.Event())
        (_, verdict), *_ = store.verdicts.newest(testbed, last=1)

    assert verdict is not None
    assert 1 == verdict.outcomes[Outcome.MISSING]


def test_alert_reports_the_changes_that_verdicts_report() -> None:
    assert Settings.load(environment={}).analysis.minimum_change == ALERT.change
