"""Health and metrics of the dashboard as a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
import requests
import sqlalchemy as sa

from perftrend.store.connection import engine_of
from tests.integration.servers.dashboard import Dashboard, fill

LIMIT_S = 120


@pytest.fixture
def store(tmp_path: Path) -> Path:
    place = tmp_path / "store.sqlite"
    fill(place)
    return place


def test_store_that_another_version_upgraded_makes_it_unready_and_not_dead(
    tmp_path: Path, store: Path
) -> None:
    with Dashboard(tmp_path, store=str(store)) as dashboard:
        before = requests.get(f"{dashboard.url}/healthz", timeout=LIMIT_S)
        with engine_of(store).begin() as connection:
            connection.execute(sa.text("UPDATE perftrend_version SET version_num = '9999'"))
        after = requests.get(f"{dashboard.url}/healthz", timeout=LIMIT_S)
        alive = requests.get(f"{dashboard.url}/livez", timeout=LIMIT_S)

    assert (200, []) == (before.status_code, before.json()["problems"])
    problem = "the database has another version than the dashboard; start the dashboard of that version"
    assert (503, [problem]) == (after.status_code, after.json()["problems"])
    assert (200, "alive\n") == (alive.status_code, alive.text)
