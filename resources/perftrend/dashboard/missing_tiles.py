"""Background task that builds missing tiles; until then, pages read the results instead."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

from perftrend.dashboard.background import run_in_background
from perftrend.dashboard.context import AppContext

LOG = logging.getLogger(__name__)

LOOK_S = 60.0
"""Interval between checks for ingested results without tiles."""
_LOG_INTERVAL_S = 10.0


class _EndedError(Exception):
    """The dashboard stops while tiles are built; finished tiles remain stored."""


def tile_worker(site: AppContext) -> AbstractContextManager[None]:
    """Return the task that builds missing tiles at startup and whenever tiles are missing again."""
    return run_in_background(site, make_missing_tiles)


def make_missing_tiles(site: AppContext, ending: threading.Event) -> None:
    """Build missing tiles whenever there are any, until the event is set."""
    while not ending.is_set():
        if _are_missing(site):
            LOG.info("building tiles")
            try:
                site.store.tiles.remake(_TileProgress(ending, site.traffic.give_way_callback()))
            except _EndedError:
                return
            LOG.info("all tiles are built")
        ending.wait(LOOK_S)


def _are_missing(site: AppContext) -> bool:
    tiles = site.store.tiles
    axes = [tiles.axis(testbed) for testbed in tiles.testbeds()]
    return any(axis.whole < len(axis.columns) for axis in axes)


class _TileProgress:
    """Callback that logs the progress, yields to requests, and aborts when the dashboard stops."""

    def __init__(self, ending: threading.Event, give_way: Callable[[], None]) -> None:
        self._ending = ending
        self._give_way = give_way
        self._logged_at = time.monotonic()

    def __call__(self, testbed: str, whole: int, columns: int) -> None:
        self._give_way()
        if self._ending.is_set():
            raise _EndedError
        if time.monotonic() - self._logged_at >= _LOG_INTERVAL_S:
            self._logged_at = time.monotonic()
            LOG.info("tiles of %s: %d of %d columns", testbed, whole, columns)
