"""Clusterings: asked for, done, failed, cancelled, and done again when it is time."""

from __future__ import annotations

import html
import threading
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from starlette.testclient import TestClient

from perftrend.analysis.cluster import CUTOFF
from perftrend.dashboard import Site
from perftrend.dashboard.clusters import worker as cluster_worker
from perftrend.dashboard.clusters.finding import Found, find
from perftrend.dashboard.clusters.options import Options
from perftrend.dashboard.clusters.summary import ClusterSummary
from perftrend.dashboard.clusters.worker import Worker
from perftrend.errors import UsageError
from perftrend.store.clusterings import State
from tests.unit.dashboard.clusters.conftest import JSON, TESTBED, listed
from tests.unit.dashboard.conftest import FIRST, STEP, Filled, commit


def test_step_in_measured_traces_is_found(site: Site, filled: Filled) -> None:
    found = find(site, TESTBED, Options(k=2, cutoff=20), lambda _: None)

    [slower] = [each for each in found.clusters if each.regression < 0]
    summary = ClusterSummary.model_validate(slower.summary)
    assert (filled.step_commit, FIRST + timedelta(days=STEP)) == (slower.commit, slower.moment)
    assert (STEP, commit(STEP - 1)) == (summary.position, summary.before)
    assert filled.slower.hash in {name for name, _ in slower.members}
    distances = [distance for _, distance in slower.members]
    assert sorted(distances) == distances
    assert 9 == found.numbers["traces"]
    assert 60 == len(found.commits)


def test_what_stands_out_is_told(site: Site, filled: Filled) -> None:
    found = find(site, TESTBED, Options(k=3, cutoff=20), lambda _: None)

    summary = ClusterSummary.model_validate(found.clusters[0].summary)
    test = next(each for each in summary.parameters if each.parameter == "test")
    assert ("64b-1c-ethip4-ip4base", 3, 3) == (test.value, test.count, test.of_all)
    assert "testbed" not in {each.parameter for each in summary.parameters}


def test_clusters_of_a_simulation_are_marked(site: Site, client: TestClient, filled: Filled) -> None:
    run = site.store.runs(TESTBED, last=1)[0]
    results = site.store.results(run)
    later = replace(run, build=99, started=run.started + timedelta(days=1), simulated=True)
    site.store.add(later, results)

    site.store.clusterings.ask(TESTBED, Options(k=3).model_dump(), "ann")
    Worker(site).work_once()

    assert [True] == [each["simulated"] for each in listed(client)]
    assert '<span class="mark">simulated</span>' in client.get("/clusters").text


def test_query_and_window_choose_what_is_clustered(site: Site, filled: Filled) -> None:
    found = find(site, TESTBED, Options(query="metric=mrr", window=30), lambda _: None)

    assert (3, 30) == (found.numbers["traces"], found.numbers["commits"])
    assert (commit(30), commit(59)) == (found.commits[0], found.commits[-1])


def test_corrected_statistic_has_a_cutoff_of_its_own(site: Site, filled: Filled) -> None:
    documented = find(site, TESTBED, Options(k=2), lambda _: None)
    corrected = find(site, TESTBED, Options(k=2, statistic="corrected"), lambda _: None)

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


def test_too_short_a_history_is_told(site: Site) -> None:
    with pytest.raises(UsageError, match="at least 10"):
        find(site, "new", Options(), lambda _: None)


def test_clustering_on_demand_is_joined_done_and_shown(
    site: Site, editor: TestClient, filled: Filled
) -> None:
    worker = Worker(site)
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


def test_clustering_again_changes_nothing(site: Site, filled: Filled) -> None:
    worker = Worker(site)
    for _ in range(2):
        site.store.clusterings.ask(TESTBED, Options(k=2, cutoff=20).model_dump(), "ann")
        worker.work_once()

    task = site.store.clusterings.of(TESTBED)
    assert task is not None
    assert (0, 0) == (task.result["added"], task.result["replaced"])
    assert 1 == len(site.store.clusters.kept())


def test_worker_that_is_told_to_stop_gives_its_clustering_back(site: Site, filled: Filled) -> None:
    worker = Worker(site)
    site.store.clusterings.ask(TESTBED, Options().model_dump(), "ann")
    worker.stop()

    worker.work_once()

    task = site.store.clusterings.of(TESTBED)
    assert task is not None
    assert State.ASKED is task.state
    assert Worker(site).work_once()


def test_failure_is_shown(site: Site, client: TestClient, filled: Filled) -> None:
    site.store.clusterings.ask(TESTBED, Options(query="metric=gone").model_dump(), "ann")

    Worker(site).work_once()

    page = client.get("/clusters/progress", params={"testbed": TESTBED}).text
    assert "matches no traces" in page
    assert "the last clustering failed" in client.get("/clusters").text


