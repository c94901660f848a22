"""Which traces belong together when two values of a parameter are compared, and what the comparison shows."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from perftrend.analysis.query import TraceTable
from perftrend.analysis.ratios import (
    WITHOUT,
    Pairs,
    Ratios,
    Values,
    across,
    noise_of_history,
    noise_of_samples,
    of_named,
    ratios,
    with_themselves,
)
from perftrend.model import TraceKey

VALUES = st.sampled_from(["a", "b", "c", "a b", "x-a", "x-b"])
KEYS = st.lists(
    st.builds(TraceKey.of, test=VALUES, testbed=VALUES, driver=VALUES, suite=VALUES), max_size=12, unique=True
)
Told = list[tuple[int, int, dict[str, str]]]

RATES = st.floats(min_value=1e-3, max_value=1e12)
ERRORS = st.floats(min_value=0.0, max_value=0.5)
FREEDOM = st.integers(min_value=0, max_value=300)
SIDES = st.lists(
    st.tuples(RATES, ERRORS, FREEDOM, RATES, ERRORS, FREEDOM, st.booleans()), min_size=1, max_size=20
)


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


def side(value: ArrayLike, error: Any = math.nan, freedom: Any = 0) -> Values:
    values = np.atleast_1d(np.asarray(value, dtype=float))
    return Values(
        values, np.broadcast_to(error, values.shape).astype(float), np.broadcast_to(freedom, values.shape)
    )


def compared(left: Values, right: Values, *, lower: bool = False) -> Ratios:
    return ratios(left, right, lower_is_better=np.full(left.value.shape, lower))


@pytest.mark.parametrize(
    ("left", "right", "signed", "plain"),
    [(3.0, 2.0, 1.5, 1.5), (2.0, 3.0, -1.5, 2 / 3), (2.0, 2.0, 1.0, 1.0)],
)
def test_cell_is_the_larger_by_the_smaller_and_its_sign_says_which(
    left: float, right: float, signed: float, plain: float
) -> None:
    found = compared(side(left), side(right))

    assert ([signed], [plain]) == (found.signed.tolist(), found.plain.tolist())


@pytest.mark.parametrize("value", [0.0, -1.0, math.nan, math.inf])
def test_ratio_needs_two_values_above_zero(value: float) -> None:
    for found in (compared(side(value), side(1.0)), compared(side(1.0), side(value))):
        assert all(math.isnan(each[0]) for each in (found.plain, found.signed, found.gain, found.low))
        assert not found.is_noise[0]


def test_larger_is_better_or_worse_as_the_trace_says() -> None:
    assert compared(side(3.0), side(2.0)).gain[0] == pytest.approx(math.log(1.5))
    assert compared(side(3.0), side(2.0), lower=True).gain[0] == pytest.approx(-math.log(1.5))


def test_difference_within_the_noise_is_not_shown() -> None:
    """Two errors of 1 % make 1.4 % and 3.7 % with 99 % of certainty."""
    found = compared(side([1.03, 1.05], 0.01, 100), side([1.0, 1.0], 0.01, 100))

    assert [True, False] == found.is_noise.tolist()
    assert found.low[0] < 1.0 < found.high[0]
    assert 1.0 < found.low[1] < 1.05 < found.high[1]


def test_noise_of_one_side_alone_says_nothing() -> None:
    found = compared(side(2.0, 0.01, 9), side(1.0))

    assert math.isnan(found.low[0])
    assert not found.is_noise[0]


@given(SIDES)
def test_swapped_sides_mirror_the_cells(given_sides: list[tuple[Any, ...]]) -> None:
    columns = [np.array(column) for column in zip(*given_sides, strict=True)]
    left, right = Values(*columns[:3]), Values(*columns[3:6])
    forth = ratios(left, right, lower_is_better=columns[6])
    back = ratios(right, left, lower_is_better=columns[6])
    differ = left.value != right.value

    np.testing.assert_allclose(forth.signed[differ], -back.signed[differ])
    np.testing.assert_allclose(forth.signed[~differ], back.signed[~differ])
    np.testing.assert_allclose(forth.plain * back.plain, 1.0)
    np.testing.assert_allclose(forth.gain, -back.gain, atol=1e-12)
    np.testing.assert_allclose(forth.low, 1 / back.high)
    assert np.array_equal(forth.is_noise, back.is_noise)


@given(SIDES)
def test_size_of_a_cell_is_one_at_least(given_sides: list[tuple[Any, ...]]) -> None:
    columns = [np.array(column) for column in zip(*given_sides, strict=True)]
    found = ratios(Values(*columns[:3]), Values(*columns[3:6]), lower_is_better=columns[6])

    assert (np.abs(found.signed) >= 1.0).all()
    assert ((found.signed > 0) == (columns[0] >= columns[3])).all()


def history(*, traces: int = 400, columns: int = 32, noise: float = 0.02, seed: int = 7) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.asarray(1e6 * np.exp(noise * random.standard_normal((traces, columns))))


def test_deviation_is_that_of_the_values() -> None:
    deviations, freedom = noise_of_history(history())

    assert math.sqrt(np.mean(deviations**2)) == pytest.approx(0.02, rel=0.05)
    assert {15} == set(freedom.tolist())


def test_degrees_of_freedom_are_not_more_than_the_estimate_has() -> None:
    """The relative variance of s² is 2/f for f degrees of freedom."""
    deviations, freedom = noise_of_history(history(traces=4000))

    variances = deviations**2
    assert 2 * (variances.mean() / variances.std()) ** 2 >= 0.8 * freedom[0]


def test_one_change_does_not_pass_for_noise() -> None:
    values = history()
    values[:, 20:] *= 2

    deviations, _ = noise_of_history(values)

    assert np.median(deviations) == pytest.approx(0.02, rel=0.2)


def test_holes_do_not_matter() -> None:
    values = history()
    values[:, ::3] = np.nan

    deviations, _ = noise_of_history(values)

    assert math.sqrt(np.mean(deviations**2)) == pytest.approx(0.02, rel=0.1)


@pytest.mark.parametrize("columns", [8, 12, 32])
def test_no_more_differences_are_shown_than_promised_where_there_are_none(columns: int) -> None:
    """With 99 %, one in a hundred may be shown; so few degrees of freedom show less."""
    sides = [history(traces=5000, columns=columns, seed=seed) for seed in (1, 2)]
    left, right = (Values(side[:, -1], *noise_of_history(side)) for side in sides)

    found = ratios(left, right, lower_is_better=np.zeros(5000, dtype=bool))

    assert np.mean(~found.is_noise) < 0.012


@pytest.mark.parametrize("row", [[1.0] * 6 + [math.nan] * 4, [1.0] * 9 + [0.0], [math.nan] * 10])
def test_too_few_values_or_none_above_zero_tell_nothing(row: list[float]) -> None:
    deviations, freedom = noise_of_history(np.array([row, [2.0] * 10]))

    assert math.isnan(deviations[0])
    assert [0.0, [0, 4]] == [deviations[1], freedom.tolist()]


def test_short_history_tells_nothing() -> None:
    deviations, freedom = noise_of_history(np.ones((2, 3)))

    assert np.isnan(deviations).all()
    assert [0, 0] == freedom.tolist()


def test_trials_tell_the_error_of_their_average() -> None:
    error, freedom = noise_of_samples([99.0, 101.0, 99.0, 101.0])

    assert error == pytest.approx(0.01 * math.sqrt(4 / 3) / 2, rel=1e-3)
    assert 3 == freedom


@pytest.mark.parametrize("samples", [[], [5.0], [1.0, 0.0], [1.0, math.inf]])
def test_trials_that_tell_nothing(samples: list[float]) -> None:
    error, freedom = noise_of_samples(samples)

    assert math.isnan(error)
    assert 0 == freedom
