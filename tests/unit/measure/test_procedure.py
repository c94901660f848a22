"""The procedures on the simulated testbed, whose truth is known."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perftrend.errors import SearchTimeoutError
from perftrend.measure import specification, trust
from perftrend.measure.procedure import MrrPlan, Procedure, SearchPlan
from perftrend.measure.search import Progress
from perftrend.measure.testbed import Testbed
from perftrend.model import Measurement, Trial

HARD = {"critical_pps": "10e6", "jitter": "0", "seed": "1"}
SEARCH = SearchPlan(
    initial_duration_s=1,
    final_duration_s=30,
    relative_width=0.005,
    loss_ratio=0.005,
    minimum_pps=20_000,
    intermediate_phases=2,
    timeout_s=None,
)
NDR, PDR = 10e6, 10e6 / 0.995
"""Where a hard knee at 10 Mpps begins to lose anything, and to lose half a percent."""


@pytest.fixture
def testbed(monkeypatch: pytest.MonkeyPatch) -> Iterator[Testbed]:
    monkeypatch.setattr(trust, "_PAUSE_S", 0.0)
    with Testbed(specification.load("simulated")) as opened:
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


def test_device_below_the_lowest_rate_has_no_valid_ndr(testbed: Testbed, procedure: Procedure) -> None:
    testbed.start_device({**HARD, "critical_pps": "1000"})

    measurement = procedure.ndr_and_pdr(SEARCH)

    assert measurement.invalid
    assert measurement.intervals["ndr"].invalid == measurement.invalid


def test_search_that_takes_too_long_is_an_error(procedure: Procedure) -> None:
    with pytest.raises(SearchTimeoutError):
        procedure.ndr_and_pdr(replace(SEARCH, timeout_s=1e-9))


def test_counters_are_collected_at_mrr(procedure: Procedure, testbed: Testbed, tmp_path: Path) -> None:
    counters = collected(procedure.mrr(MrrPlan(duration_s=1, multiplicity=2, starts=1)), tmp_path)

    assert ["mrr"] == list(counters)
    assert testbed.maximum_pps == counters["mrr"]["rate_pps"]
    grown = counters["mrr"]["after"]["generator"]["sent"] - counters["mrr"]["before"]["generator"]["sent"]
    assert 2 * testbed.maximum_pps == pytest.approx(grown, abs=2)


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

    assert measurement.invalid.startswith("limited by the generator: it reaches 4500000")


def test_search_above_the_generators_rate_is_invalid(
    procedure: Procedure, testbed: Testbed, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(testbed.generator, "highest_pps", lambda: 5e6)
    testbed.use("64B")

    assert "limited by the generator" in procedure.ndr_and_pdr(SEARCH).invalid


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
        SearchTimeoutError, match=r"known by then, and not sure: NDR \d+ to \d+ pps, PDR \d+ to"
    ):
        procedure.ndr_and_pdr(replace(SEARCH, timeout_s=40))


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
    told: list[Progress] = []

    measurement = procedure.ndr_and_pdr(SEARCH, on_step=told.append)

    names = [phase.name for phase in measurement.phases for _ in phase.steps]
    assert names == [step.phase for step in told]
    assert told[-1].intervals == tuple(measurement.intervals.values())


def test_search_that_takes_too_long_keeps_its_trials(procedure: Procedure) -> None:
    with pytest.raises(SearchTimeoutError) as failure:
        procedure.ndr_and_pdr(replace(SEARCH, timeout_s=40))

    known = failure.value.result
    assert isinstance(known, Measurement)
    assert known.trials == tuple(trial for phase in known.phases for trial in phase.trials)
    assert sum(trial.elapsed_s for trial in known.trials) >= 40
    assert known.invalid.startswith("search not done after")
    assert {known.invalid} == {interval.invalid for interval in known.intervals.values()}