def test_defect_is_told_in_one_line_and_the_next_clustering_is_done(
    site: Site, client: TestClient, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker = Worker(site)
    for testbed in (TESTBED, "3n-skx"):
        site.store.clusterings.ask(testbed, Options().model_dump(), "ann")

    with monkeypatch.context() as patch:
        patch.setattr(cluster_worker, "find", broken)
        assert worker.work_once()
    assert worker.work_once()

    states = {task.testbed: (task.state, task.stage) for task in site.store.clusterings.all()}
    told = "a defect, ZeroDivisionError: of two lines; the dashboard's log says where"
    assert {TESTBED: (State.FAILED, told), "3n-skx": (State.DONE, "")} == states
    assert told in html.unescape(client.get("/clusters").text)
    assert told in html.unescape(client.get("/clusters/progress", params={"testbed": TESTBED}).text)


def test_defect_does_not_end_the_thread(site: Site, filled: Filled, monkeypatch: pytest.MonkeyPatch) -> None:
    worker = Worker(site)
    asked = threading.Event()
    monkeypatch.setattr(cluster_worker, "_POLL_S", 0.001)
    monkeypatch.setattr(worker, "ask_what_is_due", broken)
    monkeypatch.setattr(worker, "work_once", asked.set)

    with worker:
        assert asked.wait(60)


def broken(*_: object) -> None:
    raise ZeroDivisionError("of\ntwo lines")


def test_periodic_clustering_goes_on_after_a_failure(
    site: Site, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [FIRST]
    worker = Worker(site, now=lambda: now[0])
    worker.ask_what_is_due()
    with monkeypatch.context() as patch:
        patch.setattr(cluster_worker, "find", broken)
        while worker.work_once():
            pass
    worker.ask_what_is_due()
    assert not worker.work_once()

    now[0] += timedelta(seconds=900)
    worker.ask_what_is_due()
    while worker.work_once():
        pass

    assert {State.DONE} == {task.state for task in site.store.clusterings.all()}


def test_clustering_that_waits_is_cancelled_by_a_form(site: Site, editor: TestClient, filled: Filled) -> None:
    editor.post("/clusters", json={"testbed": TESTBED}, headers=JSON)
    progress = f"/clusters/progress?testbed={TESTBED}"
    for path in ("/clusters", progress):
        assert 'action="/clusters/cancel"' in editor.get(path).text

    answer = editor.post("/clusters/cancel", data={"testbed": TESTBED})

    assert (303, progress) == (answer.status_code, answer.headers["location"])
    assert "Cancelled: eva has cancelled it." in " ".join(editor.get(progress).text.split())
    assert 'action="/clusters/cancel"' not in editor.get(progress).text
    assert not Worker(site).work_once()
    assert ["cancelled a clustering", "asked for a clustering"] == [
        act.action for act in site.store.activity.newest(9, f"clusters of {TESTBED}")
    ]


def test_clustering_that_runs_is_cancelled_and_enters_nothing(
    site: Site, editor: TestClient, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is cancelled after everything was computed, before that is stored."""

    def find_late(*asked: Any) -> Found:
        found = find(*asked)
        answer = editor.post("/clusters/cancel", json={"testbed": TESTBED}, headers=JSON)
        assert "cancelled" == answer.json()["state"]
        return found

    monkeypatch.setattr(cluster_worker, "find", find_late)
    site.store.clusterings.ask(TESTBED, Options(k=2, cutoff=20).model_dump(), "ann")

    Worker(site).work_once()

    assert [] == site.store.clusters.kept()
    ended = editor.get("/clusters/progress", params={"testbed": TESTBED}, headers=JSON).json()
    assert ("cancelled", "eva has cancelled it", False) == tuple(
        ended[name] for name in ("state", "stage", "under_way")
    )
    monkeypatch.undo()
    site.store.clusterings.ask(TESTBED, Options(k=2, cutoff=20).model_dump(), "ann")
    assert Worker(site).work_once()
    assert 1 == len(site.store.clusters.kept())


def test_clustering_that_runs_ends_at_the_next_iteration(
    site: Site, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    stages = []

    def find_long(_: Site, testbed: str, __: Options, tell: Any) -> None:
        for stage in ("reads", "iteration 1", "iteration 2"):
            stages.append(stage)
            tell(stage)
            site.store.clusterings.cancel(testbed, "eva")

    monkeypatch.setattr(cluster_worker, "find", find_long)
    monkeypatch.setattr(cluster_worker, "_BEAT_S", 0.0)
    site.store.clusterings.ask(TESTBED, Options().model_dump(), "ann")

    Worker(site).work_once()

    assert ["reads", "iteration 1"] == stages


def test_what_has_ended_or_never_was_is_not_cancelled(site: Site, editor: TestClient, filled: Filled) -> None:
    site.store.clusterings.ask(TESTBED, Options().model_dump(), "ann")
    Worker(site).work_once()

    ended = editor.post("/clusters/cancel", json={"testbed": TESTBED}, headers=JSON)
    never = editor.post("/clusters/cancel", json={"testbed": "3n-skx"}, headers=JSON)

    assert (200, "done", 404) == (ended.status_code, ended.json()["state"], never.status_code)


def test_periodic_clustering_is_done_once_by_all_processes(site: Site, filled: Filled) -> None:
    now = [FIRST]
    workers = [Worker(site, now=lambda: now[0]) for _ in range(2)]

    for worker in workers:
        worker.ask_what_is_due()
    done = [worker.work_once() for worker in (*workers, *workers)]
    now[0] += timedelta(seconds=900)
    for worker in workers:
        worker.ask_what_is_due()

    assert [True, True, False, False] == done
    assert not workers[0].work_once()
    assert {TESTBED, "3n-skx"} == {task.testbed for task in site.store.clusterings.all()}


def test_nothing_is_periodic_where_that_is_not_wanted(site: Site, filled: Filled) -> None:
    dashboard = site.settings.dashboard.model_copy(update={"cluster_period_s": None})
    off = Site.of(site.settings.model_copy(update={"dashboard": dashboard}), site.store)

    Worker(off).ask_what_is_due()

    assert [] == site.store.clusterings.all()
