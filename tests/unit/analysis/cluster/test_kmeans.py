from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.cluster import KMeans, Seeding, automatic_k, k_means
from perftrend.analysis.cluster.kmeans import ComparedRows, seeds
from perftrend.errors import SettingsError
from perftrend.model import Samples


def noise(rows: int, width: int, seed: int = 1) -> Samples:
    return np.random.default_rng(seed).normal(size=(rows, width))


def all_distances(rows: Samples, found: KMeans) -> Samples:
    return np.linalg.norm(rows[:, np.newaxis] - found.centroids, axis=2)


@pytest.mark.parametrize(
    ("traces", "k"), [(0, 10), (749, 10), (750, 11), (30_000, 50), (100_000, 143), (10**6, 200)]
)
def test_automatic_k_as_documented(traces: int, k: int) -> None:
    assert k == automatic_k(traces)


@pytest.mark.parametrize("seeding", Seeding)
@given(count=st.integers(0, 60), width=st.integers(1, 20), k=st.integers(1, 70), seed=st.integers(0, 2**32))
def test_every_row_is_in_the_cluster_that_is_nearest(
    seeding: Seeding, count: int, width: int, k: int, seed: int
) -> None:
    rows = noise(count, width, seed)
    found = k_means(rows, k, seed=seed, seeding=seeding)

    assert min(count, 1) <= len(found.centroids) <= min(count, k)
    assert set(range(len(found.centroids))) == set(found.labels.tolist())
    distances = all_distances(rows, found)
    np.testing.assert_allclose(found.distances, distances.min(axis=1, initial=np.inf), atol=1e-12)
    np.testing.assert_allclose(
        found.distances, np.take_along_axis(distances, found.labels[:, np.newaxis], axis=1)[:, 0]
    )
    assert found.total_error == pytest.approx(found.distances.sum())


def plain_lloyd(rows: Samples, centroids: Samples) -> Samples:
    """Move centroids as documented, in double precision, by the differences themselves."""
    before = np.inf
    for _ in range(101):
        distances = np.linalg.norm(rows[:, np.newaxis] - centroids, axis=2)
        if abs(before - (before := distances.min(axis=1).sum())) < 1.0:
            break
        nearest = distances.argmin(axis=1)
        centroids = np.stack([rows[nearest == label].mean(axis=0) for label in np.unique(nearest)])
    return centroids


@pytest.mark.parametrize("seeding", Seeding)
@pytest.mark.parametrize(("count", "width", "k"), [(3000, 15, 12), (1000, 128, 7), (40, 3, 60)])
def test_single_precision_leads_to_the_centroids_of_double_precision(
    seeding: Seeding, count: int, width: int, k: int
) -> None:
    rows = noise(count, width)
    single = ComparedRows(rows, np.float32)
    first = rows[seeds(single, min(count, k), seeding, np.random.default_rng(1))]

    np.testing.assert_allclose(
        k_means(rows, k, seeding=seeding).centroids, plain_lloyd(rows, first), atol=1e-9
    )


@given(st.integers(0, 2**32))
def test_same_seed_gives_the_same_clusters(seed: int) -> None:
    rows = noise(200, 15)
    first, second = k_means(rows, 10, seed=seed), k_means(rows, 10, seed=seed)

    np.testing.assert_array_equal(first.labels, second.labels)
    np.testing.assert_array_equal(first.centroids, second.centroids)


def test_another_seed_may_give_others() -> None:
    rows = noise(200, 15)

    assert k_means(rows, 10, seed=1).total_error != k_means(rows, 10, seed=2).total_error


def test_centroids_that_came_to_rest_are_the_averages_of_their_rows() -> None:
    rows = noise(500, 15)
    found = k_means(rows, 8, least_move=1e-9)

    assert found.converged
    averages = [rows[found.labels == label].mean(axis=0) for label in range(8)]
    np.testing.assert_allclose(found.centroids, averages)


