"""Families of traces: which there are, and which changes they share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from perftrend.analysis.families import (
    FamilyChange,
    find_families,
    find_family_changes,
    find_shared_changes,
)
from perftrend.analysis.families.nights import (
    NoiseMemory,
    NoiseOfNights,
    autocorrelations,
    memory_of,
    simulate,
)
from perftrend.model import Better, Run, Samples, Series, TraceKey

HISTORY = 60
Parameters = Sequence[Mapping[str, str]]


def simulated(seed: int, *, after: int, noise: NoiseOfNights | None = None) -> tuple[Samples, Parameters]:
    return simulate(np.random.default_rng(seed), runs=HISTORY + after, noise=noise or NoiseOfNights())


def with_value(parameters: Parameters, **values: str) -> list[int]:
    return [place for place, each in enumerate(parameters) if values.items() <= each.items()]


def members_of(change: FamilyChange) -> list[int]:
    return change.family.members.tolist()


def test_families_have_values_of_one_or_two_parameters_in_common() -> None:
    parameters = [
        {"driver": d, "frame": f} for d in ("avf", "dpdk") for f in ("64B", "1518B") for _ in range(6)
    ]

    found = {str(family): family.members.tolist() for family in find_families(parameters)}

    assert {
        "driver=avf": [*range(12)],
        "driver=dpdk": [*range(12, 24)],
        "frame=64B": [*range(6), *range(12, 18)],
        "frame=1518B": [*range(6, 12), *range(18, 24)],
        "driver=avf&frame=64B": [*range(6)],
        "driver=avf&frame=1518B": [*range(6, 12)],
        "driver=dpdk&frame=64B": [*range(12, 18)],
        "driver=dpdk&frame=1518B": [*range(18, 24)],
    } == found


def test_same_traces_are_one_family_and_neither_few_nor_most_are_one() -> None:
    parameters = [
        {"suite": "ip4", "path": "ip4base", "nic": "e810"} if place < 6
        else {"suite": "l2", "path": f"l2-{place}", "nic": "e810"}
        for place in range(13)
    ]  # fmt: skip

    # All have the card, more than half the suite l2, and each of its paths one trace.
    assert ["path=ip4base"] == [str(family) for family in find_families(parameters)]


@pytest.mark.parametrize("decay", [0.3, 0.7])
def test_memory_tells_how_much_averages_vary(decay: float) -> None:
    rng, runs = np.random.default_rng(1), 60
    rows = rng.standard_normal((runs, 4000))
    for run in range(1, runs):
        rows[run] = decay * rows[run - 1] + np.sqrt(1 - decay**2) * rows[run]
    correlations, squares = autocorrelations(rows)

    memory = memory_of(correlations @ squares / squares.sum(), runs)
    inflation = memory.inflation(20)

    assert memory.decay == pytest.approx(decay, abs=0.1)
    for average in (1, 5, 20):
        actual = rows[:average].mean(axis=0).var() * average
        assert inflation[average] == pytest.approx(actual, rel=0.15)


def test_independent_runs_have_no_memory() -> None:
    rows = np.random.default_rng(2).standard_normal((60, 4000))
    correlations, squares = autocorrelations(rows)

    assert NoiseMemory() == memory_of(correlations @ squares / squares.sum(), 60)
    assert [1.0] * 5 == NoiseMemory().inflation(5)[1:].tolist()


@pytest.mark.parametrize("seed", range(5))
def test_half_a_per_cent_of_a_path_is_found_within_three_weeks(seed: int) -> None:
    values, parameters = simulated(seed, after=21)
    slower = with_value(parameters, path="path3")
    values[HISTORY:, slower] *= 0.995

    found = find_family_changes(values, parameters)

    assert 1 == len(found)
    assert slower == members_of(found[0])
    assert (("path", "path3"),) == found[0].family.parameters
    assert found[0].change == pytest.approx(-0.005, abs=0.002)
    assert found[0].low < found[0].change < found[0].high < 0
    assert abs(found[0].run - HISTORY) <= 7


@pytest.mark.parametrize("seed", range(10))
def test_runs_without_a_change_are_quiet(seed: int) -> None:
    values, parameters = simulated(seed, after=40)

    assert [] == find_family_changes(values, parameters)


@pytest.mark.parametrize(
    "noise",
    [NoiseOfNights(memory=0.7), NoiseOfNights(modes=0.02), NoiseOfNights(of_driver=0.005)],
    ids=["memory", "modes", "drivers"],
)
@pytest.mark.parametrize("seed", range(5))
def test_noise_that_lasts_or_is_shared_is_no_change(noise: NoiseOfNights, seed: int) -> None:
    values, parameters = simulated(seed, after=20, noise=noise)

    assert [] == find_family_changes(values, parameters)


def test_one_trace_is_no_family_however_much_it_changes() -> None:
    values, parameters = simulated(1, after=20)
    values[HISTORY:, 7] *= 0.5

    assert [] == find_family_changes(values, parameters)


@pytest.mark.parametrize("seed", range(1, 6))
def test_few_traces_that_changed_much_are_no_family(seed: int) -> None:
    """They have nothing else in common than larger families, which would be a wrong name."""
    values, parameters = simulated(seed, after=20)
    values[HISTORY:, with_value(parameters, path="path3")[:4]] *= 0.94

    assert [] == find_family_changes(values, parameters)


def test_traces_that_end_are_no_change() -> None:
    values, parameters = simulated(6, after=20)
    values[50:, with_value(parameters, path="path3")] = np.nan
    values[:50, with_value(parameters, path="path4")] = np.nan
    values[-1, with_value(parameters, path="path5")] = np.nan

    assert [] == find_family_changes(values, parameters)


def test_everything_at_once_is_the_machine_and_no_family() -> None:
    values, parameters = simulated(1, after=20)
    values[HISTORY:] *= 0.98

    (found,) = find_family_changes(values, parameters)

    assert () == found.family.parameters
    assert 300 == len(members_of(found))
    assert found.low < -0.02 < found.high


def test_two_changes_are_both_named() -> None:
    values, parameters = simulated(4, after=15)
    slower, faster = (
        with_value(parameters, path="path1"),
        with_value(parameters, path="path2", frame="frame0"),
    )
    values[HISTORY:, slower] *= 0.99
    values[HISTORY + 3 :, faster] *= 1.02

    found = {str(each.family): each for each in find_family_changes(values, parameters)}

    assert {"path=path1", "frame=frame0&path=path2"} == set(found)
    assert found["path=path1"].change == pytest.approx(-0.01, abs=0.003)
    assert found["frame=frame0&path=path2"].change == pytest.approx(0.02, abs=0.006)


def test_more_latency_is_worse() -> None:
    values, parameters = simulated(3, after=15)
    slower = with_value(parameters, path="path5")
    values[HISTORY:, slower] *= 1.01

    (found,) = find_family_changes(values, parameters, lower_is_better=np.ones(300, dtype=np.bool_))

    assert slower == members_of(found)
    assert found.change < 0


def test_gaps_and_values_that_are_no_rates_are_left_out() -> None:
    values, parameters = simulated(5, after=15)
    slower = with_value(parameters, path="path3")
    values[HISTORY:, slower] *= 0.99
    values[np.random.default_rng(1).random(values.shape) < 0.3] = np.nan
    values[3, 4], values[5, 6], values[:, 8] = 0.0, -1.0, np.nan
    values[30] = np.nan

    (found,) = find_family_changes(values, parameters)

    assert {*members_of(found)} == {*slower} - {8}


@pytest.mark.parametrize("shape", [(0, 0), (0, 300), (5, 300), (60, 0), (60, 300)])
def test_too_little_is_no_change(shape: tuple[int, int]) -> None:
    parameters = [{"path": "x"}] * shape[1]

    assert [] == find_family_changes(np.full(shape, np.nan), parameters)
    assert [] == find_family_changes(np.full(shape, 5e6), parameters)


def series_of(values: Samples, parameters: Parameters) -> list[Series]:
    started = datetime(2026, 1, 1, tzinfo=UTC)
    moments = [started + timedelta(days=day) for day in range(len(values))]
    runs = tuple(
        Run("2n-clx", "nightly", day + 1, moment, moment, {"device": f"{day:040x}"})
        for day, moment in enumerate(moments)
    )
    return [
        Series(TraceKey.of(testbed="2n-clx", **each), "pps", Better.HIGHER, runs, column)
        for each, column in zip(parameters, values.T, strict=True)
    ]


def test_change_of_series_is_new_once_and_names_its_runs() -> None:
    values, parameters = simulated(2, after=15)
    slower = with_value(parameters, path="path3")
    values[HISTORY:, slower] *= 0.99
    found = {
        after: find_shared_changes(series_of(values[: HISTORY + after], parameters)) for after in range(16)
    }

    first = min(after for after, changes in found.items() if changes)
    (change,) = found[first]
    assert change.is_new
    assert slower == [int(dict(key.parameters)["test"][4:]) for key in change.traces]
    assert 1 == change.first_changed.build - change.last_good.build
    assert abs(change.first_changed.build - HISTORY - 1) <= 2
    assert [False] * (15 - first) == [each.is_new for after in range(first + 1, 16) for each in found[after]]


def test_change_is_forgotten_after_forty_runs() -> None:
    values, parameters = simulated(2, after=60)
    values[HISTORY:, with_value(parameters, path="path3")] *= 0.99

    assert 1 == len(find_shared_changes(series_of(values[: HISTORY + 30], parameters)))
    assert [] == find_shared_changes(series_of(values, parameters))
