"""What every MDR search promises, whatever the device."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftrend.errors import SearchTimeoutError, SettingsError
from perftrend.measure.search import Measure, SearchResult, mdr_search
from perftrend.measure.search.mdr import STRATEGIES
from perftrend.measure.search.parameters import Parameters, log_width
from perftrend.measure.search.record import TrialRecorder
from perftrend.measure.search.result import Step
from perftrend.measure.simulator import DeviceModel
from perftrend.measurement import Interval, Trial

MINIMUM, MAXIMUM = 20e3, 29.76e6


def search(measure: Measure, **arguments: Any) -> SearchResult:
    return mdr_search(measure, **{"minimum_pps": MINIMUM, "maximum_pps": MAXIMUM, **arguments})


def device(ndr: float, pdr: float, loss_above: float = 0.02) -> Measure:
    """Make a device that loses nothing up to NDR, 0.1 % up to PDR, then as much as is said."""

    def measure(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        loss = 0.0 if rate_pps <= ndr else 0.001 if rate_pps <= pdr else loss_above
        sent = 10**9
        share = 0.1 if fail_above is not None and loss > fail_above else 1.0
        part = round(sent * share)
        return Trial(rate_pps, duration_s, duration_s * share, part, part - round(part * loss))

    return measure


def limits(minimum: float, maximum: float) -> Parameters:
    return Parameters(
        minimum_pps=minimum,
        maximum_pps=maximum,
        loss_ratios=(0.0,),
        initial_duration_s=1.0,
        final_duration_s=1.0,
        relative_width=0.5,
        intermediate_phases=0,
        timeout_s=None,
    )


rates = st.floats(MINIMUM, MAXIMUM * 0.99)
strategies = st.sampled_from(sorted(STRATEGIES))
every_strategy = pytest.mark.parametrize("strategy", sorted(STRATEGIES))


@given(
    critical=st.tuples(rates, rates),
    loss_above=st.floats(0.006, 1.0),
    width=st.sampled_from([1e-6, 0.002, 0.005, 0.1, 0.9]),
    intermediate_phases=st.integers(0, 4),
    durations=st.sampled_from([(1.0, 30.0), (0.1, 0.1), (1.0, 2.5)]),
    strategy=strategies,
)
def test_monotone_device_is_bounded_by_long_trials(
    *,
    critical: tuple[float, float],
    loss_above: float,
    width: float,
    intermediate_phases: int,
    durations: tuple[float, float],
    strategy: str,
) -> None:
    ndr, pdr = sorted(critical)

    result = search(
        device(ndr, pdr, loss_above),
        relative_width=width,
        intermediate_phases=intermediate_phases,
        initial_duration_s=durations[0],
        final_duration_s=durations[1],
        strategy=strategy,
    )

    for loss_ratio, truth in ((0.0, ndr), (0.005, pdr)):
        interval = result.interval(loss_ratio)
        assert interval.invalid == ""
        assert interval.lower <= truth < interval.upper
        assert interval.relative_width <= width
        longest = {trial.rate_pps: trial for trial in result.trials if trial.duration_s == durations[1]}
        assert longest[interval.lower].loss_ratio <= loss_ratio < longest[interval.upper].loss_ratio


@settings(max_examples=3 * settings.default.max_examples)
@given(
    seed=st.integers(0, 2**32),
    choices=st.integers(2, 4),
    remembers=st.booleans(),
    width=st.sampled_from([0.005, 0.1, 0.5]),
    ratios=st.sampled_from([(0.0,), (0.0, 0.005), (0.0, 0.001, 0.01, 0.1)]),
    strategy=strategies,
)
def test_no_device_makes_a_search_endless(
    *, seed: int, choices: int, remembers: bool, width: float, ratios: tuple[float, ...], strategy: str
) -> None:
    """Loss by chance, or one for each rate, in trials that take no time and so never time out."""
    chance = random.Random(seed)  # noqa: S311 - a device, not a secret
    memory: dict[float, int] = {}

    def measure(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        drawn = chance.choice([0.0, 0.003, 0.03, 1.0][:choices])
        sent = round(rate_pps * duration_s)
        lost = round(sent * (memory.setdefault(rate_pps, drawn) if remembers else drawn))
        return Trial(rate_pps, duration_s, 0.0, sent, sent - lost)

    result = search(measure, relative_width=width, loss_ratios=ratios, strategy=strategy)

    assert len(result.trials) < 400
    rates = sorted({trial.rate_pps for trial in result.trials})
    assert all(high > low * (1 + 1e-9) for low, high in pairwise(rates)), "one rate, two bounds"
    for interval in result.intervals:
        assert MINIMUM <= interval.lower <= interval.upper <= MAXIMUM
        assert interval.invalid or interval.relative_width <= width


@given(
    received=st.integers(0, 2**70),
    sent=st.integers(0, 2**70),
    maximum=st.sampled_from([21e3, 1e9, 1e18]),
    strategy=strategies,
)
def test_absurd_counters_end_and_are_told(received: int, sent: int, maximum: float, strategy: str) -> None:
    result = search(
        lambda rate, duration, _: Trial(rate, duration, 1.0, sent, received),
        maximum_pps=maximum,
        strategy=strategy,
    )

    assert bool(result.invalid) == (received > sent or sent == 0)


@every_strategy
def test_one_packet_trials(strategy: str) -> None:
    """At 1 pps for 1 s a trial is a single frame, which is lost or is not."""
    result = search(
        lambda rate, duration, _: Trial(rate, duration, 1.0, 1, int(rate < 2)),
        minimum_pps=0.5,
        maximum_pps=10.0,
        strategy=strategy,
    )

    assert [("", True)] * 2 == [(each.invalid, each.lower < 2 <= each.upper) for each in result.intervals]


@every_strategy
def test_loss_at_the_minimum_rate_leaves_the_interval_invalid(strategy: str) -> None:
    result = search(device(0.0, 1e6), strategy=strategy)

    assert result.interval(0.005).invalid == ""
    assert result.interval(0.0).lower == MINIMUM
    assert "lost at the minimum rate, 20000 pps" in result.interval(0.0).invalid


@every_strategy
def test_truth_at_the_minimum_rate_is_bounded(strategy: str) -> None:
    result = search(device(MINIMUM, MINIMUM, 1.0), strategy=strategy)

    assert [("", MINIMUM)] * 2 == [(each.invalid, each.lower) for each in result.intervals]


@every_strategy
@pytest.mark.parametrize("maximum", [1e6 / 3, 29.76e6, 7.7e8])
def test_device_that_never_loses_is_valid_at_the_maximum(maximum: float, strategy: str) -> None:
    result = search(device(math.inf, math.inf), maximum_pps=maximum, strategy=strategy)

    assert len(result.phases[0].trials) <= 2, "a third would be at the maximum again"
    assert [("", maximum)] * 2 == [(each.invalid, each.upper) for each in result.intervals]
    assert all(each.relative_width <= 0.005 for each in result.intervals)


def test_documented_only_trials_that_fail_every_loss_ratio_may_end_early() -> None:
    asked: list[float | None] = []

    def measure(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        asked.append(fail_above)
        return device(5e6, 6e6)(rate_pps, duration_s, fail_above)

    search(measure, loss_ratios=(0.0, 0.005, 0.01), strategy="mdr")

    assert [None, None] == asked[:2], "the receive rates of these are needed"
    assert {0.01} == set(asked[2:])


def test_documented_early_end_changes_the_time_and_not_the_result() -> None:
    early = device(5e6, 6e6, 0.6)

    ended, whole = (
        search(early, strategy="mdr"),
        search(lambda rate, duration, _: early(rate, duration, None), strategy="mdr"),
    )

    assert whole.intervals == ended.intervals
    assert ended.elapsed_s < whole.elapsed_s


def test_documented_trials_are_told_by_phase() -> None:
    result = search(device(5e6, 6e6), strategy="mdr")

    assert [
        ("initial", 1.0, 0.0199),
        ("intermediate 1", 1.0, 0.0199),
        ("intermediate 2", 5.4772, 0.01),
        ("final", 30.0, 0.005),
    ] == [(p.name, round(p.duration_s, 4), round(p.relative_width, 4)) for p in result.phases]
    assert all(trial.duration_s == phase.duration_s for phase in result.phases for trial in phase.trials)
    assert sum(len(phase.steps) for phase in result.phases) == len(result.trials)
    assert ["maximum rate", "MRR", "MRR2"] == [step.reason for step in result.phases[0].steps]
    assert result.intervals == result.phases[-1].steps[-1].intervals


def test_loss_ratio_that_was_not_searched_is_refused() -> None:
    with pytest.raises(
        SettingsError, match=r"loss ratio 0\.01 was not searched for; the search was for 0, 0\.005"
    ):
        search(device(5e6, 6e6)).interval(0.01)


@every_strategy
def test_first_doubtful_trial_makes_the_result_invalid_and_the_search_goes_on(strategy: str) -> None:
    good, reasons = device(5e6, 6e6), iter(["", "", "generator too slow", "foreign CPU"])

    def measure(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        trial = good(rate_pps, duration_s, fail_above)
        return replace(trial, invalid=next(reasons, ""))

    result = search(measure, strategy=strategy)

    assert result.invalid == "generator too slow"
    assert search(good, strategy=strategy).intervals == result.intervals


@every_strategy
@pytest.mark.parametrize("timeout_s", [0.05, 0.5, 2.0, 3.0, 50.0])
def test_search_that_takes_too_long_fails_with_what_it_knows(timeout_s: float, strategy: str) -> None:
    with pytest.raises(SearchTimeoutError, match="timeout_s") as caught:
        search(device(5e6, 6e6), timeout_s=timeout_s, strategy=strategy)

    partial = caught.value.result
    assert isinstance(partial, SearchResult)
    before = partial.trials[:-1]
    assert sum(trial.elapsed_s for trial in before) < timeout_s <= partial.elapsed_s
    assert all("not finished" in interval.invalid for interval in partial.intervals)
    assert all(interval.lower <= 6e6 and interval.upper >= 5e6 for interval in partial.intervals)


@pytest.mark.parametrize(
    ("strategy", "timeout_s", "found"), [("predictive", 45.0, 0.005), ("mdr", 60.0, 0.0)]
)
def test_interval_that_was_found_in_time_is_valid(strategy: str, timeout_s: float, found: float) -> None:
    """The strategies bound PDR first, or NDR first."""
    knee = DeviceModel.of_kind("hard", 12.3e6)
    with pytest.raises(SearchTimeoutError) as caught:
        mdr_search(knee, minimum_pps=20e3, maximum_pps=29.76e6, timeout_s=timeout_s, strategy=strategy)

    partial = caught.value.result
    assert isinstance(partial, SearchResult)
    assert [found] == [ratio for ratio in partial.loss_ratios if not partial.interval(ratio).invalid]
    assert partial.interval(found).relative_width <= 0.005


@every_strategy
def test_search_that_is_done_in_time_is_not_failed(strategy: str) -> None:
    """The time counts when a further trial is needed: the last one may end after it."""
    whole = search(device(5e6, 6e6), strategy=strategy)

    assert whole == search(device(5e6, 6e6), timeout_s=whole.elapsed_s - 0.001, strategy=strategy)


def test_errors_of_the_testbed_pass_through() -> None:
    def measure(*_: object) -> Trial:
        raise RuntimeError("cable")

    with pytest.raises(RuntimeError, match="cable"):
        search(measure)


def test_record_ends_a_search_that_takes_too_many_trials() -> None:
    parameters = limits(1.0, 2.0)
    record = TrialRecorder(lambda rate, duration, _: Trial(rate, duration, 0.0, 1, 1), parameters)
    record.begin(parameters.plan()[0])
    for _ in range(parameters.most_trials):
        record.add_step(Step(record.measure(1.0, None), "again", ()))

    with pytest.raises(SearchTimeoutError, match="contradicts itself"):
        record.measure(1.0, None)


BAD: list[tuple[str, dict[str, Any]]] = [
    ("minimum_pps", {"minimum_pps": 0.0}),
    ("minimum_pps", {"minimum_pps": math.nan}),
    ("maximum_pps", {"maximum_pps": math.inf}),
    ("maximum_pps", {"minimum_pps": 5.0, "maximum_pps": 5.0}),
    ("loss_ratios", {"loss_ratios": ()}),
    ("loss_ratios", {"loss_ratios": (-0.1,)}),
    ("loss_ratios", {"loss_ratios": (0.0, 1.0)}),
    ("loss_ratios", {"loss_ratios": (0.0, math.nan)}),
    ("loss_ratios", {"loss_ratios": (0.0, 0.0)}),
    ("loss_ratios", {"loss_ratios": (0.005, 0.0)}),
    ("initial_duration_s", {"initial_duration_s": 0.0}),
    ("final_duration_s", {"final_duration_s": math.nan}),
    ("final_duration_s", {"initial_duration_s": 2.0, "final_duration_s": 1.0}),
    ("relative_width", {"relative_width": 0.0}),
    ("relative_width", {"relative_width": 1e-9}),
    ("relative_width", {"relative_width": 1.0}),
    ("relative_width", {"relative_width": math.nan}),
    ("intermediate_phases", {"intermediate_phases": -1}),
    ("intermediate_phases", {"intermediate_phases": 1.5}),
    ("intermediate_phases", {"intermediate_phases": math.nan}),
    ("intermediate_phases", {"intermediate_phases": 10**9}),
    ("timeout_s", {"timeout_s": 0.0}),
    ("timeout_s", {"timeout_s": math.nan}),
    ("strategy", {"strategy": "mdrr"}),
]


@pytest.mark.parametrize(("name", "arguments"), BAD, ids=repr)
def test_bad_parameter_is_refused_by_name_before_anything_is_measured(
    name: str, arguments: dict[str, Any]
) -> None:
    never: Callable[..., Trial] = pytest.fail

    with pytest.raises(SettingsError, match=name):
        search(never, **arguments)


def test_rate_next_to_a_limit_is_the_limit() -> None:
    parameters = limits(3.0, 7.0)

    assert [3.0, 3.0, 3.1, 7.0, 7.0] == [
        parameters.clamp(rate) for rate in (2.0, 3.0 + 1e-12, 3.1, 7.0 - 1e-12, 9.0)
    ]


@given(rate=st.floats(2e4, 2e7), width=st.sampled_from([1e-6, 0.002, 0.005, 0.3]))
def test_step_of_one_width_opens_an_interval_no_wider_than_that(rate: float, width: float) -> None:
    parameters = limits(1e3, 1e9)

    below = parameters.shift(rate, -log_width(width))
    above = parameters.shift(rate, log_width(width))

    assert pytest.approx(width, rel=1e-6) == Interval(below, rate).relative_width <= width
    assert pytest.approx(width, rel=1e-6) == Interval(rate, above).relative_width <= width


def test_many_phases_of_a_narrow_range_still_end() -> None:
    result = search(device(20.5e3, 20.6e3), maximum_pps=20.8e3, intermediate_phases=100)

    assert all(each.invalid == "" and each.relative_width <= 0.005 for each in result.intervals)
