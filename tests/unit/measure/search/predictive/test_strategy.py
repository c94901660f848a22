"""What the predictive search promises beyond what every search does."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.errors import SearchTimeoutError, SettingsError
from perftrend.measure.search import Measure, SearchResult, mdr_search
from perftrend.measure.simulated_loss import KINDS
from perftrend.measure.simulator import DeviceModel
from perftrend.measurement import Trial

C = 12.3e6
RATIOS = (0.0, 0.005)


def search(measure: Measure, **arguments: Any) -> SearchResult:
    return mdr_search(measure, **{"minimum_pps": 20e3, "maximum_pps": 29.76e6, **arguments})


def found(kind: str, *, seed: int = 0, critical: float = C, **arguments: Any) -> SearchResult:
    return search(DeviceModel.of_kind(kind, critical, seed=seed), **arguments)


def test_device_with_a_hard_knee_takes_five_trials() -> None:
    """PDR is C / 0.995. One look finds it; four bounds are proven, of which two share a trial."""
    result = found("hard")

    assert [
        ("initial", [29.76]),
        ("locate 0.005", [C / 0.995e6]),
        ("bound 0.005", [C / 0.995e6 * 0.9995, C / 0.995e6 * 0.9995 / 0.995]),
        ("bound 0", [C / 0.995e6 * 0.9995 * 0.995]),
    ] == [
        (phase.name, [pytest.approx(trial.rate_pps / 1e6, rel=1e-5) for trial in phase.trials])
        for phase in result.phases
    ]
    assert [1.0, 1.0, 30.0, 30.0] == [phase.duration_s for phase in result.phases]
    assert result.elapsed_s < 77


def test_rate_just_above_the_onset_is_not_tried() -> None:
    """A trial there loses its first frame after almost 30 s, and the one below would pass in another 30 s."""
    result = found("soft", critical=752_934.4)

    (bounds,) = (phase for phase in result.phases if phase.name == "bound 0")
    late = [trial for trial in bounds.trials if trial.loss_ratio > 0 and trial.elapsed_s > 10]
    assert [] == late
    assert [30.0] == [trial.elapsed_s for trial in bounds.trials if trial.loss_ratio == 0]
    assert result.elapsed_s < 95


@pytest.mark.parametrize("critical", [337_600, 615_900, 863_700, 2_102_000, 3_732_000, 4_609_000])
def test_late_failure_on_a_soft_knee_is_avoided(critical: float) -> None:
    """Here a trial a width below the lowest failing rate would lose its first frame after 15 to 30 s."""
    result = found("soft", critical=critical)

    proofs = [trial for phase in result.phases if phase.name == "bound 0" for trial in phase.trials]
    assert all(trial.elapsed_s <= 7.5 for trial in proofs if trial.loss_ratio > 0)
    assert [30.0] == [trial.elapsed_s for trial in proofs if trial.loss_ratio == 0]


def test_trials_above_a_look_near_the_onset_show_how_loss_grows() -> None:
    """The looks for PDR end there, and leave a gap of 20 widths, in which nothing is known."""
    result = found("soft", critical=615_900)

    failing = [
        trial.rate_pps
        for phase in result.phases
        if phase.name == "bound 0"
        for trial in phase.trials
        if trial.loss_ratio > 0
    ]
    near = max(trial.rate_pps for trial in result.trials if 0 < trial.loss_ratio < 1e-5)
    assert sum(rate > near for rate in failing) >= 2


@given(kind=st.sampled_from(sorted(KINDS)), seed=st.integers(0, 2**32), critical=st.floats(3e5, 2e7))
def test_every_interval_that_is_not_flagged_was_proven(kind: str, seed: int, critical: float) -> None:
    result = found(kind, seed=seed, critical=critical)

    for ratio in RATIOS:
        interval = result.interval(ratio)
        if interval.invalid:
            continue
        assert interval.relative_width <= 0.005
        full = {trial.rate_pps: trial for trial in result.trials if trial.duration_s == 30.0}
        assert full[interval.lower].loss_ratio <= ratio < full[interval.upper].loss_ratio
        assert full[interval.lower].elapsed_s == 30.0, "what passes runs to its end"


@pytest.mark.parametrize("ends_early", [True, False])
@pytest.mark.parametrize(
    "kind",
    [
        "hard",
        "soft",
        "gentle",
        "collapse",
        "cubic",
        "linear",
        "steps",
        "asymmetric",
        "slow-generator",
        "short-optimistic",
        "throttling",
        "short-pessimistic",
    ],
)
def test_truth_of_a_device_without_chance_is_held(kind: str, ends_early: bool) -> None:
    for number in range(6):
        device = DeviceModel.of_kind(kind, 3.1e5 * 2**number, ends_early=ends_early)
        truths = [device.true_pps(ratio, 30.0) for ratio in RATIOS]

        result = search(device)

        assert ["", ""] == [interval.invalid for interval in result.intervals]
        for interval, truth in zip(result.intervals, truths, strict=True):
            assert interval.lower <= truth * (1 + 1e-5)
            assert truth * (1 - 1e-5) <= interval.upper


def test_loss_at_every_rate_is_told_instead_of_searched() -> None:
    result = found("loss-floor")

    assert result.interval(0.005).invalid == ""
    assert "of the frames are lost at every rate: no rate has loss ratio 0" in result.interval(0.0).invalid


def always(share: Callable[[float], float]) -> Measure:
    """Make a device that loses a share that depends on nothing but the duration of the trial."""

    def measure(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        sent, lost = round(rate_pps * duration_s), share(duration_s)
        part = fail_above / lost if fail_above is not None and lost > fail_above else 1.0
        sent = max(1, round(sent * part))
        return Trial(rate_pps, duration_s, duration_s * part, sent, sent - round(sent * lost))

    return measure


def test_device_that_loses_in_long_trials_only_lies_below_the_minimum() -> None:
    result = search(always(lambda duration: 0.01 if duration > 1 else 0.0))

    assert ["lost at the minimum rate" in interval.invalid for interval in result.intervals] == [True, True]
    assert len(result.trials) < 12


def test_device_that_loses_in_short_trials_only_forwards_the_maximum() -> None:
    result = search(always(lambda duration: 0.5 if duration == 1 else 0.0))

    assert [("", 29.76e6)] * 2 == [(interval.invalid, interval.lower) for interval in result.intervals]
    assert result.elapsed_s < 100


def test_without_short_trials_all_prove() -> None:
    result = found("soft", initial_duration_s=30.0)

    assert {30.0} == {trial.duration_s for trial in result.trials}
    assert ["", ""] == [interval.invalid for interval in result.intervals]


@pytest.mark.parametrize("ratios", [(0.0,), (0.01,), (0.0, 1e-7, 1e-4, 0.005, 0.1, 0.5)])
def test_any_number_of_loss_ratios_is_found(ratios: tuple[float, ...]) -> None:
    device = DeviceModel.of_kind("gentle", C)

    result = search(device, loss_ratios=ratios)

    for ratio in ratios:
        truth, interval = device.true_pps(ratio, 30.0), result.interval(ratio)
        assert interval.invalid == ""
        assert interval.lower <= truth * (1 + 1e-5)
        assert truth * (1 - 1e-5) <= interval.upper


@pytest.mark.parametrize("ends_early", [True, False])
@pytest.mark.parametrize("every_s", [7.0, 10.0, 13.0, 20.0])
def test_device_that_pauses_is_searched_to_its_end(every_s: float, ends_early: bool) -> None:
    """A queue of 150,000 frames gets 5 Mpps through a pause of 30 ms; short trials rarely meet one."""
    for seed in range(5):
        device = DeviceModel(C, pause_every_s=every_s, queue_frames=150_000, seed=seed, ends_early=ends_early)

        result = search(device)

        assert ["", ""] == [interval.invalid for interval in result.intervals]
        assert result.interval(0.0).lower <= 5.0001e6 <= result.interval(0.0).upper
        assert 0.99 * C < result.interval(0.005).lower
        assert result.elapsed_s < 700


@pytest.mark.parametrize("seed", range(6))
def test_search_goes_on_where_a_larger_loss_ratio_interrupted_it(seed: int) -> None:
    """Trials of 10 s meet one pause or two, so that those for NDR exceed PDR now and then."""
    device = DeviceModel.of_kind("pauses-7", 8.5e6, seed=seed, ends_early=False)

    result = search(device, final_duration_s=10.0)

    assert ["", ""] == [interval.invalid for interval in result.intervals]
    assert len(result.trials) < 120


@pytest.mark.parametrize("ends_early", [True, False])
def test_device_whose_pauses_lose_frames_at_any_rate_lies_below_the_minimum(ends_early: bool) -> None:
    result = search(DeviceModel(C, pause_every_s=7.0, seed=1, ends_early=ends_early))

    assert "lost at the minimum rate" in result.interval(0.0).invalid
    assert result.interval(0.005).invalid == ""


@pytest.mark.parametrize("ends_early", [True, False])
def test_device_that_stalls_at_random_is_searched_to_its_end(ends_early: bool) -> None:
    """Three of five trials meet no pause. None of 130 searches takes a few of them for loss at every rate."""
    for seed in range(130):
        device = DeviceModel(
            3e5 * 2.0 ** (seed % 7),
            pause_every_s=60.0,
            pauses_at_random=True,
            seed=seed,
            ends_early=ends_early,
        )

        result = search(device)

        assert ["", ""] == [interval.invalid for interval in result.intervals], seed


@pytest.mark.parametrize("critical", [3e5, 1.1e6, 4e6, 2e7])
def test_early_end_does_not_hide_that_lower_rates_lose_more(critical: float) -> None:
    """A trial for NDR that ends with its first lost frame proves nothing of PDR, which is half of c."""
    early, late = (
        search(DeviceModel.of_kind("falling", critical, ends_early=ends_early))
        for ends_early in (True, False)
    )

    for ratio in RATIOS:
        assert early.interval(ratio).lower == pytest.approx(late.interval(ratio).lower, rel=0.01)
        assert early.interval(ratio).lower <= 0.5 * critical <= early.interval(ratio).upper


def test_looks_find_what_lower_rates_lose_before_dear_trials_do() -> None:
    """Two trials of 30 s are unavoidable where none ends early."""
    result = search(DeviceModel.of_kind("falling", C, ends_early=False))

    assert [30.0, 30.0] == [trial.elapsed_s for trial in result.trials if trial.duration_s == 30.0]


@pytest.mark.parametrize("every_s", [45.0, 100.0])
def test_looks_do_not_run_away_within_a_pause(every_s: float) -> None:
    """The second look meets a pause. Looks that end within milliseconds would meet it at any rate."""
    device = DeviceModel(4.8e6, pause_every_s=every_s, pauses_at_random=True, seed=53)

    result = search(device)

    assert 0.9 * 4.8e6 < min(trial.rate_pps for trial in result.trials if trial.loss_ratio > 0.2)
    assert result.elapsed_s < 200


def test_loss_that_falls_with_the_rate_needs_no_short_trials() -> None:
    """Of 20 kpps all are lost, of 30 Mpps 0.07 %: trials that all are full decide at once."""

    def measure(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        sent = round(rate_pps * duration_s)
        share = min(1.0, 2e4 / rate_pps)
        allowed = sent if fail_above is None else fail_above * sent
        ended = round(sent * min(1.0, (allowed + 1) / (sent * share)))
        return Trial(rate_pps, duration_s, duration_s * ended / sent, ended, ended - math.ceil(ended * share))

    result = search(measure, initial_duration_s=10.0, final_duration_s=10.0, trials_per_bound=3)

    assert all("lost at the minimum rate" in interval.invalid for interval in result.intervals)


def test_luck_at_the_lower_bound_is_measured_again() -> None:
    """Bursts come at random, so the first rate that passes on the way down often does so by luck."""
    again = []
    for seed in range(60):
        device = DeviceModel(3e5 * 1.07**seed, knee="cubic", burst_frames=5000, seed=seed)
        lower = search(device).interval(0.0).lower
        again += [device(lower, 30.0).loss_ratio == 0.0 for _ in range(10)]

    assert sum(again) / len(again) > 0.46


def test_pdr_that_was_found_outlives_the_time_of_ndr() -> None:
    with pytest.raises(SearchTimeoutError) as failure:
        found("hard", timeout_s=45.0)

    result = failure.value.result
    assert isinstance(result, SearchResult)
    assert "search not finished" in result.interval(0.0).invalid
    assert found("hard").interval(0.005) == result.interval(0.005)


@pytest.mark.parametrize("kind", ["exponential", "short-pessimistic", "soft-poisson", "cubic"])
def test_ndr_alone_is_found(kind: str) -> None:
    """No larger loss ratio lets a short trial lose enough frames to show where loss begins."""
    for seed in range(10):
        result = found(
            kind,
            seed=seed,
            critical=3e5 * 1.5**seed,
            loss_ratios=(0.0,),
            initial_duration_s=0.1,
            final_duration_s=10,
        )

        assert result.interval(0.0).invalid == ""
        assert len(result.trials) < 100


def held(**arguments: Any) -> int:
    """Count the devices with 0.3 % of jitter whose critical rate is in the interval of NDR."""
    intervals = [found("jitter", seed=seed, **arguments).interval(0.0) for seed in range(60)]
    return sum(interval.lower <= C <= interval.upper for interval in intervals)


def test_several_trials_at_a_bound_find_the_middle_of_a_jittering_device_more_often() -> None:
    assert held() < 40
    assert held(trials_per_bound=9, exceed_ratio=0.5) > 45


def test_tolerated_failures_are_seen_at_the_lower_bound() -> None:
    lossy = [
        sum(trial.loss_ratio > 0 for trial in result.trials if trial.rate_pps == result.interval(0.0).lower)
        for result in (found("jitter", seed=seed, trials_per_bound=9, exceed_ratio=0.5) for seed in range(20))
    ]

    assert 0 < max(lossy) <= 4


def test_conditional_throughput_leaves_out_what_may_fail() -> None:
    plain = found("gentle")
    assert plain.conditional_throughput_pps(0.0) == plain.interval(0.0).lower
    lower = plain.interval(0.005).lower
    assert 0.995 * lower <= plain.conditional_throughput_pps(0.005) < lower

    tolerant = found("jitter", seed=3, trials_per_bound=5, exceed_ratio=0.5)
    assert tolerant.conditional_throughput_pps(0.0) == tolerant.interval(0.0).lower


def test_conditional_throughput_needs_a_lower_bound() -> None:
    result = search(always(lambda _: 0.5))

    with pytest.raises(SettingsError, match=r"has no lower bound: 0\.5 was lost at the minimum rate"):
        result.conditional_throughput_pps(0.005)


def test_documented_search_has_no_tolerance() -> None:
    with pytest.raises(SettingsError, match="trials_per_bound is 3; give 1, because strategy mdr"):
        found("hard", strategy="mdr", trials_per_bound=3)


@pytest.mark.parametrize(("name", "value"), [("trials_per_bound", 0), ("trials_per_bound", 2.5)])
@pytest.mark.parametrize("ratio", [-0.1, 1.0, float("nan")])
def test_bad_tolerance_is_refused_by_name(name: str, value: float, ratio: float) -> None:
    with pytest.raises(SettingsError, match=name):
        found("hard", **{name: value})
    with pytest.raises(SettingsError, match="exceed_ratio"):
        found("hard", exceed_ratio=ratio)
