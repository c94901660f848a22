"""Validity of cached responses.

A commit of this process for a request invalidates all responses immediately, so users see their changes on
the next page. Commits of other processes and of background work become visible within ``behind_s``, since the
database is not queried for changes more often. While the database changes continuously, as during the
ingestion of results, each response is computed at most once in that time.

No response is valid for more than :data:`LONGEST_S`, since pages show the age of data.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool

from perftrend.dashboard.response_cache.single_flight import SingleFlight
from perftrend.store.connection import Changes

LONGEST_S = 60.0


@dataclass(frozen=True, slots=True)
class DataVersion:
    """The state of the database that a response was computed from."""

    moment_s: float
    own: int
    state: Hashable


class VersionTracker:
    """The check whether responses are still valid.

    :param behind_s: maximum delay until a change of the store becomes visible, in seconds.
    :param clock: monotonic clock in seconds.
    """

    def __init__(
        self, changes: Changes, *, behind_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._changes = changes
        self._behind_s = behind_s
        self._clock = clock
        self._state: Hashable = None
        self._looked_s = -behind_s
        self._looks: SingleFlight[None] = SingleFlight()

    async def mark(self) -> DataVersion:
        """Return the current state, for a response whose computation begins now.

        :raises StoreError: if the store cannot be read.
        """
        now, own = self._clock(), self._changes.own
        await self._look(now)
        # The state may be older than the data that is read next; the response is then computed once more.
        return DataVersion(now, own, self._state)

    async def holds(self, mark: DataVersion) -> bool:
        """Return whether a response is still valid.

        :raises StoreError: if the store cannot be read.
        """
        now = self._clock()
        if mark.own != self._changes.own or now - mark.moment_s > LONGEST_S:
            return False
        if now - mark.moment_s < self._behind_s:
            return True
        await self._look(now)
        return mark.own == self._changes.own and mark.state == self._state

    async def _look(self, now: float) -> None:
        if now - self._looked_s >= self._behind_s:
            await self._looks.join("look", self._read_state)

    async def _read_state(self) -> None:
        now = self._clock()
        self._state = await run_in_threadpool(self._changes.state)
        self._looked_s = now
