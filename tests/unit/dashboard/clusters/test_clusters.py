"""Clusters are found and shown, and retain their triage."""

from __future__ import annotations

import re
from dataclasses import replace
from math import inf
from typing import Any

import pytest
from starlette.testclient import TestClient

from perftrend.analysis.formula import format_key
from perftrend.dashboard import AppContext
from perftrend.dashboard.clusters.clustering import find
from perftrend.dashboard.clusters.models import ClusterOptions
from perftrend.dashboard.clusters.views import cluster_views
from perftrend.settings import Settings
from tests.unit.dashboard.clusters.conftest import JSON, TESTBED, clustered, listed, stored
from tests.unit.dashboard.conftest import STEP, Filled, commit


def say(client: TestClient, identity: int, **said: Any) -> Any:
    return client.post(f"/clusters/{identity}", json={"version": 1, **said}, headers=JSON)


def members(cluster: dict[str, Any]) -> set[str]:
    return {each["hash"] for each in cluster["members"]}


@pytest.mark.parametrize(
    ("statistics", "kept"),
    [((400, -300, 200), {"3", "4"}), ((300, -400, 200), {"3"}), ((200, 300, -400), {"4"})],
)
def test_documented_example(
    site: AppContext, editor: TestClient, filled: Filled, statistics: tuple[float, ...], kept: set[str]
) -> None:
    """C[1], C[2], C[3,4] and N[1], N[3], N[4], N[5] are C[1] or N[1], C[2], C[3,4] or N[3] or N[4], N[5]."""
    of_both, of_three, of_four = statistics
    clustered(site, stored(1, regression=250), stored(2), stored(3, 4, regression=of_both))
    before = {frozenset(members(each)): each["id"] for each in listed(editor)}
    both = before[frozenset({"3", "4"})]
    assert 200 == say(editor, both, status="Bug", message="4711").status_code

    clustered(
        site,
        stored(1, regression=-260),
        stored(3, regression=of_three),
        stored(4, regression=of_four),
        stored(5),
    )

    now = {each["id"]: each for each in listed(editor)}
    assert 4 == len(now)
    [new] = now.keys() - before.values()
    assert ({"5"}, "New") == (members(now[new]), now[new]["status"])
    assert -260 == now[before[frozenset({"1"})]]["regression"]
    assert {"2"} == members(now[before[frozenset({"2"})]])
    assert kept == members(now[both])
    assert max(map(abs, statistics)) == abs(now[both]["regression"])
    assert ("Bug", "4711") == (now[both]["status"], now[both]["message"])


def test_only_clusters_with_a_commit_in_the_window_are_found_again(site: AppContext, filled: Filled) -> None:
    clustered(site, stored(1, at="long ago"))
    clustered(site, stored(1, regression=300))

    assert ["c2", "long ago"] == [each.commit for each in site.store.clusters.select()]


def test_second_of_two_people_is_told_by_page_and_by_json(
    site: AppContext, editor: TestClient, filled: Filled
) -> None:
    clustered(site, stored(1))
    [cluster] = listed(editor)
    site.store.clusters.triage({cluster["id"]: 1}, status="Bug", message="<b>7</b>", user="ann")

    told = say(editor, cluster["id"], status="Ignore", message="noise")
    page = editor.post(
        f"/clusters/{cluster['id']}", data={"version": 1, "status": "Ignore", "message": "noise"}
    )

    assert (409, 409) == (told.status_code, page.status_code)
    assert "ann set cluster" in told.json()["error"]
    assert ("Bug", "<b>7</b>", 2) == tuple(
        told.json()["clusters"][0][name] for name in ("status", "message", "version")
    )
    assert "&lt;b&gt;7&lt;/b&gt;" in page.text
    assert 'value="noise"' in page.text
    assert 'name="version" value="2"' in page.text
    assert ["Bug"] == [each["status"] for each in listed(editor)]


def test_version_that_there_never_was_is_a_conflict(
    site: AppContext, editor: TestClient, filled: Filled
) -> None:
    clustered(site, stored(1))

    told = say(editor, listed(editor)[0]["id"], status="Bug", version=9)

    assert 409 == told.status_code
    assert "was never changed, and has version 1" in told.json()["error"]


