"""What trials prove, what they suggest, and what is discarded if they contradict each other."""

from __future__ import annotations

import pytest

from perftrend.measure.search.parameters import Parameters
from perftrend.measure.search.predictive.evidence import RateBounds, TrialEvidence
from perftrend.measurement import Trial

FULL_S, SHORT_S = 30.0, 1.0


def limits(*, trials_per_bound: int = 1, exceed_ratio: float = 0.0) -> Parameters:
    return Parameters(
        minimum_pps=1.0,
        maximum_pps=1e9,
        loss_ratios=(0.0, 0.5),
        initial_duration_s=SHORT_S,
        final_duration_s=FULL_S,
        relative_width=0.5,
        intermediate_phases=0,
        timeout_s=None,
        trials_per_bound=trials_per_bound,
        exceed_ratio=exceed_ratio,
    )


def trial(rate: float, share: float, *, duration: float = FULL_S, elapsed: float | None = None) -> Trial:
    """Make a trial that lost this share of its frames in the time that it was given."""
    took = duration if elapsed is None else elapsed
    sent = round(rate * took)
    return Trial(rate, duration, took, sent, sent - round(share * sent))


def evidence(*trials: Trial, fail_above: float = 0.5, **arguments: float) -> TrialEvidence:
    made = TrialEvidence(limits(**arguments))  # type: ignore[arg-type]
    for one in trials:
        made.add(one, fail_above)
    return made


def test_rate_passes_or_fails_by_its_trial_of_the_final_duration() -> None:
    made = evidence(trial(1000, 0.2), trial(2000, 0.8), trial(4000, 0.8, duration=SHORT_S))

    assert [False, True] == [made.passes(1000, ratio) for ratio in (0.0, 0.5)]
    assert [False, False] == [made.passes(2000, ratio) for ratio in (0.0, 0.5)]
    assert made.passes(4000, 0.5) is None, "a short trial proves nothing"


def test_trial_that_was_ended_early_fails_what_it_was_ended_for_and_says_nothing_of_more() -> None:
    made = evidence(trial(1000, 1.0, elapsed=1.0), fail_above=0.0)

    assert made.passes(1000, 0.0) is False
    assert made.passes(1000, 0.5) is None, "30000 frames were to be sent, and 1000 were lost"


def test_trial_that_took_less_time_but_lost_too_little_to_be_ended_counts_whole() -> None:
    """A generator that does not tell its time right must not make a search endless."""
    made = evidence(trial(1000, 0.2, elapsed=0.0001), fail_above=0.5)

    assert made.passes(1000, 0.5) is True


def test_failing_rate_is_believed_before_a_passing_one_above_it() -> None:
    made = evidence(trial(1000, 0.0), trial(2000, 0.8), trial(4000, 0.0))

    assert RateBounds(1000, 2000) == made.proven(0.5)


@pytest.mark.parametrize(
    ("trials_per_bound", "exceed_ratio", "outcomes", "passes"),
    [
        (1, 0.0, "-", False),
        (1, 0.9, "-", False),
        (3, 0.0, "+-", False),
        (3, 0.0, "++", None),
        (3, 0.0, "+++", True),
        (3, 0.5, "-+", None),
        (3, 0.5, "-++", True),
        (3, 0.5, "--", False),
        (4, 0.25, "-", None),
        (4, 0.25, "-+++", True),
        (10, 0.3, "---", None),
        (10, 0.3, "----", False),
    ],
)
def test_several_trials_decide_together(
    trials_per_bound: int, exceed_ratio: float, outcomes: str, passes: bool | None
) -> None:
    trials = [trial(1000, 0.0 if outcome == "+" else 0.8) for outcome in outcomes]

    made = evidence(*trials, trials_per_bound=trials_per_bound, exceed_ratio=exceed_ratio)

    assert made.passes(1000, 0.5) is passes


def test_short_trials_suggest_until_they_are_contradicted() -> None:
    made = evidence(trial(1000, 0.0, duration=SHORT_S), trial(8000, 0.8, duration=SHORT_S))
    assert RateBounds(1000, 8000) == made.suggest_bounds(0.5)
    assert RateBounds(None, None) == made.suggest_bounds(0.5, short=False)

    made.add(trial(500, 0.8), 0.5)
    assert RateBounds(None, 500) == made.suggest_bounds(0.5), "what passed above is not believed"
    assert [8000, 500] == [one.rate_pps for one in made.consistent_trials(0.5)]


def test_short_failure_is_forgotten_when_a_long_trial_passes_above_it() -> None:
    made = evidence(trial(1000, 0.8, duration=SHORT_S), trial(2000, 0.0))

    assert RateBounds(2000, None) == made.suggest_bounds(0.5)


@pytest.mark.parametrize(
    ("full", "short", "contradicted"),
    [
        (trial(2000, 0.8), trial(2000, 0.0, duration=SHORT_S), True),
        (trial(2000, 0.8), trial(3000, 0.0, duration=SHORT_S), True),
        (trial(2000, 0.8), trial(1000, 0.0, duration=SHORT_S), False),
        (trial(2000, 0.2), trial(1000, 0.8, duration=SHORT_S), True),
        (trial(2000, 0.2), trial(3000, 0.8, duration=SHORT_S), False),
    ],
)
def test_long_trial_contradicts_short_ones_in_both_directions(
    full: Trial, short: Trial, contradicted: bool
) -> None:
    assert contradicted == evidence(short, full).contradicts_short(2000, 0.5)


