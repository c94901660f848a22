from __future__ import annotations

import os
import runpy
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from perftrend.analysis import GrowingPartition, partition
from perftrend.analysis.mdl import engine
from perftrend.analysis.mdl.engine import LONG, MANY, EngineChoice
from perftrend.errors import SettingsError


@pytest.fixture
def fresh(monkeypatch: pytest.MonkeyPatch) -> EngineChoice:
    """Return the choice of a process that has not loaded the compiled search."""
    monkeypatch.setattr(engine, "_is_loaded", lambda: False)
    return EngineChoice()


def output(code: str) -> str:
    """Return what a process of its own prints."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    return done.stdout.strip()


def test_few_values_are_left_to_numpy(fresh: EngineChoice) -> None:
    assert {"numpy"} == {fresh.choose("fastest", values=LONG - 1) for _ in range(MANY // LONG)}


def test_long_series_is_worth_loading(fresh: EngineChoice) -> None:
    assert "compiled" == fresh.choose("fastest", values=LONG)


def test_many_series_are_worth_loading(fresh: EngineChoice) -> None:
    values = LONG // 2

    assert ["numpy"] * (MANY // values - 1) + ["compiled"] == [
        fresh.choose("fastest", values=values) for _ in range(MANY // values)
    ]


def test_what_is_loaded_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_is_loaded", lambda: True)

    assert "compiled" == EngineChoice().choose("fastest", values=1)


@pytest.mark.parametrize("name", ["compiled", "numpy"])
def test_named_engine_is_used_for_any_number_of_values(fresh: EngineChoice, name: str) -> None:
    assert [name, name] == [fresh.choose(name, values=1), fresh.choose(name, values=MANY)]


def test_without_numba_numpy_does_everything(fresh: EngineChoice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "is_compiled", lambda: False)

    assert "numpy" == fresh.choose("fastest", values=MANY)
    with pytest.raises(SettingsError, match="needs numba, which cannot be imported; leave the engine out"):
        fresh.choose("compiled", values=1)


def test_numba_that_cannot_be_imported_is_no_error() -> None:
    code = """
import sys
sys.modules["numba"] = None
from perftrend.analysis.mdl import is_compiled, load, partition
load()
print(is_compiled(), [group.start for group in partition([1.0] * 500 + [2.0] * 500).groups])
"""

    assert "False [0, 500]" == output(code)


def test_jobs_that_evaluate_few_traces_do_not_import_numba() -> None:
    code = """
import importlib, pkgutil, sys
import numpy as np
import jobs
for module in pkgutil.iter_modules(jobs.__path__):
    importlib.import_module(f"jobs.{module.name}")
from perftrend.analysis import partition
for seed in range(4):
    partition(np.random.default_rng(seed).normal(1e7, 1e5, 180))
print(*sorted({"numba", "llvmlite"} & sys.modules.keys()))
"""

    assert "" == output(code)


def test_module_that_is_run_loads_all_that_any_partition_needs() -> None:
    runpy.run_module("perftrend.analysis.mdl", run_name="__main__")

    from perftrend.analysis.mdl import kernel  # noqa: PLC0415 - the test is about who imports it

    functions: list[Any] = [kernel.extend, kernel.bounds, kernel.trim, kernel.cheapest_course]
    loaded = [function.signatures for function in functions]
    partition([[3, 1], [2]], engine="compiled", formula="jumpavg-0.1")
    partition(np.arange(-50, 50), engine="compiled", outliers=True)
    GrowingPartition([2, 1], engine="compiled").append(1)

    assert [1, 1, 1, 1] == [len(signatures) for signatures in loaded]
    assert loaded == [function.signatures for function in functions]
