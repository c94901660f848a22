"""Missing tiles are rebuilt in the background."""

from __future__ import annotations

import logging
import threading
import time

import pytest
from starlette.testclient import TestClient

from perftrend.dashboard import AppContext, background, make_app
from perftrend.errors import StoreError
from perftrend.store import Store
from tests.unit.dashboard.conftest import Filled

LIMIT_S = 60


@pytest.fixture
def without_tiles(filled: Filled) -> Store:
    filled.store.tiles.distrust("2n-clx", 0)
    return filled.store


def whole(store: Store) -> bool:
    axis = store.tiles.axis("2n-clx")
    return axis.whole == len(axis.columns)


def test_dashboard_makes_them_and_serves_meanwhile(site: AppContext, without_tiles: Store) -> None:
    assert not whole(without_tiles)
    works = [background.tile_worker]
    with TestClient(make_app(site, works=works), base_url="http://localhost") as client:
        assert 200 == client.get("/runs").status_code
        end = time.monotonic() + LIMIT_S
        while not whole(without_tiles) and time.monotonic() < end:
            time.sleep(0.01)

    assert whole(without_tiles)


def test_dashboard_that_ends_leaves_the_rest(site: AppContext, without_tiles: Store) -> None:
    ending = threading.Event()
    ending.set()

    background.make_missing_tiles(site, ending)

    assert not whole(without_tiles)


def test_store_that_is_away_is_asked_again(
    site: AppContext, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "RETRY_S", 0.0)
    done = threading.Event()
    calls = []

    def work(_: AppContext, __: threading.Event) -> None:
        calls.append(1)
        if len(calls) == 1:
            raise StoreError("store x: is away")
        done.set()

    with caplog.at_level(logging.ERROR), background.run_in_background(site, work):
        assert done.wait(LIMIT_S)

    assert ["work: store x: is away"] == [record.getMessage() for record in caplog.records]
