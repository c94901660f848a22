"""Clusters in the store: what clusterings write and what people write do not undo each other."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf
from pathlib import Path

import pytest

from perftrend.store import Store
from perftrend.store.clusterings import NewestClustering
from perftrend.store.clusters import Rule, StoredCluster

MOMENT = datetime(2026, 3, 2, 18, tzinfo=UTC)
TESTBED = "2n-clx"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "store.sqlite") as opened:
        yield opened


def cluster(
    *, regression: float = 200.0, testbed: str = TESTBED, name: str = "a", identity: int | None = None
) -> StoredCluster:
    return StoredCluster(
        testbed, MOMENT, f"commit-{name}", regression, {"name": name}, [[name, 0.5]], identity
    )


def adding(*clusters: StoredCluster) -> Rule:
    return lambda kept: [*kept, *clusters]


def claimed(store: Store, testbed: str = TESTBED) -> NewestClustering:
    store.clusterings.request(testbed, {}, "ann")
    task = store.clusterings.claim(MOMENT)
    assert task is not None
    return task


def filled(store: Store, *clusters: StoredCluster) -> list[int]:
    for testbed in sorted({each.testbed for each in clusters}):
        of_testbed = [each for each in clusters if each.testbed == testbed]
        store.clusters.merge(claimed(store, testbed), adding(*of_testbed), {})
    return sorted(each.identity or 0 for each in store.clusters.select())


def test_cluster_comes_back_as_it_was_found(store: Store) -> None:
    [identity] = filled(store, cluster(regression=-inf))

    [listed] = store.clusters.select()
    whole = store.clusters.one(identity)
    assert whole is not None
    assert (TESTBED, MOMENT, "commit-a", -inf, {"name": "a"}) == (
        whole.testbed, whole.moment, whole.commit, whole.regression, whole.summary,
    )  # fmt: skip
    assert [["a", 0.5]] == whole.members
    assert ("New", "", 1, None, "") == (
        whole.status, whole.message, whole.version, whole.changed, whole.changed_by,
    )  # fmt: skip
    assert () == listed.members
    assert None is store.clusters.one(identity + 1)


def test_largest_statistic_is_first_whatever_its_sign(store: Store) -> None:
    filled(store, *(cluster(regression=each) for each in (160.0, -300.0, 200.0, -inf)))

    assert [-inf, -300.0, 200.0, 160.0] == [each.regression for each in store.clusters.select()]
    assert [200.0] == [each.regression for each in store.clusters.select(limit=1, offset=2)]


def test_what_was_found_last_can_be_first(store: Store) -> None:
    older, newer = cluster(name="a", regression=300), cluster(name="b")
    filled(store, replace(older, found=MOMENT), replace(newer, found=MOMENT + timedelta(days=1)))

    assert ["commit-b", "commit-a"] == [each.commit for each in store.clusters.select(newest=True)]


def test_clusters_are_chosen_and_counted_by_testbed_and_status(store: Store) -> None:
    first, _, _ = filled(store, cluster(), cluster(name="b"), cluster(name="c", testbed="3n-skx"))
    store.clusters.triage({first: 1}, status="Bug", message="7", user="ann")

    assert {"New": 2, "Bug": 1} == store.clusters.counts()
    assert {"New": 1, "Bug": 1} == store.clusters.counts(TESTBED)
    assert [first] == [each.identity for each in store.clusters.select(TESTBED, status="Bug")]


def test_clustering_replaces_what_was_found_and_leaves_what_was_said(store: Store) -> None:
    [identity] = filled(store, cluster())
    found = store.clusters.one(identity)
    assert found is not None
    task = claimed(store)
    store.clusters.triage({identity: 1}, status="Ignore", message="noise", user="ann")

    merged = store.clusters.merge(task, lambda _: [cluster(regression=400, identity=identity)], {"k": 3})

    now = store.clusters.one(identity)
    assert now is not None
    assert merged is not None
    assert (0, 1) == (merged.added, merged.replaced)
    assert (400, "Ignore", "noise", 2) == (now.regression, now.status, now.message, now.version)
    assert found.found == now.found
    ended = store.clusterings.of(TESTBED)
    assert ended is not None
    assert {"k": 3, "added": 0, "replaced": 1} == ended.result


def test_clustering_sees_what_people_said_meanwhile(store: Store) -> None:
    [identity] = filled(store, cluster())
    task = claimed(store)
    store.clusters.triage({identity: 1}, status="Bug", message="7", user="ann")
    seen: list[StoredCluster] = []

    def rule(kept: Sequence[StoredCluster]) -> Sequence[StoredCluster]:
        seen.extend(kept)
        return kept

    merged = store.clusters.merge(task, rule, {})

    assert merged is not None
    assert (0, 0) == (merged.added, merged.replaced)
    assert [("Bug", "7")] == [(each.status, each.message) for each in seen]


def test_clustering_that_another_process_has_taken_over_changes_nothing(store: Store) -> None:
    slow = claimed(store)
    fast = store.clusterings.claim(MOMENT + timedelta(hours=1))
    assert fast is not None
    store.clusters.merge(fast, adding(cluster()), {})

    assert None is store.clusters.merge(slow, adding(cluster(name="b")), {})
    assert ["commit-a"] == [each.commit for each in store.clusters.select()]


def test_second_of_two_people_is_told_and_nothing_is_lost(store: Store) -> None:
    [identity] = filled(store, cluster())
    first = store.clusters.triage({identity: 1}, status="Bug", message="7", user="ann")

    second = store.clusters.triage({identity: 1}, status="Ignore", message="noise", user="bob")

    assert first.is_done
    assert not second.is_done
    [theirs] = second.refused
    assert ("Bug", "7", "ann", 2) == (theirs.status, theirs.message, theirs.changed_by, theirs.version)
    assert ["Bug"] == [each.status for each in store.clusters.select()]
    assert ["ann", "clustering"] == [act.user for act in store.activity.newest(9, f"cluster {identity}")]


def test_two_people_at_the_very_same_time_are_one_after_the_other(store: Store) -> None:
    [identity] = filled(store, cluster())
    begin = threading.Barrier(8)
    done: list[bool] = []

    def say(who: str) -> None:
        begin.wait()
        done.append(store.clusters.triage({identity: 1}, status="Ignore", message=who, user=who).is_done)

    people = [threading.Thread(target=say, args=(f"person {number}",)) for number in range(8)]
    for person in people:
        person.start()
    for person in people:
        person.join()

    [now] = store.clusters.select()
    assert 1 == done.count(True)
    assert (2, now.changed_by) == (now.version, now.message)


def test_several_are_changed_together_or_not_at_all(store: Store) -> None:
    one, other = filled(store, cluster(), cluster(name="b"))
    store.clusters.triage({one: 1}, status="Bug", message="7", user="ann")

    both = store.clusters.triage({one: 1, other: 1}, status="Ignore", message=None, user="bob")

    assert not both.is_done
    assert [one] == [each.identity for each in both.refused]
    assert {"Bug": 1, "New": 1} == store.clusters.counts()


def test_each_keeps_its_own_message_where_none_is_given(store: Store) -> None:
    one, other = filled(store, cluster(), cluster(name="b"))
    store.clusters.triage({one: 1}, status="Bug", message="7", user="ann")

    store.clusters.triage({one: 2, other: 1}, status="Ignore", message=None, user="ann")

    said = {each.identity: (each.status, each.message) for each in store.clusters.select()}
    assert {one: ("Ignore", "7"), other: ("Ignore", "")} == said


def test_saying_the_same_again_is_no_change(store: Store) -> None:
    [identity] = filled(store, cluster())
    for _ in range(2):
        assert store.clusters.triage({identity: 1}, status="Bug", message="7", user="ann").is_done

    assert [2] == [each.version for each in store.clusters.select()]
    said, _ = (act.detail for act in store.activity.newest(9, f"cluster {identity}"))
    assert "New → Bug: 7" == said


def test_cluster_that_is_gone_is_told(store: Store) -> None:
    [identity] = filled(store, cluster())

    triaged = store.clusters.triage({identity: 1, 99: 1}, status="Bug", message="", user="ann")

    assert (99,) == triaged.gone
    assert {"New": 1} == store.clusters.counts()


def test_reset_keeps_bugs_and_the_log_keeps_what_was_said(store: Store) -> None:
    bug, ignored, _ = filled(store, cluster(), cluster(name="b"), cluster(name="c"))
    store.clusters.triage({bug: 1}, status="Bug", message="7", user="ann")
    store.clusters.triage({ignored: 1}, status="Ignore", message="noise", user="ann")

    assert 2 == store.clusters.reset(TESTBED, except_status="Bug", user="bob")

    assert [bug] == [each.identity for each in store.clusters.select()]
    [newest] = store.activity.newest(1)
    assert ("bob", f"2 deleted; {ignored} Ignore: noise") == (newest.user, newest.detail)


def test_reset_of_a_testbed_leaves_the_others(store: Store) -> None:
    filled(store, cluster(), cluster(testbed="3n-skx"))

    assert 1 == store.clusters.reset("3n-skx", except_status="Bug", user="bob")
    assert [TESTBED] == [each.testbed for each in store.clusters.select()]


def test_identity_of_a_deleted_cluster_is_not_used_again(store: Store) -> None:
    [deleted] = filled(store, cluster())
    store.clusters.reset(None, except_status="Bug", user="bob")

    assert deleted not in filled(store, cluster(name="b"))
