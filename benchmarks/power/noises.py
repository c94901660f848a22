"""False alarms of the sequential detector where noise is not normal, at its default rate."""

from __future__ import annotations

from benchmarks.power import series
from benchmarks.power.delay import Alarms, Noise, count_alarms, first_sightings, quiet_traces
from perftrend.analysis.sequential import DEFAULT_VIGILANCE

NOISES: dict[str, Noise] = {
    "normal": series.normal(0.005),
    "uniform": series.uniform,
    "log-normal": series.log_normal,
    "restarts": series.restarts,
    "correlated": series.correlated,
    "5 % outliers": series.with_outliers(0.05),
    "2 % outliers": series.with_outliers(0.02),
    "heavy tails": series.heavy_tails,
    "two modes": series.two_modes,
}


def false_regressions(traces: int, quiet_runs: int) -> dict[str, Alarms]:
    """Count the first false regressions of quiet traces, by the kind of their noise."""
    found = {}
    for index, (name, noise) in enumerate(NOISES.items()):
        quiet = quiet_traces(noise, traces, quiet_runs, seed=400 + index)
        reports = [first_sightings(each, [DEFAULT_VIGILANCE])[0] for each in quiet]
        found[name] = count_alarms("perftrend sequential", 0.0, reports, quiet_runs)
    return found
