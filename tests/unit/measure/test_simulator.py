from __future__ import annotations

import math
import statistics
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.errors import SettingsError
from perftrend.measure import binary_search, mdr_search
from perftrend.measure.simulated_loss import KINDS, KNEES
from perftrend.measure.simulator import DeviceModel

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
        ("cubic", 0.8, 0.0),
        ("cubic", 1.0, 0.0008),
        ("cubic", 2.0, 0.6728),
        ("exponential", 0.97, 0.001 / math.e),
        ("exponential", 1.25, 0.201),
        ("linear", 0.8, 0.0),
        ("linear", 0.9, 0.004),
        ("linear", 1.25, 0.218),
        ("steps", 0.7, 0.0),
        ("steps", 0.8, 0.0001),
        ("steps", 0.9, 0.001),
        ("steps", 1.25, 0.22),
        ("falling", 0.5, 0.0),
        ("falling", 0.625, 0.00512),
        ("falling", 1.0, 0.00125),
        ("falling", 1.25, 0.20064),
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


def test_generator_that_cannot_end_early_sends_all() -> None:
    assert DeviceModel(C, ends_early=False)(1.25 * C, 2.0, 0.0) == DeviceModel(C)(1.25 * C, 2.0)


LOSSY = st.fixed_dictionaries(
    {
        "knee": st.sampled_from([*KNEES]),
        "loss_floor": st.sampled_from([0.0, 1e-7, 0.01]),
        "asymmetry": st.sampled_from([0.0, 0.1, -0.5]),
        "buffer_frames": st.sampled_from([0.0, 1000.0, 1e6]),
        "warm_up_s": st.sampled_from([0.0, 0.5, 20.0]),
        "warm_up_slowdown": st.sampled_from([0.0, 0.2, -0.1]),
    }
)
"""What loses frames without chance."""


@given(
    rate=st.floats(0.1, 1e9),
    duration=st.floats(0.01, 60),
    fail_above=st.floats(0, 0.99),
    arguments=LOSSY,
    poisson=st.booleans(),
)
def test_early_end_is_certain(
    rate: float, duration: float, fail_above: float, arguments: dict[str, Any], poisson: bool
) -> None:
    """Ended early if and only if the same trial, run to its end, loses more than the limit."""
    whole = DeviceModel(C, **arguments, poisson=poisson)(rate, duration)
    trial = DeviceModel(C, **arguments, poisson=poisson)(rate, duration, fail_above)

    lost = whole.sent - whole.received
    if lost > fail_above * whole.sent:
        assert trial.sent - trial.received > fail_above * whole.sent
        assert 0 <= trial.received <= trial.sent <= whole.sent
        assert trial.elapsed_s <= whole.elapsed_s
    else:
        assert whole == trial


@given(
    rate=st.floats(1e5, 1e7),
    duration=st.floats(1, 60),
    fail_above=st.sampled_from([0.0, 0.005, 0.1]),
    arguments=LOSSY,
)
def test_what_was_lost_at_an_early_end_is_what_a_trial_so_short_loses(
    rate: float, duration: float, fail_above: float, arguments: dict[str, Any]
) -> None:
    ended = DeviceModel(C, **arguments)(rate, duration, fail_above)
    short = DeviceModel(C, **arguments)(rate, ended.elapsed_s)

    assert pytest.approx(ended.sent, abs=1) == short.sent
    assert pytest.approx(ended.sent - ended.received, abs=2) == short.sent - short.received


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


def lost_of(device: DeviceModel, rate_pps: float, duration_s: float) -> int:
    trial = device(rate_pps, duration_s)
    return trial.sent - trial.received


def test_loss_floor_is_lost_at_every_rate() -> None:
    device = DeviceModel(C, loss_floor=0.001)

    assert 100 == lost_of(device, C / 10, 1.0)
    assert 251_250 == lost_of(device, 1.25 * C, 1.0)


