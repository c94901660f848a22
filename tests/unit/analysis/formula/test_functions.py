"""Every function against examples that can be calculated by hand; ``_`` is a hole."""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from perftrend.analysis.formula import FUNCTIONS, ArgumentKind, Makes, Rows, evaluate, parse
from perftrend.model import Samples

_ = math.nan
INF = math.inf
HUGE = 1.5e308
EXAMPLES: list[tuple[str, list[list[float]], list[list[float]]]] = [
    # Each row.
    ("norm", [[2, -2, _]], [[1, -1, _]]),
    ("norm", [[1, 2, 3], [10, _, 30]], [[-math.sqrt(1.5), 0, math.sqrt(1.5)], [-1, _, 1]]),
    ("norm", [[5, 5, 5]], [[0, 0, 0]]),
    ("norm", [[1, 1.0018]], [[-0.0009, 0.0009]]),
    ("norm", [[1, 1.004]], [[-1, 1]]),
    ("norm", [[_, _]], [[_, _]]),
    ("norm", [[7]], [[0]]),
    ("norm", [[HUGE, -HUGE]], [[1, -1]]),
    ("norm", [[1e20, 1e20, 1e20]], [[0, 0, 0]]),
    ("fill", [[_, _, 2, 3, _, 5]], [[2, 2, 2, 3, 5, 5]]),
    ("fill", [[3, _, 5, _, _]], [[3, 5, 5, 5, 5]]),
    ("fill", [[_, _, _], [_, 1, _]], [[0, 0, 0], [1, 1, 1]]),
    ("fill", [[_], [4]], [[0], [4]]),
    ("fill", [[INF, 3, -INF]], [[3, 3, 3]]),
    ("log", [[1, 10, 100, -1, 0, _]], [[0, 1, 2, _, _, _]]),
    ("log", [[1e308, 1e-5]], [[308, -5]]),
    ("scale_by_ave", [[1, 2, 3, _]], [[0.5, 1, 1.5, _]]),
    ("scale_by_ave", [[1, -1], [_, _], [0, 0]], [[_, _], [_, _], [_, _]]),
    ("scale_by_ave", [[HUGE, HUGE]], [[1, 1]]),
    # By 4.
    ("scale_by_mean", [[1, 2, _], [-4, 0, 8e307]], [[0.25, 0.5, _], [-1, 0, 2e307]]),
    ("iqrr", [[1, 2, 3, 4, 100]], [[1, 2, 3, 4, _]]),
    ("iqrr", [[-2, 1, 2, 3, 6]], [[_, 1, 2, 3, _]]),
    ("iqrr", [[-1.9, 1, 2, 3, 5.9]], [[-1.9, 1, 2, 3, 5.9]]),
    ("iqrr", [[1, 2, 3, 4, 5, _]], [[1, 2, 3, 4, 5, _]]),
    ("iqrr", [[-50, 1, _, 2, 3, 4]], [[_, 1, _, 2, 3, 4]]),
    ("iqrr", [[1, 1, 1, 1, 2]], [[1, 1, 1, 1, _]]),
    ("iqrr", [[1, 1, 100], [_, _, _]], [[1, 1, 100], [_, _, _]]),
    ("trace_ave", [[1, 2, 6, _], [_, _, _, _]], [[3, 3, 3, 3], [_, _, _, _]]),
    ("trace_ave", [[HUGE, HUGE]], [[HUGE, HUGE]]),
    ("trace_ave", [[0.1, 0.1, 0.1]], [[0.1, 0.1, 0.1]]),
    ("trace_stddev", [[1, 3, _], [4, 4, 4], [_, _, _]], [[1, 1, 1], [0, 0, 0], [_, _, _]]),
    ("trace_stddev", [[HUGE, -HUGE]], [[HUGE, HUGE]]),
    ("trace_stddev", [[9]], [[0]]),
    ("trace_stddev", [[4e-162, 4e-162, 1.4e-162, 2.8e-162]], [[0, 0, 0, 0]]),
    ("trace_stddev", [[1e15, 1e15 + 2, _]], [[1, 1, 1]]),
    ("trace_cov", [[1, 3, _], [-1, 1, _], [_, _, _]], [[0.5, 0.5, 0.5], [_, _, _], [_, _, _]]),
    ("trace_cov", [[0, 0]], [[_, _]]),
    ("trace_step", [[4, 4, 2, 2]], [[2, 2, 2, 2]]),
    ("trace_step", [[4, 1, 3]], [[2, 2, 2]]),
    ("trace_step", [[4, _, _, 2]], [[2, 2, 2, 2]]),
    ("trace_step", [[4, 4, _, _]], [[_, _, _, _]]),
    ("trace_step", [[4, 4, 0, 0]], [[_, _, _, _]]),
    ("trace_step", [[7]], [[_]]),
    # Over rows.
    ("ave", [[1, -1, _, _], [_, 2, -2, _]], [[1, 0.5, -2, _]]),
    ("ave", [[HUGE], [HUGE]], [[HUGE]]),
    ("ave", [[INF, 1], [1, -INF]], [[1, 1]]),
    ("avg", [[1, _], [2, _]], [[1.5, _]]),
    ("sum", [[1, -1, _, _], [_, 2, -2, _]], [[1, 1, -2, _]]),
    ("sum", [[HUGE, 1], [HUGE, 1]], [[_, 2]]),
    ("geo", [[1, -1, 2, _], [_, 2, 8, -2]], [[1, 2, 4, _]]),
    ("geo", [[0, 1e200], [5, 1e100]], [[0, 1e150]]),
    ("count", [[1, -1, _, _], [_, 2, 0, INF]], [[1, 2, 1, 0]]),
    ("std_dev", [[1, 5, _, _], [3, 5, 2, _]], [[1, 0, 0, _]]),
    ("std_dev", [[HUGE], [-HUGE]], [[HUGE]]),
    ("min", [[1, -1, _, _], [2, _, HUGE, _]], [[1, -1, HUGE, _]]),
    ("max", [[1, -1, _, _], [2, _, -HUGE, _]], [[2, -1, -HUGE, _]]),
    ("relative_ave", [[1, 3, _], [30, 10, _]], [[1, 1, _]]),
    ("relative_ave", [[1, 3], [10, 30], [-4, -12]], [[0.5, 1.5]]),
    ("relative_ave", [[1, _, 3], [2, 2, 2]], [[0.75, 1, 1.25]]),
    ("relative_ave", [[1, -1], [0, 0]], [[_, _]]),
    ("relative_ave", [[HUGE, HUGE], [0, 2]], [[0.5, 1.5]]),
    ("relative_min", [[1, 3], [30, 10], [5, 5]], [[0.5, 0.5]]),
    ("relative_max", [[1, 3], [30, 10], [5, 5]], [[1.5, 1.5]]),
]


