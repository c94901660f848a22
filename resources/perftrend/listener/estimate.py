"""How long a job takes at most, by what its tests measure and how often it measures them.

The searches count with the time after which they are given up, and comparisons with all the rounds that they
may take: most jobs end earlier. Not counted is what nobody knows beforehand: building the product, waiting
for a testbed that is in use, and repeating trials that cannot be trusted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import ceil

from perftrend.measure.specification import Specification
from perftrend.model import TraceKey
from perftrend.settings import Settings

START_S = 5.0
"""A start of the device, with its configuration."""
RUN_S = 15.0
"""Setting a testbed up for a run of the suites, and archiving what they left."""
ANALYSIS_S = 60.0

_MINUTE_S, _HOUR_S = 60, 3600
_FEW_HOURS = 3


def tests(keys: Iterable[TraceKey]) -> dict[tuple[str, str], frozenset[str]]:
    """Return the metrics of each test, by its suite and name."""
    found: dict[tuple[str, str], set[str]] = {}
    for key in keys:
        told = key.as_dict()
        found.setdefault((told.get("suite", ""), told.get("test", "")), set()).add(told.get("metric", ""))
    return {test: frozenset(metrics) for test, metrics in found.items()}


def run_s(keys: Iterable[TraceKey], spec: Specification, settings: Settings) -> float:
    """Return how many seconds one run of the tests takes at most.

    :param keys: the traces that the tests have a result for.
    """
    return RUN_S + sum(_test_s(metrics, spec, settings) for metrics in tests(keys).values())


def _test_s(metrics: frozenset[str], spec: Specification, settings: Settings) -> float:
    trial, starts = settings.trial, settings.trial.starts or spec.mrr.starts
    multiplicity = trial.multiplicity or spec.mrr.multiplicity
    if metrics == {"mrr"}:
        return multiplicity * (trial.duration_s or spec.mrr.duration_s) + min(starts, multiplicity) * START_S
    if "soak" in metrics:
        return settings.soak.total_duration_s + START_S
    return settings.search.timeout_s + START_S


def _trending(once_s: float, _: Settings) -> float:
    return once_s


def _perftest(once_s: float, settings: Settings) -> float:
    """Parent and patch, in every round."""
    return 2 * settings.perftest.maximum_rounds * once_s


def _bisection(once_s: float, settings: Settings) -> float:
    return settings.bisect.maximum_measurements * once_s


_OF_JOB: Mapping[str, Callable[[float, Settings], float]] = {
    "trending": _trending,
    "perftest": _perftest,
    "bisection": _bisection,
}
"""From how long one run takes to how long the job does."""


def job_s(job: str, keys: Iterable[TraceKey], spec: Specification, settings: Settings) -> float:
    """Return how many seconds a job takes at most, building left out."""
    if job not in _OF_JOB:
        return ANALYSIS_S
    return _OF_JOB[job](run_s(keys, spec, settings), settings)


def worded(seconds: float) -> str:
    """Say how long something takes: ``14 minutes``, ``5 hours``."""
    minutes = max(1, ceil(seconds / _MINUTE_S))
    if seconds <= _FEW_HOURS * _HOUR_S:
        return "1 minute" if minutes == 1 else f"{minutes} minutes"
    return f"{ceil(seconds / _HOUR_S)} hours"
