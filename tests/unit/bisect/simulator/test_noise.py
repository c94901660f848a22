from typing import Any

import numpy as np
import pytest

from perftrend.bisect.simulator import SimulatedNoise
from perftrend.errors import SettingsError

NONE = SimulatedNoise(within=0.0, between=0.0)


def averages(noise: SimulatedNoise, count: int = 4000) -> Any:
    random = np.random.default_rng(1)
    return np.array([np.mean(noise.draw(random)) for _ in range(count)])


@pytest.mark.parametrize(
    "noise",
    [
        SimulatedNoise(within=2.0, between=0.0),
        SimulatedNoise(within=0.0, between=2.0),
        SimulatedNoise(within=1.0, between=1.0, samples=2),
        SimulatedNoise(within=0.0, between=0.5, modes=3.0),
        SimulatedNoise(within=0.0, between=0.5, modes=47.0, low=0.2),
        SimulatedNoise(within=0.0, between=2.0, freedom=5.0),
    ],
)
def test_averages_deviate_as_much_as_is_stated(noise: SimulatedNoise) -> None:
    assert noise.deviation == pytest.approx(averages(noise).std(), rel=0.05)


def test_measurements_without_noise_are_equal() -> None:
    assert {0.0} == set(averages(NONE, 50))


def test_each_measurement_has_one_of_two_modes() -> None:
    found = averages(SimulatedNoise(within=0.0, between=0.0, modes=3.0))

    assert {0.0, 3.0} == set(found)
    assert pytest.approx(1.5, abs=0.1) == found.mean()


def test_speeds_last_as_long_and_are_as_frequent_as_stated() -> None:
    noise = SimulatedNoise(within=0.0, between=0.0, modes=47.0, low=0.3, phase=4.0)

    levels = noise.course(40_000, np.random.default_rng(1))

    changes = int((np.diff(levels) != 0).sum())
    assert {0.0, 47.0} == set(levels)
    assert pytest.approx(0.3, abs=0.03) == (levels == 0).mean()
    assert pytest.approx(4.0, rel=0.1) == levels.size / changes
    assert {0.0} == set(averages(noise, 50))


def test_measurements_resemble_those_before_as_much_as_stated() -> None:
    noise = SimulatedNoise(within=0.0, between=2.0, autocorrelation=0.6)

    levels = noise.course(20_000, np.random.default_rng(1))

    assert pytest.approx(2.0, rel=0.05) == levels.std()
    assert pytest.approx(0.6, abs=0.03) == np.corrcoef(levels[1:], levels[:-1])[0, 1]


def test_outliers_are_five_to_fifty_per_cent_low() -> None:
    found = averages(SimulatedNoise(within=0.0, between=0.0, outliers=0.1))
    low = np.exp(found[found != 0] / 100)

    assert pytest.approx(0.1, abs=0.02) == low.size / found.size
    assert 0.5 <= low.min() < 0.52
    assert 0.93 < low.max() <= 0.95


def test_what_tests_have_in_common_and_their_own_make_up_the_noise_between() -> None:
    random = np.random.default_rng(1)
    noise = SimulatedNoise(within=0.0, between=2.0, shared=0.3)
    common = np.array([noise.common(random) for _ in range(4000)])

    assert pytest.approx(0.3 * 4, rel=0.1) == common.var()
    assert pytest.approx(0.7 * 4, rel=0.1) == averages(noise).var()


@pytest.mark.parametrize(
    "wrong",
    [
        {"freedom": 2.0},
        {"low": 1.2},
        {"phase": 0.5},
        {"autocorrelation": 1.0},
        {"within": -1.0},
        {"outliers": 1.1},
        {"shared": 2.0},
        {"samples": 0},
        {"between": float("nan")},
    ],
)
def test_noise_that_cannot_be_is_refused_by_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=next(iter(wrong))):
        SimulatedNoise(**wrong)
