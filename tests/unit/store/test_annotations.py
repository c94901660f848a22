"""Annotations of commits are stored, found and not lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from perftrend.errors import UsageError
from perftrend.store import Store
from perftrend.store.annotations import LONGEST_TEXT, Annotation

COMMIT = "0123456789abcdef0123456789abcdef01234567"
OTHER = "0123456fffffffffffffffffffffffffffffffff"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


def texts(store: Store, *commits: str, testbed: str | None = None) -> dict[str, list[str]]:
    found = store.annotations.of(commits, testbed=testbed)
    return {commit: [each.text for each in several] for commit, several in found.items()}


def acts(store: Store) -> list[tuple[str, str, str]]:
    return [(act.user, act.action, act.detail) for act in store.activity.newest(9)]


def test_annotation_is_found_by_its_commit(store: Store) -> None:
    added = store.annotations.add(COMMIT, "a new compiler\r\n", user="ann")

    assert {COMMIT: [added]} == store.annotations.of([COMMIT, OTHER])
    assert ("a new compiler", "ann", None, 1) == (added.text, added.author, added.edited, added.version)
    assert added == store.annotations.find(added.identity)


def test_begin_of_a_hash_is_enough_on_either_side(store: Store) -> None:
    store.annotations.add(COMMIT[:9], "short", user="ann")
    store.annotations.add(COMMIT, "whole", user="ann")

    assert {COMMIT: ["short", "whole"], COMMIT[:8]: ["short", "whole"]} == texts(store, COMMIT, COMMIT[:8])
    assert {} == texts(store, OTHER, "", "6.1.0", "%")


def test_annotation_of_another_testbed_is_left_out_where_one_is_asked_for(store: Store) -> None:
    store.annotations.add(COMMIT, "everywhere", user="ann")
    store.annotations.add(COMMIT, "a new card", user="ann", testbed="2n-clx")

    assert {COMMIT: ["everywhere", "a new card"]} == texts(store, COMMIT)
    assert {COMMIT: ["everywhere", "a new card"]} == texts(store, COMMIT, testbed="2n-clx")
    assert {COMMIT: ["everywhere"]} == texts(store, COMMIT, testbed="3n-icx")


def test_annotations_of_many_commits_are_found(store: Store) -> None:
    store.annotations.add(COMMIT, "here", user="ann")

    assert {COMMIT: ["here"]} == texts(store, *(f"{number:040x}" for number in range(3000)), COMMIT)


def test_edit_says_who_and_grows_the_version(store: Store) -> None:
    added = store.annotations.add(COMMIT, "before", user="ann")

    done = store.annotations.edit(added.identity, "after", version=1, user="bob")

    edited = done.now
    assert done.is_done
    assert edited is not None
    assert ("after", "ann", "bob", 2) == (edited.text, edited.author, edited.edited_by, edited.version)
    assert ("bob", "edited", f"was: {COMMIT}: before") == acts(store)[0]


def test_second_edit_of_one_version_changes_nothing(store: Store) -> None:
    added = store.annotations.add(COMMIT, "before", user="ann")
    first = store.annotations.edit(added.identity, "bob's", version=1, user="bob")

    second = store.annotations.edit(added.identity, "eve's", version=1, user="eve")

    assert (False, first.now) == (second.is_done, second.now)
    assert {COMMIT: ["bob's"]} == texts(store, COMMIT)
    assert "eve" not in str(acts(store))


def test_deleted_annotation_is_kept_in_the_activity_log(store: Store) -> None:
    added = store.annotations.add(COMMIT, "wrong", user="ann", testbed="2n-clx")

    assert store.annotations.delete(added.identity, version=1, user="bob").is_done

    assert {} == texts(store, COMMIT)
    assert ("bob", "deleted", f"was: {COMMIT} on 2n-clx: wrong") == acts(store)[0]


def test_deletion_of_what_was_edited_since_changes_nothing(store: Store) -> None:
    added = store.annotations.add(COMMIT, "before", user="ann")
    store.annotations.edit(added.identity, "after", version=1, user="bob")

    assert not store.annotations.delete(added.identity, version=1, user="eve").is_done
    assert {COMMIT: ["after"]} == texts(store, COMMIT)


def test_edit_of_a_deleted_annotation_never_changes_another(store: Store) -> None:
    added = store.annotations.add(COMMIT, "first", user="ann")
    store.annotations.delete(added.identity, version=1, user="ann")
    store.annotations.add(COMMIT, "second", user="ann")

    done = store.annotations.edit(added.identity, "late", version=1, user="bob")

    assert (False, None) == (done.is_done, done.now)
    assert {COMMIT: ["second"]} == texts(store, COMMIT)


def test_newest_come_first_and_page_by_page(store: Store) -> None:
    added = [store.annotations.add(COMMIT, text, user="ann") for text in ("a", "b", "c")]

    assert ["c", "b"] == told(store.annotations.newest(2))
    assert ["a"] == told(store.annotations.newest(2, before=added[1].identity))


def told(annotations: list[Annotation]) -> list[str]:
    return [each.text for each in annotations]


@pytest.mark.parametrize("commit", ["", "0123", "0123456g", "0" * 41, "../etc", "0123456%"])
def test_what_is_no_hash_is_refused(store: Store, commit: str) -> None:
    with pytest.raises(UsageError, match="hex digits"):
        store.annotations.add(commit, "text", user="ann")


@pytest.mark.parametrize("text", ["", " \n", "x" * (LONGEST_TEXT + 1)])
def test_text_is_neither_empty_nor_endless(store: Store, text: str) -> None:
    added = store.annotations.add(COMMIT, "x" * LONGEST_TEXT, user="ann")

    with pytest.raises(UsageError, match="the text"):
        store.annotations.add(COMMIT, text, user="ann")
    with pytest.raises(UsageError, match="the text"):
        store.annotations.edit(added.identity, text, version=1, user="ann")
