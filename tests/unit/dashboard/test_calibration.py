"""``/calibration``: what became of reported changes, false alarms, culprits and hours."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from perftrend.clients.git import Repository
from perftrend.dashboard import AppContext
from perftrend.dashboard.calibration import JUDGED_AFTER, Share, judge
from perftrend.dashboard.triage.evaluation import evaluate
from perftrend.store.alerts import FindingOutcomes, ItemSelection, Rules, RunTimes, TriageEdit
from perftrend.store.requests import Request, RequestState
from tests.unit.dashboard.conftest import TESTBEDS, Filled, commit

JSON = {"Accept": "application/json"}
BED = TESTBEDS[0]
MOMENT = datetime(2026, 3, 2, 6, tzinfo=UTC)
DAY = timedelta(days=1)
CHANGE = FindingOutcomes(BED, MOMENT, None, 0.99, "new", 1)


def nights(count: int) -> list[RunTimes]:
    """Return a testbed with a run before the report, and some after it."""
    return [RunTimes(BED, [MOMENT + number * DAY for number in range(-1, count + 1) if number], 3600.0)]


@pytest.mark.parametrize(
    ("runs", "gone", "status", "persisted"),
    [
        (JUDGED_AFTER, None, "new", True),
        (JUDGED_AFTER - 1, None, "new", None),
        (JUDGED_AFTER - 1, MOMENT + DAY, "closed", False),
        (JUDGED_AFTER, MOMENT + JUDGED_AFTER * DAY, "closed", False),
        (JUDGED_AFTER, MOMENT + (JUDGED_AFTER + 1) * DAY, "closed", True),
        (JUDGED_AFTER, None, "ignored", False),
        (0, None, "ignored", False),
    ],
)
def test_change_persisted_if_it_is_found_after_ten_runs(
    runs: int, gone: datetime | None, status: str, persisted: bool | None
) -> None:
    (found,) = judge([replace(CHANGE, gone=gone, status=status)], nights(runs))

    assert persisted is found.persisted


def test_change_on_a_testbed_without_runs_is_not_judged() -> None:
    assert [None] == [each.persisted for each in judge([CHANGE], [])]


@pytest.mark.parametrize(
    ("count", "of", "low", "high"),
    [(0, 0, None, None), (0, 10, 0.0, 0.278), (10, 10, 0.722, 1.0), (95, 100, 0.888, 0.978)],
)
def test_share_has_an_interval(count: int, of: int, low: float | None, high: float | None) -> None:
    share = Share.of_counts(count, of)

    assert (low, high) == pytest.approx((share.low, share.high), abs=1e-3)


def test_page_without_reports_says_so(client: TestClient, filled: Filled) -> None:
    page = client.get("/calibration").text

    assert "No change can be judged yet." in page
    assert "No bisection has named a commit." in page


def test_page_has_the_changes_of_the_store(client: TestClient, site: AppContext, filled: Filled) -> None:
    filled.store.alerts.add(Rules("step", "", change=0.03), user="ann")
    evaluate(filled.store, site.catalog, BED)

    found = client.get("/calibration", headers=JSON).json()

    assert 1 <= sum(each["reported"] for each in found["levels"]) == found["weeks"][0]["reported"]
    assert 0 == found["weeks"][0]["judged"]
    assert found["false_alarms_per_week"] is None


def test_ignored_change_is_a_false_alarm(client: TestClient, site: AppContext, filled: Filled) -> None:
    filled.store.alerts.add(Rules("step", "", change=0.03), user="ann")
    evaluate(filled.store, site.catalog, BED)
    (item,), _ = filled.store.alerts.items.select(ItemSelection(), limit=5)
    filled.store.alerts.items.triage([TriageEdit(item.identity, item.version, status="ignored")], user="ann")

    (week,) = client.get("/calibration", headers=JSON).json()["weeks"]

    assert week["reported"] == week["judged"] == week["false_alarms"] > 0
    assert "per week with judged changes" in client.get("/calibration").text


def test_culprits_are_counted_by_their_items(client: TestClient, site: AppContext, filled: Filled) -> None:
    filled.store.alerts.add(Rules("step", "", change=0.03), user="ann")
    evaluate(filled.store, site.catalog, BED)
    (item,), _ = filled.store.alerts.items.select(ItemSelection(), limit=5)
    filled.store.alerts.items.triage(
        [TriageEdit(item.identity, item.version, status="bug", message="PERF-1")], user="ann"
    )
    culprit = {"commit": commit(3), "subject": "s", "author": "a", "deed": "made it slower"}
    request = Request(
        key="k", change=0, patch_set=0, project="", branch="", revision=commit(3), ref="", review="k",
        comment="k", path=None, account="page:ann", asked=datetime.now(UTC), place=0, line="bisecttest",
        job="bisect", testbed=BED, state=RequestState.ENDED, item=item.identity,
        result={"sentence": "s", "culprits": [culprit], "link": ""},
    )  # fmt: skip
    filled.store.requests.add([request])

    culprits = client.get("/calibration", headers=JSON).json()["culprits"]

    assert {"named": 1, "confirmed": 1, "reverted": None, "dismissed": 0} == culprits


@pytest.mark.parametrize("weeks", ["0", "521", "x"])
def test_number_of_weeks_is_checked(client: TestClient, weeks: str) -> None:
    assert 422 == client.get("/calibration", params={"weeks": weeks}).status_code


def test_reverted_commits_are_those_that_a_branch_reverts(tmp_path: Path) -> None:
    def git(*words: str) -> str:
        who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        return subprocess.run(
            ["git", *who, *words], cwd=tmp_path, check=True, capture_output=True, text=True
        ).stdout

    git("init", "--quiet")
    (tmp_path / "file").write_text("1")
    git("add", ".")
    git("commit", "--quiet", "-m", "one")
    (tmp_path / "file").write_text("2")
    git("commit", "--quiet", "-am", "two")
    bad = git("rev-parse", "HEAD").strip()
    repository = Repository.local(tmp_path, timeout_s=30.0)
    assert frozenset() == repository.reverted()

    git("revert", "--no-edit", "HEAD")

    assert {bad} == repository.reverted()
