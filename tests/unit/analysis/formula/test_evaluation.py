from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.formula import (
    FUNCTIONS,
    CalculatedId,
    EvaluationLimits,
    FormulaId,
    Makes,
    NormalId,
    Rows,
    evaluate,
    parse_trace_id,
    row_id,
)
from perftrend.errors import FormulaError, SettingsError

CONFIGS = {
    ",config=8888,os=Ubuntu12,": [math.nan, 1.25, math.nan],
    ",config=gpu,os=Ubuntu12,": [math.nan, 1.75, math.nan],
}


@pytest.mark.parametrize(
    ("query", "count"),
    [("os=Ubuntu12", 2), ("", 2), ("config=8888", 1), ("config=gpu", 1), ("config=565", 0)],
)
def test_a_filter_gives_what_its_query_fits(evaluated: Any, query: str, count: int) -> None:
    assert count == len(evaluated(f'filter("{query}")', CONFIGS))


def test_trace_is_shown_relative_to_a_reference_build(evaluated: Any) -> None:
    """The testbed is 10 % slower from the third night on, the product from the fourth one on, too."""
    page = (Path(__file__).parents[4] / "docs" / "method" / "reference-build.rst").read_text(encoding="utf-8")
    formula = page.partition("in :doc:`formulas <formulas>`::\n")[2].partition("\nA point")[0]
    hole = math.nan
    rows = {
        ",metric=mrr,test=64b-1c-ip4-mrr,": [hole, 10, hole, 10, hole, 9, hole, 8.1],
        ",experiment=reference,metric=mrr,test=64b-1c-ip4-mrr,": [4, hole, 4, hole, 3.6, hole, 3.6, hole],
        ",experiment=reference,metric=mrr,test=64b-1c-l2-mrr,": [2, hole, 2, hole, 1.8, hole, 1.8, hole],
    }

    (values,) = evaluated(formula.strip(), rows).matrix

    relative = values[::2] / values[0]
    assert [1.0, 1.0, 1.0, 0.9] == pytest.approx(relative.tolist())
    assert np.isnan(values[1::2]).all()


def test_rows_of_the_store_keep_their_names(evaluated: Any) -> None:
    assert tuple(CONFIGS) == evaluated('filter("")', CONFIGS).names


def test_each_row_is_named_by_the_function_and_the_row(evaluated: Any) -> None:
    rows = evaluated('log(fill(filter("config=8888")))', CONFIGS)

    assert ("log(fill(,config=8888,os=Ubuntu12,))",) == rows.names


def test_a_number_that_was_given_is_a_part_of_the_name(evaluated: Any) -> None:
    rows = evaluated('norm(filter("config=8888"), 5e-1)', CONFIGS)

    assert ("norm(,config=8888,os=Ubuntu12,, 0.5)",) == rows.names


def test_one_row_is_named_by_its_formula(evaluated: Any) -> None:
    assert ('ave(filter("config=8888"))',) == evaluated('ave( filter("config=8888") )', CONFIGS).names
    assert ('norm(ave(filter("")))',) == evaluated('norm(ave(filter("")))', CONFIGS).names


def test_the_documents_formula_gives_calculated_rows(evaluated: Any) -> None:
    rows = evaluated(
        'norm(filter("config=8888"))', {",config=8888,": [2.0, -2.0, math.nan], ",config=gpu,": [1] * 3}
    )

    assert ["norm(,config=8888,)"] == list(rows)
    np.testing.assert_array_equal([1, -1, math.nan], rows["norm(,config=8888,)"])


def test_a_source_is_left_as_it_was() -> None:
    matrix = np.array([[1.0, math.nan, math.inf]])
    rows = Rows((",a=b,",), matrix)

    class Given:
        def select(self, query: Any, *, most: int) -> Rows:
            return rows

        def traces(self, keys: Any) -> Any: ...

        shortcut = traces

    evaluate('norm(iqrr(fill(filter(""))))', Given(), points=3)

    np.testing.assert_array_equal([[1.0, math.nan, math.inf]], matrix)


def test_the_same_query_is_asked_once(shelf: Any) -> None:
    source = shelf({",a=1,": [1.0]})

    evaluate('ratio(ave(filter("a=1")), sum(filter("a=1")))', source, points=1)

    assert ["a=1"] == source.asked


