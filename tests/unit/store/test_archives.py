"""What was read of an archive is known by its location and its version."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perftrend.model import Run
from perftrend.store import Store

MOMENT = datetime(2026, 3, 2, 18, tzinfo=UTC)


def run_of(build: int, *, job: str = "nightly", archive: str = "https://ci/nightly/1/") -> Run:
    started = MOMENT + timedelta(days=build)
    return Run("2n-clx", job, build, started, started, archive=archive)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


def test_archive_is_known_by_the_job_of_its_run(store: Store) -> None:
    store.add(run_of(1), [], version="a")
    store.add(run_of(1, job="weekly", archive="https://ci/weekly/1/"), [], version="b")
    store.add(run_of(2, archive=""), [])

    assert {"https://ci/nightly/1/": "a"} == store.archives.versions("nightly")
    assert {} == store.archives.versions("another")


def test_newer_version_replaces_the_older_one(store: Store) -> None:
    store.add(run_of(1), [], version="a")
    store.add(run_of(2), [], version="b")

    assert {"https://ci/nightly/1/": "b"} == store.archives.versions("nightly")


def test_archive_of_a_known_run_is_noted_too(store: Store) -> None:
    store.add(run_of(1), [], version="a")
    store.add(run_of(1, archive="s3://mirror/1/"), [], version="c")

    assert {"https://ci/nightly/1/": "a", "s3://mirror/1/": "c"} == store.archives.versions("nightly")


def test_version_that_was_unknown_is_noted(store: Store) -> None:
    store.add(run_of(1), [])
    store.add(run_of(2, archive="two"), [], version="b")
    store.archives.note_versions({"https://ci/nightly/1/": "a", "two": "other", "three": "x"})

    assert {"https://ci/nightly/1/": "a", "two": "b"} == store.archives.versions("nightly")
