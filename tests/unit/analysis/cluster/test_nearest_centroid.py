from __future__ import annotations

import numpy as np
import pytest

from perftrend.analysis.cluster.kmeans import ComparedRows


@pytest.mark.parametrize("count", [0, 1, 2047, 2048, 2049, 4100])
@pytest.mark.parametrize(("k", "width"), [(1, 15), (7, 1), (50, 15), (143, 15), (300, 128)])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, 1e-4), (np.float64, 1e-12)])
def test_no_row_is_missed_at_the_end_of_a_block_or_panel(
    count: int, k: int, width: int, dtype: type[np.float32 | np.float64], tolerance: float
) -> None:
    generator = np.random.default_rng(1)
    points, centroids = generator.normal(size=(count, width)), generator.normal(size=(k, width))
    rows = ComparedRows(points, dtype)

    labels, squares = rows.nearest(centroids)

    # Rows at both ends of a panel and in its middle stand for all.
    picked = [at for at in (0, 1000, 2046, 2047, 2048, 4095, 4096, 4099, count - 1) if 0 <= at < count]
    expected = ((points[picked, np.newaxis] - centroids) ** 2).sum(axis=2)
    assert (count,) == labels.shape == squares.shape
    np.testing.assert_allclose(squares[picked], expected.min(axis=1), atol=tolerance * width)
    np.testing.assert_allclose(
        expected[np.arange(len(picked)), labels[picked]], expected.min(axis=1), atol=tolerance * width
    )
    np.testing.assert_allclose(
        rows.squared_distances(centroids)[picked], expected, atol=tolerance * width, rtol=tolerance
    )


def test_first_of_equally_near_centroids_is_taken() -> None:
    labels, _ = ComparedRows(np.zeros((3, 2)), np.float64).nearest(np.array([[3.0, 0], [0, 1], [1, 0]]))

    assert [1, 1, 1] == labels.tolist()


def test_distance_is_never_negative() -> None:
    points = np.random.default_rng(1).normal(size=(1000, 15))
    rows = ComparedRows(points, np.float32)

    assert rows.nearest(points[:100])[1].min() >= 0
    assert rows.squared_distances(points[:100]).min() >= 0
