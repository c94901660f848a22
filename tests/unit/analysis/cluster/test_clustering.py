from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.cluster import Cluster, Clustering, LeftOut, Unusable, find_clusters
from perftrend.errors import SettingsError
from perftrend.model import Better, Direction, Samples, TraceKey


def named(count: int, kind: str = "mrr") -> list[TraceKey]:
    return [TraceKey.of(test=f"{number:04}", metric=kind) for number in range(count)]


def noise(rows: int, width: int = 15, seed: int = 1) -> Samples:
    return np.random.default_rng(seed).normal(size=(rows, width))


def stepped(rows: int, position: int, step: float, width: int = 15, seed: int = 1) -> Samples:
    traces = noise(rows, width, seed)
    traces[:, position:] += step
    return traces


def memberships(found: Clustering) -> set[frozenset[TraceKey]]:
    return {frozenset(cluster.members) for cluster in found.clusters}


def numbers(cluster: Cluster) -> set[int]:
    return {int(key["test"]) for key in cluster.members}


def test_groups_that_changed_together_are_found_with_their_steps() -> None:
    """100 fell at commit 6, 80 rose at 8 and 60 at 9; 100 jitter, some of them a little like these."""
    traces = np.concatenate(
        [noise(100), stepped(100, 6, -12.0), stepped(80, 8, 12.0, seed=2), stepped(60, 9, 12.0, seed=3)]
    )
    found = find_clusters(1e7 + 1e4 * traces, named(340), k=8)

    groups = {
        (cluster.step.position, cluster.direction): sorted(numbers(cluster) - set(range(100)))
        for cluster in found.interesting
        if cluster.step
    }
    assert groups == {
        (6, Direction.REGRESSION): list(range(100, 200)),
        (8, Direction.PROGRESSION): list(range(200, 280)),
        (9, Direction.PROGRESSION): list(range(280, 340)),
    }
    worst, *_, last = found.interesting
    assert worst.regression < -150 < 150 < last.regression
    assert worst.corrected < 0 < last.corrected
    assert ["mrr"] == [value.value for value in worst.parameters["metric"]]


def test_clusters_ascend_by_regression_and_members_by_distance() -> None:
    found = find_clusters(noise(300), named(300), k=10)

    assert sorted(cluster.regression for cluster in found.clusters) == [
        cluster.regression for cluster in found.clusters
    ]
    for cluster in found.clusters:
        assert (np.diff(cluster.distances) >= 0).all()
        assert len(cluster.members) == len(cluster.distances)


def test_distances_are_those_of_the_members() -> None:
    traces = noise(50)
    rows = (traces - traces.mean(axis=1, keepdims=True)) / traces.std(axis=1, keepdims=True)

    for cluster in find_clusters(traces, named(50), k=4).clusters:
        members = rows[[int(key["test"]) for key in cluster.members]]
        np.testing.assert_allclose(np.linalg.norm(members - cluster.centroid, axis=1), cluster.distances)


@given(
    traces=st.lists(
        st.lists(st.floats(-1e9, 1e9) | st.sampled_from([math.nan, math.inf]), min_size=11, max_size=11),
        max_size=12,
    ),
    k=st.integers(1, 15),
)
def test_every_trace_is_in_exactly_one_cluster_or_left_out(traces: list[list[float]], k: int) -> None:
    keys = named(len(traces))
    found = find_clusters(np.array(traces).reshape(len(traces), 11), keys, k=k)

    clustered = [key for cluster in found.clusters for key in cluster.members]
    assert keys == sorted([*clustered, *(each.key for each in found.left_out)], key=str)
    assert all(cluster.members for cluster in found.clusters)


@given(order=st.permutations(range(60)), seed=st.integers(0, 1000))
def test_order_of_the_traces_changes_nothing(order: list[int], seed: int) -> None:
    traces, keys = noise(60, seed=seed), named(60)
    traces[7] = math.nan
    found = find_clusters(traces, keys, k=6, seed=seed)
    again = find_clusters(traces[order], [keys[position] for position in order], k=6, seed=seed)

    assert [cluster.members for cluster in found.clusters] == [cluster.members for cluster in again.clusters]
    assert [cluster.step for cluster in found.clusters] == [cluster.step for cluster in again.clusters]
    assert found.left_out == again.left_out


