"""Pairs of searches on an open testbed: perftrend's default and MLRsearch, on one start of the device.

Both search for the same rates within the same limits, those of the nightly tests, and get their
trials from the same generator, which repeats invalid trials.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from benchmarks.search.methods import MLRSEARCH, Recorder, methods, perftrend_method
from perftrend.measure.search.mdr import DEFAULT_STRATEGY
from perftrend.measure.search.parameters import Parameters
from perftrend.measure.search.trials import passes
from perftrend.measure.testbed import Testbed
from perftrend.measurement import Interval
from perftrend.settings import SearchSettings

OURS = perftrend_method(DEFAULT_STRATEGY)
METHODS = (OURS, MLRSEARCH)
GOALS = ("ndr", "pdr")


@dataclass(frozen=True, slots=True)
class Searched:
    """One search of a pair."""

    pair: int
    method: str
    trials_s: float
    """The time of the trials that the search used."""
    wall_s: float
    """The time including repeated trials, and everything between trials."""
    trials: int
    repeated: int
    """Invalid trials that were repeated."""
    untrusted: int
    """Trials that the search used although they were invalid."""
    intervals: tuple[Interval, ...]
    """In the order of ``GOALS``."""
    passed_again: tuple[bool | None, ...]
    """Whether each lower bound passed in one more final trial; None if not known."""
    flooded_pps: float | None
    """The receive rate at the highest rate, just before the search; None if not valid."""


def nightly_parameters(testbed: Testbed) -> Parameters:
    """Return the parameters of the nightly tests on a testbed, but without a time limit."""
    usual, settings = testbed.spec.search, SearchSettings()
    return Parameters(
        minimum_pps=usual.minimum_pps,
        maximum_pps=testbed.maximum_pps,
        loss_ratios=(0.0, settings.loss_ratio),
        initial_duration_s=usual.initial_duration_s,
        final_duration_s=usual.final_duration_s,
        relative_width=settings.relative_width,
        intermediate_phases=settings.intermediate_phases,
        timeout_s=None,
    )


def searches(
    testbed: Testbed, *, pairs: int, frame: str, device_options: Mapping[str, str]
) -> Iterator[Searched]:
    """Yield two searches per pair; which method goes first alternates.

    Each pair has its own start of the device, like each nightly test.
    """
    for pair in range(1, pairs + 1):
        testbed.start_device(device_options)
        testbed.use(frame)
        parameters = nightly_parameters(testbed)
        for method in METHODS if pair % 2 else reversed(METHODS):
            yield _search(testbed, parameters, pair, method)
        testbed.device.stop()


def _search(testbed: Testbed, parameters: Parameters, pair: int, method: str) -> Searched:
    measure, final_s = testbed.trials.measure, parameters.final_duration_s
    flooded = measure(parameters.maximum_pps, final_s)
    testbed.trials.begin_test()
    recorder = Recorder(measure)
    begin = time.perf_counter()
    found = methods()[method](recorder, parameters)
    wall_s = time.perf_counter() - begin
    made = testbed.trials.trials
    repeated = len(made) - recorder.trials
    intervals = tuple(interval for interval in found if interval is not None)
    return Searched(
        pair=pair,
        method=method,
        trials_s=recorder.elapsed_s,
        wall_s=wall_s,
        trials=recorder.trials,
        repeated=repeated,
        untrusted=sum(bool(trial.invalid) for trial in made) - repeated,
        intervals=intervals,
        passed_again=tuple(
            _passes_again(testbed, interval, loss_ratio, final_s)
            for interval, loss_ratio in zip(intervals, parameters.loss_ratios, strict=True)
        ),
        flooded_pps=None if flooded.invalid else flooded.receive_rate_pps,
    )


def _passes_again(testbed: Testbed, interval: Interval, loss_ratio: float, duration_s: float) -> bool | None:
    if interval.invalid:
        return None
    trial = testbed.trials.measure(interval.lower, duration_s)
    return None if trial.invalid else passes(trial, loss_ratio)