def test_latest_short_trial_at_a_rate_counts() -> None:
    made = evidence(trial(1000, 0.8, duration=SHORT_S), trial(1000, 0.2, duration=SHORT_S))

    assert RateBounds(1000, None) == made.suggest_bounds(0.5)


@pytest.mark.parametrize(
    ("share", "rate", "doubted"),
    [(0.8, 1000, True), (0.52, 1000, False), (0.3, 1000, False), (0.8, 3000, False)],
)
def test_trial_that_lost_plainly_more_below_a_passing_rate_casts_doubt(
    share: float, rate: float, doubted: bool
) -> None:
    """It ended with its 25th frame or so, for a smaller loss ratio: 0.52 of 50 may be chance."""
    cut = trial(rate, share, elapsed=0.05)
    made = evidence(trial(2000, 0.4), fail_above=1.0)
    made.add(cut, 0.0)

    assert doubted == made.casts_doubt(cut, 0.5)


def test_trial_that_ended_by_far_more_loss_than_above_was_disturbed() -> None:
    made = evidence(trial(4000, 0.9), trial(2000, 0.1, duration=SHORT_S))

    assert made.is_disturbed(trial(1000, 0.9, duration=SHORT_S, elapsed=0.1))
    assert not made.is_disturbed(trial(1000, 0.15, duration=SHORT_S, elapsed=0.1)), "about as much"
    assert not made.is_disturbed(trial(1000, 0.9, duration=SHORT_S)), "it ran to its end"
    assert not made.is_disturbed(trial(5000, 0.9, duration=SHORT_S, elapsed=0.1)), "it is the highest rate"


def events(*after_s: float, passing_pps: float = 900) -> TrialEvidence:
    """Make trials at 1000, 1100, 1200, … pps that lost their first frame then, and one that passed."""
    made = evidence(trial(passing_pps, 0.0), fail_above=0.0)
    for number, elapsed_s in enumerate(after_s):
        rate = 1000.0 + 100.0 * number
        made.add(Trial(rate, FULL_S, elapsed_s, round(rate * elapsed_s), round(rate * elapsed_s) - 1), 0.0)
    return made


def test_lower_bound_is_confirmed_if_frames_are_lost_at_random_moments() -> None:
    assert events(20.0, 10.0, 5.0).rate_to_confirm(0.0) is None, "the higher the rate, the sooner"
    assert events(20.0, 5.0, 15.0).rate_to_confirm(0.0) == 900
    assert events(0.02, 0.01, 0.05).rate_to_confirm(0.0) is None, "a short trial shows it"


def test_lower_bound_is_confirmed_once() -> None:
    made = events(20.0, 5.0, 15.0)
    made.add(trial(900, 0.0), 0.0)

    assert made.rate_to_confirm(0.0) is None


def test_it_is_learnt_whether_trials_end_early() -> None:
    assert evidence(trial(1000, 0.2)).ends_early is None
    assert evidence(trial(1000, 0.8, elapsed=20.0)).ends_early is True
    assert evidence(trial(1000, 0.8), fail_above=0.1).ends_early is False


def floor_of(*shares: float, ratio: float = 0.0) -> float | None:
    """Return the floor that trials at 10000, 12000, 14400, … pps show, one for each share."""
    trials = [trial(10_000 * 1.2**number, share) for number, share in enumerate(shares)]
    return evidence(*trials, fail_above=1.0).loss_floor(ratio)


def test_loss_at_every_rate_is_a_floor() -> None:
    assert pytest.approx(0.001, rel=0.1) == floor_of(0.001, 0.001, 0.001, 0.001, 0.0011, 0.0012)
    assert pytest.approx(0.02, rel=0.1) == floor_of(0.02, 0.02, 0.02, 0.02, 0.02, 0.02, ratio=0.005)


def test_first_lost_frames_show_no_floor_within_a_narrow_range() -> None:
    """From 1000 to 1500 pps it may be pauses of the device that end the trials."""
    assert events(10.0, 10.0, 10.0, 10.0, 10.0, 10.0).loss_floor(0.0) is None


@pytest.mark.parametrize(
    ("shares", "ratio", "why"),
    [
        ((1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3), 0.0, "it falls by the sixth power of the rate"),
        ((0.0, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001), 0.0, "a lower rate lost nothing of many frames"),
        ((0.001,) * 6, 0.005, "it is below what is sought"),
        ((0.5,) * 6, 0.0, "every device is overloaded somewhere"),
        ((0.0,) * 6, 0.0, "nothing was lost"),
        ((0.001,) * 5, 0.0, "a few trials tell no slope"),
        ((0.006, 0.005, 0.004, 0.003, 0.0025, 0.002), 0.0, "it rises as the rate falls"),
    ],
)
def test_other_loss_is_none(shares: tuple[float, ...], ratio: float, why: str) -> None:
    assert floor_of(*shares, ratio=ratio) is None, why
