from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.measure.simulated_loss import KNEES
from perftrend.measure.simulator import DeviceModel

C = 1_000_000.0


@pytest.mark.parametrize(
    ("arguments", "ndr", "pdr"),
    [
        ({}, C, C / 0.995),
        ({"knee": "gentle"}, 1.00031 * C, 1.12 * C),
        ({"knee": "linear"}, 0.8 * C, 0.925 * C),
        ({"knee": "steps"}, 0.7 * C, C),
        ({"slowdown": 0.5}, 0.5 * C, 0.5 * C / 0.995),
        ({"rate_error": -0.2}, 1.25 * C, 1.25 * C / 0.995),
        # One frame in 30 s: a ten millionth of 10 million frames.
        ({"loss_floor": 1e-7}, 1e7 / 30, C / (0.995 + 1e-7)),
        # 300,000 frames fit in during 30 s.
        ({"buffer_frames": 300_000}, 1.01 * C, 1.01 * C / 0.995),
        # A tenth of the frames of one direction, a twentieth of all.
        ({"asymmetry": 0.1}, 0.95 * C, 0.95 * C / 0.99),
        ({"warm_up_s": 100.0, "warm_up_slowdown": 0.2}, 0.8 * C, 0.8 * C / 0.995),
        ({"warm_up_s": 2.0, "warm_up_slowdown": -0.1}, C, 28 * C / (28 - 0.15)),
        ({"slow_share": 0.6}, 0.97 * C, 0.97 * C / 0.995),
        # From 0.63 c to c no more than 0.5 % are lost, but from 0.5 c to 0.63 c more are.
        ({"knee": "falling"}, 0.5 * C, 0.5 * C),
        # Four pauses of 30 ms, of which each loses less than a quarter of a frame more than the queue holds;
        # or 108,000 of the 150,000 frames that may be lost, which leaves 42,000 in 29.86 s.
        ({"pause_every_s": 7.0, "queue_frames": 3000}, 3000.25 / 0.03, C + 42_000 / 29.862),
        # A quarter is missing for half of the time: 0.25 / 2 c are lost of c.
        ({"pause_every_s": 10.0, "pause_s": 5.0, "pause_slowdown": 0.25}, 0.75 * C, 0.7575758 * C),
        # The median number of random pauses is none.
        ({"pause_every_s": 60.0, "pauses_at_random": True}, C, C / 0.995),
    ],
)
def test_truth_by_hand(arguments: dict[str, Any], ndr: float, pdr: float) -> None:
    device = DeviceModel(C, **arguments)

    assert pytest.approx(ndr, rel=1e-5) == device.true_pps(0.0, 30.0)
    assert pytest.approx(pdr, rel=1e-5) == device.true_pps(0.005, 30.0)


@given(
    critical=st.floats(1e6, 1e8),
    duration=st.sampled_from([1.0, 10.0, 60.0]),
    loss_ratio=st.sampled_from([0.0, 0.0001, 0.005, 0.5]),
    # Above where "falling" fails first, it passes again.
    knee=st.sampled_from(sorted(KNEES.keys() - {"falling"})),
    arguments=st.fixed_dictionaries(
        {
            "loss_floor": st.sampled_from([0.0, 1e-6]),
            "asymmetry": st.sampled_from([0.0, 0.1]),
            "buffer_frames": st.sampled_from([0.0, 5000.0]),
            "warm_up_s": st.sampled_from([0.0, 0.5]),
            "warm_up_slowdown": st.sampled_from([0.2, -0.1]),
        }
    ),
)
def test_trials_pass_below_the_truth_and_fail_above(
    critical: float, duration: float, loss_ratio: float, knee: str, arguments: dict[str, Any]
) -> None:
    device = DeviceModel(critical, knee=knee, **arguments)
    truth = device.true_pps(loss_ratio, duration)

    below, above = (device(truth * factor, duration) for factor in (0.999, 1.001))

    assert below.sent - below.received <= loss_ratio * below.sent
    assert above.sent - above.received > loss_ratio * above.sent


@pytest.mark.parametrize(
    ("arguments", "loss_ratio"),
    [
        ({"jitter": 0.01}, 0.0),
        ({"jitter": 0.01}, 0.005),
        ({"knee": "gentle", "poisson": True}, 0.0),
        ({"knee": "gentle", "poisson": True}, 0.005),
        ({"knee": "linear", "hiccup_share": 0.8}, 0.005),
        ({"knee": "soft", "burst_frames": 100}, 0.0),
        ({"knee": "linear", "burst_frames": 5000}, 0.005),
    ],
)
def test_half_of_the_trials_pass_where_chance_rules(arguments: dict[str, Any], loss_ratio: float) -> None:
    device = DeviceModel(C, **arguments, seed=1)
    truth = device.true_pps(loss_ratio, 30.0)

    passed = sum(device(truth, 30.0).loss_ratio <= loss_ratio for _ in range(1000))

    assert 440 < passed < 560


def test_truth_moves_with_what_moves() -> None:
    drifting = DeviceModel(C, drift_per_s=-0.001)
    warming = DeviceModel(C, warm_up_s=30.0, warm_up_slowdown=0.2, warm_up_once=True)
    before = [device.true_pps(0.0, 30.0) for device in (drifting, warming)]
    for device in (drifting, warming):
        device(C / 2, 100.0)
    after = [device.true_pps(0.0, 30.0) for device in (drifting, warming)]

    assert pytest.approx([C, 0.8 * C], rel=1e-5) == before
    assert pytest.approx([C * 0.904837, C], rel=1e-5) == after
