"""Clusterings: requested, done, failed, cancelled, and repeated when due."""

from __future__ import annotations

import html
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from perftrend.analysis.cluster import CUTOFF
from perftrend.dashboard import AppContext
from perftrend.dashboard.clusters import clustering as cluster_worker
from perftrend.dashboard.clusters.clustering import ClusteringResult, ClusteringWorker, find
from perftrend.dashboard.clusters.models import ClusterOptions, ClusterSummary
from perftrend.errors import UsageError
from perftrend.store.clusterings import ClusteringState
from tests.unit.dashboard.clusters.conftest import JSON, TESTBED, listed
from tests.unit.dashboard.conftest import FIRST, STEP, Filled, commit


def test_step_in_measured_traces_is_found(site: AppContext, filled: Filled) -> None:
    found = find(site, TESTBED, ClusterOptions(k=2, cutoff=20), lambda _: None)

    [slower] = [each for each in found.clusters if each.regression < 0]
    summary = ClusterSummary.model_validate(slower.summary)
    assert (filled.step_commit, FIRST + timedelta(days=STEP)) == (slower.commit, slower.moment)
    assert (STEP, commit(STEP - 1)) == (summary.position, summary.before)
    assert filled.slower.hash in {name for name, _ in slower.members}
    distances = [distance for _, distance in slower.members]
    assert sorted(distances) == distances
    assert 9 == found.numbers["traces"]
    assert 60 == len(found.commits)


def test_what_stands_out_is_told(site: AppContext, filled: Filled) -> None:
    found = find(site, TESTBED, ClusterOptions(k=3, cutoff=20), lambda _: None)

    summary = ClusterSummary.model_validate(found.clusters[0].summary)
    test = next(each for each in summary.parameters if each.parameter == "test")
    assert ("64b-1c-ethip4-ip4base", 3, 3) == (test.value, test.count, test.of_all)
    assert "testbed" not in {each.parameter for each in summary.parameters}


def test_clusters_of_a_simulation_are_marked(site: AppContext, client: TestClient, filled: Filled) -> None:
    run = site.store.runs(TESTBED, last=1)[0]
    results = site.store.results(run)
    later = replace(run, build=99, started=run.started + timedelta(days=1), simulated=True)
    site.store.add(later, results)

    site.store.clusterings.request(TESTBED, ClusterOptions(k=3).model_dump(), "ann")
    ClusteringWorker(site).work_once()

    assert [True] == [each["simulated"] for each in listed(client)]
    assert '<span class="mark">simulated</span>' in client.get("/clusters").text


def test_query_and_window_choose_what_is_clustered(site: AppContext, filled: Filled) -> None:
    found = find(site, TESTBED, ClusterOptions(query="metric=mrr", window=30), lambda _: None)

    assert (3, 30) == (found.numbers["traces"], found.numbers["commits"])
    assert (commit(30), commit(59)) == (found.commits[0], found.commits[-1])


def test_corrected_statistic_has_a_cutoff_of_its_own(site: AppContext, filled: Filled) -> None:
    documented = find(site, TESTBED, ClusterOptions(k=2), lambda _: None)
    corrected = find(site, TESTBED, ClusterOptions(k=2, statistic="corrected"), lambda _: None)

    assert all(abs(each.regression) > CUTOFF for each in documented.clusters)
    assert [True] == [abs(each.summary["corrected"]) > 8 for each in corrected.clusters]


@pytest.mark.parametrize(
    ("testbed", "options", "reason"),
    [
        ("nowhere", {}, "has no runs in the store"),
        (TESTBED, {"query": "metric=nothing"}, "matches no traces"),
        (TESTBED, {"query": "metric=~("}, "is not a valid RE2 regular expression"),
        (TESTBED, {"query": "testbed=3n-skx"}, "matches no traces"),
    ],
)
def test_what_cannot_be_clustered_is_refused_at_once(
    editor: TestClient, filled: Filled, testbed: str, options: dict[str, Any], reason: str
) -> None:
    answer = editor.post("/clusters", json={"testbed": testbed, **options}, headers=JSON)

    assert 400 == answer.status_code
    assert reason in answer.json()["error"]
    assert [] == editor.get("/clusters", headers=JSON).json()["clusterings"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": 0},
        {"window": 9},
        {"cutoff": -1},
        {"cutoff": "NaN"},
        {"statistic": "best"},
        {"k": 1e9},
        {"windw": 30},
    ],
)
def test_wrong_option_is_refused_by_name(editor: TestClient, filled: Filled, wrong: dict[str, Any]) -> None:
    answer = editor.post("/clusters", json={"testbed": TESTBED, **wrong}, headers=JSON)

    assert 422 == answer.status_code
    assert next(iter(wrong)) in answer.json()["error"]


