"""The overview shows what the night has found, and leads to the pages that have all of it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any

import pytest
from starlette.testclient import TestClient

from perftrend.analysis.formula import format_key
from perftrend.dashboard import AppContext, make_app
from perftrend.dashboard.overview import SHOWN_JOBS
from perftrend.dashboard.triage.evaluation import evaluate
from perftrend.model import Outcome, Run
from perftrend.settings import Settings
from perftrend.store import Store
from perftrend.store.alerts import Rules
from perftrend.store.requests import RequestState
from perftrend.store.verdicts import Decline, RunVerdict
from tests.unit.dashboard.conftest import TESTBEDS, Filled, request

JSON = {"Accept": "application/json"}
HTML = {"Accept": "text/html"}


def shown(client: TestClient) -> Any:
    answer = client.get("/", headers=JSON)
    assert 200 == answer.status_code, answer.text
    return answer.json()


def judge(
    store: Store, testbed: str, *worst: Outcome, last: int = 1, declines: Sequence[Decline] = ()
) -> Run:
    """Store verdicts of the newest runs, and return the newest run."""
    runs = store.runs(testbed, last=last)
    for run in runs:
        verdict = RunVerdict(run.finished, {Outcome.NORMAL: 8}, 0)
        store.verdicts.save(run, verdict)
    outcomes = {Outcome.NORMAL: 7, **dict.fromkeys(worst, 1)}
    store.verdicts.save(runs[-1], RunVerdict(runs[-1].finished, outcomes, 1, tuple(declines)))
    return runs[-1]


def test_store_without_runs_says_how_to_begin(client: TestClient) -> None:
    page = client.get("/", headers=HTML).text
    assert "dashboard --example" in page
    assert [] == shown(client)["testbeds"]


def test_testbed_with_a_regression_is_first(client: TestClient, filled: Filled) -> None:
    run = judge(filled.store, TESTBEDS[1], Outcome.REGRESSION, last=5)
    quiet, slow = judge(filled.store, TESTBEDS[0], last=5), run
    found = shown(client)["testbeds"]
    assert [slow.testbed, quiet.testbed] == [each["testbed"] for each in found]
    newest = found[0]["newest"]
    assert ("regression", "1 regression, 7 normal", 1) == tuple(
        newest["verdict"][name] for name in ("worst", "sentence", "suspected")
    )
    assert run.build == newest["build"]
    assert (8, 8) == (found[0]["results"], found[0]["usual_results"])
    # Two weeks of nights, the oldest first; those that were not analysed have no verdict.
    assert [None] * 9 + ["normal"] * 4 + ["regression"] == [
        each["verdict"] and each["verdict"]["worst"] for each in found[0]["runs"]
    ]
    page = client.get("/", headers=HTML).text
    assert "1 regression, 7 normal" in page
    assert 'class="unknown"' in page


@pytest.mark.parametrize(
    ("archive", "link"),
    [
        ("", "/triage?testbed=2n-clx"),
        ("https://jenkins.example.org/job/nightly/1/", "https://jenkins.example.org/job/nightly/1/"),
    ],
)
def test_verdict_leads_to_the_report_or_to_the_items(
    client: TestClient, store: Store, archive: str, link: str
) -> None:
    now = datetime.now(UTC)
    run = Run("2n-clx", "nightly", 1, now, now, archive=archive)
    store.add(run, [])
    store.verdicts.save(run, RunVerdict(now, {Outcome.REGRESSION: 1}, 0, ()))

    for path in ("/", "/runs"):
        page = client.get(path, headers=HTML)
        assert 200 == page.status_code
        assert re.search(f'<a class="worse" href="{re.escape(link)}[^"]*">1 regression</a>', page.text), path


def test_lost_results_are_compared_with_the_usual_number(client: TestClient, filled: Filled) -> None:
    run = judge(filled.store, TESTBEDS[0], Outcome.FAILED, last=6)
    assert run.testbed == (first := shown(client)["testbeds"][0])["testbed"]
    assert (7, 8) == (first["results"], first["usual_results"])
    assert "usually 8" in client.get("/", headers=HTML).text
    assert '<td class="number">7</td>' in client.get("/runs", headers=HTML).text


@pytest.mark.parametrize(("days", "is_late"), [(1, False), (5, True)])
def test_testbed_is_late_after_two_usual_intervals(
    settings: Settings, store: Store, days: int, is_late: bool
) -> None:
    moment = datetime.now(UTC) - timedelta(days=days)
    for build in range(6):
        started = moment - timedelta(days=6 - build - 1)
        store.add(Run("2n-clx", "nightly", build + 1, started, started + timedelta(hours=2)), [])
    with TestClient(make_app(AppContext.of(settings, store)), base_url="http://localhost") as client:
        (found,) = shown(client)["testbeds"]
        page = client.get("/", headers=HTML).text
    assert (86400.0, is_late) == (found["usual_interval_s"], found["is_late"])
    assert is_late == ("no run for 5 days" in page)


def test_experiment_is_not_the_night(client: TestClient, filled: Filled) -> None:
    (night,) = filled.store.runs(TESTBEDS[0], last=1)
    later = night.started + timedelta(hours=3)
    filled.store.add(replace(night, build=900, started=later, finished=later, experiment="acl_rules=60"), [])
    first = next(each for each in shown(client)["testbeds"] if each["testbed"] == TESTBEDS[0])
    assert night.build == first["newest"]["build"]


@pytest.fixture
def evaluated(site: AppContext, filled: Filled) -> Filled:
    """Give a store whose alert has found its step, and a testbed without runs for a long time."""
    filled.store.alerts.add(Rules("step", "", change=0.03, silent_hours=48), user="ann")
    for testbed in TESTBEDS:
        evaluate(filled.store, site.catalog, testbed)
    return filled


def test_new_items_and_missing_data_lead_to_triage(client: TestClient, evaluated: Filled) -> None:
    found = shown(client)
    assert ["regression"] == [each["kind"] for each in found["items"]]
    assert {"stopped"} == {each["kind"] for each in found["missing"]}
    assert (1, len(TESTBEDS)) == (found["new_items"], found["new_missing"])
    page = client.get("/", headers=HTML).text
    assert f'href="/triage/{found["items"][0]["id"]}"' in page
    assert f"No runs on {TESTBEDS[0]}" in page


def test_worst_trends_of_all_testbeds_are_in_order(client: TestClient, filled: Filled) -> None:
    hashes = {
        testbed: [trace.hash for trace in filled.store.tiles.traces() if trace.key["testbed"] == testbed]
        for testbed in TESTBEDS
    }
    ids = [trace.hash for trace in filled.store.tiles.traces()]
    small, large = hashes[TESTBEDS[0]][0], hashes[TESTBEDS[1]][1]
    unknown = Decline("0" * 32, -0.9)
    judge(filled.store, TESTBEDS[0], declines=(unknown, Decline(small, -0.05)))
    judge(filled.store, TESTBEDS[1], declines=(Decline(large, -0.2),))
    found = shown(client)["declines"]
    assert [(TESTBEDS[1], -0.2), (TESTBEDS[0], -0.05)] == [
        (each["testbed"], each["change"]) for each in found
    ]
    drawn = client.get(found[0]["explore"], headers=JSON).json()["lines"]
    assert [format_key(filled.store.tiles.traces()[ids.index(large)].key)] == [line["id"] for line in drawn]


def test_jobs_that_run_and_wait_are_shown(client: TestClient, filled: Filled) -> None:
    assert "No job is queued or running" in client.get("/", headers=HTML).text
    now = datetime.now(UTC)
    jobs = [request(f"k{number}", RequestState.STARTED, asked=now) for number in range(SHOWN_JOBS + 1)]
    filled.store.requests.add([replace(jobs[0], began=now), *jobs[1:]])
    found = shown(client)
    assert (1, SHOWN_JOBS - 1, False) == (
        len(found["queue"][0]["running"]), len(found["queue"][0]["waiting"]), found["all_jobs"],
    )  # fmt: skip
    page = client.get("/", headers=HTML).text
    assert "running since" in page
    assert "perftest-2n-clx mrrAND64b" in page


@pytest.mark.parametrize("query", ["testbed=2n-clx", "q=metric%3Dmrr&show=ave", "shortcut=5&format=json"])
def test_address_of_explore_from_before_is_redirected(client: TestClient, query: str) -> None:
    answer = client.get(f"/?{query}")
    assert (308, f"/explore?{query}") == (answer.status_code, answer.headers["location"])


def test_names_are_escaped(settings: Settings, store: Store) -> None:
    moment = datetime.now(UTC)
    store.add(Run("<b>bed</b>", "<i>job</i>", 1, moment, moment, {"device": "<u>c</u>"}), [])
    with TestClient(make_app(AppContext.of(settings, store)), base_url="http://localhost") as client:
        page = client.get("/", headers=HTML).text
    assert "<b>bed" not in page
    assert "<i>job" not in page
    assert "<u>" not in page
    assert "<b>bed</b>" in unescape(page)
