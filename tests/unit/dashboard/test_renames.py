"""A renamed test is one trace on every page, and items saved under its old name remain valid."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from starlette.testclient import TestClient

from perftrend.analysis.formula import format_key
from perftrend.dashboard import AppContext
from perftrend.dashboard.clusters.clustering import find, rule
from perftrend.dashboard.clusters.models import ClusterOptions
from perftrend.model import TraceKey
from tests.unit.dashboard.conftest import FIRST, RUNS, STEP, TESTBEDS, TESTS, Filled, add_run, commit

JSON = {"Accept": "application/json"}
OLD, NEW = TESTS[0], "64b-1c-ethip4-ip4forward"
NIGHTS = 3
"""Nights of the old name that follow, and then of the new one."""


def named(key: TraceKey, test: str = NEW) -> TraceKey:
    return TraceKey.of(**key.as_dict() | {"test": test})


@pytest.fixture
def renamed(filled: Filled) -> Filled:
    """Give a store in which a test has another name in the last three nights, and is renamed."""
    store = filled.store
    for night in range(RUNS, RUNS + NIGHTS):
        for testbed in TESTBEDS:
            add_run(store, testbed, night, random.Random(night))  # noqa: S311 - noise
    for testbed in TESTBEDS:
        for run in store.runs(testbed, last=NIGHTS):
            results = [
                replace(each, key=named(each.key)) if each.key["test"] == OLD else each
                for each in store.results(run)
            ]
            day = FIRST.replace(year=2027) + (run.started - FIRST)
            again = replace(
                run, job="renamed", started=day, finished=day, versions={"device": day.isoformat()}
            )
            store.add(again, results)
    store.renames.add("test", OLD, NEW, author="ann")
    return filled


def explored(client: TestClient, *asked: tuple[str, Any]) -> Any:
    answer = client.get("/explore", params=[("testbed", TESTBEDS[0]), *asked], headers=JSON)
    assert 200 == answer.status_code, answer.text
    return answer.json()


@pytest.mark.parametrize(
    "asked",
    [
        ("q", f"test={NEW}&metric=mrr"),
        ("q", f"test={OLD}&metric=mrr"),
        ("q", "test=~ip4base$&cores=1c&metric=mrr"),
        ("id", format_key(Filled.slower)),
        ("id", format_key(named(Filled.slower))),
        ("formula", f'filter("test={OLD}&metric=mrr")'),
    ],
)
def test_explore_shows_one_trace_by_either_name(client: TestClient, renamed: Filled, asked: Any) -> None:
    answer = explored(client, asked)

    [line] = answer["lines"]
    assert format_key(named(renamed.slower)) in line["id"]
    assert RUNS + 2 * NIGHTS == len(line["values"])
    assert None not in line["values"]


def test_other_traces_are_not_found_by_the_old_name(client: TestClient, renamed: Filled) -> None:
    found = explored(client, ("q", f"test!={OLD}&metric=mrr"))["lines"]

    assert {f"test={test}" for test in TESTS[1:]} == {
        part for line in found for part in line["id"].split(",") if part.startswith("test=")
    }


def test_old_name_is_not_a_choice(client: TestClient, renamed: Filled) -> None:
    assert f'"{OLD}"' not in client.get("/explore", headers=JSON).text
    assert f'"{NEW}"' in client.get("/explore", headers=JSON).text


def test_short_addresses_and_shortcuts_go_on(client: TestClient, renamed: Filled) -> None:
    ids = [format_key(renamed.slower), format_key(named(renamed.slower))]
    shortcut = renamed.store.shortcuts.save(ids, user="eva")
    key = renamed.store.short_urls.save(f"testbed={TESTBEDS[0]}&q=test%3D{OLD}%26metric%3Dmrr", user="eva")

    assert 1 == len(explored(client, ("shortcut", shortcut))["lines"])
    target = client.get(f"/s/{key}")
    assert 1 == len(client.get(target.headers["Location"], headers=JSON).json()["lines"])


def test_address_of_a_point_of_the_old_name_shows_its_run(client: TestClient, renamed: Filled) -> None:
    identity = format_key(renamed.slower)

    found = explored(client, ("id", identity), ("of", identity), ("at", STEP))["point"]

    assert [f"nightly/{STEP + 1}"] == [run["name"] for run in found["runs"]]


def test_pages_follow_when_the_rename_is_undone(client: TestClient, renamed: Filled) -> None:
    assert 1 == len(explored(client, ("q", f"test={OLD}&metric=mrr"))["lines"])

    renamed.store.renames.remove("test", OLD, author="ann")

    for test in (OLD, NEW):
        [line] = explored(client, ("q", f"test={test}&metric=mrr"))["lines"]
        assert f"test={test}" in line["id"]


@pytest.mark.parametrize("left", [OLD, NEW])
def test_compare_takes_either_name(client: TestClient, renamed: Filled, left: str) -> None:
    asked = {"vertical": "test", "left": left, "right": TESTS[1], "q": f"testbed={TESTBEDS[0]}"}

    found = client.get("/compare", params=asked, headers=JSON).json()

    # They differ in their cores as well, so all of them are alone.
    assert found["problem"].startswith("3 traces are on the left and 3 on the right")


def test_compare_has_the_history(client: TestClient, renamed: Filled) -> None:
    asked = {"by": "commits", "left": commit(STEP - 1), "right": commit(STEP), "q": f"test={OLD}&metric=mrr"}

    rows = client.get("/compare", params=asked, headers=JSON).json()["table"]["rows"]

    assert [NEW] == [row["name"] for row in rows]


def test_clusters_hold_the_trace_under_its_new_name(site: AppContext, renamed: Filled) -> None:
    query = ClusterOptions(k=2, cutoff=20, query=f"test={OLD}")

    found = find(site, TESTBEDS[0], query, lambda _: None)

    members = {name for each in found.clusters for name, _ in each.members}
    assert named(renamed.slower).hash in members
    assert renamed.slower.hash not in members


def test_cluster_of_the_old_name_is_found_again(site: AppContext, filled: Filled) -> None:
    options = ClusterOptions(k=2, cutoff=20)
    before = find(site, TESTBEDS[0], options, lambda _: None)
    kept = [replace(each, identity=number) for number, each in enumerate(before.clusters, 1)]
    for test in TESTS:
        filled.store.renames.add("test", test, f"{test}-new", author="ann")

    again = rule(find(site, TESTBEDS[0], options, lambda _: None))(kept)

    assert [each.identity for each in kept] == [each.identity for each in again]
