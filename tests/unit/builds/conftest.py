from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perftrend.builds import Builds, Profile
from perftrend.clients.git import Repository
from tests.products.histories import History

Open = Callable[..., Builds]


@pytest.fixture
def history(tmp_path: Path) -> History:
    return History(tmp_path / "source")


@pytest.fixture
def said() -> list[str]:
    """Give what the builds said."""
    return []


@pytest.fixture
def opened(history: History, tmp_path: Path, said: list[str]) -> Iterator[Open]:
    """Give what opens builds by a profile; by default each file ``out`` is a copy of the file ``in``."""
    made: list[Builds] = []

    def open_builds(maximum: int = 50, **profile: object) -> Builds:
        told = {"name": "ours", "description": "ours", "artifacts": ["out"], "build": [["cp", "in", "out"]]}
        builds = Builds(
            Profile.model_validate({**told, **profile}),
            Repository.at(history.folder),
            tmp_path / "builds",
            maximum,
            said.append,
        )
        made.append(builds)
        return builds

    yield open_builds
    for builds in made:
        builds.close()


def await_end(process: int) -> None:
    """Wait until a process is gone.

    :raises TimeoutError: if it lives on for ten seconds.
    """
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return
    try:
        if not select.select([descriptor], [], [], 10)[0]:
            raise TimeoutError(f"process {process} lives on")
    finally:
        os.close(descriptor)


def ended(process: int) -> bool:
    """Return whether a process is gone, or waits for nothing but its parent to notice."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text()
    except FileNotFoundError:
        return True
    return stat.rpartition(")")[2].split()[0] in "ZX"
