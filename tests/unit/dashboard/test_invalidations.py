"""Editors mark runs and results as invalid on the page and by program; everybody sees the marks."""

from __future__ import annotations

import math
from typing import Any

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext
from perftrend.store import Store
from tests.unit.dashboard.conftest import RUNS, TESTBEDS, TESTS, Filled

JSON = {"Accept": "application/json"}


@pytest.fixture
def newest(filled: Filled) -> dict[str, Any]:
    run = filled.store.runs(TESTBEDS[0], last=1)[0]
    return {"job": run.job, "build": run.build, "started": run.started.isoformat()}


def marks(client: TestClient) -> list[dict[str, Any]]:
    shown = client.get("/runs?last=1", headers=JSON).json()
    return [mark for testbed in shown["testbeds"] for run in testbed["runs"] for mark in run["invalidations"]]


def newest_values(store: Store) -> list[float]:
    axis = store.tiles.axis(TESTBEDS[0])
    ids = [trace.trace_id for trace in store.tiles.traces() if trace.key["testbed"] == TESTBEDS[0]]
    return [row[0] for row in store.tiles.values(axis, ids, range(RUNS - 1, RUNS)).tolist()]


def test_form_marks_a_run_and_restores_it(
    editor: TestClient, site: AppContext, token: str, newest: dict[str, Any]
) -> None:
    before = newest_values(site.store)
    sent = {"csrf": token, **newest}

    answer = editor.post("/runs/invalidate", data={**sent, "reason": "a <fan> failed", "test": ""})
    assert (303, "/runs") == (answer.status_code, answer.headers["location"])
    assert all(math.isnan(value) for value in newest_values(site.store))
    page = editor.get("/runs?last=1").text
    assert "a &lt;fan&gt; failed" in page
    assert 'action="/runs/restore"' in page

    assert 303 == editor.post("/runs/restore", data=sent).status_code
    assert before == newest_values(site.store)
    assert 'action="/runs/restore"' not in editor.get("/runs?last=1").text
    acts = [(act.user, act.action, act.subject) for act in site.store.activity.newest(2)]
    subject = f"run {newest['job']}/{newest['build']}"
    assert [("eva", "restored", subject), ("eva", "invalidated", subject)] == acts


def test_program_marks_a_test_and_restores_one_trace(
    editor: TestClient, site: AppContext, token: str, newest: dict[str, Any]
) -> None:
    headers = {**JSON, "X-CSRF-Token": token}
    answer = editor.post(
        "/runs/invalidate", json={**newest, "test": TESTS[1], "reason": "noise"}, headers=headers
    )

    assert 200 == answer.status_code
    added = answer.json()["invalidations"]
    assert {("noise", "eva", TESTS[1])} == {
        (mark["reason"], mark["author"], mark["parameters"]["test"]) for mark in added
    }
    assert added == marks(editor)
    assert len(added) == sum(map(math.isnan, newest_values(site.store)))

    restored = {**newest, "trace": added[0]["trace"]}
    assert 200 == editor.post("/runs/restore", json=restored, headers=headers).status_code
    assert added[1:] == marks(editor)


def test_viewer_sees_marks_and_changes_nothing(
    client: TestClient, site: AppContext, newest: dict[str, Any]
) -> None:
    site.store.invalidations.add(site.store.runs(TESTBEDS[0], last=1)[0], "a fan failed", author="ann")

    page = client.get("/runs?last=1").text
    assert "a fan failed" in page
    assert '<form method="post" action="/runs' not in page
    for action in ("invalidate", "restore"):
        answer = client.post(f"/runs/{action}", json={**newest, "reason": "x"}, headers=JSON)
        assert answer.status_code in {401, 403}
    assert 1 == len(marks(client))


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"build": 9999}, 404, "the store has no run"),
        ({"started": "2020-01-01T00:00:00Z"}, 404, "the store has no run"),
        ({"test": "unknown"}, 400, "has no result of test unknown"),
        ({"reason": " "}, 400, "the reason is empty"),
    ],
)
def test_what_cannot_be_marked_is_refused(  # noqa: PLR0917 - fixtures
    editor: TestClient, token: str, newest: dict[str, Any], change: dict[str, Any], status: int, message: str
) -> None:
    sent = {**newest, "reason": "noise", **change}
    answer = editor.post("/runs/invalidate", json=sent, headers={**JSON, "X-CSRF-Token": token})

    assert status == answer.status_code
    assert message in answer.json()["error"]
    assert [] == marks(editor)