def at(rows: Rows) -> list[list[float]]:
    return rows.matrix.tolist()


def applied(name: str, rows: Sequence[Sequence[float]], points: int) -> Rows:
    class Given:
        def select(self, query: Any, *, most: int) -> Rows:
            names = [f",t={place}," for place in range(len(rows))]
            return Rows(names, np.array(rows, dtype=float).reshape(len(rows), points))

        def traces(self, keys: Any) -> Any: ...

        shortcut = traces

    numbers = ", 4" * (FUNCTIONS[name].least_arguments - 1)
    return evaluate(f'{name}(filter(""){numbers})', Given(), points=points)


@pytest.mark.parametrize(("name", "rows", "expected"), EXAMPLES)
def test_example(name: str, rows: list[list[float]], expected: list[list[float]]) -> None:
    result = applied(name, rows, len(rows[0]))

    np.testing.assert_allclose(result.matrix, expected, rtol=1e-12, atol=1e-12)


def test_division_by_a_given_mean_of_0_is_a_hole(evaluated: Any) -> None:
    rows = evaluated('scale_by_mean(filter(""), 0)', [[1, 0, _]])

    np.testing.assert_array_equal([[_, _, _]], rows.matrix)


@pytest.mark.parametrize(
    ("over", "under", "expected"),
    [
        ([10, 4, 100, 50, 9999, 0], [5, 2, 4, 5, 0, 1000], [2, 2, 25, 10, _, 0]),
        ([0, _, 1, INF], [0, 1, _, 2], [_, _, _, _]),
        ([1e308, 1e-308], [1e-308, 1e308], [_, 0]),
    ],
)
def test_a_ratio_has_holes_where_nothing_is_divided(
    evaluated: Any, over: list[float], under: list[float], expected: list[float]
) -> None:
    formula = 'ratio(sum(filter("t=0")), sum(filter("t=1")))'

    np.testing.assert_array_equal([expected], evaluated(formula, [over, under]).matrix)


