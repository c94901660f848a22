from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from random import Random
from typing import ClassVar, cast

import pytest

from perftrend.errors import TestbedError
from perftrend.measure import trial_validity
from perftrend.measure.interfaces import Device, TrafficGenerator
from perftrend.measure.search import mdr_search, measure_mrr
from perftrend.measure.trial_validity import EXACT, OVERLOAD, TrialHook, TrustedTrials, off_rate
from perftrend.measurement import GeneratorHealth, Trial


class Generator:
    """Stands in for a traffic generator: gives trials with the reasons that it is told, in order."""

    def __init__(self, *reasons: str) -> None:
        self._reasons = list(reasons)
        self.asked: list[tuple[float, float, float | None]] = []

    def trial(self, rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        self.asked.append((rate_pps, duration_s, fail_above))
        sent = round(rate_pps * duration_s) + len(self.asked)
        return Trial(rate_pps, duration_s, duration_s, sent, sent, self._reasons.pop(0))


class Watch:
    """Stands in for the watch over the cores: sees what it is told, trial by trial."""

    sights: ClassVar[list[str]] = []

    def __init__(self, processes: list[int], _: TrialHook | None) -> None:
        self.processes = processes
        self.foreign = ""

    @contextmanager
    def observe(self) -> Iterator[Watch]:
        yield self
        self.foreign = Watch.sights.pop(0)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial_validity, "CoreWatch", Watch)
    monkeypatch.setattr(trial_validity, "_PAUSE_S", 0.0)
    monkeypatch.setattr(Watch, "sights", [""] * 9)


def trials(generator: Generator, attempts: int = 3) -> TrustedTrials:
    return TrustedTrials(cast(TrafficGenerator, generator), lambda: [1, 2], attempts=attempts)


def test_a_trial_that_can_be_trusted_is_measured_once() -> None:
    generator = Generator("")

    trial = trials(generator).measure(5e5, 0.5, 0.1)

    assert 250_001 == trial.sent
    assert [(5e5, 0.5, 0.1)] == generator.asked


def test_trial_of_a_device_that_has_ended_is_an_error_and_not_a_loss() -> None:
    class EndedDevice(Device):
        def verify_running(self) -> None:
            raise TestbedError("device has ended")

    generator = cast(TrafficGenerator, Generator("", ""))
    trusted = TrustedTrials(generator, lambda: [1], attempts=3, device=EndedDevice())
    with pytest.raises(TestbedError, match="device has ended"):
        trusted.measure(5e5, 0.5)
    assert [] == trusted.trials


def test_device_counts_each_attempt_on_its_own() -> None:
    class CountingDevice(Device):
        begun = 0

        def begin_trial(self) -> None:
            self.begun += 1

        def trial_counters(self) -> dict[str, int]:
            return {"trial": self.begun}

    generator = cast(TrafficGenerator, Generator("slow", ""))
    trusted = TrustedTrials(generator, lambda: [1, 2], attempts=3, device=CountingDevice())
    trusted.measure(5e5, 0.5)

    assert [{"trial": 1}, {"trial": 2}] == trusted.device_counters
    trusted.begin_test()
    assert [] == trusted.device_counters


def test_first_trial_that_can_be_trusted_is_returned() -> None:
    trial = trials(Generator("slow", "slow", "", "")).measure(5e5, 0.5)

    assert (250_003, "") == (trial.sent, trial.invalid)


def test_last_trial_keeps_its_reason_when_none_can_be_trusted() -> None:
    generator = Generator("first", "second", "third", "fourth")

    assert "third" == trials(generator).measure(5e5, 0.5).invalid
    assert 3 == len(generator.asked)


def test_trial_on_cores_that_others_used_cannot_be_trusted() -> None:
    Watch.sights = ["another process", ""]

    measured = trials(Generator("", ""))
    trial = measured.measure(5e5, 0.5)

    assert (250_002, "") == (trial.sent, trial.invalid)
    assert ["another process", ""] == [one.invalid for one in measured.trials]


def test_the_generators_own_reason_goes_before_the_cores() -> None:
    Watch.sights = ["another process"]

    assert "leaked" == trials(Generator("leaked"), attempts=1).measure(5e5, 0.5).invalid


def test_every_trial_is_recorded_until_they_are_forgotten() -> None:
    measured = trials(Generator("slow", "", "", ""))
    measured.measure(1e5, 0.5)
    measured.measure(2e5, 0.5)
    assert [1e5, 1e5, 2e5] == [trial.rate_pps for trial in measured.trials]

    measured.begin_test()
    measured.measure(3e5, 0.5)

    assert [3e5] == [trial.rate_pps for trial in measured.trials]


# ---- rates that were not reached


def at_share(
    share: float, *, lost: int = 0, seconds: float = 1.0, each: tuple[float, ...] = (1.0, 1.0)
) -> Trial:
    """Return a trial of 100 kpps for a second whose directions reached these parts of a share."""
    sent = tuple(round(50_000 * share * part * seconds) for part in each)
    return Trial(1e5, 1.0, seconds, sum(sent), sum(sent) - lost, "", seconds, sent)


@pytest.mark.parametrize(
    "trial", [at_share(1), at_share(0.9991), at_share(1.0009), at_share(0.999, seconds=5)]
)
def test_small_deviation_of_the_rate_is_allowed(trial: Trial) -> None:
    assert not off_rate(trial, 1e5, None, 0.001)


