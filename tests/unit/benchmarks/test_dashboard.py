"""The store that the benchmark of the dashboard fills, and the pages that it requests."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from starlette.testclient import TestClient

from benchmarks.dashboard.filling import Nights, look_for_changes
from benchmarks.dashboard.pages import PAGES
from benchmarks.dashboard.readers import READ
from benchmarks.tiles import TESTBED
from perftrend.dashboard import AppContext, make_app
from perftrend.settings import Settings
from perftrend.store import Store

TRACES, COMMITS = 720, 128


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with Store.open(tmp_path_factory.mktemp("store") / "store.sqlite") as opened:
        Nights(opened, TRACES).fill(COMMITS)
        look_for_changes(opened)
        yield opened


def test_every_commit_has_a_value_of_every_trace(store: Store) -> None:
    axis = store.tiles.axis(TESTBED)
    ids = [trace.trace_id for trace in store.tiles.traces()]
    values = store.tiles.values(axis, ids, range(COMMITS))

    assert (TRACES, COMMITS, COMMITS) == (len(ids), len(axis.columns), axis.whole)
    assert np.isfinite(values).all()


def test_some_traces_have_a_step(store: Store) -> None:
    axis = store.tiles.axis(TESTBED)
    values = store.tiles.values(axis, [50, 51], range(COMMITS - 2))
    ratios = values[:, -15:].mean(axis=1) / values[:, :-25].mean(axis=1)

    assert pytest.approx([0.94, 1.0], abs=0.01) == ratios.tolist()


def test_all_pages_that_are_measured_are_there(store: Store) -> None:
    client = TestClient(
        make_app(AppContext.of(Settings.load(environment={}), store)), base_url="http://localhost"
    )

    assert dict.fromkeys(PAGES, 200) == {name: client.get(path).status_code for name, path in PAGES.items()}
    assert set(READ) <= set(PAGES)
