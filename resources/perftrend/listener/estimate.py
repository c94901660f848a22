"""How long a job takes, usually and at most, by what its tests measure and how often it measures them.

Usually no trial is repeated, searches foresee their bounds, comparisons take rounds half way between
the fewest and the most, and bisections as many measurements as simulated ones need (:doc:`/method/bisect`).
At most all trials are repeated until they are given up, searches run into their time-out, and all rounds and
measurements are made. Building counts where it is known how long it took before. Not counted is waiting for a
testbed that is in use, for nobody knows how long that takes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from math import ceil, log2
from statistics import median

from perftrend.builds import times
from perftrend.measure.specification import Specification
from perftrend.model import TraceKey
from perftrend.settings import Settings

START_S = 5.0
"""A start of the device, with its configuration."""
RUN_S = 15.0
"""Setting a testbed up for a run of the suites by Robot Framework, and archiving what they left."""
ANALYSIS_S = 60.0
MEASUREMENTS = 40
"""Of a usual bisection."""
BUILDING = ("perftest", "bisection")
_BUILDS = 2
"""Of a comparison."""

_MINUTE_S, _HOUR_S = 60, 3600
_FEW_HOURS = 3


@dataclass(frozen=True, slots=True)
class Duration:
    """How long something takes. ``str()`` says it: ``about 4 minutes, at most 14 minutes``."""

    usual_s: float
    most_s: float

    def __add__(self, other: Duration) -> Duration:
        return Duration(self.usual_s + other.usual_s, self.most_s + other.most_s)

    def __str__(self) -> str:
        usual, most = worded(self.usual_s), worded(self.most_s)
        return f"about {usual}, at most {most}" if usual != most else f"about {usual}"


def tests(keys: Iterable[TraceKey]) -> dict[tuple[str, str], frozenset[str]]:
    """Return the metrics of each test, by its suite and name."""
    found: dict[tuple[str, str], set[str]] = {}
    for key in keys:
        told = key.as_dict()
        found.setdefault((told.get("suite", ""), told.get("test", "")), set()).add(told.get("metric", ""))
    return {test: frozenset(metrics) for test, metrics in found.items()}


def of_run(keys: Iterable[TraceKey], spec: Specification, settings: Settings) -> Duration:
    """Return how long one run of the tests takes.

    :param keys: the traces that the tests have a result for.
    """
    each = (_of_test(metrics, spec, settings) for metrics in tests(keys).values())
    return sum(each, Duration(RUN_S, RUN_S))


def _of_test(metrics: frozenset[str], spec: Specification, settings: Settings) -> Duration:
    trial, starts = settings.trial, settings.trial.starts or spec.mrr.starts
    multiplicity = trial.multiplicity or spec.mrr.multiplicity
    if metrics == {"mrr"}:
        trials_s = multiplicity * (trial.duration_s or spec.mrr.duration_s)
        starts_s = min(starts, multiplicity) * START_S
        return Duration(trials_s + starts_s, trial.attempts * trials_s + starts_s)
    if "soak" in metrics:
        soak_s = settings.soak.total_duration_s + START_S
        return Duration(soak_s, soak_s)
    return Duration(_search_s(metrics, spec, settings) + START_S, settings.search.timeout_s + START_S)


def _search_s(metrics: frozenset[str], spec: Specification, settings: Settings) -> float:
    """Return the time to prove two bounds for each rate: a search that foresees them needs little else.

    A binary search foresees nothing: it halves an interval that reaches almost down to 0.
    """
    asked = settings.search
    trial_s = asked.final_duration_s or spec.search.final_duration_s
    halvings = ceil(-log2(asked.relative_width))
    trials = halvings if asked.strategy == "binary" else 2 * asked.trials_per_bound
    return min(len(metrics) * trials * trial_s, asked.timeout_s)


def _trending(once: Duration, _: Settings) -> Duration:
    return once


def _perftest(once: Duration, settings: Settings) -> Duration:
    """Parent and patch, in every round."""
    most = settings.perftest.maximum_rounds
    usual = (min(settings.perftest.minimum_rounds, most) + most) / 2
    return Duration(2 * usual * once.usual_s, 2 * most * once.most_s)


def _bisection(once: Duration, settings: Settings) -> Duration:
    most = settings.bisect.maximum_measurements
    return Duration(min(MEASUREMENTS, most) * once.usual_s, most * once.most_s)


_OF_JOB: Mapping[str, Callable[[Duration, Settings], Duration]] = {
    "trending": _trending,
    "perftest": _perftest,
    "bisection": _bisection,
}
"""From how long one run takes to how long the job does."""


def of_job(job: str, keys: Iterable[TraceKey], spec: Specification, settings: Settings) -> Duration:
    """Return how long a job takes, building left out."""
    if job not in _OF_JOB:
        return Duration(ANALYSIS_S, ANALYSIS_S)
    return _OF_JOB[job](of_run(keys, spec, settings), settings)


def told(job: str, keys: Iterable[TraceKey], spec: Specification, settings: Settings) -> str:
    """Say how long a job takes, with building where it is known how long that takes."""
    duration = of_job(job, keys, spec, settings)
    took_s = times.took_s(settings.project) if job == "perftest" else []
    if took_s:
        return str(duration + Duration(_BUILDS * median(took_s), _BUILDS * max(took_s)))
    return f"{duration}, plus building" if job in BUILDING else str(duration)


def worded(seconds: float) -> str:
    """Say how long something takes: ``14 minutes``, ``5 hours``."""
    minutes = max(1, ceil(seconds / _MINUTE_S))
    if seconds <= _FEW_HOURS * _HOUR_S:
        return "1 minute" if minutes == 1 else f"{minutes} minutes"
    return f"{ceil(seconds / _HOUR_S)} hours"
