from __future__ import annotations

from typing import Any

import pytest

from perftrend.errors import SettingsError
from perftrend.measure.search import MrrResult, measure_mrr
from perftrend.measurement import Trial


class Device:
    """Receives 100 frames more at each trial; writes down what happens."""

    def __init__(self) -> None:
        self.story: list[str] = []

    def __call__(self, rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        assert (1000.0, 2.0, None) == (rate_pps, duration_s, fail_above)
        self.story.append("trial")
        return Trial(rate_pps, duration_s, duration_s, 2000, 100 * self.story.count("trial"))

    def restart(self) -> None:
        self.story.append("restart")

    def measured(self, **arguments: Any) -> MrrResult:
        return measure_mrr(self, **{"rate_pps": 1000.0, "duration_s": 2.0, **arguments})


def test_sample_is_the_received_frames_over_the_duration() -> None:
    result = Device().measured(multiplicity=3)

    assert (50.0, 100.0, 150.0) == result.samples
    assert [100, 200, 300] == [trial.received for trial in result.trials]
    assert result.invalid == ""


def test_device_that_forwards_nothing_makes_the_result_invalid() -> None:
    def measure(rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        del fail_above
        return Trial(rate_pps, duration_s, duration_s, 2000, 0)

    result = measure_mrr(measure, rate_pps=1000.0, duration_s=2.0, multiplicity=2)

    assert result.invalid == "the device forwarded no frame of a trial"


@pytest.mark.parametrize(("starts", "shares"), [(1, [7]), (2, [4, 3]), (3, [3, 2, 2]), (7, [1] * 7)])
def test_trials_are_spread_evenly_over_the_starts(starts: int, shares: list[int]) -> None:
    device = Device()

    device.measured(multiplicity=7, starts=starts, restart=device.restart)

    assert shares == [part.split().count("trial") for part in " ".join(device.story).split("restart")]


def test_doubtful_trial_makes_the_result_invalid() -> None:
    """The 21st trial receives 2100 of 2000 frames."""
    assert Device().measured(multiplicity=20).invalid == ""
    assert "received 2100 frames and sent only 2000" in Device().measured(multiplicity=22).invalid


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("rate_pps", {"rate_pps": 0.0}),
        ("duration_s", {"duration_s": float("nan")}),
        ("multiplicity", {"multiplicity": 0}),
        ("starts", {"starts": 0}),
        ("starts", {"starts": 3, "restart": lambda: None}),
        ("restart", {"starts": 2}),
    ],
)
def test_bad_parameter_is_refused_by_name(name: str, arguments: dict[str, Any]) -> None:
    with pytest.raises(SettingsError, match=f"parameter {name} is"):
        Device().measured(**{"multiplicity": 2, **arguments})