def test_directions_lose_apart() -> None:
    """Of 500,000 frames each way one direction forwards 475,000, the other could 525,000."""
    assert 25_000 == lost_of(DeviceModel(C, asymmetry=0.1), C, 1.0)
    assert 25_000 == lost_of(DeviceModel(C, asymmetry=-0.1), C, 1.0)


def test_buffer_is_full_sooner_or_later() -> None:
    """A tenth of a million frames a second too many: 300,000 fit in for three seconds."""
    device = DeviceModel(C, buffer_frames=300_000)

    assert [0, 0, 200_000] == [lost_of(device, 1.1 * C, seconds) for seconds in (1.0, 3.0, 5.0)]
    assert pytest.approx(3.0, abs=1e-4) == device(1.1 * C, 5.0, 0.0).elapsed_s


def test_cold_device_loses_first() -> None:
    """In the first two seconds of each trial it forwards 800,000 of a million."""
    device = DeviceModel(C, warm_up_s=2.0, warm_up_slowdown=0.2)

    assert [200_000, 400_000, 400_000] == [lost_of(device, C, seconds) for seconds in (1.0, 2.0, 10.0)]
    # The 100,001st loss of ten million frames exceeds 1 %, though all others come through.
    assert pytest.approx(0.5, abs=1e-4) == device(C, 10.0, 0.01).elapsed_s


def test_fast_start_lies_to_a_short_trial() -> None:
    device = DeviceModel(C, warm_up_s=2.0, warm_up_slowdown=-0.1)

    assert 0 == lost_of(device, 1.1 * C, 2.0)
    assert pytest.approx(2.0, abs=1e-4) == device(1.1 * C, 30.0, 0.0).elapsed_s


def test_device_that_is_warm_stays_so_until_its_next_start() -> None:
    device = DeviceModel(C, warm_up_s=3.0, warm_up_slowdown=0.2, warm_up_once=True)

    assert [400_000, 200_000, 0] == [lost_of(device, C, 2.0) for _ in range(3)]
    device.restart()
    assert 400_000 == lost_of(device, C, 2.0)


@pytest.mark.parametrize("every_s", [7.0, 20.0])
def test_pause_comes_again_after_so_many_seconds_of_trials(every_s: float) -> None:
    """Trials end with their first lost frame, and the next one goes on from there."""
    device = DeviceModel(C, pause_every_s=every_s, seed=3)
    device(C / 2, 30.0, 0.0)
    began = []
    for _ in range(4):
        device(C / 2, 0.04)
        device(C / 2, 30.0, 0.0)
        began.append(device.elapsed_s)

    assert [pytest.approx(every_s, abs=1e-3)] * 3 == [after - before for before, after in pairwise(began)]


def test_first_pause_comes_at_any_time() -> None:
    first_s = [
        DeviceModel(C, pause_every_s=10.0, seed=seed)(C / 2, 30.0, 0.0).elapsed_s for seed in range(50)
    ]

    assert min(first_s) < 1.0
    assert 9.0 < max(first_s) < 10.1


def test_pause_loses_what_the_queue_has_no_room_for() -> None:
    """A pause of 30 ms meets 15,000 frames; 30 s hold three of them."""
    assert 45_000 == lost_of(DeviceModel(C, pause_every_s=10.0), C / 2, 30.0)
    assert 33_000 == lost_of(DeviceModel(C, pause_every_s=10.0, queue_frames=4000), C / 2, 30.0)
    assert 0 == lost_of(DeviceModel(C, pause_every_s=10.0, queue_frames=15_000), C / 2, 30.0)


def test_pause_may_only_slow_the_device_down() -> None:
    """A fifth of what comes in three pauses of one second is too much for four fifths."""
    device = DeviceModel(C, pause_every_s=10.0, pause_s=1.0, pause_slowdown=0.2, seed=1)

    assert 600_000 == lost_of(device, C, 30.0)
    assert 0 == lost_of(device, 0.8 * C, 30.0)


