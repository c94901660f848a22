"""Alerts, items and the outbox in a real database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perftrend.model import MeasuredCommit, Run, SuspectRange
from perftrend.store import Store
from perftrend.store.alerts import (
    SNOOZED,
    Item,
    ItemSelection,
    Override,
    Rules,
    Snooze,
    TriageEdit,
    span_columns,
)
from perftrend.store.requests import Request

NOW = datetime(2026, 3, 1, tzinfo=UTC)
RULES = Rules("all", "")
REQUEST = Request(
    key="k", change=1, patch_set=2, project="router", branch="master", revision="a" * 40, ref="r", review="m",
    comment="c", path=None, account="1", asked=NOW, place=0, line="perftest-tb", job="perftest", testbed="tb",
)  # fmt: skip


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


def span(day: int = 0) -> SuspectRange:
    return SuspectRange(
        MeasuredCommit(NOW + timedelta(days=day - 1), "0" * 40),
        MeasuredCommit(NOW + timedelta(days=day), "1" * 40),
    )


def finding(trace: str, *, size: float = -0.1) -> dict[str, object]:
    return {
        "trace": trace, **span_columns(span()),
        "before": 10.0, "after": 10.0 * (1 + size), "low": None, "high": None, "confidence": None,
    }  # fmt: skip


def add_item(
    store: Store, *, kind: str = "regression", day: int = 0, size: float = -0.1, traces: str = "a"
) -> Item:
    """Put an item with a finding of each trace into a store."""
    with store.alerts.night("tb", newest_run=1, since=None) as night:
        item = night.add_item(kind, span(day), owner="ann", now=NOW)
        night.add_findings(item, kind, [finding(trace * 32, size=size) for trace in traces], now=NOW)
        night.describe(item, span(day), night.findings_of(item)[0], traces=len(traces))
    return one(store, item)


def one(store: Store, identity: int) -> Item:
    item = store.alerts.items.one(identity)
    assert item is not None
    return item


def send(store: Store, item: int, key: str = "k") -> None:
    with store.alerts.night("tb", newest_run=1, since=None) as night:
        night.send(key, item=item, alert=1, action="mail", target="a@b.c", payload={"x": 1}, now=NOW)


def test_items_are_shown_regressions_first_then_newest_then_largest(store: Store) -> None:
    silence = add_item(store, kind="silence", day=9)
    better = add_item(store, kind="progression", day=9, size=0.5)
    old = add_item(store, day=1)
    small = add_item(store, day=5, size=-0.02)
    large = add_item(store, day=5, size=-0.2)

    found, total = store.alerts.items.select(ItemSelection(), limit=4)

    assert [large, small, old, better] == found
    assert 5 == total
    assert [silence] == store.alerts.items.select(ItemSelection(), limit=4, offset=4)[0]


def test_items_are_chosen_by_what_is_known_of_them(store: Store) -> None:
    item = add_item(store)
    items = store.alerts.items

    for fits in (
        ItemSelection(statuses=["new"]),
        ItemSelection(kinds=["regression"]),
        ItemSelection(testbed="tb"),
        ItemSelection(owner="ann"),
        ItemSelection(traces=["a" * 32]),
    ):
        assert ([item], 1) == items.select(fits, limit=5)
    for fits_not in (
        ItemSelection(statuses=["bug"]),
        ItemSelection(testbed="x"),
        ItemSelection(owner="bob"),
        ItemSelection(traces=[]),
    ):
        assert ([], 0) == items.select(fits_not, limit=5)


@pytest.mark.parametrize(
    ("kind", "begin", "end", "is_beside"),
    [
        ("regression", (-20, "0"), (3, "1"), True),
        ("regression", (-40, "8"), (-10, "9"), True),
        ("progression", (-20, "0"), (3, "1"), False),
        # Measured an hour earlier there, but the next commit.
        ("regression", (-1, "1"), (23, "2"), False),
        ("regression", (-48, "8"), (-23, "0"), False),
        ("regression", (1, "2"), (23, "3"), False),
    ],
)
def test_items_of_other_testbeds_stand_beside_one_where_a_commit_may_explain_both(
    store: Store, kind: str, begin: tuple[int, str], end: tuple[int, str], *, is_beside: bool
) -> None:
    """The item is of the commits after 0, measured a day before, up to 1, measured now."""
    item = add_item(store)
    add_item(store, day=0)
    (at, old), (until, new) = begin, end
    where = SuspectRange(
        MeasuredCommit(NOW + timedelta(hours=at), old * 40),
        MeasuredCommit(NOW + timedelta(hours=until), new * 40),
    )
    with store.alerts.night("another", newest_run=1, since=None) as night:
        other = night.add_item(kind, where, owner="", now=NOW)

    assert [other] * is_beside == [each.identity for each in store.alerts.items.find_related(item, limit=9)]


def test_reported_changes_are_grouped_by_what_became_of_them(store: Store) -> None:
    with store.alerts.night("tb", newest_run=1, since=None) as night:
        item = night.add_item("regression", span(), owner="ann", now=NOW)
        confidences = {"a": 0.999, "b": 0.99, "c": 0.97, "d": 0.5, "e": None}
        found = [{**finding(trace * 32), "confidence": sure} for trace, sure in confidences.items()]
        night.add_findings(item, "regression", found, now=NOW)
        silence = night.add_item("silence", span(), owner="ann", now=NOW)
        night.add_findings(silence, "silence", [{**finding("f" * 32), "confidence": 1.0}], now=NOW)
        gone = next(each.identity for each in night.findings_of(item) if each.trace[0] == "b")
        night.set_gone([gone], now=NOW + timedelta(days=3))

    reported = store.alerts.calibration.reported(NOW)

    assert {(0.99, None, 1), (0.99, NOW + timedelta(days=3), 1), (0.95, None, 1), (0.0, None, 1)} == {
        (each.level, each.gone, each.count) for each in reported
    }
    assert {("tb", NOW, "new")} == {(each.testbed, each.found, each.status) for each in reported}
    assert [] == store.alerts.calibration.reported(NOW + timedelta(seconds=1))


def test_time_of_a_testbed_is_that_of_its_nights_and_requests(store: Store) -> None:
    hour = timedelta(hours=1)
    for build in range(2):
        started = NOW + build * timedelta(days=1)
        store.add(Run("tb", "nightly", build + 1, started, started + hour, {}), [])
    store.add(Run("tb", "lab", 1, NOW, NOW + hour, {}, experiment="new card"), [])
    store.requests.add([replace(REQUEST, began=NOW, duration_s=1800.0)])

    (of_tb,) = store.alerts.calibration.times(NOW)

    assert ("tb", [NOW, NOW + timedelta(days=1)], 2 * 3600.0 + 1800.0) == (
        of_tb.testbed, list(of_tb.starts), of_tb.duration_s,
    )  # fmt: skip
    assert [1] == [len(each.starts) for each in store.alerts.calibration.times(NOW + hour)]


def test_edit_from_an_older_version_changes_nothing(store: Store) -> None:
    item = add_item(store)
    store.alerts.items.triage([TriageEdit(item.identity, 1, "bug", "#1")], user="ann")

    late = store.alerts.items.triage([TriageEdit(item.identity, 1, "ignored", "noise")], user="bob")

    assert not late.is_done
    assert ("bug", "#1", "ann") == (
        late.refused[0].status,
        late.refused[0].message,
        late.refused[0].changed_by,
    )
    assert ["ann", "evaluation"] == [act.user for act in store.activity.newest(5, item.subject)]


def test_same_said_twice_is_no_conflict(store: Store) -> None:
    item = add_item(store)
    edit = TriageEdit(item.identity, 1, "bug", "#1")
    store.alerts.items.triage([edit], user="ann")

    assert store.alerts.items.triage([edit], user="bob").is_done


def test_undo_brings_status_and_message_back_and_can_be_undone(store: Store) -> None:
    item = add_item(store)
    items = store.alerts.items
    items.triage([TriageEdit(item.identity, 1, "bug", "#1")], user="ann")

    items.undo({item.identity: 2}, user="ann")
    undone = one(store, item.identity)
    items.undo({item.identity: 3}, user="ann")

    assert ("new", "", 3) == (undone.status, undone.message, undone.version)
    assert ("bug", "#1") == (one(store, item.identity).status, one(store, item.identity).message)


def test_undo_of_what_somebody_changed_since_is_refused(store: Store) -> None:
    item = add_item(store)
    items = store.alerts.items
    items.triage([TriageEdit(item.identity, 1, "bug")], user="ann")
    items.triage([TriageEdit(item.identity, 2, "closed")], user="bob")

    assert not items.undo({item.identity: 2}, user="ann").is_done


def traces_of(store: Store, item: int) -> list[str]:
    return sorted(each.trace[0] for each in store.alerts.items.findings(item))


def test_merged_items_are_one_until_the_merge_is_undone(store: Store) -> None:
    whole, part = add_item(store, traces="ab"), add_item(store, day=1, traces="c")
    items = store.alerts.items

    merged = items.merge({whole.identity: 1, part.identity: 1}, user="ann")

    assert merged.is_done
    assert [part.identity] == items.merged(whole.identity)
    assert ["a", "b", "c"] == traces_of(store, whole.identity)
    assert [whole.identity] == [item.identity for item in items.select(ItemSelection(["new"]), limit=5)[0]]
    assert items.undo({part.identity: one(store, part.identity).version}, user="ann").is_done
    assert (["a", "b"], ["c"]) == (traces_of(store, whole.identity), traces_of(store, part.identity))


def test_items_that_two_people_merge_at_once_are_merged_once(store: Store) -> None:
    whole, part = add_item(store, traces="ab"), add_item(store, day=1, traces="c")
    outcomes = []

    def merge(user: str) -> None:
        outcomes.append(store.alerts.items.merge({whole.identity: 1, part.identity: 1}, user=user).is_done)

    people = [threading.Thread(target=merge, args=[user]) for user in ("ann", "bob")]
    for each in people:
        each.start()
    for each in people:
        each.join()

    assert [False, True] == sorted(outcomes)
    assert ["a", "b", "c"] == traces_of(store, whole.identity)


def test_traces_are_split_off_into_a_new_item(store: Store) -> None:
    item = add_item(store, traces="abc")

    old, new = store.alerts.items.split(item.identity, 1, ["c" * 32], user="ann").now

    assert (["a", "b"], ["c"]) == (traces_of(store, old.identity), traces_of(store, new.identity))
    assert (2, 1) == (old.traces, new.traces)


@pytest.mark.parametrize(
    "snooze", [Snooze(until=datetime(2100, 1, 1, tzinfo=UTC)), Snooze(job="nightly", build=9)]
)
def test_snooze_and_owner_are_stored_and_undone(store: Store, snooze: Snooze) -> None:
    item = add_item(store)
    items = store.alerts.items
    items.triage([TriageEdit(item.identity, 1, SNOOZED, "a fan", owner="bob", snooze=snooze)], user="ann")

    snoozed = one(store, item.identity)
    items.undo({item.identity: snoozed.version}, user="ann")

    assert (SNOOZED, "bob", snooze) == (snoozed.status, snoozed.owner, snoozed.triage.snooze)
    undone = one(store, item.identity)
    assert ("new", "ann", None) == (undone.status, undone.owner, undone.triage.snooze)


def test_item_that_a_person_closed_is_not_opened_by_an_evaluation(store: Store) -> None:
    item = add_item(store)
    store.alerts.items.triage([TriageEdit(item.identity, 1, "closed", "fixed")], user="ann")

    with store.alerts.night("tb", newest_run=1, since=None) as night:
        assert not night.reopen(item.identity, now=NOW)
        assert not night.close(item.identity, "no longer found", now=NOW)


def test_edit_and_deletion_of_an_alert_need_its_version(store: Store) -> None:
    alert = store.alerts.add(RULES, user="ann")
    store.alerts.edit(alert.identity, replace(RULES, name="b"), version=1, user="bob")

    late = store.alerts.edit(alert.identity, replace(RULES, name="c"), version=1, user="ann")
    deleted = store.alerts.delete(alert.identity, version=1, user="ann")

    assert (False, False) == (late.is_done, deleted.is_done)
    assert late.now is not None
    assert ("b", "bob", 2) == (late.now.rules.name, late.now.changed_by, late.now.version)


def test_deleted_alert_sends_nothing_more_and_keeps_its_items(store: Store) -> None:
    alert = store.alerts.add(RULES, user="ann")
    item = add_item(store)
    store.alerts.override(Override(alert.identity, "a" * 32, change=0.5), version=1, user="ann")
    with store.alerts.night("tb", newest_run=1, since=None) as night:
        assert night.link(item.identity, alert.identity)
        assert not night.link(item.identity, alert.identity)
    send(store, item.identity)

    assert store.alerts.delete(alert.identity, version=2, user="ann").is_done
    assert 0 == store.alerts.outbox.count_unsent()
    assert [] == store.alerts.overrides()
    assert item == one(store, item.identity)


def test_newest_run_of_each_job_is_the_one_that_ended_last(store: Store) -> None:
    for job, build, hours in (("nightly", 1, 24), ("nightly", 2, 48), ("nightly", 3, 36), ("weekly", 1, 12)):
        end = NOW + timedelta(hours=hours)
        store.add(Run("tb", job, build, end - timedelta(hours=1), end), [])
    store.add(Run("another", "nightly", 1, NOW, NOW + timedelta(days=9)), [])

    assert {"nightly": NOW + timedelta(hours=48), "weekly": NOW + timedelta(hours=12)} == store.alerts.newest(
        "tb"
    )


def test_alert_that_is_switched_off_sends_nothing_more(store: Store) -> None:
    alert = store.alerts.add(RULES, user="ann")
    other = store.alerts.add(RULES, user="ann")
    item = add_item(store)
    for number, key in ((alert.identity, "a"), (other.identity, "b")):
        with store.alerts.night("tb", newest_run=1, since=None) as night:
            night.send(
                key, item=item.identity, alert=number, action="mail", target="a@b.c", payload={}, now=NOW
            )

    store.alerts.edit(alert.identity, replace(RULES, enabled=False), version=1, user="ann")

    assert ["b"] == [message.key for message in store.alerts.outbox.of(item.identity)]


def test_message_is_taken_by_one_at_a_time(store: Store) -> None:
    send(store, add_item(store).identity)
    outbox = store.alerts.outbox

    taken = outbox.claim(now=NOW, most_attempts=5)

    assert taken is not None
    assert outbox.claim(now=NOW, most_attempts=5) is None
    outbox.mark(taken, now=NOW)
    assert outbox.claim(now=NOW + timedelta(days=1), most_attempts=5) is None
    assert 0 == outbox.count_unsent()


def test_message_of_a_sender_that_was_killed_is_taken_again_with_the_same_key(store: Store) -> None:
    send(store, add_item(store).identity, "key-1")
    outbox = store.alerts.outbox
    outbox.claim(now=NOW, most_attempts=5)

    again = outbox.claim(now=NOW + timedelta(hours=1), most_attempts=5)

    assert again is not None
    assert ("key-1", 2) == (again.key, again.attempts)


def test_message_is_given_up_in_the_end_and_says_why(store: Store) -> None:
    item = add_item(store)
    send(store, item.identity)
    outbox = store.alerts.outbox
    for attempt in range(2):
        taken = outbox.claim(now=NOW + timedelta(days=attempt), most_attempts=2)
        assert taken is not None
        outbox.release(taken, "no answer", due=NOW + timedelta(days=attempt))

    assert outbox.claim(now=NOW + timedelta(days=9), most_attempts=2) is None
    assert ["no answer"] == [message.error for message in outbox.of(item.identity)]


def test_many_senders_take_each_message_once(store: Store) -> None:
    item = add_item(store).identity
    for number in range(20):
        send(store, item, f"k{number}")
    keys: list[str] = []

    def take() -> None:
        while taken := store.alerts.outbox.claim(now=NOW, most_attempts=5):
            keys.append(taken.key)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(f"k{number}" for number in range(20)) == sorted(keys)
