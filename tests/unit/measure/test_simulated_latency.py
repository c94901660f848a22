"""The latency of simulated devices: known by hand at some loads, and consistent at all."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.measure.simulated_latency import latency

loads = st.floats(min_value=1e-3, max_value=10.0)
rates = st.floats(min_value=1e3, max_value=1e9)
counts = st.integers(min_value=1, max_value=100_000)


@pytest.mark.parametrize(("load", "average_us"), [(0.5, 5 + 64), (0.1, 5 + 64 / 9), (0.9, 5 + 9 * 64)])
def test_frame_waits_for_the_batches_before_it(load: float, average_us: float) -> None:
    """At 1 Mpps a batch of 64 frames takes 64 us. The queue of 4096 us limits the longest waits a little."""
    assert average_us == pytest.approx(latency(load, 1e6, 1000).average_us, rel=1e-3)


@pytest.mark.parametrize("load", [1.0, 2.0])
def test_queue_is_full_from_the_critical_rate_on(load: float) -> None:
    found = latency(load, 1e6, 1000)

    assert 5 + 4096 == pytest.approx(found.average_us)
    assert 5 + 4096 == found.maximum_us
    assert 5000.0 == found.histogram[-1][0]


@given(loads, rates, counts)
def test_latencies_are_consistent(load: float, critical_pps: float, frames: int) -> None:
    found = latency(load, critical_pps, frames)

    assert 5 <= found.minimum_us <= found.maximum_us
    assert found.average_us <= 5 + 4096e6 / critical_pps
    assert frames == sum(count for _, count in found.histogram)
    bounds = [bound for bound, _ in found.histogram]
    assert sorted(set(bounds)) == bounds
    assert all(count > 0 for _, count in found.histogram)


@given(rates, counts)
def test_latency_rises_with_the_load(critical_pps: float, frames: int) -> None:
    averages = [latency(load, critical_pps, frames).average_us for load in (0.1, 0.5, 0.9, 1.0)]

    assert sorted(averages) == averages
    assert averages[0] < averages[1]


def test_histogram_has_the_median() -> None:
    """Half of the exponential waits are below ln 2 times their mean: 5 + 44 us, in the class up to 50 us."""
    below = sum(count for bound, count in latency(0.5, 1e6, 10_000).histogram if bound <= 50.0)

    assert 1 - math.exp(-45 / 64) == pytest.approx(below / 10_000, abs=1e-4)
