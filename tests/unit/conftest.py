"""What all unit tests lean on: new stores at once, no waiting for the disk, a steady machine."""

from __future__ import annotations

import contextlib
import gc
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.engine import Engine

from perftrend.builds import observation
from perftrend.builds.observation import Gauges, Pulse
from perftrend.store import store
from perftrend.store.connection import engine_of
from perftrend.store.schema_version import upgrade


@pytest.fixture(scope="session", autouse=True)
def _new_stores_are_copies(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Copy a store whose tables were made once, because to make them takes longer than most tests.

    The tests of migrations make them from scratch by ``upgrade`` itself.
    """
    template = tmp_path_factory.mktemp("template") / "store.sqlite"
    engine = engine_of(template)
    upgrade(engine, str(template))
    engine.dispose()

    def copied(engine: Engine, name: str) -> None:
        if engine.dialect.name == "sqlite" and engine.url.database:
            put(template, Path(engine.url.database))
        upgrade(engine, name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(store, "upgrade", copied)
        yield


@pytest.fixture
def uncollected() -> Iterator[None]:
    """Collect no garbage in a test that exhausts the stack: a finalizer of other tests would fail there."""
    gc.disable()
    yield
    gc.enable()


@pytest.fixture(scope="session", autouse=True)
def _nobody_waits_for_the_disk() -> Iterator[None]:
    """Leave it to the kernel when it writes what a test saved; no test cuts the power."""

    def unsynchronised(connection: Any, _: Any) -> None:
        if isinstance(connection, sqlite3.Connection):
            connection.execute("PRAGMA synchronous = OFF")

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        event.listen(Engine, "connect", unsynchronised)
        yield
        event.remove(Engine, "connect", unsynchronised)


@pytest.fixture(scope="session", autouse=True)
def _machine_is_steady() -> Iterator[None]:
    """Show builds a machine on which nothing disturbs a measurement, so that none is repeated by chance."""
    steady = partial(Gauges, pulse=lambda _: Pulse(0.001, 0.001), usage=dict)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(observation, "Gauges", steady)
        yield


def put(template: Path, place: Path) -> None:
    """Copy a file at once and as a whole; an existing file stays, and to open the store shows any error."""
    with contextlib.suppress(OSError), tempfile.TemporaryDirectory(dir=template.parent) as folder:
        if not place.exists():
            os.link(shutil.copy(template, folder), place)
