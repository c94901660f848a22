"""Stored sessions are listed, ended and deleted when they have expired."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from perftrend.store import Store
from perftrend.store.access import MOST_PER_PERSON, StoredSession

MOMENT = datetime(2026, 3, 2, 18, tzinfo=UTC)
HOUR = timedelta(hours=1)
SESSION = StoredSession("a" * 64, "eva", ("perf", "ops"), MOMENT, MOMENT, "Firefox on Linux", "192.0.2.7")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


def add(store: Store, session: StoredSession) -> StoredSession:
    store.sessions.add(session, begun_before=session.begun - 12 * HOUR, used_before=session.used - 2 * HOUR)
    return session


def test_session_is_found_as_it_was_added(store: Store) -> None:
    add(store, SESSION)

    assert SESSION == store.sessions.find(SESSION.key)
    assert store.sessions.find("b" * 64) is None


def test_sessions_are_listed_by_their_last_use(store: Store) -> None:
    add(store, SESSION)
    add(store, replace(SESSION, key="b" * 64, used=MOMENT + HOUR))
    add(store, replace(SESSION, key="c" * 64, person="ada"))

    assert ["b", "a"] == [each.key[0] for each in store.sessions.all(person="eva")]
    assert ["b", "a", "c"] == [each.key[0] for each in store.sessions.all()]


def test_expired_sessions_are_deleted_with_the_next_sign_in(store: Store) -> None:
    add(store, SESSION)
    add(store, replace(SESSION, key="b" * 64, used=MOMENT + 3 * HOUR))
    add(store, replace(SESSION, key="c" * 64, begun=MOMENT + 4 * HOUR, used=MOMENT + 4 * HOUR))

    assert {"b", "c"} == {each.key[0] for each in store.sessions.all()}


def test_person_has_a_limited_number_of_sessions(store: Store) -> None:
    """The one that was unused for the longest time is deleted."""
    other = add(store, replace(SESSION, key="f" * 64, person="ada"))
    for number in range(MOST_PER_PERSON + 3):
        add(store, replace(SESSION, key=f"{number:064}", used=MOMENT + timedelta(seconds=number)))

    found = store.sessions.all(person="eva")

    assert (MOST_PER_PERSON, MOMENT + timedelta(seconds=3)) == (len(found), found[-1].used)
    assert [other] == store.sessions.all(person="ada")


def test_many_sessions_are_ended_at_once(store: Store) -> None:
    add(store, SESSION)

    assert 1 == store.sessions.end([f"{number:064}" for number in range(40_000)] + [SESSION.key])


def test_use_is_noted_without_a_change_of_pages(store: Store) -> None:
    add(store, SESSION)
    before = store.changes.own
    store.sessions.note_use(SESSION.key, MOMENT + HOUR)

    assert [MOMENT + HOUR] == [each.used for each in store.sessions.all()]
    assert before == store.changes.own


def test_ended_sessions_are_gone_and_recorded_once(store: Store) -> None:
    add(store, SESSION)
    other = add(store, replace(SESSION, key="b" * 64, person="ada"))

    assert [1, 0] == [store.sessions.end([SESSION.key, "c" * 64], user="ada") for _ in range(2)]
    assert [other] == store.sessions.all()
    assert [("ada", "ended", "session of eva")] == [
        (each.user, each.action, each.subject) for each in store.activity.newest(9)
    ]


def test_use_of_an_ended_session_does_not_revive_it(store: Store) -> None:
    add(store, SESSION)
    store.sessions.end([SESSION.key])
    store.sessions.note_use(SESSION.key, MOMENT)

    assert [] == store.sessions.all()
    assert [] == store.activity.newest(9)
