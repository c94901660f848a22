from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.cluster import ValueCount, parameter_summary
from perftrend.model import TraceKey


def test_values_are_counted_and_weighted() -> None:
    """The weight is 12 and 14 times the share, rounded down: 14, 9.33 and 4.67."""
    keys = [
        TraceKey.of(testbed="2n-clx", test="a"),
        TraceKey.of(testbed="2n-clx", test="b"),
        TraceKey.of(testbed="2n-clx", test="b"),
    ]

    assert parameter_summary(keys) == {
        "test": (ValueCount("b", 2, 21), ValueCount("a", 1, 16)),
        "testbed": (ValueCount("2n-clx", 3, 26),),
    }


def test_empty_value_counts_for_nothing() -> None:
    summary = parameter_summary([TraceKey.of(driver=""), TraceKey.of(driver="avf")])

    assert {"driver": (ValueCount("avf", 1, 19),)} == summary


def test_nothing_in_common_of_nothing() -> None:
    assert {} == parameter_summary([])


@given(st.lists(st.dictionaries(st.sampled_from("abc"), st.sampled_from("xyz")), max_size=20))
def test_counts_add_up_and_descend(parameters: list[dict[str, str]]) -> None:
    summary = parameter_summary([TraceKey.of(**each) for each in parameters])

    for name, values in summary.items():
        counts = [value.count for value in values]
        assert sorted(counts, reverse=True) == counts
        assert sum(name in each for each in parameters) == sum(counts)
        assert all(12 <= value.weight <= 26 for value in values)
    assert {name for each in parameters for name in each} == set(summary)