def test_form_says_something_of_a_cluster(site: AppContext, editor: TestClient, filled: Filled) -> None:
    clustered(site, stored(1))
    [cluster] = listed(editor)

    answer = editor.post(
        f"/clusters/{cluster['id']}", data={"version": 1, "status": "Bug", "message": " 4711 "}
    )

    assert (303, f"/clusters/{cluster['id']}") == (answer.status_code, answer.headers["location"])
    whole = editor.get(f"/clusters/{cluster['id']}", headers=JSON).json()
    assert ("Bug", "4711", "eva") == tuple(
        whole["cluster"][name] for name in ("status", "message", "changed_by")
    )
    assert [("eva", "New → Bug: 4711"), ("clustering", "Progression +200.0 at c2, 1 trace")] == [
        (each["user"], each["detail"]) for each in whole["activity"]
    ]


def test_boxes_of_a_form_say_something_of_several(
    site: AppContext, editor: TestClient, filled: Filled
) -> None:
    clustered(site, stored(1), stored(2), stored(3))
    first, second, third = (each["id"] for each in listed(editor))

    form = {f"cluster.{first}": "1", f"cluster.{third}": "1", "status": "Ignore", "message": ""}
    answer = editor.post("/clusters/triage", data=form)

    assert 303 == answer.status_code
    assert [second] == [each["id"] for each in listed(editor, status="New")]


@pytest.mark.parametrize(
    "wrong",
    [
        {"clusters": {}, "status": "Bug"},
        {"clusters": {"x": 1}, "status": "Bug"},
        {"clusters": {"1": 2**40}, "status": "Bug"},
        {"clusters": {"1": 1}, "status": "Done"},
        {"clusters": {"1": 1}, "status": "Bug", "message": "x" * 1001},
        {"clusters": [1], "status": "Bug"},
        [],
    ],
)
def test_edit_that_cannot_be_understood_is_refused(editor: TestClient, wrong: object) -> None:
    assert 422 == editor.post("/clusters/triage", json=wrong, headers=JSON).status_code


def test_message_is_kept_without_what_a_database_or_a_page_cannot_take(
    site: AppContext, editor: TestClient, filled: Filled
) -> None:
    clustered(site, stored(1))
    [cluster] = listed(editor)

    assert 200 == say(editor, cluster["id"], status="Bug", message="a\x00b\u202ec").status_code
    assert "a\ufffdb\ufffdc" == listed(editor)[0]["message"]


def test_viewer_sees_everything_and_changes_nothing(
    site: AppContext, client: TestClient, filled: Filled
) -> None:
    clustered(site, stored(1))
    [cluster] = listed(client)

    for path in ("", "/cancel", "/triage", "/reset", f"/{cluster['id']}"):
        assert client.post(f"/clusters{path}", json={}, headers=JSON).status_code in {401, 403}
    assert client.get("/clusters/reset").status_code in {401, 403}
    for path in ("/clusters", f"/clusters/{cluster['id']}"):
        assert '<form method="post"' not in re.sub(r'class="[^"]*" ', "", client.get(path).text)
    assert "New" == listed(client)[0]["status"]


def test_reset_needs_a_confirmation_and_keeps_bugs(
    site: AppContext, editor: TestClient, filled: Filled
) -> None:
    clustered(site, stored(1), stored(2))
    bug = listed(editor)[0]["id"]
    say(editor, bug, status="Bug", message="7")

    assert "This deletes 1" in editor.get("/clusters/reset").text
    assert 400 == editor.post("/clusters/reset", data={"testbed": ""}).status_code
    assert 2 == len(listed(editor))
    answer = editor.post("/clusters/reset", data={"testbed": "", "confirm": "true"})
    assert (303, "/clusters?testbed=&deleted=1") == (answer.status_code, answer.headers["location"])
    assert [bug] == [each["id"] for each in listed(editor)]


def test_statuses_are_counted_and_chosen(site: AppContext, editor: TestClient, filled: Filled) -> None:
    clustered(site, stored(1), stored(2), stored(3))
    say(editor, listed(editor)[0]["id"], status="Ignore")

    told = editor.get("/clusters", params={"status": "Ignore"}, headers=JSON).json()

    assert {"New": 2, "Ignore": 1, "Bug": 0} == told["counts"]
    assert ["Ignore"] == [each["status"] for each in told["clusters"]]
    assert 422 == editor.get("/clusters", params={"status": "Other"}).status_code
    assert 404 == editor.get("/clusters", params={"testbed": "nowhere"}).status_code


