"""Rounds of made-up measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from perftrend.model import BuildMeasurement, MetricSamples
from perftrend.perftest import PatchCriteria, Round

BEGIN = datetime(2026, 3, 2, 18, tzinfo=UTC)
CRITERIA = PatchCriteria(
    threshold=0.01, confidence=0.99, formula="jumpavg-0.4", minimum_rounds=6, maximum_rounds=10
)


def measured(
    number: int,
    values: Mapping[str, Sequence[float]] | None = None,
    failed: Mapping[str, str] | None = None,
    commit: str = "a" * 40,
) -> BuildMeasurement:
    """Return the measurement that begins so many minutes after the first."""
    begin = BEGIN + timedelta(minutes=number)
    sampled = {test: MetricSamples(tuple(samples)) for test, samples in (values or {}).items()}
    return BuildMeasurement(commit, begin, begin + timedelta(minutes=1), sampled, failed or {})


def noisy(level: float, *, rounds: int, seed: int = 1, deviation: float = 0.002) -> Any:
    """Return five samples around a level for each round."""
    chance = np.random.default_rng(seed)
    return chance.normal(level, level * deviation, (rounds, 5)).tolist()


def rounds(parent: Sequence[BuildMeasurement], current: Sequence[BuildMeasurement]) -> list[Round]:
    return [Round(*both) for both in zip(parent, current, strict=True)]


def of_levels(
    test: str, parent: float, current: float, *, number: int = 3, deviation: float = 0.002
) -> list[Round]:
    """Return rounds of one test whose builds have these levels."""
    before = noisy(parent, rounds=number, seed=1, deviation=deviation)
    after = noisy(current, rounds=number, seed=2, deviation=deviation)
    return [
        Round(measured(2 * index, {test: before[index]}), measured(2 * index + 1, {test: after[index]}))
        for index in range(number)
    ]