def test_every_function_has_an_example() -> None:
    shown = {name for name, *_ in EXAMPLES} | {"ratio"}

    assert {each.name for each in FUNCTIONS.values() if each.makes is not Makes.FOUND} == shown


def test_norm_scales_what_moves_more_than_it_is_told(evaluated: Any) -> None:
    rows = [[1.0, 3.0]]

    assert [[-1, 1]] == at(evaluated('norm(filter(""), 0.5)', rows))
    assert [[-1, 1]] == at(evaluated('norm(filter(""), 5)', rows))
    assert [[-10, 10]] == at(evaluated('norm(filter(""), 10)', [[0.0, 20.0]]))
    assert [[0, 0]] == at(evaluated('norm(filter(""), 0)', [[4.0, 4.0]]))


ONE = [each.name for each in FUNCTIONS.values() if each.makes is Makes.ONE and each.name != "ratio"]
EACH = [each.name for each in FUNCTIONS.values() if each.makes is Makes.EACH]


@pytest.mark.parametrize("name", ONE)
def test_over_no_rows_every_point_is_a_hole(name: str) -> None:
    result = applied(name, [], 3)

    assert (f'{name}(filter(""))',) == result.names
    np.testing.assert_array_equal([[0.0] * 3 if name == "count" else [_] * 3], result.matrix)


@pytest.mark.parametrize("name", EACH)
def test_each_of_no_rows_is_no_row(name: str) -> None:
    assert (0, 3) == applied(name, [], 3).matrix.shape


@pytest.mark.parametrize("name", [*ONE, *EACH])
@pytest.mark.parametrize("count", [0, 2])
def test_rows_without_points_stay_without(name: str, count: int) -> None:
    result = applied(name, [[]] * count, 0)

    assert (1 if name in ONE else count, 0) == result.matrix.shape


VALUES = st.one_of(st.just(math.nan), st.floats(-10, 10), st.floats())
MATRICES = arrays(np.float64, st.tuples(st.integers(0, 5), st.integers(0, 6)), elements=VALUES)
TAME = arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.just(4)),
    elements=st.one_of(st.just(math.nan), st.integers(-(10**8), 10**8).map(lambda whole: whole / 100)),
)


@pytest.mark.parametrize("name", EACH)
def test_many_rows_are_what_each_is_alone(name: str) -> None:
    """They are more than are worked on at once, of which the last are fewer."""
    matrix = np.random.default_rng(5).normal(5, 1, (150, 1000))
    matrix[matrix < 4] = np.nan

    together = applied(name, matrix.tolist(), 1000).matrix

    for place in (0, 64, 65, 66, 149):
        np.testing.assert_array_equal(
            applied(name, [matrix[place].tolist()], 1000).matrix[0], together[place]
        )


@settings(max_examples=3 * settings.default.max_examples)
@given(name=st.sampled_from([*ONE, *EACH]), matrix=MATRICES)
def test_no_values_make_an_infinity_or_a_change_of_shape(name: str, matrix: Samples) -> None:
    before = matrix.copy()
    result = applied(name, matrix.tolist(), matrix.shape[1])

    assert not np.isinf(result.matrix).any()
    assert (1 if name in ONE else len(matrix), matrix.shape[1]) == result.matrix.shape
    np.testing.assert_array_equal(before, matrix)


