"""Snoozed items, owners, and the items of a user."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext
from perftrend.dashboard.triage.routes import parse_snooze
from perftrend.errors import UsageError
from perftrend.store import Store
from perftrend.store.alerts import SNOOZED, Alert, Snooze, TriageEdit
from tests.unit.dashboard.conftest import signed_in, token_of
from tests.unit.dashboard.triage.conftest import MEASURED, TESTBED, Nights

JSON = {"Accept": "application/json"}
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def found(nights: Nights, alert: Alert) -> Nights:
    """Evaluate the nights: one regression of two traces."""
    nights.evaluate()
    return nights


def listed(client: TestClient, query: str = "") -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = client.get(f"/triage{query}", headers=JSON).json()["items"]
    return items


def post(client: TestClient, path: str, body: dict[str, Any]) -> Any:
    return client.post(path, json=body, headers={**JSON, "X-CSRF-Token": token_of(client)})


@pytest.mark.parametrize(
    ("text", "snooze"),
    [
        ("", Snooze(job="nightly", build=MEASURED + 1)),
        ("Next  run", Snooze(job="nightly", build=MEASURED + 1)),
        ("build 40", Snooze(job="nightly", build=40)),
        ("#40", Snooze(job="nightly", build=40)),
        ("7 days", Snooze(until=NOW + timedelta(days=7))),
        ("2w", Snooze(until=NOW + timedelta(days=14))),
        ("2026-03-05", Snooze(until=datetime(2026, 3, 5, tzinfo=UTC))),
        ("2026-03-05 08:30", Snooze(until=datetime(2026, 3, 5, 8, 30, tzinfo=UTC))),
        ("2026-03-05T08:30+01:00", Snooze(until=datetime(2026, 3, 5, 7, 30, tzinfo=UTC))),
    ],
)
def test_forms_of_until(nights: Nights, site: AppContext, text: str, snooze: Snooze) -> None:
    assert snooze == parse_snooze(site, TESTBED, text, NOW)


@pytest.mark.parametrize(
    "text",
    [
        "soon",
        f"build {MEASURED}",
        "2026-03-01",
        "0 days",
        "9999 days",
        "9999-12-31T23:59:59-23:00",
        "2026-02-30",
    ],
)
def test_wrong_until_is_refused(nights: Nights, site: AppContext, text: str) -> None:
    with pytest.raises(UsageError, match="until: "):
        parse_snooze(site, TESTBED, text, NOW)


def test_testbed_without_a_run_needs_a_date(store: Store, site: AppContext) -> None:
    with pytest.raises(UsageError, match="enter a date"):
        parse_snooze(site, TESTBED, "next run", NOW)


def test_item_comes_back_with_the_next_run(found: Nights, editor: TestClient) -> None:
    (item,) = listed(editor)

    answer = post(editor, "/triage/snooze", {"items": {item["id"]: 1}, "message": "flaky"})

    assert 200 == answer.status_code
    assert {"until": None, "job": "nightly", "build": MEASURED + 1} == answer.json()["items"][0]["snooze"]
    assert [] == listed(editor)
    assert ["snoozed"] == [each["status"] for each in listed(editor, "?status=snoozed")]
    assert 1 == editor.get("/triage", headers=JSON).json()["counts"]["snoozed"]
    assert f"until nightly/{MEASURED + 1}" in editor.get("/triage?status=snoozed").text
    found.measure(1)
    (again,) = listed(editor)
    assert ("new", None, "flaky", 2) == tuple(
        again[name] for name in ("status", "snooze", "message", "version")
    )
    assert [] == listed(editor, "?status=snoozed")
    counts = editor.get("/triage", headers=JSON).json()["counts"]
    assert (1, 0) == (counts["new"], counts["snoozed"])


def test_item_comes_back_at_its_date(found: Nights, store: Store, client: TestClient) -> None:
    (item,) = found.items()
    now = datetime.now(UTC)
    later, earlier = (Snooze(until=now + timedelta(hours=hours)) for hours in (1, -1))

    store.alerts.items.triage([TriageEdit(item.identity, 1, SNOOZED, snooze=later)], user="eva")
    assert [] == listed(client)
    store.alerts.items.triage([TriageEdit(item.identity, 2, SNOOZED, snooze=earlier)], user="eva")
    assert ["new"] == [each["status"] for each in listed(client)]


def test_snooze_is_undone_and_redone(found: Nights, editor: TestClient) -> None:
    (item,) = listed(editor)
    post(editor, "/triage/snooze", {"items": {item["id"]: 1}, "until": "7 days"})

    undone = post(editor, "/triage/undo", {"items": {item["id"]: 2}}).json()["items"][0]
    redone = post(editor, "/triage/undo", {"items": {item["id"]: 3}}).json()["items"][0]

    assert ("new", None) == (undone["status"], undone["snooze"])
    assert "snoozed" == redone["status"]
    assert redone["snooze"]["until"]


def test_snoozed_item_that_is_closed_and_found_again_is_snoozed(found: Nights, store: Store) -> None:
    (item,) = found.items()
    snooze = Snooze(job="nightly", build=99)
    store.alerts.items.triage([TriageEdit(item.identity, 1, SNOOZED, snooze=snooze)], user="eva")

    with store.alerts.night(TESTBED, newest_run=99, since=None) as night:
        night.close(item.identity, "no longer found", now=NOW)
        assert "closed" == night.status(item.identity)
        night.reopen(item.identity, now=NOW)
        assert SNOOZED == night.status(item.identity)

    assert [(SNOOZED, snooze)] == [(each.status, each.triage.snooze) for each in found.items()]


def test_other_triage_ends_a_snooze(found: Nights, editor: TestClient) -> None:
    (item,) = listed(editor)
    post(editor, "/triage/snooze", {"items": {item["id"]: 1}, "until": "7 days"})

    bug = post(editor, "/triage", {"items": {item["id"]: 2}, "status": "bug"}).json()["items"][0]

    assert ("bug", None) == (bug["status"], bug["snooze"])


def test_form_snoozes_and_says_what_it_did(found: Nights, editor: TestClient, token: str) -> None:
    (item,) = listed(editor)
    form = {"csrf": token, f"item.{item['id']}": 1, "until": "build 77", "owner": "eva", "back": "/triage"}

    answer = editor.post("/triage/snooze", data=form)

    assert 303 == answer.status_code
    detail = editor.get(f"/triage/{item['id']}", headers=JSON).json()
    assert ("triaged", "new → snoozed until nightly/77") == tuple(
        detail["activity"][0][name] for name in ("action", "detail")
    )
    assert "ann" == detail["item"]["owner"]


def test_wrong_until_changes_nothing(found: Nights, editor: TestClient) -> None:
    (item,) = listed(editor)

    answer = post(editor, "/triage/snooze", {"items": {item["id"]: 1}, "until": "soon"})

    assert 400 == answer.status_code
    assert "next run" in answer.json()["error"]
    assert [1] == [each["version"] for each in listed(editor)]
    assert 404 == post(editor, "/triage/snooze", {"items": {999: 1}}).status_code


def test_later_snooze_is_not_lost(found: Nights, site: AppContext, editor: TestClient) -> None:
    (item,) = listed(editor)
    with signed_in(site, "ada") as other:
        post(other, "/triage/assign", {"items": {item["id"]: 1}, "owner": "bob"})

    form = {"csrf": token_of(editor), f"item.{item['id']}": 1, "until": "build 77"}
    page = editor.post("/triage/snooze", data=form)

    assert 409 == page.status_code
    assert f"ada assigned item {item['id']} to bob" in page.text
    assert 'action="/triage/snooze"' in page.text
    assert 'value="build 77"' in page.text
    assert "Snooze anyway" in page.text


def test_items_are_assigned_and_that_is_undone(found: Nights, editor: TestClient) -> None:
    (item,) = listed(editor)

    answer = post(editor, "/triage/assign", {"items": {item["id"]: 1}, "owner": " bob ,eva"})

    assert [("bob, eva", "new")] == [(each["owner"], each["status"]) for each in answer.json()["items"]]
    entry = editor.get(f"/triage/{item['id']}", headers=JSON).json()["activity"][0]
    assert ("eva", "assigned", "bob, eva") == tuple(entry[name] for name in ("user", "action", "detail"))
    for owner, number in (("eva", 1), ("bob", 1), ("ev", 0), ("ann", 0), ("%", 0)):
        assert number == len(listed(editor, f"?owner={owner}"))
    undone = post(editor, "/triage/undo", {"items": {item["id"]: 2}}).json()["items"]
    assert ["ann"] == [each["owner"] for each in undone]


def test_job_that_assigns_an_item_can_be_undone(found: Nights, store: Store) -> None:
    (item,) = found.items()
    store.alerts.items.triage([TriageEdit(item.identity, 1, "bug", "#1")], user="eva")
    store.alerts.items.assign(item.identity, "Jane Doe", user="job")

    (undone,) = store.alerts.items.undo({item.identity: 3}, user="eva").now

    assert ("bug", "#1", "ann") == (undone.status, undone.message, undone.owner)


def test_my_items_are_the_open_ones_of_the_user(found: Nights, site: AppContext, editor: TestClient) -> None:
    (item,) = listed(editor)
    assert 0 == editor.get("/", headers=JSON).json()["my_items"]
    post(editor, "/triage/assign", {"items": {item["id"]: 1}, "owner": "eva"})
    post(editor, "/triage", {"items": {item["id"]: 2}, "status": "bug"})

    address = editor.get("/triage/mine").headers["location"]

    assert ("/triage", {"status": ["open"], "owner": ["eva"]}) == (
        urlsplit(address).path,
        parse_qs(urlsplit(address).query),
    )
    assert [item["id"]] == [each["id"] for each in editor.get(address, headers=JSON).json()["items"]]
    assert 1 == editor.get("/", headers=JSON).json()["my_items"]
    assert 'href="/triage/mine"' in editor.get("/").text
    assert 'href="/triage/mine"' in editor.get("/triage").text
    with signed_in(site, "ada") as other:
        assert 0 == other.get("/", headers=JSON).json()["my_items"]
    post(editor, "/triage", {"items": {item["id"]: 3}, "status": "closed"})
    assert 0 == editor.get("/", headers=JSON).json()["my_items"]
