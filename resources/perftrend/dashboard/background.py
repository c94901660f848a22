"""Background tasks: threads that start and stop with the dashboard.

The task in this module builds missing tiles; until then, pages read the results instead. The other tasks
belong to pages.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TypeAlias

from perftrend.dashboard.context import AppContext
from perftrend.dashboard.workers import EndEvent
from perftrend.errors import PerftrendError, explain

LOG = logging.getLogger(__name__)

Work: TypeAlias = Callable[[AppContext], AbstractContextManager[object]]
"""Returns a context manager: entering it starts the task, and the task has ended when it is left."""

RETRY_S = 60.0
LOOK_S = 60.0
"""Interval between checks for ingested results without tiles."""
_LOG_INTERVAL_S = 10.0


def defect(error: Exception) -> str:
    """Return the message to show to users for an unexpected error; the log contains the details."""
    return f"a defect, {type(error).__name__}: {explain(error)}"


def run_in_background(
    site: AppContext, work: Callable[[AppContext, threading.Event], None]
) -> AbstractContextManager[None]:
    """Run a task in a thread while the block runs.

    :param work: returns when it is done or when the event is set, which it checks about every second. If it
        raises an exception, for example because the store is unavailable, it is called again after
        :data:`RETRY_S`.
    """
    ending = EndEvent()
    return site.workers.run(work.__name__, lambda: _run_with_retries(site, work, ending), ending)


def _run_with_retries(
    site: AppContext, work: Callable[[AppContext, threading.Event], None], ending: threading.Event
) -> None:
    while not ending.is_set():
        try:
            with site.store.changes.suspend_commit_count():
                work(site, ending)
        except PerftrendError as error:
            LOG.error("%s: %s", work.__name__, error)
        except Exception as error:
            # A defect must not stop the task until the dashboard is restarted.
            LOG.exception("%s: %s: %s", work.__name__, type(error).__name__, error)
        else:
            return
        ending.wait(RETRY_S)


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


class _EndedError(Exception):
    """The dashboard stops while tiles are built; finished tiles remain stored."""


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
