from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perftrend.errors import UsageError
from perftrend.model import Run
from perftrend.report.mails import FILES, MailRecord, PendingRuns
from perftrend.report.mails.record import MOST_RUNS

START = datetime(2026, 3, 1, 2, 0, tzinfo=UTC)
ADA = "ada@example.org"


def night(build: int, job: str = "trending") -> Run:
    started = START + timedelta(days=build)
    return Run("2n-clx", job, build, started, started + timedelta(hours=1))


RUNS = [night(build) for build in range(1, 60)]


def pending(record: MailRecord, run: Run, recipient: str = FILES, runs: Sequence[Run] = RUNS) -> list[int]:
    """Return the builds that the mail of a run is about."""
    return [each.build for each in record.find_pending(run, runs, recipient).runs]


def mark(record: MailRecord, run: Run, *recipients: str) -> None:
    record.mark(PendingRuns((run,)), *recipients)


@pytest.fixture
def record(tmp_path: Path) -> MailRecord:
    return MailRecord(tmp_path / "mails")


def test_first_mail_is_about_the_newest_run_alone(record: MailRecord) -> None:
    assert [9] == pending(record, night(9))


def test_first_mail_is_about_the_runs_that_its_job_measured(record: MailRecord) -> None:
    assert (night(7), night(8), night(9)) == record.find_pending(night(9), RUNS, at_first=3).runs


@pytest.mark.parametrize(("reported", "judged", "expected"), [(8, 9, [9]), (6, 9, [7, 8, 9]), (9, 9, [])])
def test_next_mail_is_about_the_runs_since_the_last_one(
    record: MailRecord, reported: int, judged: int, expected: list[int]
) -> None:
    mark(record, night(reported))

    assert expected == pending(record, night(judged))


def test_mail_of_a_run_that_an_earlier_mail_left_out_is_about_this_run(record: MailRecord) -> None:
    mark(record, night(8))
    mark(record, night(11))

    assert PendingRuns((night(9), night(10)), later=(night(11),)) == record.find_pending(night(10), RUNS)


def test_run_before_the_first_mail_has_a_mail_of_its_own_alone(record: MailRecord) -> None:
    mark(record, night(9))

    assert PendingRuns((night(3),)) == record.find_pending(night(3), RUNS)
    mark(record, night(3))
    assert [10] == pending(record, night(10))


def test_only_a_month_of_runs_is_recorded_and_older_ones_count_as_reported(
    record: MailRecord, tmp_path: Path
) -> None:
    for build in range(1, 50):
        mark(record, night(build))

    (file,) = (tmp_path / "mails").glob("*.json")
    assert MOST_RUNS == len(json.loads(file.read_text())["reported"][FILES]["runs"])
    assert [] == pending(record, night(2))
    assert [50] == pending(record, night(50))


def test_record_of_an_earlier_version_has_the_last_run_of_each_recipient(
    record: MailRecord, tmp_path: Path
) -> None:
    mark(record, night(9))
    (file,) = (tmp_path / "mails").glob("*.json")
    place = {"started": night(9).started.isoformat(), "build": 9}
    file.write_text(json.dumps({"format": "perftrend-mails-1", "told": {FILES: place}}))

    assert ([], [], [10, 11]) == tuple(pending(record, night(build)) for build in (3, 9, 11))


def test_run_that_is_not_in_the_store_counts(record: MailRecord) -> None:
    mark(record, night(3))

    assert [4] == pending(record, night(4), runs=[])


def test_recipients_are_told_apart(record: MailRecord) -> None:
    mark(record, night(9), FILES)

    assert [9] == pending(record, night(9), ADA)


def test_experiments_do_not_count(record: MailRecord) -> None:
    mark(record, night(7))

    assert [9] == pending(record, night(9), runs=[replace(night(8), experiment="trial.duration_s=5")])


def test_other_jobs_and_testbeds_do_not_count(record: MailRecord) -> None:
    elsewhere = replace(night(9), testbed="3n-icx")
    mark(record, night(8))

    assert [9] == pending(record, night(9), runs=[*RUNS, night(9, "weekly"), elsewhere])
    assert [9] == pending(record, elsewhere)
    assert [9] == pending(record, night(9, "weekly"))


def test_jobs_whose_names_no_file_can_tell_apart_have_their_own_place(record: MailRecord) -> None:
    mark(record, night(9, "../../a b"))

    assert [9] == pending(record, night(9, "../../a-b"))
    assert [] == pending(record, night(9, "../../a b"))


def test_older_run_does_not_take_the_place_back(record: MailRecord) -> None:
    mark(record, night(9))
    mark(record, night(3))

    assert [] == pending(record, night(9))


def test_record_leaves_one_file_in_its_folder(tmp_path: Path) -> None:
    for build in (1, 2, 3):
        mark(MailRecord(tmp_path), night(build), ADA, "b@example.org")

    assert [".json"] == [file.suffix for file in tmp_path.iterdir()]


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": "other", "told": {}}',
        '{"format": "perftrend-mails-2", "reported": {"files": {"since": 1}}}',
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
    record = MailRecord(tmp_path)
    mark(record, night(1))
    (file,) = tmp_path.iterdir()
    file.write_bytes(content.encode("latin-1"))

    with pytest.raises(UsageError, match="is not a record of mails; remove it") as raised:
        record.find_pending(night(2), RUNS)

    assert file.name in str(raised.value)
