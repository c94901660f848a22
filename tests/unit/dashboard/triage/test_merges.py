"""Items that are merged and split, and what later evaluations make of them."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.testclient import TestClient

from perftrend.analysis.alerts import Finding, FindingKind, KnownFinding, match_findings
from perftrend.dashboard import AppContext
from perftrend.store import Store
from perftrend.store.alerts import Alert, Item, Rules
from tests.unit.dashboard.conftest import signed_in, token_of
from tests.unit.dashboard.triage.conftest import Nights, key

JSON = {"Accept": "application/json"}
A, B, C = (key(test).hash for test in "abc")


@pytest.fixture
def two(nights: Nights, alert: Alert) -> Nights:
    """Evaluate nights with two regressions: a and b in one night, and c two nights later."""
    nights.factors = lambda test, night: 0.9 if night >= (32 if test == "c" else 20) else 1.0
    nights.evaluate()
    nights.measure(8)
    nights.evaluate()
    assert [{A, B}, {C}] == [traces(nights.store, item) for item in by_age(nights)]
    return nights


def by_age(nights: Nights) -> list[Item]:
    return sorted(nights.items(), key=lambda item: item.identity)


def traces(store: Store, item: Item) -> set[str]:
    return {each.trace for each in store.alerts.items.findings(item.identity)}


def post(client: TestClient, path: str, body: dict[str, Any]) -> Any:
    return client.post(path, json=body, headers={**JSON, "X-CSRF-Token": token_of(client)})


def merge(client: TestClient, *items: Item) -> Any:
    return post(client, "/triage/merge", {"items": {item.identity: item.version for item in items}})


def state(nights: Nights) -> list[tuple[str, str, set[str], int, str]]:
    return [
        (item.status, item.reason, traces(nights.store, item), item.traces, item.trace)
        for item in by_age(nights)
    ]


def test_findings_move_to_the_oldest_item(two: Nights, editor: TestClient) -> None:
    first, second = by_age(two)

    answer = merge(editor, second, first)

    assert 200 == answer.status_code
    assert [first.identity, second.identity] == [each["id"] for each in answer.json()["items"]]
    whole, part = by_age(two)
    assert ("new", 3, {A, B, C}) == (whole.status, whole.traces, traces(two.store, whole))
    assert ("closed", f"merged into item {first.identity}", first.identity, set()) == (
        part.status,
        part.reason,
        part.merged_into,
        traces(two.store, part),
    )
    detail = editor.get(f"/triage/{second.identity}", headers=JSON).json()
    assert ("merged", f"into item {first.identity}") == tuple(
        detail["activity"][0][name] for name in ("action", "detail")
    )
    assert "Undo the merge" in editor.get(f"/triage/{second.identity}").text
    assert [second.identity] == editor.get(f"/triage/{first.identity}", headers=JSON).json()["merged"]
    assert f"item {second.identity}</a>" in editor.get(f"/triage/{first.identity}").text


def test_evaluation_does_not_recreate_what_was_merged(two: Nights, editor: TestClient) -> None:
    merge(editor, *by_age(two))
    before = state(two)

    again = two.evaluate()
    two.measure(3)
    later = two.evaluate()

    assert (0, 0, 0) == (again.new, again.reopened, later.new)
    assert [each[:3] for each in before] == [each[:3] for each in state(two)]


def test_new_trace_with_the_range_of_a_merged_item_joins_the_whole(two: Nights, editor: TestClient) -> None:
    """The range of what was merged is elsewhere than that of most traces of the item."""
    first, second = by_age(two)
    merge(editor, first, second)
    with two.store.alerts.night(first.testbed, newest_run=999, since=None) as night:
        stored = night.known
    known = [
        KnownFinding(
            each.identity, each.item, FindingKind(each.kind), each.trace, each.span,
            origin=each.origin,
        )
        for each in stored
    ]  # fmt: skip
    span = second.span

    matches = match_findings(known, [Finding(FindingKind.REGRESSION, "d" * 32, span, span, 1.0, 0.9)])

    assert {A: None, B: None, C: second.identity} == {each.trace: each.origin for each in stored}
    assert not by_age(two)[0].span.overlaps(span)
    assert [first.identity] == [group.item for group in matches.groups]


def test_merge_is_undone(two: Nights, editor: TestClient) -> None:
    before = state(two)
    done = merge(editor, *by_age(two)).json()["items"]

    answer = post(editor, "/triage/undo", {"items": {each["id"]: each["version"] for each in done}})

    assert 200 == answer.status_code
    assert before == state(two)
    assert [None, None] == [each["merged_into"] for each in answer.json()["items"]]
    two.measure(1)
    assert 0 == two.evaluate().new
    assert [each[:3] for each in before] == [each[:3] for each in state(two)]


def test_merge_of_merged_items_is_undone_in_any_order(two: Nights, store: Store, editor: TestClient) -> None:
    first, second = by_age(two)
    (_, third) = store.alerts.items.split(first.identity, first.version, [B], user="eva").now
    first, second, third = by_age(two)
    merge(editor, second, third)
    merge(editor, *(item for item in by_age(two) if item.identity != third.identity))
    assert [{A, B, C}, set(), set()] == [traces(store, item) for item in by_age(two)]

    store.alerts.items.undo({third.identity: by_age(two)[2].version}, user="eva")
    assert [{A, C}, set(), {B}] == [traces(store, item) for item in by_age(two)]
    store.alerts.items.undo({second.identity: by_age(two)[1].version}, user="eva")
    assert [{A}, {C}, {B}] == [traces(store, item) for item in by_age(two)]
    assert ["new"] * 3 == [item.status for item in by_age(two)]


def test_merge_from_an_older_version_changes_nothing(
    two: Nights, site: AppContext, editor: TestClient
) -> None:
    first, second = by_age(two)
    with signed_in(site, "ada") as other:
        post(other, "/triage", {"items": {second.identity: second.version}, "status": "bug"})
    before = state(two)

    answer = merge(editor, first, second)

    assert 409 == answer.status_code
    assert f"ada set item {second.identity} to bug" in answer.json()["error"]
    assert before == state(two)


def test_merged_item_is_not_triaged(two: Nights, editor: TestClient) -> None:
    first, second = by_age(two)
    merge(editor, first, second)

    answer = post(editor, "/triage", {"items": {second.identity: second.version + 1}, "status": "new"})

    assert 400 == answer.status_code
    assert f"merged into item {first.identity}" in answer.json()["error"]
    again = by_age(two)
    assert 400 == merge(editor, *again).status_code


def test_job_of_a_merged_item_assigns_the_whole(two: Nights, store: Store, editor: TestClient) -> None:
    merge(editor, *by_age(two))
    second = by_age(two)[1]

    store.alerts.items.assign(second.identity, "Jane Doe", user="job")

    assert ["Jane Doe", "ann"] == [item.owner for item in by_age(two)]


def test_items_of_several_kinds_are_not_merged(two: Nights, store: Store, editor: TestClient) -> None:
    first, _ = by_age(two)
    with store.alerts.night(first.testbed, newest_run=999, since=None) as night:
        other = night.add_item("progression", first.span, owner="", now=two.now)
    better = store.alerts.items.one(other)
    assert better is not None

    answer = merge(editor, first, better)

    assert 400 == answer.status_code
    assert "one kind on one testbed" in answer.json()["error"]
    assert 400 == merge(editor, first).status_code
    assert 404 == post(editor, "/triage/merge", {"items": {first.identity: 1, 999: 1}}).status_code


def test_traces_are_split_off_and_stay_apart(two: Nights, store: Store, editor: TestClient) -> None:
    first, _ = by_age(two)
    form = {"csrf": token_of(editor), "version": first.version, f"trace.{B}": "on"}

    answer = editor.post(f"/triage/{first.identity}/split", data=form)

    assert 303 == answer.status_code
    new = by_age(two)[-1]
    assert f"/triage/{new.identity}" == answer.headers["location"]
    assert [{A}, {C}, {B}] == [traces(store, item) for item in by_age(two)]
    assert ("new", "ann", 1, first.identity) == (new.status, new.owner, new.traces, new.split_from)
    two.measure(2)
    outcome = two.evaluate()
    assert (0, 0, 0) == (outcome.new, outcome.joined, outcome.messages)
    assert [{A}, {C}, {B}] == [traces(store, item) for item in by_age(two)]
    page = editor.get(f"/triage/{new.identity}").text
    assert "Merge again" in page
    first, _, new = by_age(two)
    assert 200 == merge(editor, new, first).status_code
    assert [{A, B}, {C}, set()] == [traces(store, item) for item in by_age(two)]


@pytest.mark.parametrize("chosen", [[A, B], [C], ["x"]])
def test_wrong_split_is_refused(two: Nights, editor: TestClient, chosen: list[str]) -> None:
    first, _ = by_age(two)

    answer = post(editor, f"/triage/{first.identity}/split", {"version": first.version, "traces": chosen})

    assert 400 == answer.status_code
    assert 2 == len(by_age(two))


def test_split_of_an_older_version_is_refused(two: Nights, editor: TestClient) -> None:
    first, _ = by_age(two)
    path = f"/triage/{first.identity}/split"

    assert 409 == post(editor, path, {"version": first.version + 1, "traces": [A]}).status_code
    assert 422 == post(editor, path, {"version": first.version, "traces": []}).status_code
    assert 404 == post(editor, "/triage/999/split", {"version": 1, "traces": [A]}).status_code


def test_alert_reports_a_merged_item_no_more(two: Nights, store: Store, editor: TestClient) -> None:
    store.alerts.add(
        Rules("again", "", change=0.03, recent_runs=40, action="mail", target="b@c.de"), user="x"
    )
    two.evaluate()
    first, second = by_age(two)
    sent = [len(store.alerts.outbox.of(item.identity)) for item in (first, second)]
    merge(editor, first, second)
    two.measure(1)
    two.evaluate()

    assert sent == [len(store.alerts.outbox.of(item.identity)) for item in (first, second)]


def test_history_says_what_happened(two: Nights, store: Store, editor: TestClient) -> None:
    first, second = by_age(two)
    done = merge(editor, first, second).json()["items"]
    post(editor, "/triage/undo", {"items": {done[1]["id"]: done[1]["version"]}})
    store.alerts.items.split(first.identity, first.version + 2, [B], user="ada")
    body = {"items": {second.identity: second.version + 2}, "until": "build 77", "message": "a: b"}
    post(editor, "/triage/snooze", body)

    texts = [
        [each["text"] for each in editor.get(f"/triage/{item.identity}", headers=JSON).json()["activity"][:3]]
        for item in by_age(two)
    ]

    assert [
        [
            "ada split 1 trace off into item 3",
            "eva separated item 2 from this one",
            "eva merged item 2 into this one",
        ],
        [
            "eva changed the status from new to snoozed until nightly/77: a: b",
            "eva separated it from item 1",
            "eva merged it into item 1",
        ],
        ["ada split 1 trace off from item 1"],
    ] == texts
