from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.errors import SettingsError, TestbedError
from perftrend.measure.interfaces import Node
from perftrend.measure.simulated_drivers import (
    SimulatedDevice,
    SimulatedGenerator,
    SimulatedWiring,
    expected_latency,
)
from perftrend.measurement import Trial

Pair = tuple[SimulatedGenerator, SimulatedDevice]
HARD = {"jitter": "0", "critical_pps": "1e6"}
loads = st.floats(min_value=1e-3, max_value=10.0)
rates = st.floats(min_value=1e3, max_value=1e9)
counts = st.integers(min_value=1, max_value=100_000)


@pytest.fixture
def pair() -> Pair:
    wiring = SimulatedWiring()
    return SimulatedGenerator(wiring, Node(), {}), SimulatedDevice(wiring, Node())


def flooded(pair: Pair, options: dict[str, str]) -> Trial:
    pair[1].start(options)
    return pair[0].trial(20e6, 1.0, None)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"forwarding": "ip4", "acl_rules": "60"},
        {"forwarding": "l2"},
        {"critical_pps": "5e6", "knee": "soft", "slowdown": "0.1", "jitter": "0.01"},
        {"drift_per_s": "-1e-5", "slow_share": "0.1", "hiccup_share": "0.1", "restart_spread": "0.02"},
        {"loss_floor": "1e-7", "asymmetry": "0.1", "buffer_frames": "5000", "rate_error": "-0.01"},
        {"warm_up_s": "2", "warm_up_slowdown": "-0.1", "warm_up_once": "yes"},
        {"poisson": "yes", "ends_early": "no"},
        {"pause_every_s": "7", "pause_s": "0.03", "pause_slowdown": "0.5", "queue_frames": "4096"},
        {"pauses_at_random": "yes", "burst_frames": "256"},
        {"kind": "short-optimistic"},
        {"seed": "7"},
    ],
)
def test_options_of_the_simulator_are_taken(pair: Pair, options: dict[str, str]) -> None:
    pair[1].check(options)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"acl_rulez": "1"}, "no option 'acl_rulez'; did you mean 'acl_rules'"),
        ({"knee": "hart"}, "knee 'hart' is unknown; did you mean 'hard'"),
        ({"forwarding": "l3"}, "forwarding='l3'; known are ip4, ip6, l2, l2xc"),
        ({"acl_rules": "many"}, "acl_rules='many': write a number"),
        ({"acl_rules": "-1"}, "acl_rules='-1': write a number"),
        ({"acl_rules": "9" * 400}, "acl_rules='999"),
        ({"acl_rules": "9" * 5000}, "acl_rules='999"),
        ({"seed": "-9"}, "seed='-9': write a number"),
        ({"seed": "1.5"}, "seed='1.5': write a number"),
        ({"critical_pps": "nan"}, "critical_pps"),
        ({"critical_pps": "inf"}, "critical_pps"),
        ({"critical_pps": "$(reboot)"}, "critical_pps="),
        ({"slowdown": "1"}, "slowdown"),
        ({"jitter": "-1"}, "jitter"),
        ({"__class__": "x"}, "no option '__class__'"),
        ({"poisson": "maybe"}, "poisson='maybe': write yes or no"),
        ({"warm_up_once": "True"}, "warm_up_once='True': write yes or no"),
        ({"loss_floor": "a little"}, "loss_floor='a little': write a number"),
        ({"kind": "two-modes"}, "kind='two-modes'; did you mean 'two-mode'"),
    ],
)
def test_option_that_cannot_be_used_is_named(pair: Pair, options: dict[str, str], told: str) -> None:
    with pytest.raises(SettingsError) as refused:
        pair[1].check(options)

    assert told in str(refused.value)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"latencies": "yes"}, "the generator simulated has no option 'latencies'; it has latency"),
        ({"latency": "on"}, "generator option latency='on'; known are no, yes"),
    ],
)
def test_option_of_the_generator_that_cannot_be_used_is_named(options: dict[str, str], told: str) -> None:
    with pytest.raises(SettingsError, match=told):
        SimulatedGenerator(SimulatedWiring(), Node(), options)


def test_latency_is_measured_on_request_and_changes_nothing_else(pair: Pair) -> None:
    """At 1 Mpps, half of which are offered, a frame waits for one batch of 64 us on average."""
    wiring = SimulatedWiring()
    generator = SimulatedGenerator(wiring, Node(), {"latency": "yes"})
    for device in (pair[1], SimulatedDevice(wiring, Node())):
        device.start({"critical_pps": "2e6", "slowdown": "0.5", "seed": "1"})

    plain, measured = (each.trial(5e5, 2.0, None) for each in (pair[0], generator))

    assert plain == replace(measured, latency=())
    assert [69.0, 69.0] == pytest.approx([each.average_us for each in measured.latency])
    assert [2000, 2000] == [sum(count for _, count in each.histogram) for each in measured.latency]


def test_device_that_forwards_nothing_has_no_latency() -> None:
    wiring = SimulatedWiring()
    SimulatedDevice(wiring, Node()).start({**HARD, "loss_floor": "0.999999"})

    assert () == SimulatedGenerator(wiring, Node(), {"latency": "yes"}).trial(10, 1.0, None).latency


@given(st.text(), st.text())
def test_whatever_is_written_is_taken_or_refused(name: str, value: str) -> None:
    for option in (name, "acl_rules", "seed", "critical_pps", "jitter"):
        try:
            SimulatedDevice(SimulatedWiring(), Node()).check({option: value})
        except SettingsError as refused:
            assert str(refused)  # noqa: PT017 - either is right, anything else is not


