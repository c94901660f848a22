"""How one trial moves the bounds of one loss ratio, and which trial is next."""

from __future__ import annotations

import pytest

from perftrend.measure.search.bounds import Bounds
from perftrend.measure.search.mdr_classic import next_choice
from perftrend.measure.search.parameters import Parameters, PhasePlan
from perftrend.measurement import Trial

LIMITS = Parameters(
    minimum_pps=1.0,
    maximum_pps=1024.0,
    loss_ratios=(0.0, 0.25),
    initial_duration_s=1.0,
    final_duration_s=1.0,
    relative_width=0.5,
    intermediate_phases=0,
    timeout_s=None,
)
PHASE = PhasePlan("final", 4.0, 0.5)


def trial(rate: float, loss_ratio: float, duration: float = 1.0) -> Trial:
    return Trial(rate, duration, duration, 1000, 1000 - round(1000 * loss_ratio))


def bounds(lower: Trial, upper: Trial, loss_ratio: float = 0.0) -> Bounds:
    return Bounds(loss_ratio, lower, upper, LIMITS)


VALID = bounds(trial(64, 0.0), trial(128, 0.5))
LOWER_FAILS = bounds(trial(64, 0.1), trial(128, 0.5))
UPPER_PASSES = bounds(trial(64, 0.0), trial(128, 0.0))
BOTH_INVALID = bounds(trial(64, 0.1), trial(128, 0.0))


@pytest.mark.parametrize(
    ("before", "rate", "loss_ratio", "after"),
    [
        (VALID, 64, 0.1, (64, 128)),
        (VALID, 32, 0.0, (64, 128)),
        (VALID, 32, 0.1, (32, 128)),
        (VALID, 96, 0.0, (96, 128)),
        (VALID, 96, 0.1, (64, 96)),
        (VALID, 256, 0.0, (64, 128)),
        (VALID, 256, 0.1, (64, 128)),
        (LOWER_FAILS, 32, 0.0, (32, 64)),
        (LOWER_FAILS, 32, 0.1, (32, 64)),
        (LOWER_FAILS, 96, 0.0, (64, 128)),
        (LOWER_FAILS, 96, 0.1, (64, 96)),
        (LOWER_FAILS, 256, 0.0, (64, 128)),
        (UPPER_PASSES, 32, 0.1, (32, 128)),
        (UPPER_PASSES, 96, 0.0, (96, 128)),
        (UPPER_PASSES, 96, 0.1, (64, 96)),
        (UPPER_PASSES, 256, 0.0, (128, 256)),
        (UPPER_PASSES, 256, 0.1, (128, 256)),
        (BOTH_INVALID, 32, 0.0, (32, 64)),
        (BOTH_INVALID, 256, 0.1, (64, 128)),
    ],
)
def test_trial_moves_bounds(
    before: Bounds, rate: float, loss_ratio: float, after: tuple[float, float]
) -> None:
    interval = before.with_trial(trial(rate, loss_ratio)).interval

    assert after == (interval.lower, interval.upper)


def test_latest_trial_at_a_bound_replaces_it_even_when_it_contradicts() -> None:
    assert not VALID.with_trial(trial(64, 0.1)).lower_valid
    assert not VALID.with_trial(trial(128, 0.0)).upper_valid


def test_loss_exactly_at_the_ratio_passes() -> None:
    """5 of 1000 frames is 0.5 %, although 1 - 995/1000 is a little more in floating point."""
    assert bounds(trial(64, 0.005), trial(128, 0.006), 0.005).interval.invalid == ""


def test_interval_says_which_bound_is_none() -> None:
    assert bounds(trial(1, 0.1), trial(2, 0.5)).interval.invalid.startswith(
        "0.1 was lost at the minimum rate, 1 pps"
    )
    assert "lower bound" in LOWER_FAILS.interval.invalid
    assert "upper bound" in UPPER_PASSES.interval.invalid


NDR_LOW, NDR_HIGH = trial(64, 0.0), trial(128, 0.1)
PDR_LOW, PDR_HIGH = trial(256, 0.1), trial(512, 0.5)


@pytest.mark.parametrize(
    ("ndr", "pdr", "rate"),
    [
        # From the fourth choice on, everything before it is well, and all that comes after is not.
        ((trial(64, 0.1), trial(256, 0.0)), (trial(256, 0.5), trial(512, 0.1)), 64 / 16),
        ((trial(64, 0.0), trial(128, 0.0)), (trial(256, 0.5), trial(512, 0.1)), 256 / 4),
        ((trial(64, 0.0), trial(128, 0.0)), (trial(64, 0.0), trial(256, 0.1)), 128 * 4),
        ((trial(32, 0.0), trial(128, 0.1)), (trial(128, 0.1), trial(256, 0.1)), 256 * 4),
        ((trial(32, 0.0), trial(128, 0.1)), (trial(128, 0.1), trial(512, 0.5)), 64),
        ((NDR_LOW, NDR_HIGH), (trial(128, 0.1), trial(512, 0.5)), 256),
    ],
    ids=["NDR lower", "PDR lower", "NDR upper", "PDR upper", "NDR width", "PDR width"],
)
def test_choice_in_the_order_of_the_document(
    ndr: tuple[Trial, Trial], pdr: tuple[Trial, Trial], rate: float
) -> None:
    """Every bound here is also short of the duration of 4 s: that comes last."""
    choice = next_choice((bounds(*ndr), bounds(*pdr, 0.25)), PHASE)

    assert choice is not None
    assert pytest.approx(rate, rel=1e-5) == choice.rate_pps


def test_short_trials_are_repeated_lower_bounds_first() -> None:
    intervals = (bounds(NDR_LOW, NDR_HIGH), bounds(PDR_LOW, PDR_HIGH, 0.25))
    order = []
    while choice := next_choice(intervals, PHASE):
        order.append(choice.rate_pps)
        known = {each.rate_pps: each.loss_ratio for each in (NDR_LOW, NDR_HIGH, PDR_LOW, PDR_HIGH)}
        longer = trial(choice.rate_pps, known[choice.rate_pps], 4.0)
        intervals = (intervals[0].with_trial(longer), intervals[1].with_trial(longer))

    assert [64, 256, 128, 512] == order


def test_failing_minimum_rate_is_measured_again_and_nothing_else() -> None:
    stuck = bounds(trial(1, 0.5), trial(512, 0.5))

    choice = next_choice((stuck,), PHASE)

    assert choice is not None
    assert choice.rate_pps == 1
    assert next_choice((stuck.with_trial(trial(1, 0.5, 4.0)),), PHASE) is None


def test_external_step_is_two_widths_but_not_less_than_the_goal() -> None:
    wide = bounds(trial(64, 0.1), trial(256, 0.1))
    narrow = bounds(trial(64, 0.1), trial(65, 0.1))

    assert pytest.approx(64 / 4**2, rel=1e-5) == wide.below_pps(PHASE)
    assert pytest.approx(64 / 2, rel=1e-5) == narrow.below_pps(PHASE)
    assert pytest.approx(65 * 2, rel=1e-5) == narrow.above_pps(PHASE)


def test_middle_is_logarithmic() -> None:
    assert bounds(trial(2, 0.0), trial(8, 0.1)).middle_pps == 4
