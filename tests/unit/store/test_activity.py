"""The activity log, the API tokens and what may be used once only."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perftrend.errors import StoreError
from perftrend.store import Store
from perftrend.store.access import Token
from perftrend.store.activity import record
from perftrend.store.connection import write_transaction

MOMENT = datetime(2026, 3, 2, 18, tzinfo=UTC)
DAY = timedelta(days=1)
TOKEN = Token(
    key="0123456789ab",
    hash="f" * 64,
    name="nightly",
    role="editor",
    owner="ada",
    made=MOMENT,
    expires=MOMENT + 90 * DAY,
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


def test_newest_come_first(store: Store) -> None:
    for number in range(5):
        store.activity.record("eva", "annotated", f"commit {number}")

    assert ["commit 4", "commit 3"] == [act.subject for act in store.activity.newest(2)]


def test_entry_comes_back_as_it_went_in(store: Store) -> None:
    begun = datetime.now(UTC)
    store.activity.record("Zoë", "annotated", "commit 1a2b", "it's 'quoted'\nand long")

    [act] = store.activity.newest(10)

    assert ("Zoë", "annotated", "commit 1a2b", "it's 'quoted'\nand long") == (
        act.user,
        act.action,
        act.subject,
        act.detail,
    )
    assert begun <= act.moment <= datetime.now(UTC)


def test_long_subject_is_cut_and_stops_nothing(store: Store) -> None:
    store.activity.record("eva", "annotated", "x" * 1000)

    assert ["x" * 255] == [act.subject for act in store.activity.newest(10)]


def test_log_is_filtered_and_read_page_by_page(store: Store) -> None:
    for number in range(6):
        store.activity.record(("eva", "ada")[number % 2], "did", f"subject {number % 3}", str(number))
    activity = store.activity

    assert ["5", "3", "1"] == [act.detail for act in activity.newest(9, user="ada")]
    assert ["4", "1"] == [act.detail for act in activity.newest(9, "subject 1")]
    assert ["1"] == [act.detail for act in activity.newest(9, "subject 1", user="ada")]
    first = activity.newest(4)
    assert ["1", "0"] == [act.detail for act in activity.newest(4, before=first[-1].number)]


def test_what_is_not_done_is_not_logged(store: Store) -> None:
    """An entry stands and falls with the transaction that it tells of."""
    with write_transaction(store._engine) as connection:
        record(connection, "eva", "annotated", "commit 1")
        connection.rollback()

    assert [] == store.activity.newest(10)


def test_token_comes_back_as_it_went_in(store: Store) -> None:
    store.tokens.add(TOKEN)

    assert TOKEN == store.tokens.find(TOKEN.key)
    assert [TOKEN] == store.tokens.all()
    assert store.tokens.find("other") is None
    assert [("ada", "made", "token nightly")] == acts(store)


def test_token_is_entered_once(store: Store) -> None:
    store.tokens.add(TOKEN)

    with pytest.raises(StoreError):
        store.tokens.add(TOKEN)


def test_token_is_revoked_by_who_comes_first(store: Store) -> None:
    store.tokens.add(TOKEN)

    assert store.tokens.revoke(TOKEN.key, "eva", MOMENT + DAY)
    assert not store.tokens.revoke(TOKEN.key, "ada", MOMENT + 2 * DAY)
    assert not store.tokens.revoke("other", "ada", MOMENT)
    assert replace(TOKEN, revoked=MOMENT + DAY, revoked_by="eva") == store.tokens.find(TOKEN.key)
    assert [("eva", "revoked", "token nightly"), ("ada", "made", "token nightly")] == acts(store)


def test_last_use_is_noted(store: Store) -> None:
    store.tokens.add(TOKEN)
    store.tokens.note_use(TOKEN.key, MOMENT + DAY)

    assert replace(TOKEN, used=MOMENT + DAY) == store.tokens.find(TOKEN.key)


def test_what_is_spent_is_spent_once(store: Store) -> None:
    assert not store.spent.has("a")
    assert store.spent.spend("a", MOMENT, MOMENT + DAY)
    assert not store.spent.spend("a", MOMENT, MOMENT + DAY)
    assert store.spent.has("a")
    assert not store.spent.has("b")


def test_what_is_refused_by_its_age_is_forgotten(store: Store) -> None:
    store.spent.spend("a", MOMENT, MOMENT + DAY)
    store.spent.spend("b", MOMENT + 2 * DAY, MOMENT + 3 * DAY)

    assert [False, True] == [store.spent.has("a"), store.spent.has("b")]


def test_of_many_at_once_one_spends(store: Store) -> None:
    with ThreadPoolExecutor(8) as threads:
        spent = list(threads.map(lambda _: store.spent.spend("a", MOMENT, MOMENT + DAY), range(40)))

    assert 1 == spent.count(True)


def acts(store: Store) -> list[tuple[str, str, str]]:
    return [(act.user, act.action, act.subject) for act in store.activity.newest(10)]


def test_groups_of_an_owner_are_those_of_the_last_sign_in(store: Store) -> None:
    own = replace(TOKEN, groups=("ops", "perf"))
    by_token = replace(TOKEN, key="1" * 12, parent=TOKEN.key)
    other = replace(TOKEN, key="2" * 12, owner="eva", groups=("perf",))
    for token in (own, by_token, other):
        store.tokens.add(token)

    store.tokens.update_groups("ada", ["perf"])

    assert [replace(own, groups=("perf",)), by_token, other] == [
        store.tokens.find(each.key) for each in (own, by_token, other)
    ]
