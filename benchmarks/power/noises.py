"""False alarms of the sequential detector with noise that is not normal, at its default rate."""

from __future__ import annotations

from benchmarks.power import series
from benchmarks.power.delay import Alarms, Noise, count_alarms, first_sightings, quiet_traces
from perftrend.analysis.sequential import DEFAULT_VIGILANCE

NOISES: dict[str, Noise] = {
    "normal": series.normal(0.005),
    "uniform": series.uniform,
    "log-normal": series.log_normal,
    "restarts": series.restarts,
    **{
        f"each run resembles the one before, r = {r}": series.autoregressive(r)
        for r in (0.1, 0.2, 0.3, 0.5, 0.7)
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


def false_regressions(traces: int, quiet_runs: int) -> dict[str, Alarms]:
    """Count the first false regressions of quiet traces, by the kind of their noise."""
    found = {}
    for index, (name, noise) in enumerate(NOISES.items()):
        quiet = quiet_traces(noise, traces, quiet_runs, seed=400 + index)
        reports = [first_sightings(each, [DEFAULT_VIGILANCE])[0] for each in quiet]
        found[name] = count_alarms("perftrend sequential", 0.0, reports, quiet_runs)
    return found
