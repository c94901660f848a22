"""Reported builds are ingested once, in a separate process, with retries if they are not there yet."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perftrend.dashboard import AppContext
from perftrend.dashboard.ingestion import worker
from perftrend.dashboard.ingestion.worker import command_of, environment_of, work_once
from perftrend.settings import Settings
from perftrend.store.ingestions import Ingestion, IngestionState
from perftrend.store.verdicts import PatchTest

JOB = "perftrend-trending-nightly-2n-clx"


def ask(site: AppContext, job: str = JOB, *, source: str = "") -> Ingestion:
    asked, _ = site.store.ingestions.request(job, 17, now=datetime.now(UTC), most=10, source=source)
    assert asked is not None
    return asked


def work(site: AppContext, script: str) -> Ingestion:
    """Let a script stand for the job; return what is known afterwards."""
    assert work_once(site, threading.Event(), command=lambda _: [sys.executable, "-c", script])
    return site.store.ingestions.newest(1)[0]


def test_there_is_nothing_to_do_where_nothing_was_asked_for(site: AppContext) -> None:
    assert not work_once(site, threading.Event(), command=lambda _: pytest.fail("nothing was asked for"))


@pytest.mark.parametrize("fate", ["new", "known"])
def test_build_that_the_store_has_then_is_done(site: AppContext, fate: str) -> None:
    ask(site)
    ended = work(site, f"print('1 {fate}: x'); print('1 {fate}; 300 results, 45.2 MB in 20 s (2.3 MB/s)')")

    assert (IngestionState.DONE, 0) == (ended.state, ended.exit_code)
    assert ended.told.startswith(f"1 {fate}; 300 results")


@pytest.mark.parametrize("fate", ["in progress", "known"])
def test_per_patch_test_in_progress_is_polled_until_it_has_ended(site: AppContext, fate: str) -> None:
    now = datetime.now(UTC)
    ask(site)
    test = PatchTest(JOB, 17, "2n-clx", "a" * 40, "b" * 40, now, now, 1, ended=False)
    site.store.patch_tests.add(test, [])
    waiting = work(site, f"print('1 {fate}; 3 results')")

    assert IngestionState.WAITING == waiting.state
    assert now + worker.POLL <= waiting.due <= datetime.now(UTC) + worker.POLL

    site.store.ingestions.release(site.store.ingestions.claim(waiting.due), due=now)  # type: ignore[arg-type]  # one waits
    site.store.patch_tests.add(replace(test, ended=True), [])
    assert IngestionState.DONE == work(site, "print('1 new; 3 results')").state


def test_per_patch_test_that_was_aborted_is_not_polled_for_ever(
    site: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "LONGEST_POLL", timedelta(0))
    now = datetime.now(UTC)
    ask(site)
    test = PatchTest(JOB, 17, "2n-clx", "a" * 40, "b" * 40, now, now, 1, ended=False)
    site.store.patch_tests.add(test, [])

    assert IngestionState.DONE == work(site, "print('1 in progress; 3 results')").state


@pytest.mark.parametrize(
    "script",
    [
        "print('1 missing; 0 results, 0.0 MB in 1 s (0.0 MB/s)')",
        "import sys; print('1 failed; 0 results'); sys.exit('perftrend: the server does not answer')",
        "import sys; sys.exit('perftrend: no build was found that matches --job x')",
        "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    ],
)
def test_build_that_is_not_there_yet_is_tried_again_later(site: AppContext, script: str) -> None:
    ask(site)
    before = datetime.now(UTC)
    ended = work(site, script)

    assert IngestionState.WAITING == ended.state
    assert before + timedelta(seconds=59) < ended.due < datetime.now(UTC) + timedelta(seconds=61)
    assert not ended.told.startswith("perftrend:")


def test_build_that_never_comes_is_given_up(site: AppContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "WAITS", (timedelta(0),) * 2)
    ask(site)
    for _ in range(2):
        assert IngestionState.WAITING == work(site, "print('1 missing; 0 results')").state

    ended = work(site, "import sys; print('1 missing'); sys.exit('perftrend: it is gone')")
    assert (IngestionState.FAILED, 3, 1, "it is gone") == (
        ended.state, ended.attempts, ended.exit_code, ended.told,
    )  # fmt: skip


def test_dashboard_that_ends_gives_back_what_it_has_begun(site: AppContext) -> None:
    ask(site)
    ending = threading.Event()
    ending.set()
    work_once(site, ending, command=lambda _: [sys.executable, "-c", "import time; time.sleep(60)"])

    [left] = site.store.ingestions.newest(1)
    assert IngestionState.WAITING == left.state
    assert left.due <= datetime.now(UTC)


def test_long_speech_is_cut(site: AppContext) -> None:
    ask(site)

    assert len(work(site, "print('x' * 100_000 + ' 1 new')").told) <= 500


@pytest.mark.parametrize("job", ["--store=/etc/passwd", "nightly-*", "a b; rm -rf /", "[x]"])
def test_job_reaches_the_command_as_one_word_that_is_no_pattern(site: AppContext, job: str) -> None:
    command: Sequence[str] = command_of(ask(site, job, source="/srv/archives"))

    [word] = [each for each in command if each.startswith("--job=")]
    assert word.removeprefix("--job=").replace("[*]", "*").replace("[[]", "[") == job
    assert ["--builds=17", "--", "/srv/archives"] == list(command[-3:])


def test_job_gets_the_settings_that_it_needs_and_no_other_secret() -> None:
    settings = Settings.load(
        environment={
            "PERFTREND_JENKINS_TOKEN": "t0ken",
            "PERFTREND_GERRIT_TOKEN": "of gerrit",
            "PERFTREND_DASHBOARD_INGEST_SECRET": "of events",
        },
        overrides={"store": "postgresql://me:pw@host/x", "fetch.workers": 3, "jenkins.user": "ci"},
    )
    given = environment_of(
        settings, {"PATH": "/bin", "PERFTREND_SETTINGS": "/etc/x.yaml", "PERFTREND_TAGS": "x"}
    )

    assert "/bin" == given["PATH"]
    assert not {"of gerrit", "of events", "/etc/x.yaml", "x"} & set(given.values())
    again = Settings.load(environment=given)
    assert (settings.store, settings.fetch, settings.jenkins) == (again.store, again.fetch, again.jenkins)


def test_relative_paths_stay_what_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    given = environment_of(Settings.load(environment={}), {})

    assert ("perftrend.sqlite", "cache") == (given["PERFTREND_STORE"], given["PERFTREND_FETCH_CACHE"])


def test_poll_that_fails_does_not_end_the_polling(site: AppContext) -> None:
    now = datetime.now(UTC)
    ask(site)
    test = PatchTest(JOB, 17, "2n-clx", "a" * 40, "b" * 40, now, now, 1, ended=False)
    site.store.patch_tests.add(test, [])
    for _ in range(len(worker.WAITS) + 2):
        waiting = work(site, "print('1 in progress; 3 results')")
        site.store.ingestions.release(site.store.ingestions.claim(waiting.due), due=now)  # type: ignore[arg-type]  # one waits

    assert IngestionState.WAITING == work(site, "import sys; sys.exit('perftrend: 503')").state