def test_checking_starts_nothing(pair: Pair) -> None:
    pair[1].check(HARD)

    with pytest.raises(TestbedError, match="start the device first"):
        pair[0].trial(1000, 1.0, None)


def test_stopped_device_forwards_nothing_any_more(pair: Pair) -> None:
    pair[1].start(HARD)
    pair[1].stop()
    pair[1].stop()

    with pytest.raises(TestbedError, match="not started"):
        pair[0].trial(1000, 1.0, None)


def test_each_rule_costs_two_percent_of_a_frames_time(pair: Pair) -> None:
    assert 1_000_000 == flooded(pair, HARD).received
    assert 500_000 == flooded(pair, {**HARD, "acl_rules": "50"}).received


def test_a_bridge_has_no_access_list(pair: Pair) -> None:
    assert 1_000_000 == flooded(pair, {**HARD, "acl_rules": "50", "forwarding": "l2"}).received


def test_each_core_adds_the_rate_of_one(pair: Pair) -> None:
    assert 2_000_000 == flooded(pair, {**HARD, "cores": "2"}).received


def test_kind_is_a_start_that_options_change(pair: Pair) -> None:
    """A collapsing device at twice its critical rate forwards a quarter of what comes."""
    collapse = {"kind": "collapse", "critical_pps": "1e7"}

    assert 5_000_000 == flooded(pair, collapse).received
    assert 10_000_000 == flooded(pair, {**collapse, "knee": "hard"}).received


def test_generator_that_cannot_end_early_runs_to_the_end(pair: Pair) -> None:
    pair[1].start({**HARD, "ends_early": "no"})

    assert 5.0 == pair[0].trial(20e6, 5.0, 0.0).elapsed_s


def test_same_seed_gives_the_same_night_but_no_start_repeats_another() -> None:
    nights = []
    for _ in range(2):
        wiring = SimulatedWiring()
        night = SimulatedGenerator(wiring, Node(), {}), SimulatedDevice(wiring, Node())
        nights.append([flooded(night, {"seed": "7"}).received for _ in range(3)])

    assert nights[0] == nights[1]
    assert 3 == len(set(nights[0]))


def test_generator_counts_what_it_sent_and_what_came_back(pair: Pair) -> None:
    flooded(pair, HARD)
    flooded(pair, HARD)

    assert {"sent": 40_000_000, "received": 2_000_000} == pair[0].counters()


def test_device_that_is_reconfigured_forwards_nothing_for_a_while_in_one_trial(pair: Pair) -> None:
    generator, device = pair
    device.start({**HARD, "reconf_loss_s": "0.25"})

    device.reconfigure({}, {"routes": "10"})

    assert [75_000, 100_000] == [generator.trial(1e5, 1.0, None).received for _ in range(2)]


def test_device_that_was_restarted_since_loses_nothing(pair: Pair) -> None:
    generator, device = pair
    device.start(HARD)
    device.reconfigure({}, {"routes": "10"})

    device.start(HARD)

    assert 100_000 == generator.trial(1e5, 1.0, None).received


@pytest.mark.parametrize("value", ["-1", "inf", "nan", "long"])
def test_time_without_service_is_a_finite_number(pair: Pair, value: str) -> None:
    with pytest.raises(SettingsError, match="device option reconf_loss_s="):
        pair[1].check({"reconf_loss_s": value})


@pytest.mark.parametrize(("load", "average_us"), [(0.5, 5 + 64), (0.1, 5 + 64 / 9), (0.9, 5 + 9 * 64)])
def test_frame_waits_for_the_batches_before_it(load: float, average_us: float) -> None:
    """At 1 Mpps a batch of 64 frames takes 64 us. The queue of 4096 us limits the longest waits a little."""
    assert average_us == pytest.approx(expected_latency(load, 1e6, 1000).average_us, rel=1e-3)


@pytest.mark.parametrize("load", [1.0, 2.0])
def test_queue_is_full_from_the_critical_rate_on(load: float) -> None:
    found = expected_latency(load, 1e6, 1000)

    assert 5 + 4096 == pytest.approx(found.average_us)
    assert 5 + 4096 == found.maximum_us
    assert 5000.0 == found.histogram[-1][0]


@given(loads, rates, counts)
def test_latencies_are_consistent(load: float, critical_pps: float, frames: int) -> None:
    found = expected_latency(load, critical_pps, frames)

    assert 5 <= found.minimum_us <= found.maximum_us
    assert found.average_us <= 5 + 4096e6 / critical_pps
    assert frames == sum(count for _, count in found.histogram)
    bounds = [bound for bound, _ in found.histogram]
    assert sorted(set(bounds)) == bounds
    assert all(count > 0 for _, count in found.histogram)


@given(rates, counts)
def test_latency_rises_with_the_load(critical_pps: float, frames: int) -> None:
    averages = [expected_latency(load, critical_pps, frames).average_us for load in (0.1, 0.5, 0.9, 1.0)]

    assert sorted(averages) == averages
    assert averages[0] < averages[1]


def test_histogram_has_the_median() -> None:
    """Half of the exponential waits are below ln 2 times their mean: 5 + 44 us, in the class up to 50 us."""
    below = sum(count for bound, count in expected_latency(0.5, 1e6, 10_000).histogram if bound <= 50.0)

    assert 1 - math.exp(-45 / 64) == pytest.approx(below / 10_000, abs=1e-4)
