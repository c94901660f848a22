from __future__ import annotations

import errno
import importlib.util
import logging
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from numba.core import caching
from numba.core.dispatcher import Dispatcher

from perftrend.analysis.mdl import cache, kernel, lanes, levels, screening, trim

SOURCE = """
from perftrend.analysis.mdl import lanes

@lanes.compiled
def double(value):
    return 2 * value
"""


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither next to the source nor in a home directory or an environment can anything be stored."""
    (tmp_path / "file").touch()
    (tmp_path / "__pycache__").touch()
    (tmp_path / "doubling.py").write_text(SOURCE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(caching.config, "CACHE_DIR", "")
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "file"))


@pytest.fixture
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nowhere: None) -> Path:
    """Return a virtual environment."""
    found = tmp_path / "environment"
    monkeypatch.setattr(sys, "prefix", str(found))
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


def test_without_a_directory_each_process_compiles(
    double: Callable[[], Any], caplog: pytest.LogCaptureFixture
) -> None:
    cache.announce.cache_clear()
    with caplog.at_level(logging.WARNING):
        assert 6 == double()(3)

    assert ["compiling the search for changes; this can take a minute..."] == caplog.messages


def test_code_is_stored_in_the_environment(environment: Path, double: Callable[[], Any]) -> None:
    assert 6 == double()(3)
    assert [".nbc", ".nbi"] == stored(environment)

    second = double()

    assert (6, 1) == (second(3), hits(second))


def test_named_directory_overrides_the_environment(
    tmp_path: Path, environment: Path, double: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caching.config, "CACHE_DIR", str(tmp_path / "named"))

    assert 6 == double()(3)
    assert ([], [".nbc", ".nbi"]) == (stored(environment), stored(tmp_path / "named"))


def test_read_only_environment_gives_the_code_that_it_holds(
    environment: Path, double: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    double()(3)
    monkeypatch.setattr(caching.tempfile, "TemporaryFile", refuse)
    second = double()

    assert (6, 1) == (second(3), hits(second))


def test_code_that_cannot_be_stored_is_used(
    environment: Path, double: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caching.IndexDataCacheFile, "save", refuse)

    assert 6 == double()(3)


def test_broken_file_is_replaced(environment: Path, double: Callable[[], Any]) -> None:
    double()(3)
    (index,) = environment.rglob("*.nbi")
    index.write_bytes(b"")

    assert 6 == double()(3)

    third = double()

    assert (6, 1) == (third(3), hits(third))


def test_code_of_other_sources_is_not_used(
    environment: Path, double: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The logarithm of one module is inlined in functions of others."""
    double()(3)
    monkeypatch.setattr(cache, "digest", lambda: "other")
    second = double()

    assert (6, 0) == (second(3), hits(second))


@pytest.mark.parametrize("module", [kernel, lanes, levels, screening, trim])
def test_every_compiled_source_is_a_part_of_the_digest(module: Any) -> None:
    found = {
        Path(value.py_func.__code__.co_filename).stem
        for value in vars(module).values()
        if isinstance(value, Dispatcher)
    }

    assert found | {module.__name__.rpartition(".")[2]} <= set(cache.MODULES)


def refuse(*_arguments: object, **_options: object) -> None:
    raise OSError(errno.EROFS, "Read-only file system")
