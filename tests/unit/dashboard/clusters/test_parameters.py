"""The parameters that distinguish a cluster."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.cluster import parameter_summary
from perftrend.dashboard.clusters.clustering import MOST_OVERREPRESENTED, find_overrepresented
from perftrend.dashboard.clusters.models import OverrepresentedValue
from perftrend.model import TraceKey


def standing_out(cluster: list[TraceKey], others: list[TraceKey]) -> list[OverrepresentedValue]:
    everything = [*cluster, *others]
    return find_overrepresented(
        parameter_summary(cluster), len(cluster), parameter_summary(everything), len(everything)
    )


def keys(count: int, **parameters: str) -> list[TraceKey]:
    return [TraceKey.of(**parameters)] * count


def test_value_of_the_changed_traces_stands_out_and_what_all_have_does_not() -> None:
    found = standing_out(keys(20, driver="mlx5", cores="1c"), keys(80, driver="avf", cores="1c"))

    assert [OverrepresentedValue(parameter="driver", value="mlx5", count=20, of_all=20)] == found


def test_most_surprising_is_first() -> None:
    cluster = keys(20, driver="mlx5", frame="64B")
    others = [*keys(20, driver="avf", frame="64B"), *keys(60, driver="avf", frame="1518B")]

    assert ["driver", "frame"] == [each.parameter for each in standing_out(cluster, others)]


@pytest.mark.parametrize(("count", "stands_out"), [(7, False), (8, True)])
def test_two_standard_deviations_are_the_limit(count: int, stands_out: bool) -> None:
    """49 of 100 have it: 4.9 of 10 are expected, and 2 √(10 · .49 · .51 · 90/99) more, which is 7.9."""
    cluster = [*keys(count, frame="64B"), *keys(10 - count, frame="1518B")]
    others = [*keys(49 - count, frame="64B"), *keys(41 + count, frame="1518B")]

    assert stands_out is bool(standing_out(cluster, others))


def test_cluster_of_all_traces_has_nothing_that_stands_out() -> None:
    assert [] == standing_out([*keys(3, frame="64B"), *keys(4, frame="1518B")], [])


def test_no_more_are_told_than_a_person_reads() -> None:
    many = {f"p{number}": "changed" for number in range(30)}

    assert MOST_OVERREPRESENTED == len(standing_out(keys(5, **many), keys(50, p0="as it was")))


frames = st.lists(st.sampled_from(["64B", "1518B", "IMIX"]), min_size=1, max_size=20)


@given(frames, frames)
def test_what_stands_out_is_more_frequent_inside_than_outside(inside: list[str], outside: list[str]) -> None:
    cluster, others = ([TraceKey.of(frame=frame) for frame in side] for side in (inside, outside))

    for each in standing_out(cluster, others):
        assert each.count * (len(inside) + len(outside)) > each.of_all * len(inside)
        assert each.count <= each.of_all
