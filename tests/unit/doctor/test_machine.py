"""The machine is judged by recorded readings of the kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

from perftrend.builds.observation import Gauges, Pulse, Usage, read_usage
from perftrend.doctor import testbeds
from perftrend.doctor.check_results import CheckResult, Severity
from perftrend.doctor.testbeds import MachineSample, judge_machine, observe_machine

STEADY = {0: [0.001, 0.00102], 1: [0.00101, 0.001]}
QUIET = MachineSample([0, 1], "0.02 0.10 0.20", 0.03, STEADY, 0.0, 0.001)

# From a virtual machine with two cores: 100 ticks are a second.
STATS = (
    "cpu  1633437 68359 172886 1375654 4391 0 4507 2513 0 0\n"
    "cpu0 795913 29628 81263 719599 1013 0 1874 1255 0 0\n"
    "cpu1 837524 38730 91623 656055 3378 0 2633 1258 0 0\n"
    "intr 10668105 0 0\nctxt 21963250\nbtime 1795776804\n",
    # A second later: the first core was idle, the other one busy for 40 ticks.
    "cpu0 795915 29628 81264 719696 1013 0 1874 1255 0 0\n"
    "cpu1 837562 38730 91625 656115 3378 0 2633 1258 0 0\n",
    # After loops of 1.2 s on both: the host withheld 6 ticks of the first core and 18 of the other.
    "cpu0 796007 29628 81264 719700 1013 0 1874 1261 0 0\n"
    "cpu1 837640 38730 91625 656120 3378 0 2633 1276 0 0\n",
)


class Recorded:
    """Gauges that show recorded readings, on a clock that only sleeping and loops move."""

    def __init__(self, folder: Path, stats: tuple[str, ...] = STATS) -> None:
        self.now_s = 0.0
        self._readings = iter(stats)
        self._file = folder / "stat"

    def usage(self) -> Mapping[int, Usage]:
        self._file.write_text(next(self._readings))
        return read_usage(self._file)

    def pulse(self, core: int) -> Pulse:
        self.now_s += 0.1
        return Pulse(0.001 * (1 + core), 0.001)

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds

    @contextlib.contextmanager
    def pin(self, _: Collection[int]) -> Iterator[None]:
        yield

    @property
    def gauges(self) -> Gauges:
        return Gauges(
            lambda: {0, 1}, self.pin, self.pulse, self.usage, lambda: 0.0, lambda: self.now_s, self.sleep
        )


def by_subject(sample: MachineSample) -> dict[str, CheckResult]:
    return {result.what: result for result in judge_machine(sample)}


def test_recorded_readings_become_a_sample(tmp_path: Path) -> None:
    (tmp_path / "loadavg").write_text("0.52 1.10 1.42 2/345 12345\n")
    governor = tmp_path / "devices/system/cpu/cpu1/cpufreq/scaling_governor"
    governor.parent.mkdir(parents=True)
    governor.write_text("powersave\n")

    sample = observe_machine(Recorded(tmp_path).gauges, tmp_path, tmp_path)

    assert [0, 1] == sample.cores
    assert "0.52 1.10 1.42" == sample.load
    assert 0.43 == pytest.approx(sample.others)
    assert 0.2 == pytest.approx(sample.stolen)
    assert {0: [0.001] * 6, 1: [0.002] * 6} == sample.loops_s
    assert {1: "powersave"} == sample.governors


def test_kernel_that_counts_nothing_is_not_judged(tmp_path: Path) -> None:
    sample = observe_machine(Recorded(tmp_path, ("",) * 3).gauges, tmp_path / "none", tmp_path / "none")

    found = by_subject(sample)

    assert (Severity.NOT_CHECKED, Severity.NOT_CHECKED) == (found["load"].severity, found["steal"].severity)
    assert "frequency" not in found


def test_quiet_machine_is_ok() -> None:
    assert {Severity.OK} == {result.severity for result in judge_machine(QUIET)}


@pytest.mark.parametrize(("cores", "others"), [(2, 0.06), (4, 2.3), (1, 0.0)])
def test_testbed_needs_two_idle_cores(cores: int, others: float) -> None:
    found = by_subject(MachineSample(range(cores), others=others, loops_s=STEADY))["load"]

    assert Severity.WARNING is found.severity


@pytest.mark.parametrize(("cores", "others"), [(2, 0.04), (4, 1.9), (64, 40.0)])
def test_other_cores_may_be_busy(cores: int, others: float) -> None:
    assert Severity.OK is by_subject(MachineSample(range(cores), others=others))["load"].severity


@pytest.mark.parametrize(("now", "since_boot"), [(0.08, 0.0), (0.0, 0.08)])
def test_host_that_withholds_time_is_a_warning(now: float, since_boot: float) -> None:
    found = by_subject(MachineSample([0, 1], stolen=now, stolen_since_boot=since_boot))["steal"]

    assert Severity.WARNING is found.severity
    assert "8 % of the time" in found.text or "8 % since the start" in found.text


def test_core_with_two_speeds_is_named() -> None:
    found = by_subject(MachineSample([0, 1], loops_s={0: [0.001, 0.001], 1: [0.001, 0.0016]}))["speed"]

    assert Severity.WARNING is found.severity
    assert found.text.startswith("the speed of core 1 changes by a factor of 1.60")


def test_cores_of_different_speeds_are_a_warning() -> None:
    found = by_subject(MachineSample([0, 1], loops_s={0: [0.001, 0.001], 1: [0.0016, 0.0016]}))["speed"]

    assert found.text.startswith("the speeds of the cores differ by a factor of 1.60")


def test_governor_other_than_performance_is_a_warning() -> None:
    found = by_subject(MachineSample([0, 1], governors={0: "performance", 1: "powersave"}))["frequency"]

    assert (Severity.WARNING, True) == (found.severity, "powersave" in found.text)
    assert Severity.OK is by_subject(MachineSample([0], governors={0: "performance"}))["frequency"].severity


def test_testbed_elsewhere_is_not_disturbed_by_this_machine() -> None:
    assert [Severity.NOT_CHECKED] == [each.severity for each in testbeds.check_machine(tolerates_load=True)]