@pytest.mark.parametrize(
    ("trial", "told"),
    [
        (at_share(0.951), "reached 95.1 % of the intended rate of 100000 pps"),
        (at_share(0.9985), "reached 99.85 % of"),
        (at_share(1.01), "reached 101 % of"),
        (at_share(1, each=(1.02, 0.98)), "reached 102 % of"),
        (at_share(0.99, seconds=1.01), "reached 99 % of"),
    ],
)
def test_rate_that_was_not_reached_does_not_count(trial: Trial, told: str) -> None:
    assert told in off_rate(trial, 1e5, None, 0.001)
    assert told in off_rate(trial, 1e5, 0.005, 0.001)


def test_slower_trial_that_loses_too_much_counts_and_a_faster_one_does_not() -> None:
    assert not off_rate(at_share(0.95, lost=500), 1e5, 0.005, 0.001)
    assert off_rate(at_share(0.95, lost=400), 1e5, 0.005, 0.001)
    assert off_rate(at_share(1.05, lost=90_000), 1e5, 0.005, 0.001)


def test_driver_that_knows_no_time_is_believed_the_duration() -> None:
    assert not off_rate(Trial(1e5, 1.0, 1.0, 100_000, 0), 1e5, None, 0.001)
    assert "90 %" in off_rate(Trial(1e5, 1.0, 1.0, 90_000, 0), 1e5, None, 0.001)
    assert not off_rate(Trial(1e5, 1.0, 0.1, 9_000, 0), 1e5, 0.0, 0.001)


def test_few_frames_tell_no_rate() -> None:
    assert not off_rate(Trial(1e3, 0.01, 0.01, 10, 10, "", 0.009, (5, 5)), 1e3, None, 0.001)


class Unsteady:
    """A generator that often sends for longer, before a device that forwards exactly 200 kpps."""

    def __init__(self, seed: int) -> None:
        self._chance = Random(seed)  # noqa: S311 - no secret

    def trial(self, rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        del fail_above
        reached = self._chance.choice([1, 1, 1, 0.999, 0.98, 0.9, self._chance.uniform(0.9, 1)])
        sent, seconds = round(rate_pps * duration_s), duration_s / reached
        received = min(sent, round(2e5 * seconds))
        return Trial(
            rate_pps, duration_s, seconds, sent, received, "", seconds, (sent // 2, sent - sent // 2)
        )


@pytest.mark.parametrize("strategy", ["mdr", "predictive"])
@pytest.mark.parametrize("seed", range(5))
def test_search_with_an_unsteady_generator_finds_no_rate_that_is_not_there(seed: int, strategy: str) -> None:
    trusted = TrustedTrials(cast(TrafficGenerator, Unsteady(seed)), list, attempts=50)
    Watch.sights = [""] * 10_000

    found = mdr_search(
        trusted.measure,
        minimum_pps=1e4,
        maximum_pps=1e6,
        loss_ratios=(0.0, 0.005),
        initial_duration_s=1.0,
        final_duration_s=30.0,
        relative_width=0.005,
        strategy=strategy,
    )

    for interval, exact_pps in zip(found.intervals, (2e5, 2e5 / 0.995), strict=True):
        assert not interval.invalid
        assert interval.lower <= 1.001 * exact_pps
        assert interval.upper >= 0.9999 * exact_pps


def test_mrr_is_what_came_back_while_it_was_sent() -> None:
    trusted = TrustedTrials(cast(TrafficGenerator, Unsteady(7)), list, attempts=50)
    Watch.sights = [""] * 10_000
    measure = partial(trusted.measure, deviation=OVERLOAD)

    result = measure_mrr(measure, rate_pps=5e5, duration_s=1.0, multiplicity=20)

    assert not result.invalid
    assert [2e5] * 20 == pytest.approx(result.samples, rel=1e-4)
    assert any(trial.sending_s > 1.01 for trial in result.trials)


def test_rate_of_each_direction_is_compared_with_its_share() -> None:
    trial = Trial(
        rate_pps=1e6, duration_s=1.0, elapsed_s=1.0, sent=10**6, received=10**6, sending_s=1.0,
        sent_each=(750_000, 250_000),
    )  # fmt: skip

    assert "" == off_rate(trial, 1e6, None, 0.001, (0.75, 0.25))
    assert "150 % of the intended rate" in off_rate(trial, 1e6, None, 0.001)
    assert "" == off_rate(replace(trial, sent_each=(10**6, 0)), 1e6, None, 0.001, (1.0, 0.0))


SLOW = Trial(1e6, 1.0, 1.0, 10**6, 10**6, sending_s=1.03)


@pytest.mark.parametrize(
    ("unsent", "health", "reasons"),
    [
        (None, None, ""),
        (0, GeneratorHealth(), ""),
        (0, GeneratorHealth(load=0.95, core_share=0.9, queue_full=0), ""),
        (
            None,
            GeneratorHealth(load=0.99, queue_full=1204),
            ": its queue was full 1,204 times, it was busy for 99 % of the time",
        ),
        (2000, GeneratorHealth(queue_full=0), ": it did not send 2,000 frames"),
        (0, GeneratorHealth(0.5, core_share=0.881), ": it had its core for only 88 % of the time"),
    ],
)
def test_rate_that_was_not_reached_is_explained(
    unsent: int | None, health: GeneratorHealth | None, reasons: str
) -> None:
    trial = replace(SLOW, unsent=unsent, generator_health=health)

    assert f"the generator reached 97.09 % of the intended rate of 1000000 pps{reasons}" == off_rate(
        trial, 1e6, None, EXACT
    )


def test_rate_that_was_exceeded_is_not_explained_by_a_slow_generator() -> None:
    trial = replace(SLOW, sending_s=0.9, generator_health=GeneratorHealth(load=1.0))

    assert off_rate(trial, 1e6, None, EXACT).endswith("of 1000000 pps")
