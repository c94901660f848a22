"""Parameters as numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.query import TraceTable, columns
from perftrend.analysis.query.columns import combine_codes, of_rows
from perftrend.model import TraceKey

KEYS = st.lists(
    st.dictionaries(st.sampled_from(["driver", "frame", "test"]), st.sampled_from(["", "a", "b", "c"])),
    max_size=12,
)


def table_of(*parameters: dict[str, str], **more: list[str]) -> TraceTable:
    return TraceTable([TraceKey.of(**each) for each in parameters], more)


def test_further_parameters_are_not_those_of_the_traces() -> None:
    table = table_of({"test": "a"}, {"driver": "avf"}, unit=["pps", "s"])

    assert ["driver", "test"] == list(table.own)
    assert {"driver", "test", "unit"} == set(table.parameters)


def test_codes_that_are_used_tell_where_there_is_none() -> None:
    tests = table_of({"test": "a"}, {"test": "b"}, {"test": "b"}, {"driver": "avf"}).own["test"]

    assert [-1, 0, 1] == tests.unique_codes()
    assert [1] == tests.of(np.array([1, 2])).unique_codes()


@pytest.mark.parametrize("most", [columns._LARGEST_CODE, 5])
@given(KEYS)
def test_traces_have_the_same_number_where_they_agree(most: int, keys: list[dict[str, str]]) -> None:
    """However many values there are: 5 is soon exceeded."""
    rows = np.arange(len(keys))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "_LARGEST_CODE", most)
        numbers = combine_codes(of_rows(table_of(*keys).own, rows).values(), len(keys)).tolist()

    assert [[one == other for other in keys] for one in keys] == [
        [one == other for other in numbers] for one in numbers
    ]


def test_traces_without_parameters_are_all_the_same() -> None:
    assert [0, 0] == combine_codes([], 2).tolist()
