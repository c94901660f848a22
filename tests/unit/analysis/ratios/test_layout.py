"""The order of rows and columns, and the shades of cells."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perftrend.analysis.query import TraceTable
from perftrend.analysis.ratios import (
    AGGREGATES,
    LEVELS,
    Layout,
    aggregate,
    build_layout,
    levels,
    rank_rows,
    robust_range,
)
from perftrend.analysis.ratios.layout import cells_of
from perftrend.model import TraceKey

WORDS = st.sampled_from(["a", "b", "c"])
PAIRS = st.lists(
    st.dictionaries(st.sampled_from(["nic", "suite", "test", "testbed"]), WORDS),
    max_size=12,
    unique_by=lambda each: tuple(sorted(each.items())),
)


def layout_of(*pairs: dict[str, str]) -> Layout:
    """Lay out pairs that agree in these parameters."""
    return build_layout(TraceTable([TraceKey.of(**each) for each in pairs]).own, len(pairs))


def test_row_is_the_test_and_column_the_rest() -> None:
    found = layout_of(
        {"test": "b", "testbed": "2n", "metric": "pdr"}, {"test": "a", "testbed": "2n", "metric": "ndr"},
        {"test": "a", "testbed": "3n", "metric": "ndr"}, {"test": "a", "testbed": "2n", "metric": "pdr"},
    )  # fmt: skip

    assert ("a", "b") == found.rows
    assert ["ndr:2n", "ndr:3n", "pdr:2n"] == [column.name for column in found.columns]
    assert [1, 0, 0, 0] == found.row_of.tolist()
    assert [2, 0, 1, 2] == found.column_of.tolist()


def test_what_all_pairs_share_is_told_once() -> None:
    found = layout_of({"test": "a", "testbed": "2n", "nic": "x"}, {"test": "a", "testbed": "3n", "nic": "x"})

    assert (("nic", "x"),) == found.common
    assert ["2n", "3n"] == [column.name for column in found.columns]


def test_what_follows_from_the_test_makes_no_column() -> None:
    found = layout_of({"test": "64b", "frame": "64B"}, {"test": "1518b", "frame": "1518B"})

    assert [""] == [column.name for column in found.columns]
    assert () == found.common


def test_no_pairs_make_an_empty_table() -> None:
    found = layout_of()

    assert ((), (), ()) == (found.rows, found.columns, found.common)


def test_traces_without_a_test_share_a_row_and_what_one_lacks_tells_it_apart() -> None:
    found = layout_of({"nic": "x"}, {"testbed": "2n"}, {"nic": "x", "testbed": "2n"})

    assert ("",) == found.rows
    assert ["x", "x:2n", "2n"] == [column.name for column in found.columns]
    assert [0, 2, 1] == found.column_of.tolist()


@given(PAIRS)
def test_no_two_pairs_share_a_cell(pairs: list[dict[str, str]]) -> None:
    found = layout_of(*pairs)

    cells = list(zip(found.row_of.tolist(), found.column_of.tolist(), strict=True))
    assert len(pairs) == len(set(cells))
    assert [each.get("test", "") for each in pairs] == [found.rows[row] for row, _ in cells]
    assert sorted(found.rows) == list(found.rows)
    assert sorted(each.parameters for each in found.columns) == [each.parameters for each in found.columns]


@given(PAIRS)
def test_cell_has_all_that_its_row_does_not_tell(pairs: list[dict[str, str]]) -> None:
    found = layout_of(*pairs)

    for each, column in zip(pairs, found.column_of.tolist(), strict=True):
        told = dict(found.columns[column].parameters)
        assert told.items() <= each.items()
        assert all(each.get(name, "") == value for name, value in found.common)


def test_cells_of_rows_come_in_the_order_of_columns() -> None:
    found = layout_of(
        {"test": "a", "testbed": "3n"}, {"test": "b", "testbed": "2n"}, {"test": "a", "testbed": "2n"}
    )

    assert [[(0, 1)], [(0, 2), (1, 0)]] == list(cells_of(found, [1, 0]))


GAINS = np.array([0.1, -0.2, math.nan, 0.05, -0.4])
ROWS = np.array([0, 0, 1, 2, 2])


@pytest.mark.parametrize(
    ("by", "expected"),
    [
        ("weight", [0.3, math.nan, 0.45]),
        ("mean", [-0.05, math.nan, -0.175]),
        ("worst", [-0.2, math.nan, -0.4]),
        ("best", [0.1, math.nan, 0.05]),
        ("count", [2.0, 0.0, 2.0]),
    ],
)
def test_aggregate_is_as_documented(by: str, expected: list[float]) -> None:
    np.testing.assert_allclose(aggregate(by, GAINS, ROWS, 3), expected)


@pytest.mark.parametrize(("by", "order"), [("weight", [2, 0, 1]), ("worst", [2, 0, 1]), ("best", [0, 2, 1])])
def test_rows_that_matter_most_come_first_and_empty_ones_last(by: str, order: list[int]) -> None:
    assert order == rank_rows(by, aggregate(by, GAINS, ROWS, 3)).tolist()


def test_reversed_rows_keep_empty_ones_last() -> None:
    assert [0, 2, 1] == rank_rows("weight", aggregate("weight", GAINS, ROWS, 3), reverse=True).tolist()


@given(arrays(float, 12, elements=st.floats(-3, 3)), arrays(np.intp, 12, elements=st.integers(0, 4)))
def test_swapped_sides_mirror_the_aggregates(gains: np.ndarray, rows: np.ndarray) -> None:
    forth, back = ({by: aggregate(by, sign * gains, rows, 5) for by in AGGREGATES} for sign in (1, -1))

    np.testing.assert_allclose(forth["weight"], back["weight"])
    np.testing.assert_allclose(forth["mean"], -back["mean"])
    np.testing.assert_allclose(forth["worst"], -back["best"])


def test_one_far_off_cell_does_not_take_the_shades_of_all_others() -> None:
    gains = np.array([0.01 * n for n in range(1, 40)] + [50.0])

    shades = levels(gains, robust_range(gains))

    assert {1, 2, 3, 4} <= set(shades[:-1].tolist())


def test_small_table_is_shaded_by_its_largest_cell() -> None:
    gains = np.array([0.0, 0.05, -0.1])

    assert [0, 2, -4] == levels(gains, robust_range(gains)).tolist()


def test_quiet_table_is_not_shaded() -> None:
    gains = np.array([0.0001, -0.0002, math.nan])

    assert [0, 0, 0] == levels(gains, robust_range(gains)).tolist()
    assert [0, 0] == levels(np.array([math.nan, math.nan]), robust_range(np.array([math.nan]))).tolist()


@given(arrays(float, 12, elements=st.floats(-30, 30)))
def test_swapped_sides_mirror_the_shades(gains: np.ndarray) -> None:
    shades = levels(gains, robust_range(gains))

    assert np.array_equal(shades, -levels(-gains, robust_range(-gains)))
    assert np.abs(shades).max() <= LEVELS
    order = np.argsort(gains)
    assert (np.diff(shades[order]) >= 0).all()
