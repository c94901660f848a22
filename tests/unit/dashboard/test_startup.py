"""What the first reader would wait for is done beforehand."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from perftrend.analysis import mdl
from perftrend.dashboard import AppContext, app, warm_up
from tests.unit.dashboard.conftest import Filled


@pytest.fixture(autouse=True)
def _thawed() -> Iterator[None]:
    yield
    gc.unfreeze()


def test_traces_are_read_before_anybody_asks(
    site: AppContext, filled: Filled, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm_up(site)
    read: list[int] = []
    traces = site.store.tiles.traces

    def noting(*, after: int = 0) -> object:
        read.append(after)
        return traces(after=after)

    monkeypatch.setattr(site.store.tiles, "traces", noting)
    known = len(site.catalog.now().stored)

    # Only those that came since are asked for.
    assert (18, [known]) == (known, read)
    assert gc.isenabled()


def test_what_was_read_is_out_of_the_collectors_sight(site: AppContext, filled: Filled) -> None:
    warm_up(site)

    assert gc.get_freeze_count() > 0


@pytest.mark.parametrize(("few", "loads"), [(18, 1), (19, 0)])
def test_compiled_search_is_loaded_for_many_traces(
    site: AppContext, filled: Filled, monkeypatch: pytest.MonkeyPatch, few: int, loads: int
) -> None:
    loaded: list[None] = []
    monkeypatch.setattr(mdl, "load", lambda: loaded.append(None))
    monkeypatch.setattr(app, "FEW_TRACES", few)

    warm_up(site)

    assert loads == len(loaded)


def test_empty_store_is_warmed_as_well(site: AppContext) -> None:
    warm_up(site)

    assert gc.get_freeze_count() > 0
