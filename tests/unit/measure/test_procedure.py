"""The procedures on the simulated testbed, whose truth is known."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest

from perftrend.errors import SearchTimeoutError, SettingsError
from perftrend.measure import specification, trial_validity
from perftrend.measure.procedure import Procedure
from perftrend.measure.search import TrialProgress
from perftrend.measure.specification import HoldPlan, MrrPlan, ReconfPlan, SearchPlan, SoakPlan
from perftrend.measure.testbed import Testbed
from perftrend.measurement import Measurement, Trial
from perftrend.settings.sections import SearchSettings, TrialSettings

EXAMPLES = Path(__file__).resolve().parents[3] / "docs" / "examples"
HARD = {"critical_pps": "10e6", "jitter": "0", "seed": "1"}
SEARCH = SearchPlan(initial_duration_s=1, final_duration_s=30, minimum_pps=20_000, timeout_s=1e6)
SOAK = SoakPlan(
    total_duration_s=120,
    trial_duration_s=5,
    target_loss_ratio=1e-7,
    credibility=0.95,
    minimum_pps=20_000,
)
Plan = TypeVar("Plan", SearchPlan, SoakPlan)
NDR, PDR = 10e6, 10e6 / 0.995
"""Where a hard knee at 10 Mpps begins to lose anything, and to lose half a percent."""


def changed(plan: Plan, **values: object) -> Plan:
    """Return a plan with other values, which need not be valid."""
    return plan.model_copy(update=values)


@pytest.fixture
def testbed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Testbed]:
    monkeypatch.setattr(trial_validity, "_PAUSE_S", 0.0)
    with Testbed(specification.load("simulated")) as opened:
        opened.start_device(HARD)
        opened.use("64B")
        yield opened


@pytest.fixture
def with_latency() -> Iterator[Testbed]:
    """Give a simulated testbed whose generator measures latency."""
    with Testbed(specification.load("simulated-latency", EXAMPLES), attempts=1) as opened:
        opened.start_device(HARD)
        opened.use("64B")
        yield opened


@pytest.fixture
def procedure(testbed: Testbed, tmp_path: Path) -> Procedure:
    return Procedure(testbed, tmp_path / "counters" / "test.json", tmp_path)


def collected(measurement: Measurement, root: Path) -> Any:
    return json.loads((root / measurement.counters).read_text())


def spoilt(testbed: Testbed, monkeypatch: pytest.MonkeyPatch, when: Callable[[int], bool]) -> list[Trial]:
    """Make the generator's trials invalid whose number, from 1 on, ``when`` chooses."""
    real = testbed.generator.trial
    made: list[Trial] = []

    def trial(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        made.append(real(rate_pps, duration_s, fail_above))
        return replace(made[-1], invalid="a cat on the cable") if when(len(made)) else made[-1]

    monkeypatch.setattr(testbed.generator, "trial", trial)
    return made


def test_mrr_is_what_the_device_forwards_at_most(procedure: Procedure) -> None:
    measurement = procedure.mrr(MrrPlan(duration_s=1, multiplicity=7, starts=1))

    assert [10e6] * 7 == pytest.approx(list(measurement.samples), rel=1e-6)
    assert ("mrr", "simulated", "64B", "", True) == (
        measurement.kind,
        measurement.testbed,
        measurement.frame,
        measurement.invalid,
        measurement.simulated,
    )


def test_mrr_is_offered_all_that_the_link_carries(procedure: Procedure, testbed: Testbed) -> None:
    measurement = procedure.mrr(MrrPlan(duration_s=1, multiplicity=3, starts=1))

    assert {testbed.link_pps} == {trial.rate_pps for trial in measurement.trials}


@pytest.mark.parametrize(("multiplicity", "starts", "expected"), [(10, 5, 5), (3, 5, 3), (1, 1, 1)])
def test_mrr_is_spread_over_the_starts_of_the_device(
    multiplicity: int, starts: int, expected: int, procedure: Procedure, testbed: Testbed
) -> None:
    """The device was started once before."""
    procedure.mrr(MrrPlan(duration_s=1, multiplicity=multiplicity, starts=starts))

    assert expected == testbed.device._starts  # type: ignore[attr-defined]


def test_ndr_and_pdr_hold_the_truth_in_the_width_asked_for(procedure: Procedure) -> None:
    intervals = procedure.ndr_and_pdr(SEARCH).intervals

    for name, truth in (("ndr", NDR), ("pdr", PDR)):
        assert intervals[name].lower <= truth <= intervals[name].upper
        assert intervals[name].relative_width <= 0.005
        assert intervals[name].invalid == ""


@pytest.mark.parametrize(("metric", "truth"), [("ndr", NDR), ("pdr", PDR)])
def test_binary_search_agrees(procedure: Procedure, metric: str, truth: float) -> None:
    measurement = procedure.binary(metric, SEARCH)

    (interval,) = measurement.intervals.values()
    assert ([metric], "binary", "") == (list(measurement.intervals), measurement.kind, measurement.invalid)
    assert interval.lower <= truth * (1 + 1e-9)
    assert truth * (1 - 1e-6) <= interval.upper
    assert interval.relative_width <= 0.005


def test_ndr_and_pdr_are_found_by_binary_search(procedure: Procedure) -> None:
    measurement = procedure.ndr_and_pdr(changed(SEARCH, strategy="binary"))

    for name, truth in (("ndr", NDR), ("pdr", PDR)):
        assert measurement.intervals[name].lower <= truth * (1 + 1e-9)
        assert truth * (1 - 1e-6) <= measurement.intervals[name].upper
        assert measurement.intervals[name].relative_width <= 0.005
    assert ("ndrpdr", "binary", "", {"ndr": 0.0, "pdr": 0.005}) == (
        measurement.kind,
        measurement.strategy,
        measurement.invalid,
        measurement.loss_ratios,
    )


@pytest.mark.parametrize("strategy", ["predictive", "mdr", "binary"])
def test_further_pdr_is_found_in_the_same_search(procedure: Procedure, strategy: str) -> None:
    goals = {"ndr": 0.0, "pdr": 0.005, "pdr_0.1": 0.1}

    measurement = procedure.ndr_and_pdr(changed(SEARCH, loss_ratios=(0.1,), strategy=strategy))

    further = measurement.intervals["pdr_0.1"]
    assert (list(goals), goals, "") == (
        list(measurement.intervals),
        measurement.loss_ratios,
        measurement.invalid,
    )
    assert further.lower <= 10e6 / 0.9 * (1 + 1e-9)
    assert 10e6 / 0.9 * (1 - 1e-6) <= further.upper


def test_binary_search_that_runs_out_of_time_tells_what_it_found(procedure: Procedure) -> None:
    """The time that a search for NDR alone takes is too short for PDR as well."""
    ndr_s = sum(trial.elapsed_s for trial in procedure.binary("ndr", SEARCH).trials)

    measurement = procedure.ndr_and_pdr(changed(SEARCH, strategy="binary", timeout_s=ndr_s))

    ndr, pdr = measurement.intervals["ndr"], measurement.intervals["pdr"]
    assert ("", "") == (measurement.invalid, ndr.invalid)
    assert "search not finished after" in pdr.invalid


def test_binary_search_that_finds_nothing_in_time_is_not_valid(procedure: Procedure) -> None:
    measurement = procedure.ndr_and_pdr(changed(SEARCH, strategy="binary", timeout_s=1))

    assert "search not finished after" in measurement.invalid


def test_binary_search_for_pdr_looks_up_to_what_the_loss_ratio_allows(procedure: Procedure) -> None:
    """Nothing above MRR / 0.995 is tried by a device whose PDR lies right there."""
    mrr, *searched = procedure.binary("pdr", SEARCH).trials

    highest = mrr.receive_rate_pps / 0.995
    assert 0.995 * highest <= max(trial.rate_pps for trial in searched) <= highest


def test_search_tells_the_mrr_that_it_begins_with(procedure: Procedure) -> None:
    """10 Mpps come back of a device that forwards so much."""
    measurement = procedure.ndr_and_pdr(changed(SEARCH, strategy="mdr"))

    assert NDR == pytest.approx(measurement.mrr_pps, rel=1e-3)
    assert NDR == pytest.approx(procedure.binary("pdr", SEARCH).mrr_pps, rel=1e-3)


def test_first_trial_that_was_ended_early_shows_no_mrr(procedure: Procedure) -> None:
    """The frames in the queues of a real device would count, and the time in which they are forwarded not."""
    assert 0 == procedure.ndr_and_pdr(changed(SEARCH, strategy="predictive")).mrr_pps


def test_device_below_the_lowest_rate_has_no_valid_ndr(testbed: Testbed, procedure: Procedure) -> None:
    testbed.start_device({**HARD, "critical_pps": "1000"})

    measurement = procedure.ndr_and_pdr(SEARCH)

    assert measurement.invalid
    assert measurement.intervals["ndr"].invalid == measurement.invalid


def test_search_that_takes_too_long_is_an_error(procedure: Procedure) -> None:
    with pytest.raises(SearchTimeoutError):
        procedure.ndr_and_pdr(changed(SEARCH, timeout_s=1e-9))


@pytest.mark.parametrize("starts", [1, 3])
def test_counters_are_those_of_one_start_at_mrr(
    procedure: Procedure, testbed: Testbed, tmp_path: Path, starts: int
) -> None:
    plan = MrrPlan(duration_s=1, multiplicity=2 * starts, starts=starts)
    counters = collected(procedure.mrr(plan), tmp_path)

    assert ["mrr"] == list(counters)
    assert testbed.maximum_pps == counters["mrr"]["rate_pps"]
    grown = counters["mrr"]["after"]["generator"]["sent"] - counters["mrr"]["before"]["generator"]["sent"]
    assert 2 * testbed.maximum_pps == pytest.approx(grown, abs=2)


def test_counters_of_the_device_in_each_trial_are_collected(
    testbed: Testbed, procedure: Procedure, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testbed.device, "trial_counters", lambda: {"clocks": 31})
    plan = MrrPlan(duration_s=0.5, multiplicity=3, starts=1)

    counters = collected(procedure.mrr(plan), tmp_path)

    assert [{"clocks": 31}] * 3 == [trial["device"] for trial in counters["trials"]]
    assert [testbed.maximum_pps] * 3 == [trial["rate_pps"] for trial in counters["trials"]]


def test_counters_are_collected_at_ndr_and_at_pdr(procedure: Procedure, tmp_path: Path) -> None:
    measurement = procedure.ndr_and_pdr(SEARCH)

    counters = collected(measurement, tmp_path)
    assert {name: interval.lower for name, interval in measurement.intervals.items()} == {
        name: section["rate_pps"] for name, section in counters.items()
    }
    assert "counters/test.json" == measurement.counters


def test_trial_that_is_measured_again_spoils_nothing(
    procedure: Procedure, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoilt(testbed, monkeypatch, lambda number: number in (1, 4))

    measurement = procedure.mrr(MrrPlan(duration_s=1, multiplicity=3, starts=1))

    assert (3, "") == (len(measurement.samples), measurement.invalid)
    assert ["a cat on the cable", "", "", "a cat on the cable", ""] == [
        trial.invalid for trial in measurement.trials
    ]


def test_mrr_with_a_trial_that_stays_invalid_is_invalid(
    procedure: Procedure, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoilt(testbed, monkeypatch, lambda number: 2 <= number <= 6)

    measurement = procedure.mrr(MrrPlan(duration_s=1, multiplicity=3, starts=1))

    assert (3, "a cat on the cable") == (len(measurement.samples), measurement.invalid)


@pytest.mark.parametrize("kind", ["ndrpdr", "binary"])
def test_search_with_a_trial_that_stays_invalid_is_invalid(
    kind: str, procedure: Procedure, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoilt(testbed, monkeypatch, lambda number: 2 <= number <= 6)

    measurement = procedure.ndr_and_pdr(SEARCH) if kind == "ndrpdr" else procedure.binary("ndr", SEARCH)

    assert "a cat on the cable" in measurement.invalid


def test_mrr_of_a_device_faster_than_the_generator_is_invalid(
    procedure: Procedure, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testbed.generator, "highest_pps", lambda: 5e6)
    testbed.use("64B")

    measurement = procedure.mrr(MrrPlan(duration_s=1, multiplicity=2, starts=1))

    assert measurement.invalid.startswith("limited by the generator: it reaches 5000000")


def test_search_above_the_generators_rate_is_invalid(
    procedure: Procedure, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testbed.generator, "highest_pps", lambda: 5e6)
    testbed.use("64B")

    measurement = procedure.ndr_and_pdr(changed(SEARCH, strategy="mdr"))

    assert "limited by the generator" in measurement.invalid
    assert 0 == measurement.mrr_pps


def test_device_that_forwards_all_that_the_link_carries_is_measured(
    procedure: Procedure, testbed: Testbed
) -> None:
    testbed.use("1518B")

    measurement = procedure.mrr(MrrPlan(duration_s=1, multiplicity=2, starts=1))

    assert measurement.invalid == ""
    assert [testbed.link_pps] * 2 == pytest.approx(list(measurement.samples), rel=1e-5)


def test_measurement_says_when_and_with_what_it_was_made(procedure: Procedure) -> None:
    measurement = procedure.mrr(MrrPlan(duration_s=1, multiplicity=1, starts=1))

    assert measurement.started <= measurement.finished
    assert measurement.started.tzinfo is not None
    assert {"device", "generator"} == set(measurement.versions)


def test_search_that_takes_too_long_says_what_was_known_by_then(procedure: Procedure) -> None:
    with pytest.raises(
        SearchTimeoutError, match=r"bounds so far, not confirmed: NDR \d+ to \d+ pps, PDR \d+ to"
    ):
        procedure.ndr_and_pdr(changed(SEARCH, timeout_s=20))


def test_pdr_that_was_found_outlives_a_search_that_takes_too_long(procedure: Procedure) -> None:
    """PDR is bounded after 46 s; the trial for NDR would begin after 40 s."""
    measurement = procedure.ndr_and_pdr(changed(SEARCH, timeout_s=40))

    assert "" == measurement.invalid
    assert "" == measurement.intervals["pdr"].invalid
    assert "search not finished" in measurement.intervals["ndr"].invalid


def test_pdr_is_valid_although_no_rate_has_no_loss(testbed: Testbed, procedure: Procedure) -> None:
    testbed.start_device({**HARD, "pause_every_s": "7"})

    measurement = procedure.ndr_and_pdr(SEARCH)

    assert "" == measurement.invalid
    assert "" == measurement.intervals["pdr"].invalid
    assert "lost at the minimum rate" in measurement.intervals["ndr"].invalid


def test_search_tells_its_way_by_the_trials_that_counted(
    procedure: Procedure, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two trials are measured again; two more, at the found rates, are no part of the search."""
    spoilt(testbed, monkeypatch, lambda number: number in (1, 4))

    measurement = procedure.ndr_and_pdr(SEARCH)

    steps = [step for phase in measurement.phases for step in phase.steps]
    accepted = [trial for trial in measurement.trials if not trial.invalid]
    assert accepted[:-2] == [step.trial for step in steps]
    assert len(accepted) + 2 == len(measurement.trials)
    assert tuple(measurement.intervals.values()) == steps[-1].intervals
    assert {"ndr": 0.0, "pdr": 0.005} == measurement.loss_ratios


def test_binary_search_tells_what_may_be_lost(procedure: Procedure) -> None:
    assert {"pdr": 0.005} == procedure.binary("pdr", SEARCH).loss_ratios


def test_search_is_followed_step_by_step(procedure: Procedure) -> None:
    told: list[TrialProgress] = []

    measurement = procedure.ndr_and_pdr(SEARCH, on_step=told.append)

    names = [phase.name for phase in measurement.phases for _ in phase.steps]
    assert names == [step.phase for step in told]
    assert told[-1].intervals == tuple(measurement.intervals.values())


def test_search_that_takes_too_long_keeps_its_trials(procedure: Procedure) -> None:
    with pytest.raises(SearchTimeoutError) as failure:
        procedure.ndr_and_pdr(changed(SEARCH, timeout_s=20))

    known = failure.value.result
    assert isinstance(known, Measurement)
    assert known.trials == tuple(trial for phase in known.phases for trial in phase.trials)
    assert sum(trial.elapsed_s for trial in known.trials) >= 20
    assert known.invalid.startswith("search not finished after")
    assert {known.invalid} == {interval.invalid for interval in known.intervals.values()}


@pytest.mark.parametrize(
    ("strategy", "halving"),
    [("mdr", True), ("predictive", False)],
)
def test_search_follows_the_strategy_asked_for_and_tells_it(
    strategy: str, halving: bool, procedure: Procedure
) -> None:
    """The documented search alone has phases between, each of half the width."""
    measurement = procedure.ndr_and_pdr(changed(SEARCH, strategy=strategy))

    assert strategy == measurement.strategy
    assert halving == ("intermediate 2" in {phase.name for phase in measurement.phases})


def test_unknown_strategy_is_refused_before_anything_is_measured(
    procedure: Procedure, testbed: Testbed
) -> None:
    with pytest.raises(SettingsError, match="'mrd' is unknown; did you mean 'mdr'"):
        procedure.ndr_and_pdr(changed(SEARCH, strategy="mrd"))

    assert [] == testbed.trials.trials


def test_search_by_several_trials_tells_what_comes_back_of_its_lower_bounds(
    procedure: Procedure, testbed: Testbed
) -> None:
    """Of three trials one may fail: two that pass decide."""
    testbed.start_device({**HARD, "jitter": "0.003"})

    measurement = procedure.ndr_and_pdr(changed(SEARCH, trials_per_bound=3, exceed_ratio=0.4))

    ndr, pdr = (measurement.intervals[name].lower for name in ("ndr", "pdr"))
    conditional = measurement.conditional_throughput_pps
    assert ["ndr", "pdr"] == list(conditional)
    assert ndr == conditional["ndr"]
    assert 0.995 * pdr <= conditional["pdr"] <= pdr
    at_ndr = [trial for trial in measurement.trials if (trial.rate_pps, trial.duration_s) == (ndr, 30)]
    assert 2 == sum(trial.loss_ratio == 0 for trial in at_ndr)


def test_search_by_single_trials_tells_no_conditional_throughput(procedure: Procedure) -> None:
    assert {} == procedure.ndr_and_pdr(SEARCH).conditional_throughput_pps


def test_interval_that_is_not_valid_has_no_conditional_throughput(
    testbed: Testbed, procedure: Procedure
) -> None:
    testbed.start_device({**HARD, "critical_pps": "1000"})

    measurement = procedure.ndr_and_pdr(changed(SEARCH, trials_per_bound=3))

    assert {} == measurement.conditional_throughput_pps


def test_soak_holds_the_truth(procedure: Procedure) -> None:
    measurement = procedure.soak(changed(SOAK, total_duration_s=300))

    load, interval = measurement.critical_load, measurement.intervals["soak"]
    assert load is not None
    assert load.rate_pps == pytest.approx(10e6, rel=1e-3)
    assert interval.lower <= load.rate_pps <= interval.upper
    assert ("soak", "", "", True) == (
        measurement.kind,
        measurement.invalid,
        interval.invalid,
        measurement.simulated,
    )


def test_soak_takes_the_time_that_it_is_given(procedure: Procedure) -> None:
    """22 trials of 5.0 s, 5.1 s, … take 133.1 s; the last two would end after 120 s."""
    durations = [trial.duration_s for trial in procedure.soak(SOAK).trials]

    assert [5 + 0.1 * number for number in range(20)] == pytest.approx(durations)


def test_soak_below_the_lowest_rate_is_not_valid(procedure: Procedure) -> None:
    measurement = procedure.soak(changed(SOAK, minimum_pps=11e6))

    assert "the critical load is below it" in measurement.invalid
    assert measurement.invalid == measurement.intervals["soak"].invalid


def test_soak_of_a_device_faster_than_the_generator_is_not_valid(
    procedure: Procedure, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testbed.generator, "highest_pps", lambda: 5e6)
    testbed.use("64B")

    assert "limited by the generator" in procedure.soak(SOAK).invalid


def test_soak_and_hold_are_followed_trial_by_trial(procedure: Procedure) -> None:
    soaked: list[TrialProgress] = []
    held: list[TrialProgress] = []

    procedure.soak(changed(SOAK, total_duration_s=16), on_step=soaked.append)
    procedure.hold(HoldPlan(rate_pps=9e6, duration_s=60, slices=3), on_step=held.append)

    assert [("soak", 11.0), ("soak", 5.9), ("soak", 0.7)] == [
        (step.phase, pytest.approx(step.seconds_left)) for step in soaked
    ]
    assert [("hold", 40.0), ("hold", 20.0), ("hold", 0.0)] == [
        (step.phase, step.seconds_left) for step in held
    ]
    assert 60.0 == held[-1].elapsed_s


def test_hold_tells_what_a_rate_loses(procedure: Procedure) -> None:
    """A device that forwards 10 Mpps loses one frame in eleven of 11 Mpps, evenly."""
    measurement = procedure.hold(HoldPlan(rate_pps=11e6, duration_s=30, slices=3))

    assert [10e6] * 3 == pytest.approx(list(measurement.samples), rel=1e-6)
    assert measurement.held is not None
    assert 1 / 11 == pytest.approx(measurement.held.loss_ratio, rel=1e-6)
    assert (11e6, 3, False) == (
        measurement.held.rate_pps,
        measurement.held.lossy_slices,
        measurement.held.bursty,
    )
    assert ("hold", "") == (measurement.kind, measurement.invalid)


def test_hold_with_a_slice_that_stays_invalid_is_invalid(
    procedure: Procedure, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoilt(testbed, monkeypatch, lambda number: 2 <= number <= 6)

    measurement = procedure.hold(HoldPlan(rate_pps=1e6, duration_s=30, slices=3))

    assert (3, "a cat on the cable") == (len(measurement.samples), measurement.invalid)


@pytest.mark.parametrize(
    ("plan", "reason"),
    [
        (HoldPlan(rate_pps=1e9, duration_s=30, slices=3), "simulated can offer at most"),
        (HoldPlan(rate_pps=0, duration_s=30, slices=3), "rate_pps"),
        (HoldPlan(rate_pps=1e6, duration_s=30, slices=0), "slices"),
        (HoldPlan(rate_pps=1e6, duration_s=-1, slices=3), "duration_s"),
    ],
)
def test_hold_that_cannot_be_is_refused_before_anything_is_measured(
    plan: HoldPlan, reason: str, procedure: Procedure, testbed: Testbed
) -> None:
    with pytest.raises(SettingsError, match=reason):
        procedure.hold(plan)

    assert [] == testbed.trials.trials


def test_counters_are_collected_over_a_soak_and_over_a_hold(procedure: Procedure, tmp_path: Path) -> None:
    procedure.soak(SOAK)
    measurement = procedure.hold(HoldPlan(rate_pps=9e6, duration_s=60, slices=3))

    sections = collected(measurement, tmp_path)
    assert ["soak", "hold"] == list(sections)
    sent = {name: section["after"]["generator"]["sent"] for name, section in sections.items()}
    assert 9e6 * 60 == pytest.approx(sent["hold"] - sections["hold"]["before"]["generator"]["sent"], abs=3)
    assert sent["soak"] == sections["hold"]["before"]["generator"]["sent"]


def test_settings_precede_the_testbed_file() -> None:
    usual = specification.load("simulated")
    mrr = MrrPlan.complete(TrialSettings(multiplicity=3), usual.mrr)
    search = SearchPlan.complete(SearchSettings(final_duration_s=7), usual.search)

    assert (3, usual.mrr.duration_s, usual.mrr.starts) == (mrr.multiplicity, mrr.duration_s, mrr.starts)
    assert (7, usual.search.initial_duration_s) == (search.final_duration_s, search.initial_duration_s)
    assert usual.search.minimum_pps == search.minimum_pps


# ---- latency


def searched_with_latency(testbed: Testbed, folder: Path, plan: SearchPlan = SEARCH) -> Measurement:
    return Procedure(testbed, folder / "counters.json", folder).ndr_and_pdr(plan)


@pytest.mark.parametrize("strategy", ["predictive", "binary"])
def test_latency_is_measured_at_fractions_of_pdr(
    strategy: str, with_latency: Testbed, tmp_path: Path
) -> None:
    """At 10 Mpps a batch takes 6.4 us; a frame waits for one of them at half of the rate."""
    measurement = searched_with_latency(with_latency, tmp_path, changed(SEARCH, strategy=strategy))

    pdr = measurement.intervals["pdr"].lower
    assert {"latency_10": 0.1 * pdr, "latency_50": 0.5 * pdr, "latency_90": 0.9 * pdr} == {
        metric: latency.rate_pps for metric, latency in measurement.latency.items()
    }
    assert {""} == {latency.invalid for latency in measurement.latency.values()}
    assert 5 + 6.4 == pytest.approx(measurement.latency["latency_50"].average_us, rel=0.02)
    assert [10.0] * 3 == [trial.duration_s for trial in measurement.trials[-3:]]
    assert [latency.directions for latency in measurement.latency.values()] == [
        trial.latency for trial in measurement.trials[-3:]
    ]


def test_latency_trial_is_no_longer_than_the_last_phase(with_latency: Testbed, tmp_path: Path) -> None:
    measurement = searched_with_latency(with_latency, tmp_path, changed(SEARCH, final_duration_s=2))

    assert [2.0] * 3 == [trial.duration_s for trial in measurement.trials[-3:]]


def test_search_without_latency_has_no_further_trials(procedure: Procedure) -> None:
    """The last two trials are those at NDR and PDR, for the counters."""
    measurement = procedure.ndr_and_pdr(SEARCH)

    assert {} == measurement.latency
    assert [interval.lower for interval in measurement.intervals.values()] == [
        trial.rate_pps for trial in measurement.trials[-2:]
    ]


def test_binary_search_for_one_rate_measures_no_latency(with_latency: Testbed, tmp_path: Path) -> None:
    procedure = Procedure(with_latency, tmp_path / "counters.json", tmp_path)

    assert {} == procedure.binary("pdr", SEARCH).latency


def test_latency_of_an_invalid_trial_is_absent_and_the_rates_are_valid(
    with_latency: Testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    last = len(searched_with_latency(with_latency, tmp_path).trials)
    with_latency.start_device(HARD)
    with_latency.use("64B")
    spoilt(with_latency, monkeypatch, lambda number: number == last)

    measurement = searched_with_latency(with_latency, tmp_path)

    assert ["", "", "a cat on the cable"] == [each.invalid for each in measurement.latency.values()]
    assert () == measurement.latency["latency_90"].directions
    assert ["", "", ""] == [measurement.invalid, *(each.invalid for each in measurement.intervals.values())]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda trial: replace(trial, received=trial.sent * 99 // 100), "1 % of the frames were lost"),
        (lambda trial: replace(trial, latency=()), "the generator measured no latency"),
    ],
)
def test_latency_with_much_loss_or_without_frames_is_absent(
    change: Callable[[Trial], Trial],
    reason: str,
    with_latency: Testbed,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = with_latency.generator.trial

    def trial(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        found = real(rate_pps, duration_s, fail_above)
        return change(found) if duration_s == 10 else found

    monkeypatch.setattr(with_latency.generator, "trial", trial)

    measurement = searched_with_latency(with_latency, tmp_path)

    assert all(each.invalid.startswith(reason) for each in measurement.latency.values())
    assert ["", "", ""] == [measurement.invalid, *(each.invalid for each in measurement.intervals.values())]


def test_without_pdr_no_latency_is_measured(with_latency: Testbed, tmp_path: Path) -> None:
    with_latency.start_device({**HARD, "critical_pps": "1000"})

    measurement = searched_with_latency(with_latency, tmp_path)

    reason = measurement.intervals["pdr"].invalid
    assert reason
    assert [f"PDR is not valid: {reason}"] * 3 == [each.invalid for each in measurement.latency.values()]
    assert 10.0 not in {trial.duration_s for trial in measurement.trials}


# ---- reconfiguration


@pytest.mark.parametrize("strategy", ["predictive", "mdr", "binary"])
def test_reconfiguration_loses_what_arrives_without_service(
    strategy: str, testbed: Testbed, tmp_path: Path
) -> None:
    """The device forwards 10 Mpps, and nothing for 2 ms: at 9 Mpps that is 18,000 frames."""
    testbed.start_device({**HARD, "reconf_loss_s": "0.002"})
    procedure = Procedure(testbed, tmp_path / "counters.json", tmp_path)

    measurement = procedure.reconf(ReconfPlan({"routes": "10000"}, changed(SEARCH, strategy=strategy)))

    found = measurement.reconfiguration
    assert found is not None
    assert 0.9 * measurement.intervals["ndr"].lower == found.rate_pps
    assert 9e6 == pytest.approx(found.rate_pps, rel=0.006)
    assert round(0.002 * found.rate_pps) == found.lost
    assert 0.002 == pytest.approx(found.lost_s, rel=1e-4)
    assert ({"routes": "10000"}, 0, "") == (found.changes, found.baseline_lost, measurement.invalid)
    assert ("reconf", strategy, {"ndr": 0.0}, {}) == (
        measurement.kind,
        measurement.strategy,
        measurement.loss_ratios,
        measurement.rates,
    )
    assert [(found.rate_pps, 10.0)] * 2 == [
        (trial.rate_pps, trial.duration_s) for trial in measurement.trials[-2:]
    ]
    assert {"ndr", "reconf"} == set(collected(measurement, tmp_path))


def test_reconfiguration_at_a_given_rate_searches_nothing(procedure: Procedure) -> None:
    measurement = procedure.reconf(ReconfPlan({"routes": "9"}, SEARCH, rate_pps=1e6, duration_s=2))

    assert [(1e6, 2.0, 2_000_000, received) for received in (2_000_000, 1_999_000)] == [
        (trial.rate_pps, trial.duration_s, trial.sent, trial.received) for trial in measurement.trials
    ]
    assert ({}, "") == (measurement.intervals, measurement.invalid)


def test_loss_that_does_not_need_a_reconfiguration_makes_it_invalid(testbed: Testbed, tmp_path: Path) -> None:
    """At 11 Mpps, a million frames a second are lost; the reconfiguration adds none."""
    testbed.start_device({**HARD, "reconf_loss_s": "0"})
    procedure = Procedure(testbed, tmp_path / "counters.json", tmp_path)

    measurement = procedure.reconf(ReconfPlan({"routes": "9"}, SEARCH, rate_pps=11e6, duration_s=1))

    assert "without reconfiguration, 1000000 frames were lost in the same time" == measurement.invalid
    assert measurement.reconfiguration is not None
    assert 1_000_000 == measurement.reconfiguration.baseline_lost


def test_reconfiguration_without_loss_is_valid(testbed: Testbed, tmp_path: Path) -> None:
    testbed.start_device({**HARD, "reconf_loss_s": "0"})
    procedure = Procedure(testbed, tmp_path / "counters.json", tmp_path)

    measurement = procedure.reconf(ReconfPlan({"routes": "9"}, SEARCH, rate_pps=1e6))

    assert measurement.reconfiguration is not None
    assert (0, 0.0, "") == (
        measurement.reconfiguration.lost,
        measurement.reconfiguration.lost_s,
        measurement.invalid,
    )


def test_trial_that_is_repeated_is_that_of_a_device_without_the_change(
    procedure: Procedure, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first trial is the baseline; the device was started once before."""
    spoilt(testbed, monkeypatch, lambda number: number == 2)

    measurement = procedure.reconf(ReconfPlan({"routes": "9"}, SEARCH, rate_pps=1e6, duration_s=1))

    assert [1_000_000, 999_000, 999_000] == [trial.received for trial in measurement.trials]
    assert 2 == testbed.device._starts  # type: ignore[attr-defined]
    assert "" == measurement.invalid


def test_device_is_not_reconfigured_without_a_valid_ndr(
    procedure: Procedure, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoilt(testbed, monkeypatch, lambda _: True)

    measurement = procedure.reconf(ReconfPlan({"routes": "9"}, SEARCH))

    assert ("reconf", "a cat on the cable") == (measurement.kind, measurement.invalid)
    assert measurement.reconfiguration is None


def test_reconfiguration_whose_trials_stay_invalid_is_invalid(
    procedure: Procedure, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    spoilt(testbed, monkeypatch, lambda number: number > 1)

    measurement = procedure.reconf(ReconfPlan({"routes": "9"}, SEARCH, rate_pps=1e6))

    assert "a cat on the cable" == measurement.invalid


def test_reconfiguration_that_outlasts_the_traffic_is_invalid(
    procedure: Procedure, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The trial of this generator ends at once, before the reconfiguration begins."""
    monkeypatch.setattr(testbed.trials, "_is_simulated", False)

    measurement = procedure.reconf(ReconfPlan({"routes": "9"}, SEARCH, rate_pps=1e6, duration_s=1000))

    assert "the reconfiguration had not ended after 1000 s of traffic" == measurement.invalid


def test_reconfiguration_at_more_than_can_be_offered_is_an_error(procedure: Procedure) -> None:
    with pytest.raises(SettingsError, match=r"rate_pps to reconfigure at is 1e\+09; testbed simulated can"):
        procedure.reconf(ReconfPlan({"routes": "9"}, SEARCH, rate_pps=1e9))


def test_counters_are_also_read_during_a_trial_at_each_rate(
    procedure: Procedure, testbed: Testbed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testbed.device, "counters", lambda: {"clocks": 31})

    counters = collected(procedure.ndr_and_pdr(SEARCH), tmp_path)

    assert [{"device": {"clocks": 31}}] * 2 == [counters[name]["during"] for name in ("ndr", "pdr")]


@pytest.mark.parametrize(
    ("started", "change", "reason"),
    [
        ({}, {"routes": "10"}, ""),
        ({"routes": "9"}, {"routes": "10"}, ""),
        ({}, {"acl_rules": "10"}, "the device cannot change acl_rules while it runs"),
    ],
)
def test_device_lacks_what_it_cannot_change_while_it_runs(
    testbed: Testbed, started: dict[str, str], change: dict[str, str], reason: str
) -> None:
    testbed.start_device({**HARD, **started})

    assert reason == testbed.lacks_change(change)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"routes": "9"}, "device option routes=9: the device is started with 9; change it to a greater"),
        ({"rutes": "10"}, "no option 'rutes'; did you mean 'routes'"),
    ],
)
def test_change_that_changes_nothing_is_an_error(testbed: Testbed, change: dict[str, str], told: str) -> None:
    testbed.start_device({**HARD, "routes": "9"})

    with pytest.raises(SettingsError, match=told):
        testbed.lacks_change(change)


# ---- cycles per packet


@pytest.fixture
def counted(testbed: Testbed, monkeypatch: pytest.MonkeyPatch) -> Testbed:
    """Give a testbed whose device counts trials as cycles, and frames as packets."""
    trials = testbed.trials

    def counters() -> dict[str, int]:
        return {"trials": len(trials.trials), "frames": sum(each.sent for each in trials.trials)}

    def cycles_per_packet(before: dict[str, int], after: dict[str, int]) -> dict[str, float]:
        grown = {name: after[name] - before[name] for name in after}
        return {"trials": grown["trials"], "frames": grown["frames"], "a b": 1.0}

    monkeypatch.setattr(testbed.device, "counters", counters)
    monkeypatch.setattr(testbed.device, "cycles_per_packet", cycles_per_packet)
    return testbed


@pytest.mark.parametrize("strategy", ["predictive", "binary"])
def test_cycles_per_packet_are_those_of_the_trial_at_pdr(
    counted: Testbed, procedure: Procedure, strategy: str
) -> None:
    found = procedure.ndr_and_pdr(changed(SEARCH, strategy=strategy))

    at_pdr = round(found.intervals["pdr"].lower * SEARCH.initial_duration_s)
    assert {"trials": 1, "frames": pytest.approx(at_pdr, abs=2)} == found.cycles_per_packet


def test_cycles_per_packet_of_a_search_for_one_rate_are_those_at_that_rate(
    counted: Testbed, procedure: Procedure
) -> None:
    found = procedure.binary("ndr", SEARCH)

    assert found.cycles_per_packet["frames"] == pytest.approx(found.intervals["ndr"].lower, abs=2)


def test_cycles_per_packet_at_mrr_are_those_since_the_last_start(
    counted: Testbed, procedure: Procedure
) -> None:
    found = procedure.mrr(MrrPlan(duration_s=1, multiplicity=6, starts=3))

    assert 2 == found.cycles_per_packet["trials"]


@pytest.mark.parametrize(("attempts", "expected"), [(1, [1]), (5, [])])
def test_cycles_per_packet_are_those_of_the_attempt_that_counts(
    counted: Testbed,
    procedure: Procedure,
    monkeypatch: pytest.MonkeyPatch,
    attempts: int,
    expected: list[int],
) -> None:
    """The search itself is valid; of the trial at the rate that it found, some attempts or all are not."""
    real = counted.generator.trial
    brief: list[Trial] = []

    def trial(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        made = real(rate_pps, duration_s, fail_above)
        if duration_s > SEARCH.initial_duration_s:
            return made
        brief.append(made)
        # The first brief trial begins the search.
        return replace(made, invalid="a cat on the cable") if 1 < len(brief) <= 1 + attempts else made

    monkeypatch.setattr(counted.generator, "trial", trial)

    found = procedure.binary("ndr", SEARCH)

    assert ("", "") == (found.invalid, found.intervals["ndr"].invalid)
    assert expected == [trials for part, trials in found.cycles_per_packet.items() if part == "trials"]


def test_without_pdr_there_are_no_cycles_per_packet(counted: Testbed, procedure: Procedure) -> None:
    """The time that a search for NDR alone takes is too short for PDR as well."""
    ndr_s = sum(trial.elapsed_s for trial in procedure.binary("ndr", SEARCH).trials)

    found = procedure.ndr_and_pdr(changed(SEARCH, strategy="binary", timeout_s=ndr_s))

    assert ("", {}) == (found.intervals["ndr"].invalid, found.cycles_per_packet)


def test_device_that_counts_no_cycles_has_none_per_packet(procedure: Procedure) -> None:
    assert {} == procedure.ndr_and_pdr(SEARCH).cycles_per_packet