@given(name=st.sampled_from(EACH), matrix=TAME)
def test_a_row_does_not_depend_on_the_others(name: str, matrix: Samples) -> None:
    together = applied(name, matrix.tolist(), 4).matrix
    alone = [applied(name, [row], 4).matrix[0] for row in matrix.tolist()]

    np.testing.assert_array_equal(alone, together)


@given(name=st.sampled_from(ONE), matrix=TAME, order=st.randoms())
def test_the_order_of_rows_does_not_matter(name: str, matrix: Samples, order: Any) -> None:
    shuffled = matrix.tolist()
    order.shuffle(shuffled)

    forwards, backwards = applied(name, matrix.tolist(), 4).matrix, applied(name, shuffled, 4).matrix

    np.testing.assert_allclose(forwards, backwards, rtol=1e-9, atol=1e-6)


def product_root(values: Sequence[float]) -> float:
    kept = [value for value in values if value >= 0]
    return math.prod(kept) ** (1 / len(kept)) if kept else math.nan


ORACLES = {
    "ave": statistics.fmean,
    "avg": statistics.fmean,
    "sum": math.fsum,
    "std_dev": statistics.pstdev,
    "min": min,
    "max": max,
    "count": len,
    "geo": product_root,
}


@settings(max_examples=2 * settings.default.max_examples)
@given(name=st.sampled_from([*ORACLES]), matrix=TAME)
def test_a_point_is_what_python_makes_of_its_values(name: str, matrix: Samples) -> None:
    present = [[value for value in column if not math.isnan(value)] for column in matrix.T.tolist()]
    nothing = 0.0 if name == "count" else math.nan

    expected = [ORACLES[name](column) if column else nothing for column in present]

    np.testing.assert_allclose([expected], applied(name, matrix.tolist(), 4).matrix, rtol=1e-9, atol=1e-9)


@given(matrix=TAME)
def test_a_normalised_row_has_the_mean_0_and_the_deviation_1(matrix: Samples) -> None:
    for row in applied("norm", matrix.tolist(), 4).matrix:
        values = row[~np.isnan(row)]
        assert not values.size or abs(values.mean()) < 1e-6
        assert not values.size or values.std() == pytest.approx(1) or np.abs(values).max() <= 0.01


@given(matrix=TAME)
def test_a_filled_row_has_its_own_values_and_nothing_else(matrix: Samples) -> None:
    for row, full in zip(matrix, applied("fill", matrix.tolist(), 4).matrix, strict=True):
        present = ~np.isnan(row)
        np.testing.assert_array_equal(row[present], full[present])
        assert set(full) <= (set(row[present]) or {0.0})


@given(matrix=TAME)
def test_only_outliers_become_holes(matrix: Samples) -> None:
    for row, kept in zip(matrix, applied("iqrr", matrix.tolist(), 4).matrix, strict=True):
        inner = kept[~np.isnan(kept)]
        np.testing.assert_array_equal(inner, row[~np.isnan(kept)])
        assert inner.size >= min(np.count_nonzero(~np.isnan(row)), 2)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
def test_a_signature_is_a_call_that_is_read(function: Any) -> None:
    written = {ArgumentKind.ROWS: 'filter("")', ArgumentKind.ROW: 'ave(filter(""))', ArgumentKind.NUMBER: "1"}
    written |= {ArgumentKind.QUERY: '"a=b"', ArgumentKind.SHORTCUT: '"54"'}
    arguments = [written[each.kind] for each in function.parameters]

    for count in {function.least_arguments, len(arguments)}:
        text = f"{function.name}({', '.join(arguments[:count])})"
        assert text == str(parse(text))
    assert function.signature.startswith(f"{function.name}(")
    assert re.fullmatch(r"[A-Z][^\n]*\.", function.help)
