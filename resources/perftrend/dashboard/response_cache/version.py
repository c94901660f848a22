"""Validity of cached responses, and single flight: one computation for identical concurrent requests.

A commit of this process for a request invalidates all responses immediately, so users see their changes on
the next page. Commits of other processes and of background work become visible within ``behind_s``, since the
database is not queried for changes more often. While the database changes continuously, as during the
ingestion of results, each response is computed at most once in that time.

No response is valid for more than :data:`LONGEST_S`, since pages show the age of data.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from starlette.concurrency import run_in_threadpool

from perftrend.store.connection import Changes

LONGEST_S = 60.0
_Result = TypeVar("_Result")


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


class SingleFlight(Generic[_Result]):
    """The running computations by key; for one event loop."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Task[_Result]] = {}

    async def join(self, key: Hashable, start: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
        """Return the result of the running computation of a key; start one if there is none.

        The computation continues if a caller is cancelled. Its exception is raised in all callers.
        """
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(start())
            task.add_done_callback(lambda done: self._finish(key, done))
        return await asyncio.shield(task)

    def _finish(self, key: Hashable, task: asyncio.Task[_Result]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            # Retrieve the exception: asyncio would log it if all callers were cancelled.
            task.exception()
