"""Single flight: one computation for identical concurrent requests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

_Result = TypeVar("_Result")


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
