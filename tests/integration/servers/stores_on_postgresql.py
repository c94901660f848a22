"""A plugin for pytest: whatever store a test opens by a path is one on PostgreSQL.

``pytest -p tests.integration.servers.stores_on_postgresql tests/unit/store`` runs the tests of the store on
the server that :data:`ADDRESS` names. Each path becomes a schema of its own, which is made in milliseconds.
Tests with the mark ``sqlite`` are about the file itself and are left out.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import psycopg
import pytest
from hypothesis import settings
from sqlalchemy.engine import Engine

from perftrend.store import connection, maintenance, store

ADDRESS = "PERFTREND_TEST_POSTGRESQL"
MARK = "sqlite"


def pytest_configure(config: pytest.Config) -> None:
    """Try fewer examples unless the run is thorough: each needs stores of its own, and SQLite had all."""
    if not config.getoption("thorough"):
        settings.register_profile("postgresql", settings.get_profile("gate"), max_examples=3)
        settings.load_profile("postgresql")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = [item for item in items if item.get_closest_marker(MARK)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]


@pytest.fixture(autouse=True, scope="session")
def _stores_on_postgresql() -> Iterator[None]:
    address = os.environ[ADDRESS]
    made: set[str] = set()
    original = connection.engine_of

    def engine_of(place: str | Path) -> Engine:
        schema = f"s{hashlib.sha256(str(place).encode()).hexdigest()[:16]}"
        if schema not in made:
            made.add(schema)
            with psycopg.connect(address, autocommit=True) as server:
                server.execute(f"CREATE SCHEMA {schema}")
        return original(f"{address}?options={quote(f'-csearch_path={schema}')}")

    with pytest.MonkeyPatch.context() as patch:
        for module in (connection, maintenance, store):
            patch.setattr(module, "engine_of", engine_of)
        yield
