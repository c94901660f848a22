"""False alarms of the sequential detector with noise that is not normal, at its default rate."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.power import series
from benchmarks.power.delay import HISTORY_RUNS, Noise, quiet_traces
from perftrend.analysis.sequential import DEFAULT_VIGILANCE, DetectorState, monitor
from perftrend.model import Better, Direction, Samples

NOISES: dict[str, Noise] = {
    "normal": series.normal(0.005),
    "uniform": series.uniform,
    "log-normal": series.log_normal,
    "restarts": series.restarts,
    **{
        f"each run resembles the one before, r = {r}": series.autoregressive(r)
        for r in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
    },
    "5 % outliers": series.with_outliers(0.05),
    "2 % outliers": series.with_outliers(0.02),
    "Student's t, 3 degrees": series.student(3),
    "Student's t, 4 degrees": series.student(4),
    "starts at +1 or -1 %": series.starts(0.01),
    "starts at +2 or -2 %": series.starts(0.02),
    **{f"modes {d} % apart, for a week": series.weekly_modes(d / 100) for d in (1, 2, 3)},
    "slow walk": series.slow_walk,
    "every tenth run in a second mode": series.two_modes,
}


@dataclass(frozen=True, slots=True)
class FalseAlarms:
    """The first false alarms after the history of quiet traces."""

    regressions: int
    progressions: int
    exposure: int
    """The number of runs until the first alarm of each trace."""
    before: int
    """Traces left out because an alarm was raised within their history, and still stands at its end."""

    @property
    def per_1000(self) -> float:
        """False alarms in 1,000 runs, both directions together, as the stated rate is."""
        return 1000 * (self.regressions + self.progressions) / self.exposure


def count_false_alarms(traces: int, quiet_runs: int) -> dict[str, FalseAlarms]:
    """Count the false alarms that are raised after the history, by the kind of the noise."""
    found = {}
    for name, noise in NOISES.items():
        quiet = quiet_traces(noise, traces, quiet_runs, seed=(400, *name.encode()))
        fresh = [each for each in quiet if _alarm(each[:HISTORY_RUNS]) is None]
        alarms = [_first_alarm(each) for each in fresh]
        directions = [direction for direction, _ in alarms]
        found[name] = FalseAlarms(
            directions.count(Direction.REGRESSION),
            directions.count(Direction.PROGRESSION),
            sum(runs for _, runs in alarms),
            len(quiet) - len(fresh),
        )
    return found


def _first_alarm(samples: Samples) -> tuple[Direction | None, int]:
    """Return the direction of the first alarm, None without one, and the number of new runs until then."""
    for stop in range(HISTORY_RUNS + 1, samples.size + 1):
        direction = _alarm(samples[:stop])
        if direction is not None:
            return direction, stop - HISTORY_RUNS
    return None, samples.size - HISTORY_RUNS


def _alarm(samples: Samples) -> Direction | None:
    found = monitor(samples, better=Better.HIGHER, vigilance=DEFAULT_VIGILANCE)
    return found.direction if found.state is DetectorState.CHANGED else None
