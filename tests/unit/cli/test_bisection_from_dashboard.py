"""A bisection that a person starts on a page: the listener runs it, and the item has its result."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml
from starlette.testclient import TestClient

from perftrend.cli import listener
from perftrend.dashboard import AppContext, make_app
from perftrend.dashboard.triage.evaluation import evaluate
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.settings import Settings
from perftrend.store import Store
from perftrend.store.alerts import ItemSelection, Rules

JSON = {"Accept": "application/json"}
COMMITS, SLOW = 8, 5
"""The number of commits, and the first slow one, counted from 0."""
# It measures no time: its values are those of its commit, with a little noise.
PROGRAM = """\
#!/bin/sh
noise=$(od -An -N1 -tu1 /dev/urandom)
echo "$(cat level).$((noise % 10 + 10))"
"""


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=Ann Coder", "-c", "user.email=ann@example.org")
    command = ["git", "-C", str(folder), *identity, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def commits(bench: Any) -> list[str]:
    """Make a history whose program becomes slower by a quarter, and return its commits."""
    folder = bench.folder / "product"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch", "main")
    (folder / "bench").write_text(PROGRAM)
    (folder / "bench").chmod(0o755)
    found = []
    for number in range(COMMITS):
        (folder / "level").write_text("125" if number >= SLOW else "100")
        (folder / "notes").write_text(f"{number}")
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", "Copy twice" if number == SLOW else f"Note {number}")
        found.append(git(folder, "rev-parse", "HEAD"))
    return found


@pytest.fixture
def settings(bench: Any, commits: list[str]) -> Settings:
    told = {
        "store": str(bench.folder / "perftrend.sqlite"),
        "listener": {"address": "127.0.0.1:0", "runner": "local"},
        "project": {
            "profile": "command",
            "repository": str(bench.folder / "product"),
            "parameters": {"measure": "./bench", "unit": "ms", "better": "lower", "keep": "bench level"},
        },
    }
    (bench.folder / "settings.yaml").write_text(yaml.safe_dump(told))
    return Settings.load(bench.folder / "settings.yaml", environment={})


def fill(store: Store, commits: list[str]) -> None:
    """Store nights of the first and the last commit: the nights did not measure those between them."""
    key = TraceKey.of(testbed="simulated", test="64b-1c-ethip4-ip4base", metric="mrr")
    begin = datetime.now(UTC) - timedelta(days=30)
    for night in range(24):
        is_new = night >= 16
        value = (8.0e6 if is_new else 10.0e6) + 1000.0 * (night % 3)
        started = begin + timedelta(days=night)
        versions = {"device": commits[-1 if is_new else 0]}
        run = Run("simulated", "nightly", night + 1, started, started + timedelta(hours=1), versions)
        store.add(run, [Result(key, "pps", Better.HIGHER, Status.PASS, (value,), value)])


def test_item_gets_the_commit_and_its_author(bench: Any, settings: Settings, commits: list[str]) -> None:
    with Store.open(settings.store) as store:
        fill(store, commits)
        store.alerts.add(Rules("changes", "", change=0.03, owner="lab"), user="ann")
        site = AppContext.of(settings, store)
        evaluate(store, site.catalog, "simulated")
        (item,), _ = store.alerts.items.select(ItemSelection(), limit=5)
        here = ("127.0.0.1", 50000)
        with TestClient(make_app(site), base_url="http://127.0.0.1:8080", client=here) as browser:
            offered = browser.get("/jobs/new", params={"item": item.identity}, headers=JSON).json()
            assert ("", commits[0], commits[-1]) == (
                offered["problem"], offered["bisection"]["old"], offered["bisection"]["new"],
            )  # fmt: skip
            made = browser.post("/jobs", json={"item": item.identity}, headers=JSON)
            assert 201 == made.status_code, made.text

            ended = bench._job(listener.main, ["--settings", "settings.yaml", "--once"])

            assert 0 == ended.exit_code, ended.err
            job = browser.get(f"/jobs/{made.json()['key']}", headers=JSON).json()
            page = browser.get(f"/triage/{item.identity}", headers={"Accept": "text/html"}).text
        assert "has ended" == job["state"], (job, ended.err)
        assert [(commits[SLOW], "Copy twice", "Ann Coder")] == [
            (each["commit"], each["subject"], each["author"]) for each in job["culprits"]
        ]
        assert 1 == job["exit_code"]
        assert commits[SLOW][:12] in page
        changed = store.alerts.items.one(item.identity)
        assert changed is not None
        assert "Ann Coder" == changed.owner
        assert "assigned" in [each.action for each in store.activity.newest(5, changed.subject)]


def test_commit_that_is_not_in_the_repository_is_refused(
    bench: Any, settings: Settings, commits: list[str]
) -> None:
    with Store.open(settings.store) as store:
        fill(store, ["f" * 40, *commits])
        here = ("127.0.0.1", 50000)
        site = AppContext.of(settings, store)
        with TestClient(make_app(site), base_url="http://127.0.0.1:8080", client=here) as browser:
            wanted = {"testbed": "simulated", "old": "f" * 40, "new": commits[-1]}
            key = browser.post("/jobs", json=wanted, headers=JSON).json()["key"]
            ended = bench._job(listener.main, ["--settings", "settings.yaml", "--once"])
            job = browser.get(f"/jobs/{key}", headers=JSON).json()
    assert 0 == ended.exit_code, ended.err
    assert "was refused" == job["state"]
    assert "does not exist in the repository" in job["reason"]