@pytest.mark.parametrize("width", [1, 2, 15, 128, 700])
def test_separate_groups_are_found_whatever_the_width(width: int) -> None:
    """Five groups, each around a point that is twenty of its deviations away from the others."""
    points = 20 * noise(5, width) + 100 * np.arange(5)[:, np.newaxis]
    group = np.random.default_rng(2).integers(5, size=3000)
    found = k_means(points[group] + noise(3000, width), 5)

    pairs = set(zip(group.tolist(), found.labels.tolist(), strict=True))
    assert 5 == len(pairs) == len(found.centroids)


def test_many_clusters_of_many_rows_are_all_looked_at() -> None:
    """Each row is its own neighbour: more rows than a panel has, more centroids than a block."""
    rows = np.arange(5000.0)[:, np.newaxis]
    found = k_means(rows, 1000, maximum_iterations=1)

    np.testing.assert_allclose(found.distances, np.abs(rows - found.centroids.T).min(axis=1), atol=1e-9)


def test_as_many_clusters_as_rows_leave_no_error() -> None:
    found = k_means(noise(20, 15), 50)

    assert 20 == len(found.centroids)
    assert 0.0 == found.total_error


@pytest.mark.parametrize("seeding", Seeding)
def test_equal_rows_are_one_cluster(seeding: Seeding) -> None:
    found = k_means(np.full((30, 15), 0.1), 7, seeding=seeding)

    assert [0] * 30 == found.labels.tolist()
    assert found.total_error == pytest.approx(0, abs=1e-12)


def test_centroid_without_rows_is_dropped() -> None:
    """Three rows are drawn out of two different ones: one of them comes twice."""
    found = k_means([[0.0], [1.0]] * 10, 3, seeding=Seeding.RANDOM, seed=1)

    assert [[0.0], [1.0]] == sorted(found.centroids.tolist())


def test_spread_does_not_overlook_a_small_group() -> None:
    """Two of 2,000 rows are far away; whatever the seed, they are a cluster of their own."""
    rows = np.concatenate([noise(1998, 15), noise(2, 15) + 30])

    for seed in range(5):
        labels = k_means(rows, 5, seed=seed).labels
        assert [1998, 1999] == np.flatnonzero(labels == labels[-1]).tolist()


def test_no_rows_are_no_clusters() -> None:
    found = k_means(np.empty((0, 15)), 50)

    assert (0, 15) == found.centroids.shape
    assert 0.0 == found.total_error
    assert found.converged


def test_progress_is_told_after_each_iteration() -> None:
    told: list[tuple[int, float]] = []
    found = k_means(noise(500, 15), 10, progress=lambda *news: told.append(news))

    assert list(range(1, found.iterations + 1)) == [iteration for iteration, _ in told]
    assert found.total_error == pytest.approx(told[-1][1], rel=1e-5)
    *moves, last = np.abs(np.diff([error for _, error in told]))
    assert min(moves) >= 1.0
    assert last < 1.0


def test_it_ends_after_the_last_iteration() -> None:
    found = k_means(noise(500, 15), 10, maximum_iterations=2)

    assert 2 == found.iterations
    assert not found.converged


def test_what_progress_raises_ends_it() -> None:
    told = []

    def end_in_the_third(iteration: int, _: float) -> None:
        told.append(iteration)
        if iteration == 3:
            raise InterruptedError

    with pytest.raises(InterruptedError):
        k_means(noise(2000, 15), 20, progress=end_in_the_third)

    assert [1, 2, 3] == told


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1e30])
def test_rows_with_holes_or_too_large_values_are_refused(value: float) -> None:
    with pytest.raises(SettingsError, match="normalise it first"):
        k_means([[0.0, 1.0], [value, 1.0]], 2)


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(SettingsError, match="0 clusters are requested"):
        k_means([[0.0]], 0)
    with pytest.raises(SettingsError, match="seed is -1"):
        k_means([[0.0]], 1, seed=-1)
    with pytest.raises(SettingsError, match="not 1 dimensions"):
        k_means([0.0], 1)
