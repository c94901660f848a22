from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.analysis import GrowingPartition, Partition, partition
from perftrend.errors import SettingsError

ENGINES = ["numpy", "compiled"]

values = st.one_of(
    st.floats(min_value=0.01, max_value=1e8),
    st.floats(min_value=-1e3, max_value=-0.01),
    st.sampled_from([math.nan, math.inf, 0.0, 1.0, 9.9e6, 1e7, 1.01e7]),
)


def shape(found: Partition) -> list[tuple[int, int]]:
    return [(group.start, group.stop) for group in found.groups]


@pytest.mark.parametrize("engine", ENGINES)
@given(
    st.lists(values, max_size=12),
    st.lists(values, max_size=12),
    st.sampled_from(["jumpavg-0.4", "jumpavg-0.1"]),
)
def test_appending_is_as_good_as_beginning_again(
    engine: str, known: list[float], later: list[float], formula: str
) -> None:
    growing = GrowingPartition(known, formula=formula, engine=engine)
    for sample in later:
        growing.append(sample)

    assert partition(known + later, formula=formula).bits == pytest.approx(growing.partition().bits)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("kind", ["noise", "steps", "different"])
def test_every_step_of_a_long_series_gives_the_identical_partition(engine: str, kind: str) -> None:
    generator = np.random.default_rng(4)
    levels = np.repeat(generator.uniform(0.8, 1.0, 20), 15)
    noise = generator.normal(1.0, 0.01, 300)
    samples = 1e7 * {"noise": noise, "steps": levels * noise, "different": generator.uniform(0, 1, 300)}[kind]
    growing = GrowingPartition(samples[:150].tolist(), engine=engine)
    for size in range(151, 301):
        growing.append(float(samples[size - 1]))
        if size % 25 == 0:
            found, again = growing.partition(), partition(samples[:size], engine=engine)

            assert shape(again) == shape(found)
            assert again.bits == pytest.approx(found.bits, rel=1e-12)


def test_series_may_outgrow_every_table() -> None:
    generator = np.random.default_rng(1)
    samples = (1e7 * generator.normal(1.0, 0.01, 600)).tolist()
    growing = GrowingPartition(samples[:3])
    for sample in samples[3:]:
        growing.append(sample)

    assert shape(partition(samples)) == shape(growing.partition())


def test_runs_may_have_several_samples() -> None:
    runs = [[10.0, 10.1, 9.9], [10.0, 10.2], [5.0, 5.1], [5.0, 4.9, 5.1]]
    growing = GrowingPartition(runs[:1])
    for run in runs[1:]:
        growing.append(run)

    assert partition(runs) == growing.partition()


def test_empty_series_has_no_group_until_it_has_a_sample() -> None:
    growing = GrowingPartition()
    growing.append(math.nan)

    assert Partition((), 0.0) == growing.partition()

    growing.append(7.0)

    assert [(1, 2)] == shape(growing.partition())


def test_series_may_begin_with_zeros_and_negative_samples() -> None:
    samples = [0.0, 0.0, -3.0, -3.1, 5.0, 5.1, 5.0, -4.0]
    growing = GrowingPartition()
    for size, sample in enumerate(samples, 1):
        growing.append(sample)

        assert partition(samples[:size]) == growing.partition()


def test_unit_without_meaning_is_refused() -> None:
    with pytest.raises(SettingsError, match=r"unit is -1\.0"):
        GrowingPartition([1.0], unit=-1.0)
