"""Verdicts and searches of an imagined testbed, for the benchmark, the screenshot and the browser's tests.

Nothing here was measured, so every run is marked as simulated. No analysis is run either: each
history is drawn from normal distributions with steps at known runs, and its groups are exactly
the ones it was drawn from. The searches are those of simulated devices, one for each pair of NDR
and PDR.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import cycle, islice, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from perftrend import message
from perftrend.measure.search import mdr_search
from perftrend.measure.simulator import DeviceModel
from perftrend.measurement import Measurement
from perftrend.model import (
    Better,
    Change,
    Direction,
    Group,
    Outcome,
    Result,
    Run,
    Samples,
    Series,
    Status,
    TraceKey,
    Verdict,
)

TESTBED = "2n-clx"
WINDOW = 30
LOSS_RATIOS = {"ndr": 0.0, "pdr": 0.005}
_FIRST_NIGHT = datetime(2026, 1, 5, 2, 0, tzinfo=UTC)
_FRAMES = {"64B": 1.0, "1518B": 0.28, "IMIX": 0.62}
_CASES = {
    "ethip4-ip4base": 14.2e6,
    "ethip4-ip4scale20k": 12.9e6,
    "ethip4-ip4base-acl20": 9.6e6,
    "ethip4-ip4base-acl60": 6.1e6,
    "eth-l2xcbase": 17.4e6,
    "eth-l2bdbasemaclrn": 11.3e6,
    "ethip4udp-nat44": 5.2e6,
}
_METRICS = ("mrr", "ndr", "pdr")
_CRITICAL_PPS = 12e6

Steps = Sequence[tuple[float, float]]
"""The begin of each group, as a fraction of the history, and its level relative to the first."""

STEADY: Steps = ((0.0, 1.0),)
STORIES: tuple[tuple[Outcome, Steps, str], ...] = (
    (
        Outcome.REGRESSION,
        ((0.0, 1.0), (0.4, 1.03), (0.96, 0.87)),
        "The trend fell by 15.5 % with the newest group",
    ),
    (
        Outcome.REGRESSION,
        ((0.0, 1.0), (0.995, 0.94)),
        "The newest run begins a group with a lower trend",
    ),
    (
        Outcome.PROGRESSION,
        ((0.0, 1.0), (0.55, 0.93), (0.97, 1.08)),
        "The trend rose by 16.1 % with the newest group",
    ),
    (Outcome.NORMAL, ((0.0, 1.0), (0.3, 0.92), (0.34, 1.0)), ""),
    (Outcome.NORMAL, ((0.0, 0.95), (0.6, 1.0)), ""),
    (Outcome.NOT_VALID, STEADY, "The generator sent 91.2 % of the intended rate, at least 95 % is needed"),
    (
        Outcome.FAILED,
        STEADY,
        "TestbedError: testbed '2n-clx': interface eth1 has no carrier;\nis its cable plugged in?",
    ),
    (Outcome.MISSING, STEADY, "Expected, because the previous run had it, but missing in the newest run"),
)


def example_runs(count: int) -> tuple[Run, ...]:
    """Return one run per night, each of another commit."""
    return tuple(
        Run(
            testbed=TESTBED,
            job=f"perftrend-trending-daily-{TESTBED}",
            build=build,
            started=_FIRST_NIGHT + timedelta(days=build - 1),
            finished=_FIRST_NIGHT + timedelta(days=build - 1, hours=3, minutes=build % 17),
            versions={
                "device": hashlib.sha256(str(build).encode()).hexdigest()[:40],
                "generator": "normal distributions",
            },
            simulated=True,
        )
        for build in range(1, count + 1)
    )


def example_verdicts(tests: int, runs: int, *, seed: int = 7) -> list[Verdict]:
    """Return verdicts that include every outcome, and otherwise normal ones.

    :param tests: the number of verdicts.
    :param runs: length of each history, at least 12.
    """
    randomness = np.random.default_rng(seed)
    nights = example_runs(runs)
    keys = islice(_keys(), tests)
    stories = [*STORIES, *[(Outcome.NORMAL, STEADY, "")] * max(0, tests - len(STORIES))]
    return [
        _verdict(key, base, story, nights, randomness)
        for (key, base), story in zip(keys, stories[:tests], strict=True)
    ]


def example_results(verdicts: Sequence[Verdict]) -> list[Result]:
    """Return the newest results of the NDR and PDR tests among the verdicts, with their searches."""
    details: dict[int, dict[str, Any]] = {}
    results: list[Result] = []
    for verdict in verdicts:
        if verdict.series.key["metric"] not in LOSS_RATIOS:
            continue
        number = len(results) // len(LOSS_RATIOS)
        if number not in details:
            details[number] = message.document(example_search(verdict.series.runs[-1], seed=number))
        newest = verdict.series.results[-1]
        results.append(Result(newest.key, newest.unit, newest.better, newest.status, details=details[number]))
    return results


def example_search(run: Run, *, seed: int = 0) -> Measurement:
    """Return the measurement of a search of a simulated device in a run."""
    device = DeviceModel.of_kind("soft", _CRITICAL_PPS, jitter=0.003, seed=seed)
    ratios = tuple(LOSS_RATIOS.values())
    found = mdr_search(device, minimum_pps=20e3, maximum_pps=29.76e6, loss_ratios=ratios)
    return Measurement(
        kind="ndrpdr",
        testbed=run.testbed,
        frame="64B",
        frame_bytes=64.0,
        started=run.started,
        finished=run.finished,
        intervals=dict(zip(LOSS_RATIOS, found.intervals, strict=True)),
        trials=found.trials,
        loss_ratios=LOSS_RATIOS,
        phases=found.phases,
        simulated=True,
    )


def _keys() -> Iterator[tuple[TraceKey, float]]:
    for turn, (case, frame, metric) in enumerate(
        cycle((case, frame, metric) for metric in _METRICS for frame in _FRAMES for case in _CASES)
    ):
        cores = 1 + turn // (len(_CASES) * len(_FRAMES) * len(_METRICS))
        key = TraceKey.of(
            testbed=TESTBED,
            suite="ip4" if "ip4" in case else "l2",
            test=f"{frame.lower()}-{cores}c-{case}-{metric}",
            frame=frame,
            cores=str(cores),
            driver="avf",
            metric=metric,
        )
        yield key, _CASES[case] * _FRAMES[frame]


def _verdict(
    key: TraceKey,
    base: float,
    story: tuple[Outcome, Steps, str],
    runs: tuple[Run, ...],
    randomness: np.random.Generator,
) -> Verdict:
    outcome, steps, reason = story
    bounds = [min(round(share * len(runs)), len(runs) - 1) for share, _ in steps] + [len(runs)]
    levels = [base * level for _, level in steps]
    samples = np.concatenate(
        [
            randomness.normal(level, 0.006 * level, stop - start)
            for level, (start, stop) in zip(levels, pairwise(bounds), strict=True)
        ]
    )
    results = [Result(key, "pps", Better.HIGHER, Status.PASS, value=float(value)) for value in samples]
    if outcome in {Outcome.NOT_VALID, Outcome.FAILED, Outcome.MISSING}:
        status = Status.PASS if outcome is Outcome.NOT_VALID else Status.FAIL
        value = 0.78 * base if outcome is Outcome.NOT_VALID else math.nan
        results[-1] = Result(key, "pps", Better.HIGHER, status, value=value, invalid=reason)
        samples[-1] = np.nan
    groups = tuple(
        Group(
            start, stop, float(np.nanmean(samples[start:stop])), float(np.nanstd(samples[start:stop])), 100.0
        )
        for start, stop in pairwise(bounds)
        if np.isfinite(samples[start:stop]).any()
    )
    median, average, deviation, outliers = _moving_statistics(samples)
    return Verdict(
        series=Series(key, "pps", Better.HIGHER, runs, samples, tuple(results)),
        outcome=outcome,
        reason=reason or f"{samples[-1] / groups[-1].mean - 1:+.1%} of the trend, within the usual spread",
        groups=groups,
        changes=tuple(_change(before, after) for before, after in pairwise(groups)),
        trend=groups[-1].mean,
        runs=groups[-1].size,
        long_term_change=groups[-1].mean / max(g.mean for g in groups if g.start <= len(runs) - 10) - 1,
        moving_median=median,
        trimmed_average=average,
        trimmed_deviation=deviation,
        outliers=outliers,
    )


def _change(before: Group, after: Group) -> Change:
    direction = Direction.PROGRESSION if after.mean > before.mean else Direction.REGRESSION
    return Change(after.start, before.mean, after.mean, direction)


def _moving_statistics(samples: Samples) -> tuple[Samples, Samples, Samples, NDArray[np.bool_]]:
    """Return median, average, deviation and outliers over the runs before, all untrimmed."""
    median, average, deviation = (np.full(samples.size, np.nan) for _ in range(3))
    for position in range(4, samples.size):
        before = samples[max(0, position - WINDOW) : position]
        median[position] = np.nanmedian(before)
        average[position] = np.nanmean(before)
        deviation[position] = np.nanstd(before)
    with np.errstate(invalid="ignore"):
        outliers = np.abs(samples - average) > 3 * deviation
    return median, average, deviation, outliers