def test_random_pauses_come_at_random_distances() -> None:
    device = DeviceModel(C, pause_every_s=10.0, pauses_at_random=True, seed=1)
    pauses = [lost_of(device, C / 2, 10.0) / 15_000 for _ in range(1000)]

    assert 0.9 < statistics.mean(pauses) < 1.1
    assert 0.8 < statistics.variance(pauses) < 1.2


def test_bursts_lose_as_much_in_the_mean() -> None:
    """1700 frames are expected to be lost, in bursts of 1000; only the end of a trial cuts one short."""
    device = DeviceModel(C, knee="linear", burst_frames=1000, seed=1)

    losses = [lost_of(device, 0.85 * C, 1.0) for _ in range(1000)]

    assert 1600 < statistics.mean(losses) < 1800
    assert {0, 1000, 2000, 3000} < set(losses)
    assert sum(lost % 1000 == 0 for lost in losses) > 980


def test_burst_begins_at_any_time_and_loses_all() -> None:
    """One burst is expected in 10 s. Its fifth frame ends the trial, right after its first."""
    trials = [
        DeviceModel(C, knee="steps", burst_frames=800, seed=seed)(0.8 * C, 10.0, 4 / 8e6)
        for seed in range(100)
    ]
    ended = [trial for trial in trials if trial.elapsed_s < 10.0]

    assert 50 < len(ended) < 80
    assert 3.5 < statistics.mean(trial.elapsed_s for trial in ended) < 4.7
    assert {5} == {trial.sent - trial.received for trial in ended}


def test_wrong_rate_shows_in_what_was_sent() -> None:
    slow, fast = (DeviceModel(C, rate_error=error)(C, 2.0) for error in (-0.25, 0.25))

    assert (1_500_000, 1_500_000) == (slow.sent, slow.received)
    assert (2_500_000, 2_000_000) == (fast.sent, fast.received)
    assert slow.rate_pps == fast.rate_pps == C


@pytest.mark.parametrize("error", [-0.25, 0.25])
def test_early_end_is_certain_for_what_was_asked_and_for_what_is_sent(error: float) -> None:
    trial = DeviceModel(C, rate_error=error)(2 * C, 2.0, 0.1)

    assert 0.1 * max(4_000_000, 4_000_000 * (1 + error)) < trial.sent - trial.received
    assert trial.elapsed_s < 1.5


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_each_kind_is_searched_to_its_end(kind: str, seed: int) -> None:
    result = mdr_search(
        DeviceModel.of_kind(kind, C, seed=seed), minimum_pps=10e3, maximum_pps=10 * C, strategy="mdr"
    )

    for interval in result.intervals:
        assert interval.invalid == ""
        assert interval.relative_width <= 0.005


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
        ("loss_floor", {"loss_floor": 1.0}),
        ("asymmetry", {"asymmetry": 1.5}),
        ("buffer_frames", {"buffer_frames": -1.0}),
        ("warm_up_s", {"warm_up_s": float("inf")}),
        ("pause_every_s", {"pause_every_s": -1.0}),
        ("pause_s", {"pause_s": float("nan")}),
        ("pause_slowdown", {"pause_slowdown": 0.0}),
        ("queue_frames", {"queue_frames": -1.0}),
        ("burst_frames", {"burst_frames": float("inf")}),
        ("warm_up_slowdown", {"warm_up_slowdown": 1.0}),
        ("rate_error", {"rate_error": -1.0}),
        ("knee 'sofd' is unknown; did you mean 'soft'", {"knee": "sofd"}),
    ],
)
def test_bad_argument_is_refused_by_name(name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=name):
        DeviceModel(**{"critical_pps": C, **arguments})


def test_unknown_kind_is_refused_with_the_nearest() -> None:
    with pytest.raises(SettingsError, match="did you mean 'jitter'"):
        DeviceModel.of_kind("jiter", C)
