from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import ClassVar, cast

import pytest

from perftrend.measure import trust
from perftrend.measure.interfaces import TrafficGenerator
from perftrend.measure.trust import TrustedTrials
from perftrend.model import Trial


class Generator:
    """Stands in for a traffic generator: gives trials with the reasons that it is told, in order."""

    def __init__(self, *reasons: str) -> None:
        self._reasons = list(reasons)
        self.asked: list[tuple[float, float, float | None]] = []

    def trial(self, rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        self.asked.append((rate_pps, duration_s, fail_above))
        sent = 1000 + len(self.asked)
        return Trial(rate_pps, duration_s, duration_s, sent, sent, self._reasons.pop(0))


class Watch:
    """Stands in for the watch over the cores: sees what it is told, trial by trial."""

    sights: ClassVar[list[str]] = []

    def __init__(self, processes: list[int]) -> None:
        self.processes = processes
        self.foreign = ""

    @contextmanager
    def watching(self) -> Iterator[Watch]:
        yield self
        self.foreign = Watch.sights.pop(0)


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trust, "CoreWatch", Watch)
    monkeypatch.setattr(trust, "_PAUSE_S", 0.0)
    monkeypatch.setattr(Watch, "sights", [""] * 9)


def trials(generator: Generator, attempts: int = 3) -> TrustedTrials:
    return TrustedTrials(cast(TrafficGenerator, generator), lambda: [1, 2], attempts=attempts)


def test_a_trial_that_can_be_trusted_is_measured_once() -> None:
    generator = Generator("")

    trial = trials(generator).measure(5e5, 0.5, 0.1)

    assert 1001 == trial.sent
    assert [(5e5, 0.5, 0.1)] == generator.asked


def test_first_trial_that_can_be_trusted_is_returned() -> None:
    trial = trials(Generator("slow", "slow", "", "")).measure(5e5, 0.5)

    assert (1003, "") == (trial.sent, trial.invalid)


def test_last_trial_keeps_its_reason_when_none_can_be_trusted() -> None:
    generator = Generator("first", "second", "third", "fourth")

    assert "third" == trials(generator).measure(5e5, 0.5).invalid
    assert 3 == len(generator.asked)


def test_trial_on_cores_that_others_used_cannot_be_trusted() -> None:
    Watch.sights = ["another process", ""]

    measured = trials(Generator("", ""))
    trial = measured.measure(5e5, 0.5)

    assert (1002, "") == (trial.sent, trial.invalid)
    assert ["another process", ""] == [one.invalid for one in measured.trials]


def test_the_generators_own_reason_goes_before_the_cores() -> None:
    Watch.sights = ["another process"]

    assert "leaked" == trials(Generator("leaked"), attempts=1).measure(5e5, 0.5).invalid


def test_every_trial_is_recorded_until_they_are_forgotten() -> None:
    measured = trials(Generator("slow", "", "", ""))
    measured.measure(1e5, 0.5)
    measured.measure(2e5, 0.5)
    assert [1e5, 1e5, 2e5] == [trial.rate_pps for trial in measured.trials]

    measured.forget()
    measured.measure(3e5, 0.5)

    assert [3e5] == [trial.rate_pps for trial in measured.trials]