def test_too_short_a_history_is_told(site: AppContext) -> None:
    with pytest.raises(UsageError, match="at least 10"):
        find(site, "new", ClusterOptions(), lambda _: None)


def test_clustering_on_demand_is_joined_done_and_shown(
    site: AppContext, editor: TestClient, filled: Filled
) -> None:
    worker = ClusteringWorker(site)
    form = {
        "testbed": TESTBED,
        "k": "2",
        "cutoff": "20",
        "window": "128",
        "query": "",
        "statistic": "documented",
    }

    asked = editor.post("/clusters", data=form)
    joined = editor.post("/clusters", json={"testbed": TESTBED, "k": 7}, headers=JSON)

    assert (303, f"/clusters/progress?testbed={TESTBED}&joined=False") == (
        asked.status_code,
        asked.headers["location"],
    )
    assert (202, True, "asked", 2) == (
        joined.status_code, joined.json()["joined"], joined.json()["state"], joined.json()["options"]["k"],
    )  # fmt: skip
    assert '<noscript><meta http-equiv="refresh"' in editor.get(asked.headers["location"]).text
    assert worker.work_once()
    assert not worker.work_once()
    ended = editor.get("/clusters/progress", params={"testbed": TESTBED}, headers=JSON).json()
    assert ("done", "eva", 1) == (ended["state"], ended["who"], ended["result"]["added"])
    assert "refresh" not in editor.get(asked.headers["location"]).text
    [slower] = listed(editor)
    assert ("regression", filled.step_commit) == (slower["direction"], slower["commit"])
    assert filled.slower.as_dict() in [each["parameters"] for each in slower["members"]]
    for path in ("/clusters", f"/clusters/{slower['id']}"):
        assert "metric=mrr" in editor.get(path).text


def test_clustering_again_changes_nothing(site: AppContext, filled: Filled) -> None:
    worker = ClusteringWorker(site)
    for _ in range(2):
        site.store.clusterings.request(TESTBED, ClusterOptions(k=2, cutoff=20).model_dump(), "ann")
        worker.work_once()

    task = site.store.clusterings.of(TESTBED)
    assert task is not None
    assert (0, 0) == (task.result["added"], task.result["replaced"])
    assert 1 == len(site.store.clusters.select())


def test_worker_that_is_told_to_stop_gives_its_clustering_back(site: AppContext, filled: Filled) -> None:
    worker = ClusteringWorker(site)
    site.store.clusterings.request(TESTBED, ClusterOptions().model_dump(), "ann")
    worker.stop()

    worker.work_once()

    task = site.store.clusterings.of(TESTBED)
    assert task is not None
    assert ClusteringState.REQUESTED is task.state
    assert ClusteringWorker(site).work_once()


def test_failure_is_shown(site: AppContext, client: TestClient, filled: Filled) -> None:
    site.store.clusterings.request(TESTBED, ClusterOptions(query="metric=gone").model_dump(), "ann")

    ClusteringWorker(site).work_once()

    page = client.get("/clusters/progress", params={"testbed": TESTBED}).text
    assert "matches no traces" in page
    assert "the last clustering failed" in client.get("/clusters").text


