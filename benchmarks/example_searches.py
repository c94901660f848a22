"""Searches of simulated devices, one for each pair of NDR and PDR, for the benchmark of the report."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perftrend import message
from perftrend.measure.search import mdr_search
from perftrend.measure.simulator import DeviceModel
from perftrend.model import Measurement, Result, Run, Verdict

LOSS_RATIOS = {"ndr": 0.0, "pdr": 0.005}
_CRITICAL_PPS = 12e6


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
