"""The endpoints for monitoring."""

from __future__ import annotations

import shutil
from datetime import datetime
from types import SimpleNamespace

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard import metrics
from tests.unit.dashboard.conftest import Filled


def test_dashboard_with_its_database_is_healthy(client: TestClient) -> None:
    answer = client.get("/healthz")

    assert (200, {"healthy": True, "problems": []}) == (answer.status_code, answer.json())


def test_full_disk_is_told(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=3 * 2**20))

    answer = client.get("/healthz")

    said = "the disk of the database is full (3 MiB are free); nothing can be saved"
    assert (503, {"healthy": False, "problems": [said]}) == (answer.status_code, answer.json())


def test_silence_of_a_testbed_can_be_seen(
    client: TestClient, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = client.get("/runs?format=json&last=1").json()["testbeds"][0]["runs"][0]["finished"]
    ended = datetime.fromisoformat(newest).timestamp()
    monkeypatch.setattr(metrics, "now_s", lambda: ended + 3600)

    told = client.get("/metrics")

    assert told.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert 'perftrend_newest_run_age_seconds{testbed="2n-clx"} 3600.0' in told.text
    assert 'perftrend_newest_run_age_seconds{testbed="3n-skx"} 3600.0' in told.text
