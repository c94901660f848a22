"""The dashboard ingests builds that are reported to it, and those in a watched folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import requests
from pydantic import SecretStr

from perftrend.clients import build_events
from perftrend.store import Store
from tests.integration.servers.dashboard import CHECKOUT, Dashboard
from tests.integration.servers.listening import until

OUTPUT = CHECKOUT / "tests/data/outputs/rf7.xml"
JOB = "perftrend-trending-nightly-2n-clx"
SECRET = "of this test"  # noqa: S105 - of nobody else


@contextmanager
def serving(folder: Path, **settings: Any) -> Iterator[Dashboard]:
    folder.mkdir(exist_ok=True)
    with Dashboard(folder, settings=settings) as dashboard:
        yield dashboard


def builds(dashboard: Dashboard) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = requests.get(
        f"{dashboard.url}/ingest", params={"format": "json"}, timeout=60
    ).json()["builds"]
    return found


def states(dashboard: Dashboard) -> list[tuple[str, int, str]]:
    return [(each["job"], each["build"], each["state"]) for each in builds(dashboard)]


def is_done(dashboard: Dashboard, number: int = 1) -> Callable[[], bool]:
    return lambda: [each["state"] for each in builds(dashboard)].count("done") == number


def test_build_that_an_event_tells_of_is_in_the_store(tmp_path: Path) -> None:
    archive = tmp_path / "archives" / JOB / "17"
    archive.mkdir(parents=True)
    shutil.copy(OUTPUT, archive / "output.xml")
    settings = {"ingest_secret": SECRET, "ingest_source": str(tmp_path / "archives")}
    with serving(tmp_path / "dashboard", **settings) as dashboard:
        build_events.notify(dashboard.url, SecretStr(SECRET), JOB, 17)
        until(is_done(dashboard))

        runs = requests.get(f"{dashboard.url}/runs", params={"format": "json"}, timeout=60).json()
        assert [(JOB, 17)] == [(run["job"], run["build"]) for run in runs["testbeds"][0]["runs"]]
        build_events.notify(dashboard.url, SecretStr(SECRET), JOB, 17)
        until(is_done(dashboard, 2))
    with Store.open(dashboard.store) as store:
        assert [17] == [run.build for run in store.runs("2n-clx")]


def test_build_that_comes_into_the_watched_folder_is_in_the_store(tmp_path: Path) -> None:
    watched = tmp_path / "watched"
    watched.mkdir()
    with serving(tmp_path / "dashboard", watch_folder=str(watched), watch_s=0.2) as dashboard:
        archive = watched / JOB / "5"
        archive.mkdir(parents=True)
        shutil.copy(OUTPUT, archive / "output.xml")
        until(is_done(dashboard))

        assert [(JOB, 5, "done")] == states(dashboard)


def test_dashboard_that_was_killed_meanwhile_goes_on(tmp_path: Path) -> None:
    """What it was told of stands in the store."""
    archive = tmp_path / "archives" / JOB / "17"
    archive.mkdir(parents=True)
    shutil.copy(OUTPUT, archive / "output.xml")
    folder = tmp_path / "dashboard"
    folder.mkdir()
    with Store.open(folder / "store.sqlite") as store:
        store.ingestions.request(JOB, 17, now=datetime.now(UTC), most=1, source=str(tmp_path / "archives"))
    with serving(folder) as dashboard:
        until(is_done(dashboard))


def test_trending_tells_the_dashboard(tmp_path: Path) -> None:
    settings = {"ingest_secret": SECRET, "ingest_source": str(tmp_path / "archives")}
    with serving(tmp_path / "dashboard", **settings) as dashboard:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PERFTREND_")}
        environment |= {
            "PERFTREND_DASHBOARD_URL": dashboard.url,
            "PERFTREND_DASHBOARD_INGEST_SECRET": SECRET,
            "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'resources'}",
        }
        command = [
            sys.executable, "-P", "-m", "perftrend.cli.trending", "--testbed", "simulated", "--no-analysis",
            "--tags", "mrrAND64bAND1cANDethip4-ip4base", "--trial-multiplicity", "2",
        ]  # fmt: skip
        ran = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600, check=False
        )

        # Another test may have the testbed, which is one for the whole machine.
        said = [line for line in ran.stderr.splitlines() if "is in use by" not in line]
        assert (0, 1) == (ran.returncode, len(said))
        assert "this is an experiment (trial.multiplicity=2)" in said[0]
        until(is_done(dashboard))
        assert [("perftrend-experiment-simulated", 1, "done")] == states(dashboard)