def test_defect_is_told_in_one_line_and_the_next_clustering_is_done(
    site: AppContext, client: TestClient, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = ClusteringWorker(site)
    for testbed in (TESTBED, "3n-skx"):
        site.store.clusterings.request(testbed, ClusterOptions().model_dump(), "ann")

    with monkeypatch.context() as patch:
        patch.setattr(cluster_worker, "find", broken)
        assert worker.work_once()
    assert worker.work_once()

    states = {task.testbed: (task.state, task.stage) for task in site.store.clusterings.all()}
    told = "a defect, ZeroDivisionError: of two lines; the dashboard's log says where"
    assert {TESTBED: (ClusteringState.FAILED, told), "3n-skx": (ClusteringState.DONE, "")} == states
    assert told in html.unescape(client.get("/clusters").text)
    assert told in html.unescape(client.get("/clusters/progress", params={"testbed": TESTBED}).text)


def test_defect_does_not_end_the_thread(
    site: AppContext, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = ClusteringWorker(site)
    asked = threading.Event()
    monkeypatch.setattr(cluster_worker, "_POLL_S", 0.001)
    monkeypatch.setattr(worker, "request_due_clusterings", broken)
    monkeypatch.setattr(worker, "work_once", asked.set)

    with worker:
        assert asked.wait(60)


def broken(*_: object) -> None:
    raise ZeroDivisionError("of\ntwo lines")


def test_periodic_clustering_goes_on_after_a_failure(
    site: AppContext, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [FIRST]
    worker = ClusteringWorker(site, now=lambda: now[0])
    worker.request_due_clusterings()
    with monkeypatch.context() as patch:
        patch.setattr(cluster_worker, "find", broken)
        while worker.work_once():
            pass
    worker.request_due_clusterings()
    assert not worker.work_once()

    now[0] += timedelta(seconds=900)
    worker.request_due_clusterings()
    while worker.work_once():
        pass

    assert {ClusteringState.DONE} == {task.state for task in site.store.clusterings.all()}


def test_clustering_that_waits_is_cancelled_by_a_form(
    site: AppContext, editor: TestClient, filled: Filled
) -> None:
    editor.post("/clusters", json={"testbed": TESTBED}, headers=JSON)
    progress = f"/clusters/progress?testbed={TESTBED}"
    for path in ("/clusters", progress):
        assert 'action="/clusters/cancel"' in editor.get(path).text

    answer = editor.post("/clusters/cancel", data={"testbed": TESTBED})

    assert (303, progress) == (answer.status_code, answer.headers["location"])
    assert "Cancelled: eva has cancelled it." in " ".join(editor.get(progress).text.split())
    assert 'action="/clusters/cancel"' not in editor.get(progress).text
    assert not ClusteringWorker(site).work_once()
    assert ["cancelled a clustering", "requested a clustering"] == [
        act.action for act in site.store.activity.newest(9, f"clusters of {TESTBED}")
    ]


def test_clustering_that_runs_is_cancelled_and_enters_nothing(
    site: AppContext, editor: TestClient, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cancelled after everything was computed, before that is stored."""

    def find_late(*asked: Any) -> ClusteringResult:
        found = find(*asked)
        answer = editor.post("/clusters/cancel", json={"testbed": TESTBED}, headers=JSON)
        assert "cancelled" == answer.json()["state"]
        return found

    monkeypatch.setattr(cluster_worker, "find", find_late)
    site.store.clusterings.request(TESTBED, ClusterOptions(k=2, cutoff=20).model_dump(), "ann")

    ClusteringWorker(site).work_once()

    assert [] == site.store.clusters.select()
    ended = editor.get("/clusters/progress", params={"testbed": TESTBED}, headers=JSON).json()
    assert ("cancelled", "eva has cancelled it", False) == tuple(
        ended[name] for name in ("state", "stage", "under_way")
    )
    monkeypatch.undo()
    site.store.clusterings.request(TESTBED, ClusterOptions(k=2, cutoff=20).model_dump(), "ann")
    assert ClusteringWorker(site).work_once()
    assert 1 == len(site.store.clusters.select())


def test_clustering_that_runs_ends_at_the_next_iteration(
    site: AppContext, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = []

    def find_long(_: AppContext, testbed: str, __: ClusterOptions, tell: Any) -> None:
        for stage in ("reads", "iteration 1", "iteration 2"):
            stages.append(stage)
            tell(stage)
            site.store.clusterings.cancel(testbed, "eva")

    monkeypatch.setattr(cluster_worker, "find", find_long)
    monkeypatch.setattr(cluster_worker, "_BEAT_S", 0.0)
    site.store.clusterings.request(TESTBED, ClusterOptions().model_dump(), "ann")

    ClusteringWorker(site).work_once()

    assert ["reads", "iteration 1"] == stages


def test_what_has_ended_or_never_was_is_not_cancelled(
    site: AppContext, editor: TestClient, filled: Filled
) -> None:
    site.store.clusterings.request(TESTBED, ClusterOptions().model_dump(), "ann")
    ClusteringWorker(site).work_once()

    ended = editor.post("/clusters/cancel", json={"testbed": TESTBED}, headers=JSON)
    never = editor.post("/clusters/cancel", json={"testbed": "3n-skx"}, headers=JSON)

    assert (200, "done", 404) == (ended.status_code, ended.json()["state"], never.status_code)


def test_periodic_clustering_is_done_once_by_all_processes(site: AppContext, filled: Filled) -> None:
    now = [FIRST]
    workers = [ClusteringWorker(site, now=lambda: now[0]) for _ in range(2)]

    for worker in workers:
        worker.request_due_clusterings()
    done = [worker.work_once() for worker in (*workers, *workers)]
    now[0] += timedelta(seconds=900)
    for worker in workers:
        worker.request_due_clusterings()

    assert [True, True, False, False] == done
    assert not workers[0].work_once()
    assert {TESTBED, "3n-skx"} == {task.testbed for task in site.store.clusterings.all()}


def test_nothing_is_periodic_where_that_is_not_wanted(site: AppContext, filled: Filled) -> None:
    dashboard = site.settings.dashboard.model_copy(update={"cluster_period_s": None})
    off = AppContext.of(site.settings.model_copy(update={"dashboard": dashboard}), site.store)

    ClusteringWorker(off).request_due_clusterings()

    assert [] == site.store.clusterings.all()