def test_many_clusters_are_told_page_by_page(site: AppContext, client: TestClient, filled: Filled) -> None:
    clustered(site, *(stored(number, regression=200 + number) for number in range(30)))

    first = client.get("/clusters", headers=JSON).json()
    assert (2, 25) == (first["pages"], len(first["clusters"]))
    rest = listed(client, page=2)
    statistics = [each["regression"] for each in (*first["clusters"], *rest)]
    assert list(range(229, 199, -1)) == statistics
    assert "Page 2 of 2" in client.get("/clusters", params={"page": 2}).text


def test_list_has_twenty_traces_and_the_page_of_the_cluster_all(
    site: AppContext, client: TestClient, filled: Filled
) -> None:
    clustered(site, stored(*range(30)))
    [cluster] = listed(client)

    whole = client.get(f"/clusters/{cluster['id']}", headers=JSON).json()["cluster"]
    assert (20, 30, 30) == (len(cluster["members"]), cluster["size"], len(whole["members"]))
    assert 404 == client.get("/clusters/999").status_code
    assert 422 == client.get(f"/clusters/{2**40}").status_code


def test_page_shows_both_statistics_even_infinite_ones(
    site: AppContext, client: TestClient, filled: Filled
) -> None:
    clustered(site, stored(1, regression=-inf))

    [cluster] = listed(client)
    assert (None, None, True, True) == tuple(
        cluster[name] for name in ("regression", "corrected", "interesting", "significant")
    )
    assert 2 == client.get("/clusters").text.count("\N{MINUS SIGN}\N{INFINITY}")


def test_commit_links_to_the_gerrit_of_the_settings(site: AppContext, filled: Filled) -> None:
    gerrit = Settings().gerrit.model_copy(update={"url": "https://review.example.org"})
    there = AppContext.of(site.settings.model_copy(update={"gerrit": gerrit}), site.store)
    clustered(there, stored(1))

    [kept] = there.store.clusters.select()
    assert "https://review.example.org/q/c2" == cluster_views(there, [kept])[0].commit_link


def test_step_leads_to_the_commits_between_and_to_a_bisection(
    site: AppContext, client: TestClient, filled: Filled
) -> None:
    found = find(site, TESTBED, ClusterOptions(k=2, cutoff=20), lambda _: None)
    clustered(site, *(each for each in found.clusters if each.regression < 0))
    [cluster] = listed(client)

    search = client.get(f"/clusters/{cluster['id']}", headers=JSON).json()["search"]

    before, after = commit(STEP - 1), commit(STEP)
    assert f"git log --oneline {before}..{after}" == search["git_log"]
    assert f"bisecttest-{TESTBED} {before} 64bAND1cANDethip4-ip4base" == search["comment"]
    assert search["command"].startswith(
        f"./run bisect --testbed {TESTBED} --old {before} --new {after} --tags 64b"
    )
    page = client.get(f"/clusters/{cluster['id']}").text
    assert search["git_log"] in page
    assert search["comment"] in page
    assert f'href="/clusters/{cluster["id"]}#search"' in client.get("/clusters").text


@pytest.mark.parametrize(("before", "at"), [("run-12", "c2"), ("c1", "run-13"), ("c2", "c2")])
def test_step_between_unknown_commits_leads_nowhere(
    site: AppContext, client: TestClient, filled: Filled, before: str, at: str
) -> None:
    there = stored(1, at=at)
    clustered(site, replace(there, summary={**there.summary, "before": before}))
    [cluster] = listed(client)

    assert client.get(f"/clusters/{cluster['id']}", headers=JSON).json()["search"] is None
    assert "Find the commit" not in client.get(f"/clusters/{cluster['id']}").text


def test_editor_keeps_all_traces_as_a_shortcut(site: AppContext, editor: TestClient, filled: Filled) -> None:
    keys = [trace.key for trace in site.catalog.now().stored if trace.key["testbed"] == TESTBED]
    clustered(site, stored(*(key.hash for key in keys)))
    [cluster] = listed(editor)

    there = editor.post(cluster["explore"]).headers["location"]

    query, shortcut = there.rsplit("=", 1)
    assert f"/explore?testbed={TESTBED}&shortcut" == query
    assert [format_key(key) for key in keys] == list(site.store.shortcuts.load(shortcut) or ())


def test_explore_shows_the_traces_of_a_cluster(site: AppContext, client: TestClient, filled: Filled) -> None:
    clustered(site, stored(filled.slower.hash, "gone"))
    [cluster] = listed(client)

    answer = client.get(cluster["explore"])

    assert 303 == answer.status_code
    assert answer.headers["location"].startswith(f"/explore?testbed={TESTBED}&id=")
    assert 1 == answer.headers["location"].count("id=%2C")
