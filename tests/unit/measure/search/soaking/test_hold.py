from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.errors import SettingsError
from perftrend.measure.search import hold
from perftrend.measure.search.soaking.hold import HoldResult, poisson_upper_limit
from perftrend.measure.simulator import DeviceModel
from perftrend.measurement import Trial


def held(*lost: int, sent: int = 1_000_000) -> HoldResult:
    """Slices of one million frames that lost this many."""
    return HoldResult(tuple(Trial(1e5, 10.0, 10.0, sent, sent - frames) for frames in lost), 0.95)


def test_duration_is_shared_by_the_slices() -> None:
    result = hold(DeviceModel(1e6), rate_pps=5e5, duration_s=600.0, slices=20)

    assert [(5e5, 30.0)] * 20 == [(trial.rate_pps, trial.duration_s) for trial in result.slices]
    assert 300_000_000 == result.sent
    assert 0.0 == result.loss_ratio


@pytest.mark.parametrize(
    ("count", "limit"), [(0, 2.996), (1, 4.744), (2, 6.296), (5, 10.513), (10, 16.962), (100, 118.079)]
)
def test_upper_limit_is_that_of_the_tables(count: int, limit: float) -> None:
    """One-sided 95 % limits of a Poisson average, as printed in tables of Garwood's limits."""
    assert limit == pytest.approx(poisson_upper_limit(count, 0.95), abs=6e-4)


@given(st.integers(0, 1_000_000), st.floats(0.5, 0.999))
def test_upper_limit_is_above_the_count_and_near_it(count: int, confidence: float) -> None:
    limit = poisson_upper_limit(count, confidence)

    assert count < limit < count + 12.0 + 5.0 * math.sqrt(count)


def test_nothing_lost_still_leaves_a_limit() -> None:
    """3 / n, the rule of three."""
    result = held(0, 0, 0)

    assert 0.0 == result.loss_ratio
    assert 2.996e-6 / 3 == pytest.approx(result.loss_ratio_limit, rel=1e-3)
    assert math.isnan(result.dispersion)
    assert not result.bursty


def test_even_loss_is_no_burst() -> None:
    result = held(10, 9, 11, 10, 8, 12)

    assert 0.2 == pytest.approx(result.dispersion)
    assert not result.bursty
    assert 6 == result.lossy_slices


def test_loss_in_one_slice_is_a_burst() -> None:
    """60 in one of six: the squares are 250 + 5 · 10, over five degrees of freedom."""
    result = held(0, 0, 60, 0, 0, 0)

    assert 60.0 == pytest.approx(result.dispersion)
    assert result.bursty
    assert 1 == result.lossy_slices


def test_loss_by_chance_seldom_looks_like_bursts() -> None:
    device = DeviceModel(1e6, knee="soft", poisson=True, seed=1)

    results = [hold(device, rate_pps=9.2e5, duration_s=100.0, slices=10) for _ in range(100)]

    assert sum(result.bursty for result in results) <= 2
    assert 1.0 == pytest.approx(sum(result.dispersion for result in results) / 100, abs=0.15)


def test_limit_holds_the_average_as_often_as_promised() -> None:
    """At 0.92 of the critical rate a soft knee loses 8 frames of a million."""
    device = DeviceModel(1e5, knee="soft", poisson=True, seed=2)

    limits = [hold(device, rate_pps=9.2e4, duration_s=10.0, slices=1).loss_ratio_limit for _ in range(400)]

    assert 0.92 <= sum(limit >= 8e-6 for limit in limits) / 400 <= 0.99


def test_slice_that_cannot_be_trusted_makes_the_result_invalid() -> None:
    assert "" == held(0, 1).invalid
    assert "received 1000001 frames" in held(0, -1).invalid
    assert 0 == held(0, -1).lost


def test_nothing_sent_keeps_to_no_limit() -> None:
    result = held(0, 0, sent=0)

    assert 1.0 == result.loss_ratio_limit
    assert "sent nothing" in result.invalid


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("rate_pps", {"rate_pps": -1.0}),
        ("duration_s", {"duration_s": math.inf}),
        ("slices", {"slices": 0}),
        ("confidence", {"confidence": 1.0}),
    ],
)
def test_bad_parameter_is_refused_by_name(name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=f"parameter {name} is"):
        hold(DeviceModel(1e6), **{"rate_pps": 1e5, "duration_s": 10.0, "slices": 2, **arguments})
