"""The cost of notifications if no recipient is configured."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from perftrend.model import Run, Verdict
from perftrend.report.mails import PendingRuns, delivery
from perftrend.settings import MailSettings, Settings

MOMENT = datetime(2026, 3, 1, tzinfo=UTC)
RUN = Run("simulated", "nightly", 7, MOMENT, MOMENT)


class Asked:
    """The store's runs; remembers whether they were asked for."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> Sequence[Run]:
        self.times += 1
        return [RUN]


def nothing_judged(pending: PendingRuns) -> Sequence[Verdict]:
    return ()


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("BUILD_URL", raising=False)


def tell(asked: Asked, **mail: object) -> int:
    settings = Settings(mail=MailSettings.model_validate(mail))
    return delivery.write_and_send(settings, nothing_judged, run=RUN, runs=asked, notices=(), new_runs=1)


def test_store_is_not_asked_where_nobody_is_told(tmp_path: Path) -> None:
    asked = Asked()

    assert 0 == tell(asked)
    assert (0, []) == (asked.times, list(tmp_path.iterdir()))


def test_store_is_asked_once_for_a_build_of_jenkins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BUILD_URL", "https://jenkins.example.org/job/analysis/7/")
    asked = Asked()

    assert 0 == tell(asked)
    assert 1 == asked.times


def test_store_is_asked_once_where_a_server_sends_mails() -> None:
    asked = Asked()

    assert 0 == tell(asked, server="127.0.0.1:1", sender="a@example.org", recipients=["b@example.org"])
    assert 1 == asked.times


def test_wrong_mail_settings_are_told_and_nothing_counts_as_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The job has its verdict: it must not end as one without results."""
    monkeypatch.setenv("BUILD_URL", "https://jenkins.example.org/job/analysis/7/")

    assert 2 == tell(Asked(), server="127.0.0.1:1")
    assert [] == [*tmp_path.rglob("*.html")]
    assert "mail.sender is missing" in capsys.readouterr().err
    assert 0 == tell(asked := Asked())
    assert 1 == asked.times