def test_a_ratio_of_several_rows_is_refused(evaluated: Any) -> None:
    with pytest.raises(FormulaError) as caught:
        evaluated('ratio(sum(filter("")), filter(""))', CONFIGS)

    assert (
        "formula, character 24: ratio needs one row on each side, but b has 2; use, for example, ave(…)"
        == str(caught.value)
    )


def test_a_ratio_with_a_side_that_has_no_row_is_all_holes(evaluated: Any) -> None:
    rows = evaluated('ratio(filter("a=0"), filter("a=1"))', {",a=1,": [1.0, 2.0]})

    np.testing.assert_array_equal([[math.nan, math.nan]], rows.matrix)


SHORTCUTS = {
    "54": [",config=8888,os=Ubuntu12,", '@ave(filter(""))', "!norm(,config=gpu,os=Ubuntu12,)"],
    "55": ['@fill(shortcut("54"))', ",config=gone,"],
    "loop": ['@norm(filter("#back"))'],
    "back": ['@sum(shortcut("loop"))'],
    "empty": [],
    "bad": ['@ratio(filter(""), filter(""))'],
}


@pytest.mark.parametrize("formula", ['shortcut("54")', 'filter("#54")'])
def test_a_shortcut_gives_its_traces_and_the_rows_of_its_formulas(evaluated: Any, formula: str) -> None:
    rows = evaluated(formula, CONFIGS, shortcuts=SHORTCUTS)

    assert (",config=8888,os=Ubuntu12,", 'ave(filter(""))') == rows.names
    assert 1.5 == rows['ave(filter(""))'][1]


def test_shortcuts_lead_to_shortcuts(evaluated: Any) -> None:
    rows = evaluated('count(shortcut("55"))', CONFIGS, shortcuts=SHORTCUTS)

    assert [[2.0, 2.0, 2.0]] == rows.matrix.tolist()


def test_an_empty_shortcut_has_no_rows(evaluated: Any) -> None:
    assert (0, 3) == evaluated('norm(shortcut("empty"))', CONFIGS, shortcuts=SHORTCUTS).matrix.shape


def test_rows_with_one_name_are_one_row(evaluated: Any) -> None:
    shortcuts = {"1": [",config=8888,os=Ubuntu12,", '@filter("")']}

    assert 2 == len(evaluated('shortcut("1")', CONFIGS, shortcuts=shortcuts))


@pytest.mark.parametrize(
    ("formula", "reason"),
    [
        ('ave(shortcut("7"))', "formula, character 5: shortcut 7 does not exist"),
        (
            'ave(filter("#loop"))',
            'character 5: in the shortcut loop, @norm(filter("#back")): in the shortcut back',
        ),
        ('ave(filter("#loop"))', "the shortcut loop refers to itself; remove its formula"),
        (
            'sum(filter("#bad"))',
            'character 5: in the shortcut bad, @ratio(filter(""), filter("")): ratio needs one row',
        ),
    ],
)
def test_a_shortcut_that_cannot_be_used_is_told(evaluated: Any, formula: str, reason: str) -> None:
    with pytest.raises(FormulaError) as caught:
        evaluated(formula, CONFIGS, shortcuts=SHORTCUTS)

    assert reason in str(caught.value)


def test_shortcuts_in_shortcuts_are_bounded(evaluated: Any) -> None:
    shortcuts = {str(depth): [f'@filter("#{depth + 1}")'] for depth in range(9)} | {"9": [*CONFIGS]}

    assert 2 == len(evaluated('filter("#5")', CONFIGS, shortcuts=shortcuts))
    with pytest.raises(FormulaError, match="more than 5 shortcuts within shortcuts"):
        evaluated('filter("#4")', CONFIGS, shortcuts=shortcuts)


def test_shortcuts_that_multiply_are_bounded(evaluated: Any) -> None:
    shortcuts = {
        str(depth): [f'@norm(shortcut("{depth + 1}"), {n})' for n in range(30)] for depth in range(4)
    }

    with pytest.raises(FormulaError, match="more than 500 calls"):
        evaluated('filter("#0")', CONFIGS, shortcuts=shortcuts | {"4": []})


