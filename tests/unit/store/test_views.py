"""Views: pages with all their choices, under a name for everybody."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from perftrend.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


def names(store: Store, path: str | None = None) -> list[str]:
    return [view.name for view in store.views.all(path)]


def test_views_of_a_page_are_listed_by_name(store: Store) -> None:
    for name, path in (("b", "/explore"), ("a", "/explore"), ("c", "/triage")):
        store.views.save(name, path, "q=1", user="ann")

    assert ["a", "b"] == names(store, "/explore")
    assert {"a", "b", "c"} == {*names(store)}
    assert "/triage?q=1" == store.views.all("/triage")[0].url


def test_name_belongs_to_one_page_until_it_is_deleted(store: Store) -> None:
    first = store.views.save("morning", "/triage", "status=bug", user="ann")
    denied = store.views.save("morning", "/explore", "", user="bob")

    assert (True, False) == (first.is_done, denied.is_done)
    assert denied.now is not None
    assert "ann" == denied.now.author
    assert first.now is not None
    assert first.now == store.views.delete(first.now.identity, user="bob")
    assert store.views.delete(first.now.identity, user="bob") is None
    assert store.views.save("morning", "/explore", "", user="bob").is_done
    assert ["bob", "bob", "ann"] == [act.user for act in store.activity.newest(3)]


def test_name_that_several_choose_at_once_belongs_to_one(store: Store) -> None:
    outcomes: list[bool] = []

    def save(number: int) -> None:
        outcomes.append(store.views.save("morning", "/explore", f"q={number}", user="ann").is_done)

    savers = [threading.Thread(target=save, args=[number]) for number in range(8)]
    for each in savers:
        each.start()
    for each in savers:
        each.join()

    assert 1 == outcomes.count(True)
    assert ["morning"] == names(store)
