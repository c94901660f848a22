"""The message names the disk that is full."""

from __future__ import annotations

import errno
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace

import pytest

from perftrend import errors
from perftrend.cli import bisect
from perftrend.settings import Settings


def named(settings: Settings, error: OSError) -> str:
    with pytest.raises(OSError, match=error.strerror or "") as raised, bisect.full_one_named(settings):
        raise error
    return errors.explain(raised.value)


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    free: Mapping[str, int] = {"archives": 10**9, "report": 10**9, "bisections": 100}
    for name in free:
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=free[Path(path).name]))
    return Settings()


def test_folder_with_the_least_room_is_named(settings: Settings) -> None:
    told = named(settings, OSError(errno.ENOSPC, "No space left on device"))

    assert (
        "bisections: No space left on device; free some space or choose another place, then run again" == told
    )


def test_what_the_system_names_stays(settings: Settings) -> None:
    assert named(settings, OSError(errno.ENOSPC, "No space left", "builds/x")).startswith(
        "builds/x: No space"
    )
    assert "Input/output error" == named(settings, OSError(errno.EIO, "Input/output error"))
