"""One computation for all who ask for the same at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Hashable
from typing import Any, Generic, TypeVar

_Result = TypeVar("_Result")


class Flights(Generic[_Result]):
    """What is under way, by what it is; for one event loop."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Task[_Result]] = {}

    async def join(self, key: Hashable, start: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
        """Return the result of what is under way, or of what is started now.

        It goes on when somebody who waits for it goes away. What it raises, it raises for all.
        """
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(start())
            task.add_done_callback(lambda done: self._landed(key, done))
        return await asyncio.shield(task)

    def _landed(self, key: Hashable, task: asyncio.Task[_Result]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            # Whoever waited has it; that nobody did is no fault.
            task.exception()
