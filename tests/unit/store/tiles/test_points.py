"""The contents of a point of a coarse scale."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perftrend.model import Samples
from perftrend.store.tiles import coarsen

NAN = float("nan")
VALUES = arrays(
    np.float64,
    st.tuples(st.integers(1, 40), st.integers(1, 3)),
    elements=st.one_of(st.just(NAN), st.floats(-1e300, 1e300), st.sampled_from([1.0, 2.0])),
)


def test_a_point_keeps_average_envelope_and_number() -> None:
    values = np.array([[1.0], [NAN], [4.0], [NAN], [7.0], [7.0]])

    points = coarsen(values.T, 1)

    np.testing.assert_array_equal([[2.5, 7.0]], points.mean)
    np.testing.assert_array_equal([[1.0, 7.0]], points.least)
    np.testing.assert_array_equal([[4.0, 7.0]], points.greatest)
    np.testing.assert_array_equal([[2, 2]], points.count)


def test_a_point_without_values_is_a_hole() -> None:
    points = coarsen(np.full((1, 4), NAN), 1)

    assert np.isnan([points.mean, points.least, points.greatest]).all()
    assert [[0]] == points.count.tolist()


def test_coarser_points_weigh_by_number() -> None:
    """One value in the first four and four in the second: not the average of the averages."""
    values = np.array([[5.0], *[[NAN]] * 3, *[[10.0]] * 4])

    points = coarsen(values.T, 2)

    assert [[9.0]] == points.mean.tolist()
    assert [[5]] == points.count.tolist()


@given(VALUES)
def test_envelope_holds_all_values_and_their_average(values: Samples) -> None:
    points = coarsen(values.T, 5)

    present = ~np.isnan(values)
    np.testing.assert_array_equal(present.sum(axis=0), points.count[:, 0])
    for trace in np.flatnonzero(present.any(axis=0)):
        assert np.nanmin(values[:, trace]) == points.least[trace, 0]
        assert np.nanmax(values[:, trace]) == points.greatest[trace, 0]
        assert points.least[trace, 0] <= points.mean[trace, 0] <= points.greatest[trace, 0]


@given(st.floats(-1e300, 1e300), st.integers(1, 1024))
def test_equal_values_have_exactly_their_average(value: float, number: int) -> None:
    assert [[value]] == coarsen(np.full((1, number), value), 5).mean.tolist()
