"""Messages are sent once each, later if that fails, and never lost."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient

from perftrend.clients.gerrit import ReviewVerdict
from perftrend.clients.mail import MailRefusedError
from perftrend.clients.webhook import Webhooks
from perftrend.dashboard import AppContext
from perftrend.dashboard.triage import DeliveryCounts, deliver, evaluation, notifications
from perftrend.dashboard.triage.notifications import channels_of, delivery_problem
from perftrend.errors import ServiceError, SettingsError, UsageError
from perftrend.settings import Settings
from perftrend.store import Store
from perftrend.store.alerts import Alert, Message, Rules
from tests.unit.dashboard.triage.conftest import TESTBED, Nights, commit

SETTINGS = Settings.load(environment={}, overrides={})
LATER = datetime.now(UTC) + timedelta(days=1)


@pytest.fixture
def told(nights: Nights, alert: Alert) -> Nights:
    nights.evaluate()
    return nights


def message_of(nights: Nights) -> Message:
    (item,) = nights.items()
    (message,) = nights.store.alerts.outbox.of(item.identity)
    return message


def test_message_is_sent_once(told: Nights) -> None:
    sent: list[Message] = []

    for _ in range(2):
        deliver(told.store, SETTINGS, channels={"mail": sent.append})

    assert ["ann@example.org"] == [message.target for message in sent]
    assert message_of(told).sent is not None


def test_failure_is_kept_with_its_reason_and_tried_again_later(told: Nights) -> None:
    attempts: list[str] = []

    def send(message: Message) -> None:
        attempts.append(message.key)
        if len(attempts) == 1:
            raise ServiceError("the server is away")

    now = message_of(told).made + timedelta(seconds=1)
    assert 1 == deliver(told.store, SETTINGS, now=now, channels={"mail": send}).failed
    assert "the server is away" == message_of(told).error
    assert 0 == deliver(told.store, SETTINGS, now=now, channels={"mail": send}).sent
    assert 1 == deliver(told.store, SETTINGS, now=now + timedelta(minutes=2), channels={"mail": send}).sent
    assert 1 == len(set(attempts))


def test_one_that_fails_does_not_stop_the_others(nights: Nights, alert: Alert) -> None:
    nights.store.alerts.add(Rules("b", "", action="webhook", target="https://example.org/"), user="bob")
    nights.evaluate()
    sent: list[Message] = []

    def away(_: Message) -> None:
        raise ServiceError("away")

    outcome = deliver(nights.store, SETTINGS, channels={"mail": away, "webhook": sent.append})

    assert (1, 1, 1) == (outcome.sent, outcome.failed, len(sent))


@pytest.mark.parametrize(
    ("action", "targets", "tried"),
    [
        ("mail", ["a@b.c", "d@e.f"], 1),
        ("gerrit", ["vpp", "csit"], 1),
        ("webhook", ["https://a.example/", "https://b.example/"], 2),
    ],
)
def test_server_that_is_away_is_not_asked_again_in_the_same_round(
    nights: Nights, action: str, targets: list[str], tried: int
) -> None:
    """All mails go by one server, and so do all messages in reviews; each webhook has its own."""
    for target in targets:
        nights.store.alerts.add(Rules(target, "", action=action, target=target), user="ann")
    nights.store.alerts.add(Rules("another", "", action="other", target="there"), user="ann")
    nights.evaluate()
    sent: list[Message] = []

    def away(_: Message) -> None:
        raise ServiceError("away")

    outcome = deliver(nights.store, SETTINGS, channels={action: away, "other": sent.append})

    assert (1, tried) == (len(sent), outcome.failed)
    assert 2 == deliver(nights.store, SETTINGS, now=LATER, channels={action: sent.append}).sent


@pytest.mark.parametrize("error", [MailRefusedError("no such user"), UsageError("no"), KeyError("defect")])
def test_message_that_is_refused_does_not_stop_the_next_to_the_same_server(
    nights: Nights, error: Exception
) -> None:
    for target in ("gone@b.c", "here@b.c"):
        nights.store.alerts.add(Rules(target, "", action="mail", target=target), user="ann")
    nights.evaluate()
    sent: list[Message] = []

    def send(message: Message) -> None:
        if message.target == "gone@b.c":
            raise error
        sent.append(message)

    assert DeliveryCounts(1, 1) == deliver(nights.store, SETTINGS, channels={"mail": send})
    assert ["here@b.c"] == [message.target for message in sent]


def test_sending_ends_between_two_messages_when_the_dashboard_does(nights: Nights) -> None:
    for number in range(3):
        nights.store.alerts.add(Rules(f"{number}", "", action="mail", target="a@b.c"), user="ann")
    nights.evaluate()
    ending = threading.Event()

    outcome = deliver(nights.store, SETTINGS, channels={"mail": lambda _: ending.set()}, ending=ending)

    assert DeliveryCounts(1, 0) == outcome
    assert 2 == nights.store.alerts.outbox.count_unsent()


def test_message_is_given_up_after_some_days_and_no_longer_waits(
    told: Nights, client: TestClient, editor: TestClient
) -> None:
    def away(_: Message) -> None:
        raise ServiceError("the server is away")

    now = begun = message_of(told).made
    while deliver(told.store, SETTINGS, now=now, channels={"mail": away}).failed:
        now += timedelta(hours=4)

    assert timedelta(days=4) < now - begun
    assert 0 == client.get("/triage", headers={"Accept": "application/json"}).json()["waiting"]
    page = f"/triage/{message_of(told).item}"
    assert "given up: the server is away" in editor.get(page).text
    assert "given up: it could not be sent" in client.get(page).text


def test_what_was_sent_is_in_the_activity_log(told: Nights) -> None:
    deliver(told.store, SETTINGS, channels={"mail": lambda _: None})

    (item,) = told.items()
    newest = told.store.activity.newest(1, f"item {item.identity}")[0]
    assert ("alerts", "sent", "mail of alert 1") == (newest.user, newest.action, newest.detail)


def test_nobody_gets_a_mail_twice() -> None:
    rules = Rules("all", "", action="mail", target=" a@b.c, d@e.f;a@b.c ,")

    assert ["a@b.c", "d@e.f"] == notifications.targets_of(rules)


def test_two_senders_send_each_message_once(nights: Nights) -> None:
    for number in range(8):
        nights.store.alerts.add(Rules(f"{number}", "", action="mail", target="a@b.c"), user="ann")
    nights.evaluate()
    keys: list[str] = []
    threads = [
        threading.Thread(
            target=deliver,
            args=(nights.store, SETTINGS),
            kwargs={"channels": {"mail": lambda m: keys.append(m.key)}},
        )
        for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (8, 8) == (len(keys), len(set(keys)))


def test_without_a_server_the_reason_is_told(told: Nights) -> None:
    deliver(told.store, SETTINGS)

    assert "mail.server is not set" in message_of(told).error


def test_gerrit_is_told_of_a_whole_commit_only(told: Nights) -> None:
    known = Settings.load(environment={}, overrides={"gerrit.url": "https://review.example.org"})
    whole = message_of(told)
    short = {**whole.payload, "first_changed": {"revision": "0123abc", "moment": "2026-01-01T00:00:00Z"}}

    with pytest.raises(UsageError, match="known as '0123abc' only"):
        channels_of(known)["gerrit"](Message(1, "k", 1, 1, "gerrit", "vpp", short, whole.made, 1))
    with pytest.raises(SettingsError, match=r"gerrit\.url"):
        channels_of(SETTINGS)["gerrit"](Message(1, "k", 1, 1, "gerrit", "vpp", whole.payload, whole.made, 1))


def test_text_says_what_where_and_how_much(told: Nights) -> None:
    text = notifications.message_text(message_of(told).payload, "https://perf.example.org/triage/1")

    assert f"{TESTBED}: regression at 000000000000, 2 traces." == text.splitlines()[0]
    assert "- a mrr: " in text
    assert "Mpps → " in text
    assert text.endswith("https://perf.example.org/triage/1")


def test_html_escapes_what_tests_are_called(told: Nights) -> None:
    payload = dict(message_of(told).payload)
    payload["traces"] = [{**payload["traces"][0], "name": "<script>"}]

    assert "<script>" not in notifications.message_html(payload)


def test_testbed_is_evaluated_only_when_something_has_changed(
    nights: Nights, alert: Alert, site: AppContext
) -> None:
    seen: dict[str, evaluation.CompletedScan] = {}

    assert [True, False] == [evaluation.look_at(site, TESTBED, seen) for _ in range(2)]
    nights.measure(1)
    assert evaluation.look_at(site, TESTBED, seen)
    nights.store.alerts.add(Rules("more", ""), user="ann")
    assert evaluation.look_at(site, TESTBED, seen)
    nights.store.invalidations.add(nights.store.runs(TESTBED, last=1)[0], "a fan failed", author="ann")
    assert evaluation.look_at(site, TESTBED, seen)


def test_testbed_is_looked_at_again_when_it_has_fallen_silent(nights: Nights, site: AppContext) -> None:
    seen: dict[str, evaluation.CompletedScan] = {}
    soon = datetime.now(UTC) - nights.now + timedelta(hours=1)
    rules = Rules("runs", "", change=0.9, silent_hours=soon / timedelta(hours=1) + 1)
    nights.store.alerts.add(rules, user="ann")

    assert [True, False] == [evaluation.look_at(site, TESTBED, seen) for _ in range(2)]
    last = seen[TESTBED]
    assert last.silent_from is not None
    seen[TESTBED] = replace(last, silent_from=datetime.now(UTC) - timedelta(seconds=1))
    assert evaluation.look_at(site, TESTBED, seen)


@pytest.mark.parametrize(
    ("action", "settings", "problem"),
    [
        ("none", {}, ""),
        ("mail", {}, "mail.server is not set"),
        ("mail", {"PERFTREND_MAIL_SERVER": "localhost:25"}, ""),
        ("gerrit", {}, "gerrit.url is not set"),
        (
            "gerrit",
            {"PERFTREND_GERRIT_URL": "https://review.example.org", "PERFTREND_GERRIT_POST": "false"},
            "gerrit.post is off",
        ),
        ("webhook", {}, "dashboard.alert_secret is not set"),
        ("webhook", {"PERFTREND_DASHBOARD_ALERT_SECRET": "secret"}, ""),
    ],
)
def test_what_the_settings_lack_is_known_beforehand(
    action: str, settings: dict[str, str], problem: str
) -> None:
    told = delivery_problem(Settings.load(environment=settings, overrides={}), action)

    assert problem == told.partition(";")[0]


def test_gerrit_is_told_on_the_change_of_the_first_changed_commit(
    told: Nights, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[object] = []

    class Review:
        def patch_set_of(self, commit: str, *, project: str) -> tuple[SimpleNamespace, SimpleNamespace]:
            asked.append((commit, project))
            return SimpleNamespace(number=7), SimpleNamespace(number=2)

        def post(self, change: int, patch_set: int, verdict: ReviewVerdict) -> None:
            asked.append((change, patch_set, verdict.job, verdict.vote, verdict.text.splitlines()[0]))

    monkeypatch.setattr("perftrend.clients.gerrit.connect", lambda _: Review())
    message = message_of(told)
    settings = Settings.load(environment={}, overrides={"gerrit.url": "https://review.example.org"})

    channels_of(settings)["gerrit"](replace(message, action="gerrit", target="vpp"))

    first = "2n-clx: regression at 000000000000, 2 traces."
    assert [(commit(20), "vpp"), (7, 2, f"alert-1/item-{message.item}", None, first)] == asked


def test_webhook_gets_the_item_the_traces_and_the_key(told: Nights, monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[tuple[str, bytes, str]] = []
    monkeypatch.setattr(Webhooks, "post", lambda _, url, body, key: got.append((url, body, key)))
    settings = Settings.load(environment={}, overrides={"dashboard.url": "https://perf.example.org"})
    message = message_of(told)

    channels_of(settings)["webhook"](replace(message, target="https://example.org/hook"))

    ((url, body, key),) = got
    told_ = json.loads(body)
    assert ("https://example.org/hook", message.key) == (url, key)
    assert ["a", "b"] == sorted(each["parameters"]["test"] for each in told_["traces"])
    assert (key, f"https://perf.example.org/triage/{message.item}") == (told_["key"], told_["link"])


def test_watchman_makes_items_and_ends_when_told(
    nights: Nights, alert: Alert, site: AppContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    ending = threading.Event()
    delivered: list[int] = []

    def last(store: Store, _: Settings, *, ending: threading.Event) -> DeliveryCounts:
        delivered.append(store.alerts.outbox.count_unsent())
        ending.set()
        return DeliveryCounts(0, 0)

    monkeypatch.setattr(evaluation, "deliver", last)

    evaluation.evaluate_and_deliver(site, ending)

    assert [1] == delivered
    assert 1 == len(nights.items())


@pytest.mark.parametrize("error", [ZeroDivisionError("a defect"), UsageError("cannot be used")])
def test_defect_with_one_testbed_does_not_stop_the_others(
    nights: Nights, alert: Alert, site: AppContext, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    ending = threading.Event()
    looked: list[str] = []

    def look_at(_: AppContext, testbed: str, __: object) -> None:
        looked.append(testbed)
        if testbed == "a":
            raise error
        ending.set()

    monkeypatch.setattr(type(nights.store.tiles), "testbeds", lambda _: ["a", "b"])
    monkeypatch.setattr(evaluation, "look_at", look_at)

    evaluation.evaluate_and_deliver(site, ending)

    assert ["a", "b"] == looked
