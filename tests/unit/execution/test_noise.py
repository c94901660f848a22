"""The noise of tests that the store has measured."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from perftrend.execution.build_measurement import read_deviations
from perftrend.model import Better, Result, Run, Status, TraceKey
from perftrend.settings import Settings
from perftrend.store import Store

KEY = TraceKey.of(testbed="simulated", test="t", suite="s", metric="mrr")
BEGIN = datetime(2026, 3, 2, 18, tzinfo=UTC)


def stored(folder: Path, runs: int) -> Settings:
    """Fill a store with runs 2 % apart, of trials 0.5 % apart."""
    chance = np.random.default_rng(5)
    settings = Settings(store=str(folder / "history.sqlite"))
    with Store.open(settings.store) as store:
        for build in range(1, runs + 1):
            level = chance.normal(1e6, 2e4)
            samples = tuple(chance.normal(level, 5e3, 5).tolist())
            moment = BEGIN + timedelta(days=build)
            run = Run("simulated", "trending", build, moment, moment)
            store.add(run, [Result(KEY, "pps", Better.HIGHER, Status.PASS, samples, float(np.mean(samples)))])
    return settings


def test_deviation_between_runs_is_told_in_per_cent(tmp_path: Path) -> None:
    found = read_deviations(stored(tmp_path, 40), "simulated", {KEY: "name"})

    assert {"name": pytest.approx(2.0, abs=0.5)} == found


def test_few_runs_tell_nothing(tmp_path: Path) -> None:
    assert {} == read_deviations(stored(tmp_path, 9), "simulated", {KEY: "name"})


def test_test_without_a_history_has_none(tmp_path: Path) -> None:
    other = TraceKey.of(testbed="simulated", test="other", suite="s", metric="mrr")

    assert {} == read_deviations(stored(tmp_path, 12), "simulated", {other: "name"})


def test_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    settings = Settings(store=str(tmp_path / "none.sqlite"))

    assert {} == read_deviations(settings, "simulated", {KEY: "name"})
    assert [] == list(tmp_path.iterdir())