def test_formulas_of_a_shortcut_are_bounded_together(evaluated: Any) -> None:
    shortcuts = {"1": [f'@norm(filter(""), {number})' for number in range(4)]}

    with pytest.raises(FormulaError, match="character 1: 6 rows of 3 points are more than 17 values"):
        evaluated('shortcut("1")', CONFIGS, shortcuts=shortcuts, limits=EvaluationLimits(cells=17))


@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        (
            EvaluationLimits(cells=5),
            "character 10: 2 rows of 3 points are more than 5 values; choose fewer traces",
        ),
        (
            EvaluationLimits(total_cells=11),
            "character 5: more than 11 values in all; choose fewer traces or calls",
        ),
        (EvaluationLimits(calls=2), "character 10: more than 2 calls; use fewer formulas"),
    ],
)
def test_work_is_bounded(evaluated: Any, limits: EvaluationLimits, reason: str) -> None:
    formula = 'ave(fill(filter("")))'

    assert 1 == len(evaluated(formula, CONFIGS, limits=EvaluationLimits(cells=6, total_cells=15, calls=3)))
    with pytest.raises(FormulaError) as caught:
        evaluated(formula, CONFIGS, limits=limits)
    assert reason in str(caught.value)


def test_rows_of_another_length_are_refused(evaluated: Any) -> None:
    with pytest.raises(SettingsError, match="rows: ,t=1, has 3 points; give it 2 like the others"):
        evaluated('filter("")', [[1.0, 2.0], [1.0, 2.0, 3.0]])
    with pytest.raises(SettingsError, match="they have 2 points; give them 3"):
        Rows.of(Rows((",a=b,",), np.zeros((1, 2))), points=3)


def test_each_row_needs_a_name_of_its_own() -> None:
    with pytest.raises(SettingsError, match=r"1 different names for a matrix of shape \(2, 3\)"):
        Rows((",a=b,", ",a=b,"), np.zeros((2, 3)))


def test_what_a_source_raises_passes_through(shelf: Any) -> None:
    class Broken(shelf):
        def select(self, query: Any, *, most: int) -> Any:
            raise SettingsError("the expression takes too long")

    with pytest.raises(SettingsError, match="takes too long"):
        evaluate('ave(filter("a=~b"))', Broken({}), points=1)


def test_a_source_is_told_how_many_rows_are_of_use() -> None:
    class Endless:
        def select(self, query: Any, *, most: int) -> Rows:
            return Rows([f",t={place}," for place in range(most + 1)], np.zeros((most + 1, 4)))

        def traces(self, keys: Any) -> Any: ...

        shortcut = traces

    with pytest.raises(FormulaError, match="26 rows of 4 points are more than 100 values"):
        evaluate('count(filter(""))', Endless(), points=4, limits=EvaluationLimits(cells=100))


def test_a_large_shortcut_is_refused_before_its_traces_are_read(shelf: Any) -> None:
    class Unread(shelf):
        def traces(self, keys: Any) -> Any:
            raise AssertionError("too many to be read")

    source = Unread({}, {"1": [f",t={place}," for place in range(6)]})

    with pytest.raises(FormulaError, match="6 rows of 2 points are more than 10 values"):
        evaluate('filter("#1")', source, points=2, limits=EvaluationLimits(cells=10))


NESTED = [each.name for each in FUNCTIONS.values() if each.makes is not Makes.FOUND and each.name != "ratio"]


@given(st.lists(st.sampled_from(NESTED), max_size=5))
def test_every_row_has_an_id_that_reads_back(functions: list[str]) -> None:
    class Given:
        def select(self, query: Any, *, most: int) -> Rows:
            return Rows((",a=b,", ",a=c (d),"), np.array([[1.0, math.nan], [-2.0, 3.0]]))

        def traces(self, keys: Any) -> Any: ...

        shortcut = traces

    formula = 'filter("a=~.")'
    for function in functions:
        numbers = ", 4" * (FUNCTIONS[function].least_arguments - 1)
        formula = f"{function}({formula}{numbers})"
    made = {FUNCTIONS[function].makes for function in functions}
    kind = FormulaId if Makes.ONE in made else CalculatedId if made else NormalId

    names = evaluate(formula, Given(), points=2).names

    assert [row_id(name) for name in names] == [str(parse_trace_id(row_id(name))) for name in names]
    assert {kind} == {type(parse_trace_id(row_id(name))) for name in names}
