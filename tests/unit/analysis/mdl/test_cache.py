from __future__ import annotations

import importlib.util
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numba import config
from numba.core.dispatcher import Dispatcher

from perftrend.analysis.mdl import cache, kernel, level_path, pruning, simd_kernel, trim

SOURCE = """
from perftrend.analysis.mdl import simd_kernel

@simd_kernel.jit
def double(value):
    return 2 * value
"""


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither next to the source nor in a home directory can anything be stored."""
    (tmp_path / "file").touch()
    (tmp_path / "__pycache__").touch()
    (tmp_path / "doubling.py").write_text(SOURCE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(config, "CACHE_DIR", "")


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nowhere: None) -> Path:
    """Return a virtual environment."""
    found = tmp_path / "environment"
    monkeypatch.setattr(sys, "prefix", str(found))
    cache.prepare_cache()
    return found


@pytest.fixture
def double(tmp_path: Path) -> Callable[[], Any]:
    """Return what imports the compiled function, as a new process would."""

    def load() -> Any:
        specification = importlib.util.spec_from_file_location("doubling", tmp_path / "doubling.py")
        assert specification is not None
        assert specification.loader is not None
        module = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(module)
        return module.double

    return load


def stored(folder: Path) -> list[str]:
    return sorted(path.suffix for path in folder.rglob("doubling.double-*"))


def hits(function: Any) -> int:
    return sum(function.stats.cache_hits.values())


def test_without_a_directory_each_process_compiles_and_says_so(
    double: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    cache.announce.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert 6 == double()(3)

    assert ["compiling the search for changes; this can take a minute..."] == caplog.messages


def test_code_is_stored_in_the_environment(
    environment: Path, double: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert 6 == double()(3)
    assert [".nbc", ".nbi"] == stored(environment / "cache" / f"numba-{cache.digest()}")

    cache.announce.cache_clear()
    second = double()

    assert (6, 1, []) == (second(3), hits(second), caplog.messages)


def test_environment_that_cannot_be_written_is_no_error(environment: Path, double: Callable[[], Any]) -> None:
    environment.touch()

    assert 6 == double()(3)


def test_named_directory_overrides_the_environment(
    tmp_path: Path, double: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path / "named"))
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "environment"))
    cache.prepare_cache()

    assert 6 == double()(3)
    assert [".nbc", ".nbi"] == stored(tmp_path / "named")


@pytest.mark.parametrize("module", [kernel, simd_kernel, level_path, pruning, trim])
def test_every_compiled_source_is_a_part_of_the_digest(module: Any) -> None:
    found = {
        Path(value.py_func.__code__.co_filename).stem
        for value in vars(module).values()
        if isinstance(value, Dispatcher)
    }

    assert found | {module.__name__.rpartition(".")[2]} <= set(cache.MODULES)
