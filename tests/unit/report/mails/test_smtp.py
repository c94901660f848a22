"""The recipients of each mail, with the real analysis and a double of the mail server."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from perftrend.analysis import Criteria, evaluate
from perftrend.clients.mail import Mail, MailRefusedError, MailServer
from perftrend.errors import ServiceError
from perftrend.model import Better, Outcome, Result, Run, Series, Status, TraceKey, Verdict
from perftrend.report import mails

MakeVerdict = Callable[..., Verdict]

ADA, BOB, TEAM = "ada@example.org", "bob@example.org", "team@example.org"


@dataclass
class Postbox:
    """Stands in for MailServer: takes mails, refuses some recipients, and may be down."""

    refused: tuple[str, ...] = ()
    is_down: bool = False
    killed_by: str = ""
    mails: list[Mail] = field(default_factory=list)
    asked: int = 0

    def send(self, mail: Mail) -> None:
        self.asked += 1
        if self.is_down:
            raise ServiceError(f"mail to {mail.recipient}: no connection")
        if mail.recipient == self.killed_by:
            raise KeyboardInterrupt
        if mail.recipient in self.refused:
            raise MailRefusedError(f"mail to {mail.recipient}: refused")
        self.mails.append(mail)

    @property
    def subjects(self) -> dict[str, str]:
        return {mail.recipient: mail.subject for mail in self.mails}


@pytest.fixture
def record(tmp_path: Path) -> mails.MailRecord:
    return mails.MailRecord(tmp_path)


def send(
    box: Postbox, verdicts: Sequence[Verdict], run: Run, record: mails.MailRecord, *to: str
) -> tuple[str, ...]:
    server = cast(MailServer, box)
    return mails.send(lambda _: verdicts, run=run, runs=[run], server=server, recipients=to, record=record)


def test_each_recipient_gets_one_mail_with_what_concerns_him(
    make_verdict: MakeVerdict, run: Run, record: mails.MailRecord
) -> None:
    verdicts = [
        make_verdict("64b-ip4", mail=(ADA,)),
        make_verdict("64b-l2", Outcome.PROGRESSION, mail=(BOB,)),
        make_verdict("64b-acl", Outcome.NORMAL, mail=("quiet@example.org",)),
    ]
    box = Postbox()

    assert (ADA, BOB, TEAM) == send(box, verdicts, run, record, TEAM)
    assert {
        ADA: "1 regression on 2n-clx: trending/6",
        BOB: "1 progression on 2n-clx: trending/6",
        TEAM: "1 regression, 1 progression on 2n-clx: trending/6",
    } == box.subjects
    assert "64b-l2" not in box.mails[0].text


def test_who_is_named_twice_gets_one_mail(
    make_verdict: MakeVerdict, run: Run, record: mails.MailRecord
) -> None:
    box = Postbox()
    send(box, [make_verdict(mail=(ADA, "Ada@Example.org"))], run, record, "ADA@example.org")

    assert ["ADA@example.org"] == [mail.recipient for mail in box.mails]


def test_rerun_sends_nothing_twice(make_verdict: MakeVerdict, run: Run, record: mails.MailRecord) -> None:
    box = Postbox()
    send(box, [make_verdict()], run, record, TEAM)

    assert () == send(box, [make_verdict()], run, record, TEAM)
    assert 1 == len(box.mails)


def test_rerun_goes_on_with_those_who_were_left_out(
    make_verdict: MakeVerdict, run: Run, record: mails.MailRecord
) -> None:
    box = Postbox(refused=(BOB,))
    with pytest.raises(ServiceError, match=r"mail to bob@example\.org: refused"):
        send(box, [make_verdict()], run, record, ADA, BOB, TEAM)
    assert [ADA, TEAM] == [mail.recipient for mail in box.mails]
    box.refused = ()

    assert (BOB,) == send(box, [make_verdict()], run, record, ADA, BOB, TEAM)


def test_server_that_is_down_is_asked_once(
    make_verdict: MakeVerdict, run: Run, record: mails.MailRecord
) -> None:
    box = Postbox(is_down=True)
    with pytest.raises(ServiceError, match="no connection"):
        send(box, [make_verdict()], run, record, ADA, BOB, TEAM)

    assert 1 == box.asked


def test_killed_job_goes_on_where_it_was(
    make_verdict: MakeVerdict, run: Run, record: mails.MailRecord
) -> None:
    box = Postbox(killed_by=BOB)
    with pytest.raises(KeyboardInterrupt):
        send(box, [make_verdict()], run, record, ADA, BOB, TEAM)
    box.killed_by = ""

    assert (BOB, TEAM) == send(box, [make_verdict()], run, record, ADA, BOB, TEAM)


def test_run_without_any_result_is_told_as_a_failed_job(
    missing: Verdict, run: Run, record: mails.MailRecord
) -> None:
    box = Postbox()
    send(box, [missing], run, record, TEAM)

    assert {TEAM: "No results on 2n-clx: trending/6"} == box.subjects


def test_quiet_run_sends_nothing(make_verdict: MakeVerdict, run: Run, record: mails.MailRecord) -> None:
    box = Postbox()

    assert () == send(box, [make_verdict(outcome=Outcome.NORMAL)], run, record, TEAM)
    assert 0 == box.asked


def test_owner_hears_of_a_failing_test_once_and_the_team_each_time(
    make_verdict: MakeVerdict, run: Run, record: mails.MailRecord
) -> None:
    verdict = make_verdict(outcome=Outcome.FAILED, mail=(ADA,))
    statuses = [Status.PASS] * 4 + [Status.FAIL] * 2
    results = [replace(old, status=new) for old, new in zip(verdict.series.results, statuses, strict=True)]
    verdict = replace(verdict, series=replace(verdict.series, results=tuple(results)))

    assert (TEAM,) == send(Postbox(), [verdict], run, record, TEAM)


def test_mail_of_a_failed_job_goes_to_all() -> None:
    box = Postbox()
    sent = mails.send_failed_job(
        server=cast(MailServer, box),
        recipients=[TEAM, ADA],
        job="trending",
        build=6,
        testbed="2n-clx",
        reason="the store cannot be opened",
    )

    assert (ADA, TEAM) == sent
    assert "No results on 2n-clx: trending/6" == box.subjects[TEAM]


KEY = TraceKey.of(test="64b-ip4", suite="ip4", frame="64B", metric="mrr", testbed="2n-clx")


def night(build: int) -> Run:
    started = datetime(2026, 3, 1, 2, 0, tzinfo=UTC) + timedelta(days=build)
    return Run("2n-clx", "trending", build, started, started + timedelta(hours=1))


@dataclass
class Nights:
    """A trace that is measured each night, and judged as often as anybody likes."""

    record: mails.MailRecord
    values: list[float] = field(default_factory=list)

    @property
    def runs(self) -> list[Run]:
        return [night(build) for build in range(1, len(self.values) + 1)]

    def judged(self, pending: mails.PendingRuns) -> tuple[Verdict, ...]:
        return mails.reportable(self.evaluated, pending)

    def evaluated(self, run: Run, *, new_runs: int = 1, without: Collection[Run] = ()) -> list[Verdict]:
        values = self.values[: run.build]
        results = tuple(Result(KEY, "pps", Better.HIGHER, Status.PASS, value=value) for value in values)
        runs = tuple(self.runs[: run.build])
        series = Series(KEY, "pps", Better.HIGHER, runs, np.array(values), results)
        return [evaluate(series, run=run, criteria=Criteria(new_runs=new_runs))]

    def mail(self, box: Any) -> tuple[str, ...]:
        return mails.send(
            self.judged, run=self.runs[-1], runs=self.runs, server=box, recipients=[TEAM], record=self.record
        )


LEVEL = [10.0e6, 10.01e6, 9.99e6, 10.02e6, 9.98e6, 10.0e6, 10.01e6, 9.99e6]
DROP = [8.0e6, 8.01e6, 7.99e6, 8.0e6]


def test_change_is_told_on_its_day_and_not_again(record: mails.MailRecord) -> None:
    nights = Nights(record)
    sent = []
    for value in LEVEL + DROP:
        nights.values.append(value)
        sent.append(nights.mail(Postbox()))

    assert [()] * len(LEVEL) + [(TEAM,)] + [()] * (len(DROP) - 1) == sent


@pytest.mark.parametrize("missed", [1, 2, 3])
def test_change_that_nobody_was_told_of_is_in_the_next_mail(record: mails.MailRecord, missed: int) -> None:
    """The server was down, or nothing ran, for some nights from the night of the change on."""
    nights = Nights(record, LEVEL.copy())
    nights.mail(Postbox())
    for value in DROP[:missed]:
        nights.values.append(value)
        with pytest.raises(ServiceError):
            nights.mail(Postbox(is_down=True))
    nights.values.append(DROP[missed])
    box = Postbox()

    assert (TEAM,) == nights.mail(box)
    assert "1 regression" in box.subjects[TEAM]
    nights.values.append(8.0e6)
    assert () == nights.mail(Postbox())


def test_without_a_record_the_next_mail_would_be_silent(record: mails.MailRecord) -> None:
    """What the record is for: the analysis alone takes the night before for told."""
    nights = Nights(record, LEVEL + DROP[:2])

    now, before = nights.runs[-1], nights.runs[-2]
    assert [Outcome.NORMAL] == [verdict.outcome for verdict in nights.judged(mails.PendingRuns((now,)))]
    assert Outcome.REGRESSION is nights.judged(mails.PendingRuns((before, now)))[-1].outcome


def test_late_mail_shows_a_change_as_the_newest_run_has_it(record: mails.MailRecord) -> None:
    nights = Nights(record, LEVEL + DROP[:3])

    regressions = [
        verdict
        for verdict in nights.judged(mails.PendingRuns(tuple(nights.runs[-3:])))
        if verdict.outcome is Outcome.REGRESSION
    ]

    assert [3] == [verdict.runs for verdict in regressions]


def test_mail_about_more_than_a_month_is_about_the_last_month(record: mails.MailRecord) -> None:
    nights = Nights(record, LEVEL * 6)
    judged = []

    def evaluated(run: Run, **_: Any) -> list[Verdict]:
        judged.append(run.build)
        return []

    mails.reportable(evaluated, mails.PendingRuns(tuple(nights.runs)))

    assert set(range(19, 49)) == set(judged)
