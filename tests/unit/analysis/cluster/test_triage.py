from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.cluster import (
    Cluster,
    ClusterDecision,
    KnownCluster,
    TriageStatus,
    as_known_cluster,
    find_clusters,
    merge,
    reset,
)
from perftrend.errors import SettingsError
from perftrend.model import TraceKey

WINDOW = ["c1", "c2", "c3"]
COMMITS = [f"c{number}" for number in range(15)]
BUG = ClusterDecision(TriageStatus.BUG, "4711")


def cluster(
    *members: int | str,
    regression: float = 200.0,
    identity: int | None = None,
    commit: str = "c1",
    details: str = "",
    triage: ClusterDecision = ClusterDecision(),  # noqa: B008 - it is frozen
) -> KnownCluster[str]:
    return KnownCluster(tuple(map(str, members)), regression, commit, details, identity, triage)


@pytest.mark.parametrize(
    ("regressions", "third"),
    [((400, 300, 200), [3, 4]), ((300, 400, 200), [3]), ((200, 300, 400), [4]), ((-300, 200, -400), [4])],
)
def test_documented_example(regressions: tuple[float, ...], third: list[int]) -> None:
    """C[1], C[2], C[3,4] and N[1], N[3], N[4], N[5] are C[1] or N[1], C[2], C[3,4] or N[3] or N[4], N[5]."""
    known, first, second = regressions
    old = [
        cluster(1, regression=250, identity=1),
        cluster(2, identity=2),
        cluster(3, 4, regression=known, identity=3, triage=BUG),
    ]
    found = [
        cluster(1, regression=-260, details="of now"),
        cluster(3, regression=first),
        cluster(4, regression=second),
        cluster(5),
    ]

    merged = merge(old, found, commits=WINDOW)

    assert [1, 2, 3, None] == [each.identity for each in merged]
    assert [("1",), ("2",), tuple(map(str, third)), ("5",)] == [each.members for each in merged]
    assert (-260, "of now") == (merged[0].regression, merged[0].details)
    assert merged[1] is old[1]
    assert max(map(abs, regressions)) == abs(merged[2].regression)
    assert BUG == merged[2].triage
    assert ClusterDecision(TriageStatus.NEW, "") == merged[3].triage


def test_larger_regression_brings_its_commit_and_its_members_along() -> None:
    old = cluster(
        1, 2, regression=160, identity=7, commit="c1", triage=ClusterDecision(TriageStatus.IGNORE, "known")
    )
    new = cluster(9, 1, regression=-170, commit="c2", details="now")

    assert merge([old], [new], commits=WINDOW) == [replace(new, identity=7, triage=old.triage)]


@pytest.mark.parametrize("regression", [150.0, -200.0, math.nan])
def test_known_cluster_stays_unless_the_new_one_is_larger(regression: float) -> None:
    old = cluster(1, identity=7)

    (merged,) = merge([old], [cluster(1, regression=regression)], commits=WINDOW)
    assert merged is old


def test_most_matches_decide() -> None:
    old = [cluster(1, 2, identity=1), cluster(3, 4, 5, identity=2), cluster(6, 7, identity=3)]

    merged = merge(old, [cluster(1, 3, 4, 6, 7, 5, regression=900)], commits=WINDOW)

    assert [200, 900, 200] == [each.regression for each in merged]


def test_first_of_as_many_matches_is_taken() -> None:
    old = [cluster(1, identity=1), cluster(2, identity=2)]

    assert [900, 200] == [
        each.regression for each in merge(old, [cluster(2, 1, regression=900)], commits=WINDOW)
    ]


def test_only_the_first_20_members_are_the_fingerprint() -> None:
    old = cluster(*range(30), identity=1)

    assert old.fingerprint == tuple(map(str, range(20)))
    assert 1 == len(merge([old], [cluster(19, *range(100, 150))], commits=WINDOW))
    assert 2 == len(merge([old], [cluster(20, *range(100, 150))], commits=WINDOW))


def test_any_member_of_the_new_cluster_may_match() -> None:
    assert 1 == len(merge([cluster(0)], [cluster(*range(500, 0, -1), 0)], commits=WINDOW))


def test_cluster_whose_step_has_left_the_window_is_left_alone() -> None:
    old = cluster(1, identity=1, commit="long ago")
    new = cluster(1, regression=900)

    assert [old, new] == merge([old], [new], commits=WINDOW)


def test_fingerprint_is_that_of_before_the_merge() -> None:
    """The first takes the known one's place; the second still belongs to it, and loses."""
    old = cluster(1, 2, identity=1)
    found = [cluster(1, 8, regression=900), cluster(2, 9, regression=500)]

    assert [replace(found[0], identity=1)] == merge([old], found, commits=WINDOW)


CLUSTERS = st.lists(
    st.builds(
        lambda members, regression, commit: cluster(*members, regression=regression, commit=commit),
        st.lists(st.integers(0, 30), min_size=1, max_size=6, unique=True),
        st.integers(-500, 500).map(float),
        st.sampled_from(["c1", "c2", "long ago"]),
    ),
    max_size=6,
)


@given(CLUSTERS, CLUSTERS)
def test_identities_and_triage_stay(known: list[KnownCluster[str]], found: list[KnownCluster[str]]) -> None:
    old = [
        replace(each, identity=at, triage=ClusterDecision(TriageStatus.BUG, str(at)))
        for at, each in enumerate(known)
    ]
    merged = merge(old, found, commits=WINDOW)

    kept, new = merged[: len(old)], merged[len(old) :]
    assert [(each.identity, each.triage) for each in old] == [(each.identity, each.triage) for each in kept]
    assert all(abs(now.regression) >= abs(was.regression) for was, now in zip(old, kept, strict=True))
    relevant = {name for each in old if each.commit in WINDOW for name in each.fingerprint}
    assert [each for each in found if relevant.isdisjoint(each.members)] == new


def night(fallen: int, step: float) -> list[KnownCluster[Cluster]]:
    """Find the interesting clusters of 100 traces of which the first ones fell at the seventh commit."""
    traces = np.random.default_rng(1).normal(size=(100, 15))
    traces[:fallen, 6:] -= step
    keys = [TraceKey.of(test=f"{number:03}") for number in range(100)]
    return [as_known_cluster(cluster, COMMITS) for cluster in find_clusters(traces, keys, k=4).interesting]


def test_bug_is_known_again_in_the_next_night() -> None:
    (first,) = night(40, 15.0)
    known = replace(first, identity=1, triage=BUG)

    (merged,) = merge([known], night(50, 20.0), commits=COMMITS)

    assert (1, BUG, "c6") == (merged.identity, merged.triage, merged.commit)
    assert len(first.members) < len(merged.members)
    assert tuple(key.hash for key in merged.details.members) == merged.members


def test_cluster_without_a_step_cannot_be_kept() -> None:
    (alone,) = find_clusters([[1.0, 2.0]], [TraceKey.of(test="a")]).clusters
    (stepped,) = find_clusters([[1.0] * 6 + [2.0] * 6], [TraceKey.of(test="a")]).clusters

    for cluster_, commits in ((alone, ["c0", "c1"]), (stepped, COMMITS[:6])):
        with pytest.raises(SettingsError, match="cannot be stored"):
            as_known_cluster(cluster_, commits)


def test_reset_deletes_what_is_no_bug() -> None:
    bug = cluster(3, triage=BUG)

    assert [bug] == reset([cluster(1), cluster(2, triage=ClusterDecision(TriageStatus.IGNORE, "noise")), bug])
