"""Which traces belong together when two values of a parameter are compared."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis.query import TraceTable
from perftrend.analysis.ratios import WITHOUT, Pairs, across, of_named, with_themselves
from perftrend.model import TraceKey

VALUES = st.sampled_from(["a", "b", "c", "a b", "x-a", "x-b"])
KEYS = st.lists(
    st.builds(TraceKey.of, test=VALUES, testbed=VALUES, driver=VALUES, suite=VALUES), max_size=12, unique=True
)
Told = list[tuple[int, int, dict[str, str]]]


def keys_of(*parameters: dict[str, str]) -> list[TraceKey]:
    return [TraceKey.of(**each) for each in parameters]


def paired(keys: Sequence[TraceKey], vertical: str, left: str, right: str) -> Pairs:
    return across(TraceTable(keys).own, np.arange(len(keys)), vertical, left, right)


def told(pairs: Pairs) -> Told:
    """Return the sides of each pair, and what they agree in."""
    return [
        (
            int(pairs.left[number]),
            int(pairs.right[number]),
            {
                name: each.values[each.codes[number]]
                for name, each in pairs.parameters.items()
                if each.codes[number] >= 0
            },
        )
        for number in range(len(pairs))
    ]


def alone(pairs: Pairs) -> tuple[list[int], list[int]]:
    return pairs.left_alone.tolist(), pairs.right_alone.tolist()


def test_documented_example_is_a_pair() -> None:
    """x86_64:HD7770:ShuttleA:Win8:gradient_create_opaque_640_480:gpu, and the same with 8888."""
    rest = {"arch": "x86_64", "gpu": "HD7770", "model": "ShuttleA", "os": "Win8",
            "test": "gradient_create_opaque_640_480"}  # fmt: skip
    keys = keys_of({**rest, "config": "8888"}, {**rest, "config": "gpu"}, {**rest, "config": "565"})

    found = paired(keys, "config", "gpu", "8888")

    assert [(1, 0, rest)] == told(found)
    assert ([], []) == alone(found)


def test_traces_that_differ_in_another_parameter_are_alone() -> None:
    keys = keys_of(
        {"test": "a", "driver": "avf", "testbed": "x"}, {"test": "a", "driver": "rdma", "testbed": "y"}
    )

    found = paired(keys, "driver", "avf", "rdma")

    assert ([], ([0], [1])) == (told(found), alone(found))


def test_parameter_that_one_side_lacks_is_a_difference() -> None:
    keys = keys_of({"test": "a", "driver": "avf", "nic": "x"}, {"test": "a", "driver": "rdma"})

    assert [] == told(paired(keys, "driver", "avf", "rdma"))


def test_experiment_is_compared_with_the_nightly_traces_that_have_none() -> None:
    keys = keys_of(
        {"test": "a"}, {"test": "a", "experiment": "acl_rules=60"}, {"test": "b", "experiment": "burst=8"}
    )
    pairs = paired(keys, "experiment", "acl_rules=60", WITHOUT)

    assert [(1, 0, {"test": "a"})] == told(pairs)
    assert ([], []) == alone(pairs)
    assert [(0, 1, {"test": "a"})] == told(paired(keys, "experiment", WITHOUT, "acl_rules=60"))


def test_traces_with_nothing_but_the_vertical_are_a_pair() -> None:
    assert [(1, 0, {})] == told(
        paired(keys_of({"driver": "rdma"}, {"driver": "avf"}), "driver", "avf", "rdma")
    )


def test_only_the_chosen_traces_are_paired() -> None:
    keys = keys_of(
        {"test": "a", "driver": "avf"}, {"test": "a", "driver": "rdma"}, {"test": "b", "driver": "avf"}
    )

    found = across(TraceTable(keys).own, np.array([1, 2]), "driver", "avf", "rdma")

    assert ([], ([2], [1])) == (told(found), alone(found))


def test_word_of_a_name_that_repeats_the_value_does_not_tell_traces_apart() -> None:
    keys = keys_of(
        {"test": "64b-1c-ip4", "frame": "64B", "suite": "10ge-64b"},
        {"test": "1518b-1c-ip4", "frame": "1518B", "suite": "10ge-1518b"},
        {"test": "1518b-2c-ip4", "frame": "1518B", "suite": "10ge-1518b"},
    )

    found = paired(keys, "frame", "64B", "1518B")

    assert [(0, 1, {"suite": "10ge-*", "test": "*-1c-ip4"})] == told(found)
    assert ([], [2]) == alone(found)


def test_traces_that_agree_exactly_are_paired_before_those_that_are_alike() -> None:
    keys = keys_of(
        {"test": "avf-x", "driver": "avf"}, {"test": "avf-x", "driver": "rdma"},
        {"test": "rdma-x", "driver": "rdma"},
    )  # fmt: skip

    found = paired(keys, "driver", "avf", "rdma")

    assert [(0, 1)] == [sides[:2] for sides in told(found)]
    assert [2] == found.right_alone.tolist()


def test_of_several_that_are_alike_the_first_one_has_the_partner() -> None:
    keys = keys_of(
        {"test": "rdma-x", "driver": "rdma"},
        {"test": "AVF-x", "driver": "avf"},
        {"test": "avf-x", "driver": "avf"},
    )

    found = paired(keys, "driver", "avf", "rdma")

    assert [(1, 0, {"test": "*-x"})] == told(found)
    assert ([2], []) == alone(found)


def test_value_compared_with_itself_has_no_pairs() -> None:
    found = paired(keys_of({"test": "a", "driver": "avf"}), "driver", "avf", "avf")

    assert ([], ([0], [0])) == (told(found), alone(found))


def test_pairs_that_are_not_kept_are_alone() -> None:
    keys = keys_of(*({"test": test, "driver": driver} for test in "ab" for driver in ("avf", "rdma")))

    found = paired(keys, "driver", "avf", "rdma").only(np.array([False, True]))

    assert [(2, 3, {"test": "b"})] == told(found)
    assert ([0], [1]) == alone(found)


def without(parameters: dict[str, str], word: str) -> dict[str, str]:
    return {name: re.sub(rf"\b{word}\b", "*", text) for name, text in parameters.items()}


@given(KEYS)
def test_pairs_agree_in_all_but_the_vertical(keys: list[TraceKey]) -> None:
    for one, other, rest in told(paired(keys, "driver", "a", "b")):
        left, right = keys[one].as_dict(), keys[other].as_dict()
        assert ("a", "b") == (left.pop("driver"), right.pop("driver"))
        assert rest == left == right or rest == without(left, "a") == without(right, "b")


@given(KEYS)
def test_every_trace_of_a_side_is_in_one_pair_or_alone(keys: list[TraceKey]) -> None:
    found = paired(keys, "driver", "a", "b")

    for side, value in (([*found.left, *found.left_alone], "a"), ([*found.right, *found.right_alone], "b")):
        assert sorted(side) == [place for place, key in enumerate(keys) if key["driver"] == value]


@given(KEYS)
def test_swapped_sides_swap_all_pairs(keys: list[TraceKey]) -> None:
    forth, back = paired(keys, "driver", "a", "b"), paired(keys, "driver", "b", "a")

    assert sorted(map(str, told(forth))) == sorted(str((one, other, rest)) for other, one, rest in told(back))


def test_trace_is_paired_with_itself() -> None:
    own = TraceTable(keys_of({"test": "a", "testbed": "x"}, {"test": "b", "testbed": "x"})).own

    assert [(1, 1, {"test": "b", "testbed": "x"})] == told(with_themselves(own, np.array([1])))


def test_named_values_are_paired_with_their_traces() -> None:
    own = TraceTable(keys_of({"test": "a", "testbed": "x"}, {"test": "b", "testbed": "x"})).own

    found = of_named([None, 1, None], own)

    assert [(1, 1, {"test": "b", "testbed": "x"})] == told(found)
    assert ([0, 2], []) == alone(found)
