"""Estimated usual and maximum duration of a job.

The usual duration assumes that no trial is repeated, that searches predict their bounds, that comparisons
need the mean of the minimum and maximum number of rounds, and that bisections need as many measurements as
simulated ones (:doc:`/method/bisect`). The maximum duration assumes that all trials are repeated until they
are given up, that searches time out, and that all rounds and measurements are made. Building is included if
the cache of builds has the durations of earlier ones. Waiting for a testbed that is in use is not included,
since it cannot be predicted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil, log2
from statistics import median

from perftrend.builds.cache import read_build_times
from perftrend.builds.profile import load
from perftrend.errors import SettingsError
from perftrend.measure.specification import RECONF_S, MrrPlan, SearchPlan, Specification
from perftrend.measurement import LATENCY_LOADS
from perftrend.model import TraceKey
from perftrend.settings import ProjectSettings, Settings
from perftrend.settings.sections import SoakSettings
from perftrend.text import format_count

START_S = 5.0
"""Time to start and configure the device."""
RUN_S = 15.0
"""Time to set a testbed up for a run of the suites by Robot Framework, and to archive the output."""
ANALYSIS_S = 60.0
MEASUREMENTS = 40
"""Number of measurements of a usual bisection."""
BUILDING = ("perftest", "bisect")
_BUILDS = 2
"""Number of builds of a comparison."""

_MINUTE_S, _HOUR_S = 60, 3600
_FEW_HOURS = 3


@dataclass(frozen=True, slots=True)
class Duration:
    """A usual and a maximum duration. ``str()`` returns ``about 4 minutes, at most 14 minutes``."""

    usual_s: float
    most_s: float

    def __add__(self, other: Duration) -> Duration:
        return Duration(self.usual_s + other.usual_s, self.most_s + other.most_s)

    def __str__(self) -> str:
        usual, most = format_duration(self.usual_s), format_duration(self.most_s)
        return f"about {usual}, at most {most}" if usual != most else f"about {usual}"


def tests(keys: Iterable[TraceKey]) -> dict[tuple[str, str], frozenset[str]]:
    """Return the metrics of each test by its suite and name."""
    found: dict[tuple[str, str], set[str]] = {}
    for key in keys:
        parameters = key.as_dict()
        found.setdefault((parameters.get("suite", ""), parameters.get("test", "")), set()).add(
            parameters.get("metric", "")
        )
    return {test: frozenset(metrics) for test, metrics in found.items()}


def of_run(keys: Iterable[TraceKey], spec: Specification, settings: Settings) -> Duration:
    """Return the duration of one run of the tests.

    :param keys: the traces that the tests produce results for.
    """
    mrr = MrrPlan.complete(settings.trial, spec.mrr)
    search = SearchPlan.complete(settings.search, spec.search)
    start_s = START_S + spec.warm_up_s
    each = (_of_test(metrics, mrr, search, settings.soak, start_s) for metrics in tests(keys).values())
    return sum(each, Duration(RUN_S, RUN_S))


def _of_test(
    metrics: frozenset[str], mrr: MrrPlan, search: SearchPlan, soak: SoakSettings, start_s: float
) -> Duration:
    if metrics == {"mrr"}:
        trials_s = mrr.multiplicity * mrr.duration_s
        starts_s = min(mrr.starts, mrr.multiplicity) * start_s
        return Duration(trials_s + starts_s, mrr.attempts * trials_s + starts_s)
    if "soak" in metrics:
        soak_s = soak.total_duration_s + start_s
        return Duration(soak_s, soak_s)
    if "reconf_packets" in metrics:
        return Duration(
            _search_s(frozenset({"ndr"}), search) + 2 * RECONF_S + start_s,
            search.timeout_s + mrr.attempts * (2 * RECONF_S + start_s),
        )
    latencies = metrics & LATENCY_LOADS.keys()
    latencies_s = len(latencies) * search.latency_duration_s
    return Duration(
        _search_s(metrics - latencies, search) + latencies_s + start_s,
        search.timeout_s + mrr.attempts * latencies_s + start_s,
    )


def _search_s(metrics: frozenset[str], search: SearchPlan) -> float:
    """Return the time to confirm two bounds for each rate; a search that predicts them needs little else.

    A binary search predicts nothing: it halves an interval that reaches almost down to 0.
    """
    halvings = ceil(-log2(search.relative_width))
    trials = halvings if search.strategy == "binary" else 2 * search.trials_per_bound
    return min(len(metrics) * trials * search.final_duration_s, search.timeout_s)


def _trending(once: Duration, _: Settings) -> Duration:
    return once


def _perftest(once: Duration, settings: Settings) -> Duration:
    """Return the duration of a comparison, which measures parent and patch in every round."""
    most = settings.perftest.maximum_rounds
    usual = (min(settings.perftest.minimum_rounds, most) + most) / 2
    return Duration(2 * usual * once.usual_s, 2 * most * once.most_s)


def _bisection(once: Duration, settings: Settings) -> Duration:
    most = settings.bisect.maximum_measurements
    return Duration(min(MEASUREMENTS, most) * once.usual_s, most * once.most_s)


_OF_JOB: Mapping[str, Callable[[Duration, Settings], Duration]] = {
    "trending": _trending,
    "perftest": _perftest,
    "bisect": _bisection,
}
"""Functions from the duration of one run to the duration of the job."""


def of_job(job: str, keys: Iterable[TraceKey], spec: Specification, settings: Settings) -> Duration:
    """Return the duration of a job without building.

    :param job: one of :data:`perftrend.trigger.JOBS`.
    """
    if job == "analysis":
        return Duration(ANALYSIS_S, ANALYSIS_S)
    return _OF_JOB[job](of_run(keys, spec, settings), settings)


def describe(job: str, keys: Iterable[TraceKey], spec: Specification, settings: Settings) -> str:
    """Return the duration of a job in words, including building if earlier build times are known."""
    duration = of_job(job, keys, spec, settings)
    took_s = build_times_s(settings.project) if job == "perftest" else []
    if took_s:
        return str(duration + Duration(_BUILDS * median(took_s), _BUILDS * max(took_s)))
    return f"{duration}, plus building" if job in BUILDING else str(duration)


def format_duration(seconds: float) -> str:
    """Return a duration in words: ``14 minutes``, ``5 hours``."""
    minutes = max(1, ceil(seconds / _MINUTE_S))
    if seconds <= _FEW_HOURS * _HOUR_S:
        return format_count(minutes, "minute")
    return f"{ceil(seconds / _HOUR_S)} hours"


def build_times_s(project: ProjectSettings) -> list[float]:
    """Return the duration of each cached build of the product, in no order.

    :returns: an empty list if it is unknown: no profile, no cached builds, or the settings are not valid.
    """
    if project.profile is None:
        return []
    try:
        profile = load(project.profile, project.profiles, project.parameters)
    except SettingsError:
        return []
    return read_build_times(project.builds, profile.hash)
