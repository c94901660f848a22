from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perftrend.errors import UsageError
from perftrend.model import Run
from perftrend.report.mails import FILES, Record
from perftrend.report.mails.record import MOST_RUNS

START = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)
ADA = "ada@example.org"


def night(build: int, job: str = "trending") -> Run:
    started = START + timedelta(days=build)
    return Run("2n-clx", job, build, started, started + timedelta(hours=1))


RUNS = [night(build) for build in range(1, 60)]


@pytest.fixture
def record(tmp_path: Path) -> Record:
    return Record(tmp_path / "mails")


def test_first_mail_is_about_the_newest_run_alone(record: Record) -> None:
    assert 1 == record.untold(night(9), RUNS)


def test_first_mail_is_about_the_runs_that_its_job_measured(record: Record) -> None:
    assert 3 == record.untold(night(9), RUNS, at_first=3)


@pytest.mark.parametrize(("told", "judged", "expected"), [(8, 9, 1), (6, 9, 3), (9, 9, 0), (9, 8, 0)])
def test_next_mail_is_about_the_runs_since_the_last_one(
    record: Record, told: int, judged: int, expected: int
) -> None:
    record.mark(night(told))

    assert expected == record.untold(night(judged), RUNS)


def test_who_missed_a_month_hears_of_a_month(record: Record) -> None:
    record.mark(night(1))

    assert MOST_RUNS == record.untold(night(59), RUNS)


def test_run_that_is_not_in_the_store_counts(record: Record) -> None:
    record.mark(night(3))

    assert 1 == record.untold(night(4), [])


def test_recipients_are_told_apart(record: Record) -> None:
    record.mark(night(9), FILES)

    assert 1 == record.untold(night(9), RUNS, ADA)


def test_other_jobs_and_testbeds_do_not_count(record: Record) -> None:
    elsewhere = replace(night(9), testbed="3n-icx")
    record.mark(night(8))

    assert 1 == record.untold(night(9), [*RUNS, night(9, "weekly"), elsewhere])
    assert 1 == record.untold(elsewhere, RUNS)
    assert 1 == record.untold(night(9, "weekly"), RUNS)


def test_jobs_whose_names_no_file_can_tell_apart_have_their_own_place(record: Record) -> None:
    record.mark(night(9, "../../a b"))

    assert 1 == record.untold(night(9, "../../a-b"), RUNS)
    assert 0 == record.untold(night(9, "../../a b"), RUNS)


def test_older_run_does_not_take_the_place_back(record: Record) -> None:
    record.mark(night(9))
    record.mark(night(3))

    assert 0 == record.untold(night(9), RUNS)


def test_record_leaves_one_file_in_its_folder(tmp_path: Path) -> None:
    for build in (1, 2, 3):
        Record(tmp_path).mark(night(build), ADA, "b@example.org")

    assert [".json"] == [file.suffix for file in tmp_path.iterdir()]


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": "other", "told": {}}',
        '{"format": "perftrend-mails-1", "told": []}',
        '{"format": "perftrend-mails-1", "told": {"files": 3}}',
        '{"format": "perftrend-mails-1", "told": {"files": {"started": "yesterday", "build": 1}}}',
        '{"format": "perftrend-mails-1", "told": {"a": {"started": "9999-12-31T23:59-12:00", "build": 1}}}',
        '{"format": "perftrend-mails-1", "told": {"files": {"started": "2026-01-01", "build": 1e999}}}',
        "[" * 100_000,
        "\xff",
    ],
)
def test_record_that_is_none_is_refused_by_name(tmp_path: Path, content: str) -> None:
    record = Record(tmp_path)
    record.mark(night(1))
    (file,) = tmp_path.iterdir()
    file.write_bytes(content.encode("latin-1"))

    with pytest.raises(UsageError, match="is no record of mails; remove it") as raised:
        record.untold(night(2), RUNS)

    assert file.name in str(raised.value)
