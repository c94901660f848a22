"""Health and metrics of the dashboard as a process of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import requests
import sqlalchemy as sa

from perftrend.listener.health import Metrics as ListenerMetrics
from perftrend.store.connection import engine_of
from tests.integration.servers.dashboard import CHECKOUT, Dashboard, fill

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


@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
def test_every_metric_is_documented(tmp_path: Path, database: str, request: pytest.FixtureRequest) -> None:
    place: str | Path = tmp_path / "store.sqlite"
    if database == "postgresql":
        place = request.getfixturevalue("postgresql_server").database()
    fill(place)
    with Dashboard(tmp_path, settings={}, store=str(place)) as dashboard:
        text = requests.get(f"{dashboard.url}/metrics", timeout=LIMIT_S).text
    text += ListenerMetrics().text().decode()

    names = set(re.findall(r"^# TYPE (perftrend_\w+)", text, re.MULTILINE))
    names = {name for name in names if not name.endswith("_created")}
    documented = set(re.findall(r"``(perftrend_\w+)", (CHECKOUT / "docs/operations.rst").read_text()))
    assert documented == names
    assert 'perftrend_testbed_seconds_total{testbed="2n-clx"}' in text
    assert 'perftrend_dashboard_worker_healthy{worker="clustering"} 1.0' in text
    assert 'perftrend_queue_length{queue="outbox"} 0.0' in text
    assert 'perftrend_store_connections{state="in_use"}' in text
    assert "process_resident_memory_bytes" in text
