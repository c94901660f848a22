"""Verdicts made by hand."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest

from perftrend.model import (
    Better,
    Change,
    Direction,
    Group,
    Outcome,
    Result,
    Run,
    Series,
    Status,
    TraceKey,
    Verdict,
)

MakeVerdict = Callable[..., Verdict]


def night(build: int, **fields: Any) -> Run:
    started = datetime(2026, 3, 1, 2, 0, tzinfo=UTC) + timedelta(days=build)
    values = {"versions": {"device": f"{build:040x}"}, **fields}
    return Run("2n-clx", "trending", build, started, started + timedelta(hours=1), **values)


@pytest.fixture
def run() -> Run:
    return night(6)


@pytest.fixture
def make_verdict() -> MakeVerdict:
    """Six runs: three at 10 Mpps, then three at 8 Mpps, unless told otherwise."""

    def make(
        test: str = "64b-ip4base",
        outcome: Outcome = Outcome.REGRESSION,
        *,
        reason: str = "The trend fell",
        frame: str = "64B",
        metric: str = "mrr",
        unit: str = "pps",
        long_term_change: float = -0.2,
        trend: float = 8e6,
        samples: Sequence[float] = (10.1e6, 10.0e6, 9.9e6, 8.1e6, 8.0e6, 7.9e6),
        invalid: dict[int, tuple[float, str]] | None = None,
        **fields: Any,
    ) -> Verdict:
        key = TraceKey.of(test=test, frame=frame, metric=metric, suite="ip4", testbed="2n-clx")
        values = np.array(samples, dtype=np.float64)
        results = [Result(key, unit, Better.HIGHER, Status.PASS, value=float(value)) for value in values]
        for position, (value, why) in (invalid or {}).items():
            values[position] = math.nan
            results[position] = Result(key, unit, Better.HIGHER, Status.PASS, value=value, invalid=why)
        runs = tuple(night(build) for build in range(1, values.size + 1))
        defaults: dict[str, Any] = {
            "groups": (Group(0, 3, 10e6, 0.1e6, 50.0), Group(3, 6, 8e6, 0.1e6, 40.0)),
            "changes": (Change(3, 10e6, 8e6, Direction.REGRESSION),),
            "moving_median": np.array([math.nan, 10.1e6, 10.05e6, 10e6, 9.95e6, 9.9e6]),
            "trimmed_average": np.array([math.nan, math.nan, 10e6, 10e6, 9.5e6, 9.2e6]),
            "trimmed_deviation": np.array([math.nan, math.nan, 0.1e6, 0.1e6, 0.2e6, 0.3e6]),
            "outliers": np.array([False, False, False, True, False, False]),
        }
        if values.size != 6:
            defaults = {}
        return Verdict(
            series=Series(key, unit, Better.HIGHER, runs, values, tuple(results)),
            outcome=outcome,
            reason=reason,
            trend=trend,
            runs=3,
            long_term_change=long_term_change,
            **(defaults | fields),
        )

    return make


@pytest.fixture
def missing() -> Verdict:
    """Return a test that never gave anything: no run, no value, no group."""
    key = TraceKey.of(test="64b-never", frame="64B", metric="mrr", testbed="2n-clx")
    return Verdict(
        series=Series(key, "pps", Better.HIGHER, (), np.empty(0)),
        outcome=Outcome.MISSING,
        reason="Expected, but the newest run has no such test",
    )
