"""What all unit tests lean on: new stores that are ready at once."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy.engine import Engine

from perftrend.store import store
from perftrend.store.connection import engine_of
from perftrend.store.upgrade import upgrade


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


def put(template: Path, place: Path) -> None:
    """Copy a file at once and as a whole; an existing file stays, and to open the store shows any error."""
    with contextlib.suppress(OSError), tempfile.TemporaryDirectory(dir=template.parent) as folder:
        if not place.exists():
            os.link(shutil.copy(template, folder), place)
