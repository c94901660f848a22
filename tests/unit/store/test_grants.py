"""Grants are unique by person and scope, edited from a version, and leave an admin."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perftrend.errors import UsageError
from perftrend.store import Store
from perftrend.store.access import ALL_TESTBEDS, Grant
from perftrend.store.activity import EditResult


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


def removed(store: Store, grant: Grant, *, is_last_admin_allowed: bool = True) -> EditResult[Grant]:
    return store.grants.remove(
        grant.identity, version=grant.version, user="ada", is_last_admin_allowed=is_last_admin_allowed
    )


def changed(
    store: Store, grant: Grant, role: str, *, is_last_admin_allowed: bool = True
) -> EditResult[Grant]:
    return store.grants.edit(
        grant.identity, role, version=grant.version, user="ada", is_last_admin_allowed=is_last_admin_allowed
    )


def test_grants_of_a_person_are_those_of_the_name_and_the_groups(store: Store) -> None:
    store.grants.add("eva", "2n-clx", "editor", user="ada")
    store.grants.add("group:perf", "3n-skx", "admin", user="ada")
    store.grants.add("perf", ALL_TESTBEDS, "admin", user="ada")

    found = store.grants.of({"eva", "group:perf"})

    assert [("eva", "2n-clx", "editor"), ("group:perf", "3n-skx", "admin")] == [
        (each.person, each.testbed, each.role) for each in found
    ]
    assert [] == store.grants.of([])


def test_second_grant_of_a_scope_is_rejected(store: Store) -> None:
    store.grants.add("eva", "2n-clx", "editor", user="ada")
    store.grants.add("eva", "3n-skx", "editor", user="ada")

    with pytest.raises(UsageError, match="eva is already editor on 2n-clx"):
        store.grants.add("eva", "2n-clx", "admin", user="ada")


def test_one_of_several_simultaneous_grants_succeeds(store: Store) -> None:
    def add(number: int) -> bool:
        try:
            store.grants.add("eva", "2n-clx", "editor", user=f"admin {number}")
        except UsageError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        done = list(threads.map(add, range(8)))

    assert [1, 1] == [sum(done), len(store.grants.all())]


def test_change_and_removal_are_recorded(store: Store) -> None:
    grant = store.grants.add("eva", ALL_TESTBEDS, "editor", user="ada")
    now = changed(store, grant, "admin").now
    assert now is not None
    removed(store, now)

    assert [
        ("withdrew", "admin on all testbeds"),
        ("granted", "admin on all testbeds, was editor"),
        ("granted", "editor on all testbeds"),
    ] == [(each.action, each.detail) for each in store.activity.newest(9, "role of eva")]


def test_edit_from_an_older_version_changes_nothing(store: Store) -> None:
    opened = store.grants.add("eva", "2n-clx", "editor", user="ada")
    now = changed(store, opened, "admin").now

    assert (False, now) == (removed(store, opened).is_done, removed(store, opened).now)
    assert [now] == store.grants.all()


def test_form_of_a_removed_grant_does_not_change_the_next_one(store: Store) -> None:
    opened = store.grants.add("eva", "2n-clx", "editor", user="ada")
    removed(store, opened)
    again = store.grants.add("eva", "2n-clx", "editor", user="ada")

    assert EditResult(is_done=False, now=None) == changed(store, opened, "admin")
    assert [again] == store.grants.all()


def test_last_admin_remains(store: Store) -> None:
    store.grants.add("eva", "2n-clx", "admin", user="ada")
    last = store.grants.add("ada", ALL_TESTBEDS, "admin", user="ada")

    with pytest.raises(UsageError, match="ada is the last admin"):
        removed(store, last, is_last_admin_allowed=False)
    with pytest.raises(UsageError, match="ada is the last admin"):
        changed(store, last, "editor", is_last_admin_allowed=False)
    store.grants.add("bob", ALL_TESTBEDS, "admin", user="ada")

    assert removed(store, last, is_last_admin_allowed=False).is_done


def test_two_admins_do_not_remove_each_other_at_once(store: Store) -> None:
    for _ in range(5):
        both = [store.grants.add(name, ALL_TESTBEDS, "admin", user="ada") for name in ("ada", "bob")]

        def remove(grant: Grant) -> None:
            removed(store, grant, is_last_admin_allowed=False)

        with ThreadPoolExecutor(2) as threads:
            errors = [each.exception() for each in [threads.submit(remove, grant) for grant in both]]

        assert [UsageError] == [type(each) for each in errors if each]
        [left] = store.grants.all()
        removed(store, left)
