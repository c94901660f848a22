from __future__ import annotations

import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.errors import SettingsError
from perftrend.measure.search import binary_search, bounds_below
from perftrend.measurement import Interval, Trial


class Device:
    """Loses 0.25 % up to the critical rate and 10 % above; remembers what it was asked."""

    def __init__(self, critical: float, invalid: str = "") -> None:
        self.critical = critical
        self.invalid = invalid
        self.asked: list[float] = []

    def __call__(self, rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        assert (2.0, 0.005) == (duration_s, fail_above)
        self.asked.append(rate_pps)
        lost = 25 if rate_pps <= self.critical else 1000
        return Trial(rate_pps, duration_s, duration_s, 10_000, 10_000 - lost, self.invalid)

    def searched(self, **arguments: Any) -> Interval:
        defaults = {"lower_pps": 100.0, "upper_pps": 900.0, "loss_ratio": 0.005, "duration_s": 2.0}
        return binary_search(self, **{**defaults, "relative_width": 0.1, **arguments})


@pytest.mark.parametrize(
    ("critical", "asked", "found"),
    [
        (480, [500, 300, 400, 450], (450, 500)),
        (700, [500, 700, 800, 750], (700, 750)),
        # Everything passed: nothing is known above 900, which is taken as it is.
        (5000, [500, 700, 800, 850], (850, 900)),
        # Everything failed, so the lower bound itself is measured.
        (101, [500, 300, 200, 150, 125, 112.5, 106.25, 100], (100, 106.25)),
    ],
)
def test_steps(critical: float, asked: list[float], found: tuple[float, float]) -> None:
    device = Device(critical)

    interval = device.searched()

    assert asked == device.asked
    assert Interval(*found) == interval


def test_loss_at_the_lowest_rate_is_told() -> None:
    interval = Device(50).searched()

    assert (100, 106.25) == (interval.lower, interval.upper)
    assert "0.1 was lost at the lowest rate, 100 pps" in interval.invalid


def test_upper_bound_that_passes_is_looked_beyond_by_doubling_steps() -> None:
    """An MRR that the device exceeds when it is not overloaded."""
    device = Device(1190)

    interval = device.searched(maximum_pps=2000.0)

    assert [500, 700, 800, 850, 900, 1000, 1200, 1100] == device.asked
    assert Interval(1100, 1200) == interval


def test_highest_rate_is_not_exceeded() -> None:
    device = Device(5000)

    interval = device.searched(maximum_pps=1100.0)

    assert [900, 1000] == device.asked[4:]
    assert Interval(1000, 1100) == interval


def test_doubtful_trial_makes_the_interval_invalid() -> None:
    assert Interval(450, 500, "generator too slow") == Device(480, "generator too slow").searched()


@given(
    truth=st.floats(0.1, 1e10),
    limits=st.tuples(st.floats(1, 1e9), st.floats(1.001, 1e6), st.floats(1, 100)),
    width=st.sampled_from([1e-6, 0.005, 0.5]),
)
def test_truth_lies_in_a_valid_interval(
    truth: float, limits: tuple[float, float, float], width: float
) -> None:
    lower, upper, maximum = limits[0], limits[0] * limits[1], limits[0] * limits[1] * limits[2]

    found = Device(truth).searched(
        lower_pps=lower, upper_pps=upper, maximum_pps=maximum, relative_width=width
    )

    assert (truth < lower) == bool(found.invalid)
    assert found.invalid or found.lower <= truth
    assert found.upper > truth or found.upper == maximum
    assert found.relative_width <= width


@pytest.mark.parametrize(
    ("mrr_pps", "loss_ratio", "expected"),
    [
        (600.0, 0.0, (30, 600)),
        # A quarter of 800 may be lost: 600 are received.
        (600.0, 0.25, (40, 800)),
        (900.0, 0.25, (50, 1000)),
        (200.0, 0.0, (20, 200)),
        # Next to nothing is received: the rates near the lowest one are searched.
        (1.0, 0.0, (20, 40)),
    ],
)
def test_bounds_follow_from_mrr_and_loss_ratio(
    mrr_pps: float, loss_ratio: float, expected: tuple[float, float]
) -> None:
    assert expected == bounds_below(mrr_pps, loss_ratio=loss_ratio, minimum_pps=20.0, maximum_pps=1000.0)


@given(st.integers(0, 2**32))
def test_device_by_chance_ends(seed: int) -> None:
    chance = random.Random(seed)  # noqa: S311 - a device, not a secret
    trials = []

    def measure(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        trials.append(rate_pps)
        return Trial(rate_pps, duration_s, 0.0, 1, chance.randrange(2))

    binary_search(
        measure, lower_pps=1.0, upper_pps=1e6, maximum_pps=1e9, loss_ratio=0.0, duration_s=1.0,
        relative_width=0.005,
    )  # fmt: skip

    assert len(trials) < 100


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lower_pps", 0.0),
        ("lower_pps", math.nan),
        ("upper_pps", 100.0),
        ("upper_pps", math.inf),
        ("maximum_pps", 800.0),
        ("maximum_pps", math.inf),
        ("loss_ratio", 1.0),
        ("loss_ratio", -1e-9),
        ("loss_ratio", math.nan),
        ("duration_s", 0.0),
        ("relative_width", 0.0),
        ("relative_width", 1.0),
        ("relative_width", math.nan),
    ],
)
def test_bad_parameter_is_refused_by_name(name: str, value: float) -> None:
    device = Device(480)

    with pytest.raises(SettingsError, match=name):
        device.searched(**{name: value})
    assert [] == device.asked
