"""Formulas over the traces of a table."""

from __future__ import annotations

from typing import Any
from unittest import mock

import numpy as np
import pytest

from perftrend.analysis.formula import EvaluationLimits, NormalId, evaluate
from perftrend.analysis.query import TraceSource, TraceTable
from perftrend.errors import FormulaError
from perftrend.model import TraceKey

KEYS = [TraceKey.of(test=test, metric=metric) for test in ("ip4", "ip6") for metric in ("mrr", "ndr")]
VALUES = np.arange(8.0).reshape(4, 2)


def source(**more: Any) -> TraceSource:
    return TraceSource(TraceTable(KEYS), 2, VALUES.__getitem__, **more)


def test_filter_gives_the_rows_of_the_traces() -> None:
    rows = evaluate('filter("metric=ndr")', source(), points=2)

    assert (",metric=ndr,test=ip4,", ",metric=ndr,test=ip6,") == rows.names
    assert [[2.0, 3.0], [6.0, 7.0]] == rows.matrix.tolist()


def test_filter_without_a_match_gives_no_rows() -> None:
    assert 0 == len(evaluate('filter("metric=x")', source(), points=2))


def test_formulas_work_on_regular_expressions() -> None:
    rows = evaluate('ratio(ave(filter("test=~4$")), ave(filter("test=~6$")))', source(), points=2)

    assert [[1 / 5, 2 / 6]] == rows.matrix.tolist()


def test_shortcut_gives_the_traces_that_there_still_are() -> None:
    held = [NormalId(KEYS[3]), NormalId(TraceKey.of(test="gone")), NormalId(KEYS[0])]

    rows = evaluate('shortcut("54")', source(shortcuts={"54": held}.get), points=2)

    assert [[6.0, 7.0], [0.0, 1.0]] == rows.matrix.tolist()


def test_unknown_shortcut_is_refused() -> None:
    with pytest.raises(FormulaError, match="shortcut 54 does not exist"):
        evaluate('filter("#54")', source(), points=2)


def test_more_traces_than_may_be_are_refused_unread() -> None:
    def read(_: object) -> np.ndarray:
        raise AssertionError

    with pytest.raises(FormulaError, match="choose fewer traces"):
        evaluate(
            'filter("")', TraceSource(TraceTable(KEYS), 2, read), points=2, limits=EvaluationLimits(cells=6)
        )


def test_wrong_regular_expression_is_refused() -> None:
    with pytest.raises(FormulaError, match="is not a valid RE2 regular expression"):
        evaluate('filter("test=~(")', source(), points=2)


def test_names_are_written_only_where_somebody_asks_for_them() -> None:
    """Of tens of thousands of traces that takes longer than their average."""
    with mock.patch("perftrend.analysis.query.table.format_key", side_effect=AssertionError):
        rows = evaluate('ave(filter("metric=ndr"))', source(), points=2)

    assert [[4.0, 5.0]] == rows.matrix.tolist()
