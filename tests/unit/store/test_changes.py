"""Changes of the database are detected without reading the tables."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perftrend.store import Store


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "store.sqlite"


@pytest.fixture
def store(place: Path) -> Iterator[Store]:
    with Store.open(place) as opened:
        yield opened


@pytest.fixture
def other(store: Store, place: Path) -> Iterator[Store]:
    """Give the same store as another process has it."""
    with Store.open(place) as opened:
        yield opened


def annotate(store: Store) -> None:
    store.annotations.add("c" * 40, "seen", user="eva")


def test_state_stays_as_long_as_nobody_writes(store: Store, other: Store) -> None:
    before = store.changes.state()
    other.annotations.newest(1)
    store.tiles.testbeds()

    assert before == store.changes.state()


def test_state_changes_with_a_commit_of_another_process(store: Store, other: Store) -> None:
    states = [store.changes.state()]
    for _ in range(3):
        annotate(other)
        states.append(store.changes.state())

    assert len(states) == len(set(states))


def test_state_changes_with_a_commit_of_this_process(store: Store) -> None:
    before = store.changes.state()
    annotate(store)

    assert before != store.changes.state()


def test_commit_of_this_process_is_known_at_once(store: Store, other: Store) -> None:
    before = store.changes.own
    annotate(other)
    read = store.changes.own
    annotate(store)

    assert (before, before + 1) == (read, store.changes.own)


def test_commit_that_nobody_waits_for_is_found_by_the_state_alone(store: Store) -> None:
    own, state = store.changes.own, store.changes.state()
    with store.changes.suspend_commit_count():
        annotate(store)

    assert own == store.changes.own
    assert state != store.changes.state()


@pytest.mark.sqlite
def test_state_of_a_new_connection_is_another_one(store: Store) -> None:
    """Their counts begin anew, and have nothing to do with each other."""
    before = store.changes.state()
    store.changes.close()

    assert before != store.changes.state()