@given(st.lists(st.floats(0.01, 1e6), min_size=60, max_size=60))
def test_scale_of_a_trace_changes_nothing(factors: list[float]) -> None:
    traces, keys = noise(60), named(60)
    scaled = traces * np.array(factors)[:, np.newaxis]

    assert memberships(find_clusters(traces, keys, k=6)) == memberships(find_clusters(scaled, keys, k=6))


def test_equally_near_members_are_in_the_order_of_their_keys() -> None:
    (cluster,) = find_clusters([[0.0, 1.0] * 6] * 5, named(5)[::-1], k=1).clusters

    assert named(5) == list(cluster.members)


def test_less_that_is_better_makes_a_rise_a_regression() -> None:
    traces = stepped(50, 7, 20.0)

    (cluster,) = find_clusters(traces, named(50), k=1, better=Better.LOWER).clusters
    assert Direction.REGRESSION is cluster.direction
    assert cluster.centroid[0] < cluster.centroid[-1]


def test_directions_of_the_traces_bring_bad_news_together() -> None:
    """Throughput falls where latency rises: one cluster, in which up is good news."""
    traces = np.concatenate([stepped(50, 7, -20.0), stepped(50, 7, 20.0, seed=2)])
    keys = named(50, "mrr") + named(50, "latency")
    better = [Better.HIGHER] * 50 + [Better.LOWER] * 50
    shuffled = np.random.default_rng(3).permutation(100)

    found = find_clusters(
        traces[shuffled], [keys[at] for at in shuffled], better=[better[at] for at in shuffled], k=1
    )

    (cluster,) = found.interesting
    assert cluster.regression < -150
    assert cluster.centroid[0] > cluster.centroid[-1]


def test_cutoff_is_exceeded_by_what_is_interesting() -> None:
    (cluster,) = find_clusters(stepped(50, 7, 3.0), named(50), k=1, cutoff=0).clusters
    reached = abs(cluster.regression)

    assert cluster.interesting
    assert () == find_clusters(stepped(50, 7, 3.0), named(50), k=1, cutoff=reached).interesting
    assert find_clusters(stepped(50, 7, 3.0), named(50), k=1, cutoff=0.99 * reached).interesting


def test_step_of_few_traces_is_significant_before_it_is_interesting() -> None:
    """In a window of 15 the documented cutoff asks for a hundred such traces."""
    (few,) = find_clusters(stepped(10, 7, 4.0), named(10), k=1).clusters
    (none,) = find_clusters(noise(10), named(10), k=1).clusters

    assert few.significant
    assert not few.interesting
    assert not none.significant


def test_traces_with_too_few_values_are_named() -> None:
    traces = noise(4)
    traces[1] = math.nan
    traces[2, 7] = math.inf
    found = find_clusters(traces, named(4))

    assert (
        LeftOut(named(4)[1], Unusable.EMPTY),
        LeftOut(named(4)[2], Unusable.NO_MIDDLE),
    ) == found.left_out
    assert {0, 3} == set().union(*map(numbers, found.clusters))
    (empty,) = find_clusters(traces, named(4), around_middle=False).left_out
    assert Unusable.EMPTY is empty.reason


def test_no_traces_are_no_clusters() -> None:
    found = find_clusters(np.empty((0, 15)), [], k=None)

    assert () == found.clusters == found.left_out
    assert 10 == found.k


def test_one_trace_is_its_own_centroid() -> None:
    (cluster,) = find_clusters([[1.0, 2.0, 3.0]], named(1)).clusters

    np.testing.assert_allclose(cluster.centroid, np.array([-1, 0, 1]) * math.sqrt(1.5))
    assert cluster.step is None
    assert 0.0 == cluster.regression == cluster.corrected
    assert not cluster.interesting


def test_equal_traces_are_one_cluster_without_a_step() -> None:
    (cluster,) = find_clusters(np.full((30, 15), 1e7 / 3), named(30)).clusters

    assert named(30) == list(cluster.members)
    assert 0.0 == cluster.regression == cluster.corrected
    assert not cluster.interesting


def test_automatic_k_counts_the_traces_that_are_clustered() -> None:
    traces = np.concatenate([noise(750), np.full((750, 15), math.nan)])

    assert 11 == find_clusters(traces, named(1500), k=None).k


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(SettingsError, match=r"shape \(2, 15\), and there are 3 keys"):
        find_clusters(noise(2), named(3))
    with pytest.raises(SettingsError, match="1 directions for 2 traces"):
        find_clusters(noise(2), named(2), better=[Better.LOWER])
    with pytest.raises(SettingsError, match="test=0000 occurs twice"):
        find_clusters(noise(2), named(1) * 2)
