from __future__ import annotations

import statistics
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftrend.errors import SettingsError
from perftrend.measure import binary_search, mdr_search
from perftrend.measure.simulator import KINDS, DeviceModel

C = 1_000_000.0


def mrr(device: DeviceModel, duration_s: float = 1.0) -> float:
    return device(2 * C, duration_s).receive_rate_pps


def rates(device: DeviceModel, trials: int = 200) -> list[float]:
    return [mrr(device) for _ in range(trials)]


@pytest.mark.parametrize(
    ("knee", "load", "loss_ratio"),
    [
        ("hard", 1.0, 0.0),
        ("hard", 1.25, 0.2),
        ("soft", 0.9, 0.0),
        ("soft", 1.0, 0.0002),
        ("soft", 2.0, 0.5242),
        ("gentle", 1.0, 0.0),
        ("gentle", 1.12, 0.005),
        ("gentle", 1.6, 0.125),
        ("collapse", 1.0, 0.0),
        ("collapse", 2.0, 0.75),
        ("soft", 100.0, 1.0),
    ],
)
def test_knees_by_hand(knee: str, load: float, loss_ratio: float) -> None:
    assert pytest.approx(loss_ratio) == DeviceModel(C, knee=knee).loss_ratio(load * C)


def test_whole_trial_by_hand() -> None:
    trial = DeviceModel(C)(1.25 * C, 2.0)

    assert (1.25 * C, 2.0, 2.0, 2_500_000, 2_000_000) == (
        trial.rate_pps,
        trial.duration_s,
        trial.elapsed_s,
        trial.sent,
        trial.received,
    )


def test_trial_ends_with_the_frame_that_decides_it() -> None:
    """Of 2.5 million frames 500,000 are lost, every fifth; the 25,001st loss exceeds 1 %."""
    trial = DeviceModel(C)(1.25 * C, 2.0, 0.01)

    assert (125_005, 25_001) == (trial.sent, trial.sent - trial.received)
    assert pytest.approx(2.0 * 125_005 / 2_500_000) == trial.elapsed_s
    assert trial.duration_s == 2.0


def test_trial_that_may_still_pass_runs_to_its_end() -> None:
    assert DeviceModel(C)(1.25 * C, 2.0, 0.2).elapsed_s == 2.0
    assert DeviceModel(C)(0.5 * C, 2.0, 0.0).elapsed_s == 2.0


@settings(deadline=None)
@given(
    rate=st.floats(0.1, 1e9),
    duration=st.floats(0.01, 60),
    fail_above=st.floats(0, 0.99),
    knee=st.sampled_from(["hard", "soft", "gentle", "collapse"]),
    poisson=st.booleans(),
)
def test_early_end_is_certain(
    rate: float, duration: float, fail_above: float, knee: str, poisson: bool
) -> None:
    """Ended early if and only if the same trial, run to its end, loses more than the limit."""
    whole = DeviceModel(C, knee=knee, poisson=poisson)(rate, duration)
    trial = DeviceModel(C, knee=knee, poisson=poisson)(rate, duration, fail_above)

    lost = whole.sent - whole.received
    if lost > fail_above * whole.sent:
        assert trial.sent - trial.received > fail_above * whole.sent
        assert 0 <= trial.received <= trial.sent <= whole.sent
        assert trial.elapsed_s <= whole.elapsed_s
    else:
        assert whole == trial


def test_same_seed_same_trials() -> None:
    def three(seed: int) -> list[float]:
        return rates(DeviceModel.of_kind("inconsistent", C, seed=seed), 3)

    assert three(1) == three(1)
    assert three(1) != three(2)


def test_jitter_spreads_the_trials() -> None:
    samples = rates(DeviceModel(C, jitter=0.01))

    assert 0.007 < statistics.stdev(samples) / C < 0.013


def test_drift_goes_by_the_time_of_trials() -> None:
    device = DeviceModel(C, drift_per_s=-0.001)
    device(C / 2, 100.0)

    assert pytest.approx(C * 0.904837, rel=1e-5) == mrr(device)


def test_two_modes() -> None:
    samples = rates(DeviceModel.of_kind("two-mode", C))

    assert {C, 0.97 * C} == {round(sample) for sample in samples}
    assert 5 < sum(sample < 0.98 * C for sample in samples) < 40


def test_hiccups_lose_at_any_rate() -> None:
    device = DeviceModel(C, hiccup_share=0.5)

    losses = [device(C / 100, 10.0).loss_ratio for _ in range(100)]

    assert 25 < sum(loss > 0 for loss in losses) < 75
    assert max(losses) <= 0.01


def test_restart_settles_elsewhere_and_stays_there() -> None:
    device = DeviceModel(C, restart_spread=0.02)
    first = rates(device, 3)
    device.restart()

    assert len(set(first)) == 1
    assert mrr(device) != first[0]


def test_slowdown_takes_its_share() -> None:
    assert mrr(DeviceModel(C, slowdown=0.05)) == 0.95 * C


def test_poisson_loss_scatters_around_the_ratio() -> None:
    device = DeviceModel(C, knee="gentle", poisson=True)
    losses = [device(1.12 * C, 1.0).loss_ratio for _ in range(50)]

    assert len(set(losses)) > 10
    assert pytest.approx(0.005, rel=0.02) == statistics.mean(losses)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_each_kind_is_searched_to_its_end(kind: str, seed: int) -> None:
    result = mdr_search(DeviceModel.of_kind(kind, C, seed=seed), minimum_pps=10e3, maximum_pps=10 * C)

    for interval in result.intervals:
        assert interval.invalid == ""
        assert interval.relative_width <= 0.005
        assert 0.85 * C < interval.lower < 1.15 * C


@pytest.mark.parametrize(
    ("kind", "ndr", "pdr"),
    # Where 30 s lose the first frame, and where a frame in 200 is lost.
    [("hard", C, C / 0.995), ("gentle", 1.00031 * C, 1.12 * C), ("collapse", C, C / 0.995**0.5)],
)
def test_both_searches_find_the_truth(kind: str, ndr: float, pdr: float) -> None:
    found = mdr_search(DeviceModel.of_kind(kind, C), minimum_pps=10e3, maximum_pps=10 * C)

    for loss_ratio, truth in ((0.0, ndr), (0.005, pdr)):
        bisected = binary_search(
            DeviceModel.of_kind(kind, C), lower_pps=10e3, upper_pps=10 * C, loss_ratio=loss_ratio,
            duration_s=30.0, relative_width=0.005,
        )  # fmt: skip
        for interval in (found.interval(loss_ratio), bisected):
            assert interval.lower * 0.9999 <= truth <= interval.upper * 1.0001


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("critical_pps", {"critical_pps": 0.0}),
        ("critical_pps", {"critical_pps": float("nan")}),
        ("slowdown", {"slowdown": 1.0}),
        ("jitter", {"jitter": -0.1}),
        ("drift_per_s", {"drift_per_s": float("inf")}),
        ("slow_share", {"slow_share": 1.1}),
        ("hiccup_share", {"hiccup_share": float("nan")}),
        ("restart_spread", {"restart_spread": 2.0}),
        ("knee 'sofd' is unknown; did you mean 'soft'", {"knee": "sofd"}),
    ],
)
def test_bad_argument_is_refused_by_name(name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=name):
        DeviceModel(**{"critical_pps": C, **arguments})


def test_unknown_kind_is_refused_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match="did you mean 'jitter'"):
        DeviceModel.of_kind("jiter", C)
