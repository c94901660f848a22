"""``/alerts``: making, editing and trying alerts."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext
from perftrend.dashboard.triage.alert_models import OverrideEdit
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.store import Store
from perftrend.store.alerts import Alert, Rules
from tests.unit.dashboard.conftest import signed_in, token_of
from tests.unit.dashboard.triage.conftest import TESTBED, Nights, commit, key

JSON = {"Accept": "application/json"}


def send(client: TestClient, path: str, body: dict[str, Any]) -> Any:
    return client.post(path, json=body, headers={**JSON, "X-CSRF-Token": token_of(client)})


def test_alert_is_made_by_a_form(store: Store, editor: TestClient, token: str) -> None:
    form = {
        "csrf": token, "name": "clx", "query": "testbed=2n-clx", "change_percent": "3",
        "confidence_percent": "99", "action": "mail", "target": "a@example.org, b@example.org",
        "enabled": "false",
    }  # fmt: skip

    answer = editor.post("/alerts", data=form)

    assert 303 == answer.status_code
    (made,) = store.alerts.all()
    assert ("clx", 0.03, 0.99, False) == (
        made.rules.name, made.rules.change, made.rules.confidence, made.rules.enabled,
    )  # fmt: skip
    assert ["made"] == [act.action for act in store.activity.newest(5, made.subject)]
    assert "clx" in editor.get("/alerts").text
    assert 200 == editor.get(answer.headers["location"]).status_code


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"query": "=1"}, "character 1"),
        ({"query": "test=~("}, "is not a valid RE2 regular expression"),
        ({"action": "mail"}, "target: enter addresses"),
        ({"action": "mail", "target": "Ann <a@example.org>"}, "not a mail address"),
        ({"action": "webhook", "target": "http://example.org/hook"}, "not encrypted"),
        ({"action": "webhook", "target": "https://u:p@example.org/"}, "without user"),
        ({"method": "step", "confidence_percent": 99}, "no confidence"),
        ({"change_percent": -1}, "greater than or equal"),
        ({"name": " "}, "name"),
        ({"cutoff": "NaN"}, "cutoff"),
    ],
)
def test_what_cannot_work_is_refused_with_the_reason(
    store: Store, editor: TestClient, change: dict[str, Any], reason: str
) -> None:
    answer = send(editor, "/alerts", {"name": "x", **change})

    assert 422 == answer.status_code
    assert reason in answer.json()["error"]
    assert [] == store.alerts.all()


def test_viewer_sees_alerts_without_their_targets_and_changes_none(client: TestClient, alert: Alert) -> None:
    for path in ("/alerts", f"/alerts/{alert.identity}"):
        assert "ann@example.org" not in client.get(path).text
    assert "" == client.get(f"/alerts/{alert.identity}", headers=JSON).json()["alert"]["rules"]["target"]
    assert client.post("/alerts", json={"name": "x"}, headers=JSON).status_code in {401, 403}


def test_edit_that_was_made_from_an_older_version_is_refused_and_kept(
    site: AppContext, editor: TestClient, alert: Alert
) -> None:
    path = f"/alerts/{alert.identity}"
    with signed_in(site, "ada") as other:
        assert 200 == send(other, path, {"name": "ada's", "version": 1}).status_code

    answer = send(editor, path, {"name": "eva's", "version": 1})
    page = editor.post(path, data={"csrf": token_of(editor), "name": "eva's", "version": 1})

    assert 409 == answer.status_code
    assert "ada changed it at" in answer.json()["error"]
    assert "ada's" == answer.json()["alert"]["rules"]["name"]
    assert 409 == page.status_code
    assert 'value="eva&#39;s"' in page.text


def test_alert_is_edited_and_deleted(store: Store, editor: TestClient, alert: Alert) -> None:
    path = f"/alerts/{alert.identity}"
    send(editor, path, {"name": "new", "version": 1})

    answer = send(editor, f"{path}/delete", {"version": 2})

    assert 200 == answer.status_code
    assert [] == store.alerts.all()
    assert 404 == editor.get(path).status_code
    log = store.activity.newest(5, alert.subject)
    assert ["deleted", "edited", "made"] == [act.action for act in log]
    assert "name all → new" in log[1].detail


def test_history_is_in_words(store: Store, editor: TestClient, alert: Alert) -> None:
    path = f"/alerts/{alert.identity}"
    rules = editor.get(path, headers=JSON).json()["alert"]["rules"]
    changed = {"change_percent": 5, "confidence_percent": 99.5, "direction": "progression", "enabled": False}
    send(editor, path, rules | changed | {"version": 1, "target": "s3cret@example.org", "silent_runs": 3})
    override = {"version": 2, "trace": "0" * 32, "change_percent": 7.5, "muted_until": "2026-03-01"}
    other = OverrideEdit.model_validate(override).override(alert.identity, "0" * 32, "eva")
    store.alerts.override(other, version=2, user="eva")

    page = editor.get(path).text.partition('id="history"')[2]

    for words in (
        "eva changed it: ",
        "minimum change 3 % → 5 %",
        "minimum confidence none → 99.5 %",
        "direction both → progressions",
        "state on → off",
        "missing data after runs never → 3",
        "send to … → …",
        "eva set an override: trace 0000",
        ": minimum change 7.5 %, muted until 2026-03-01",
        "ann created it: name all, query all traces, minimum change 3 %",
    ):
        assert words in page, words
    for value in ("0.0", "True", "False", "None", "->", "&#39;", "{", "s3cret"):
        assert value not in page, value


@pytest.mark.parametrize(
    ("action", "target"), [("webhook", "https://example.org/hook/s3cret"), ("mail", "s3cret@example.org")]
)
def test_activity_log_does_not_tell_where_an_alert_sends_to(
    store: Store, editor: TestClient, action: str, target: str
) -> None:
    send(editor, "/alerts", {"name": "x", "action": action, "target": target})

    assert "s3cret" not in str(store.activity.newest(5))


def test_override_is_set_and_removed(nights: Nights, editor: TestClient, alert: Alert) -> None:
    path = f"/alerts/{alert.identity}/override"
    wanted = {
        "version": 1,
        "trace": key("a").hash,
        "change_percent": 5,
        "muted_until": "2026-03-01",
        "reason": "flaky",
    }

    set_ = send(editor, path, wanted).json()
    removed = send(editor, path, {"version": 2, "trace": key("a").hash}).json()

    (override,) = set_["overrides"]
    assert (5.0, "2026-03-01T00:00:00Z", "flaky", "eva") == (
        override["change_percent"], override["muted_until"], override["reason"], override["changed_by"],
    )  # fmt: skip
    assert [] == removed["overrides"]
    assert 400 == send(editor, path, {"version": 3, "trace": "0" * 32, "change_percent": 1}).status_code


def test_form_for_the_override_of_a_trace_is_found_from_an_item(
    nights: Nights, editor: TestClient, alert: Alert
) -> None:
    nights.evaluate()
    (item,) = nights.items()
    link = f"/alerts/{alert.identity}?trace={item.trace}"

    assert f'href="{link}#override"' in editor.get(f"/triage/{item.identity}").text
    assert f'name="trace" value="{item.trace}"' in editor.get(link).text


def test_override_of_a_test_is_of_all_its_traces_on_its_testbed(
    nights: Nights, editor: TestClient, alert: Alert
) -> None:
    run = Run("3n-icx", "nightly", 1, nights.now, nights.now, {"device": commit(1)})
    keys = [
        key("a"), TraceKey.of(testbed=TESTBED, test="a", metric="ndr"),
        TraceKey.of(testbed="3n-icx", test="a", metric="mrr"), key("b"),
    ]  # fmt: skip
    of_another = [Result(each, "pps", Better.HIGHER, Status.PASS, (1.0,), 1.0) for each in keys[1:3]]
    nights.store.add(run, of_another)
    path = f"/alerts/{alert.identity}/override"
    said = {"version": 1, "trace": keys[0].hash, "scope": "test", "change_percent": 5}

    told = send(editor, path, said).json()

    assert {keys[0].hash, keys[1].hash} == {each["trace"] for each in told["overrides"]}
    assert {5.0} == {each["change_percent"] for each in told["overrides"]}
    removed = send(editor, path, {"version": 2, "trace": keys[1].hash, "scope": "test"}).json()
    assert [] == removed["overrides"]
    assert 400 == send(editor, path, {"version": 3, "trace": "0" * 32, "scope": "test"}).status_code


def test_mute_of_a_form_is_a_day_in_utc(nights: Nights, editor: TestClient, alert: Alert, token: str) -> None:
    form = {
        "csrf": token,
        "version": 1,
        "trace": key("a").hash,
        "change_percent": "",
        "muted_until": "2026-03-01",
    }

    assert 303 == editor.post(f"/alerts/{alert.identity}/override", data=form).status_code
    (override,) = nights.store.alerts.overrides()
    assert (None, datetime(2026, 3, 1, tzinfo=UTC)) == (override.change, override.muted_until)


def dry_run(client: TestClient, alert: Alert, **asked: Any) -> dict[str, Any]:
    begun = send(client, f"/alerts/{alert.identity}/dry-run", {"testbed": TESTBED, **asked})
    assert 202 == begun.status_code, begun.text
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        now: dict[str, Any] = client.get(
            f"/alerts/{alert.identity}/dry-run?testbed={TESTBED}", headers=JSON
        ).json()
        if now["state"] in {"done", "failed"}:
            return now
        time.sleep(0.02)
    raise AssertionError(now)


def test_dry_run_tells_night_by_night_and_writes_nothing(
    nights: Nights, editor: TestClient, alert: Alert
) -> None:
    result = dry_run(editor, alert, nights=15)

    told = [
        (night["commit"], item["traces"], item["first_changed"])
        for night in result["told"]
        for item in night["items"]
    ]
    assert ("done", 15, 15, 3) == (result["state"], result["nights"], result["looked_at"], result["traces"])
    assert 2 == sum(traces for _, traces, _ in told) + sum(night["joined"] for night in result["told"])
    assert {commit(20)} == {first for _, _, first in told}
    assert [] == nights.items()
    assert 0 == nights.store.alerts.outbox.count_unsent()
    page = editor.get(f"/alerts/{alert.identity}/dry-run?testbed={TESTBED}")
    assert "It would have reported" in page.text


def test_dry_run_that_meets_a_defect_says_so(
    nights: Nights, editor: TestClient, alert: Alert, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("of\ntwo lines")

    monkeypatch.setattr("perftrend.dashboard.triage.alert_routes.history_of", broken)

    result = dry_run(editor, alert)

    told = "a defect, ZeroDivisionError: of two lines; see the log of the dashboard"
    assert ("failed", told) == (result["state"], result["error"])


def test_line_of_an_alert_is_one_line(editor: TestClient) -> None:
    made = send(editor, "/alerts", {"name": " a\nb  c", "owner": "x\r\ny\x00"}).json()

    assert ("a b c", "x y\ufffd") == (made["rules"]["name"], made["rules"]["owner"])


def test_alert_that_cannot_tell_anybody_says_so(editor: TestClient) -> None:
    made = send(editor, "/alerts", {"name": "a", "action": "mail", "target": "ann@example.org"}).json()

    assert made["problem"].startswith("mail.server is not set")
    assert "No messages are sent: mail.server is not set" in editor.get(f"/alerts/{made['id']}").text
    assert "not configured" in editor.get("/alerts").text


@pytest.mark.parametrize(
    ("action", "target", "hint"),
    [
        ("mail", "", "enter addresses"),
        ("mail", " ,;", "enter addresses, such as"),
        ("gerrit", "", "enter the name of the project"),
        ("webhook", "", "enter its URL"),
    ],
)
def test_action_without_a_target_says_what_to_write(
    editor: TestClient, action: str, target: str, hint: str
) -> None:
    answer = send(editor, "/alerts", {"name": "a", "action": action, "target": target})

    assert 422 == answer.status_code
    assert hint in answer.json()["error"]


def test_dry_run_of_too_much_is_refused_with_what_would_do(
    nights: Nights, editor: TestClient, alert: Alert, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("perftrend.dashboard.triage.alert_routes.MOST_WORK", 30)

    answer = send(editor, f"/alerts/{alert.identity}/dry-run", {"testbed": TESTBED, "nights": 20})

    assert 400 == answer.status_code
    assert "choose 10 nights" in answer.json()["error"]


def test_dry_run_without_traces_is_refused(nights: Nights, editor: TestClient) -> None:
    alert = nights.store.alerts.add(Rules("none", "test=z"), user="ann")

    assert 400 == send(editor, f"/alerts/{alert.identity}/dry-run", {"testbed": TESTBED}).status_code
    assert 404 == editor.get(f"/alerts/{alert.identity}/dry-run?testbed={TESTBED}").status_code
