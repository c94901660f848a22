"""How long an answer is right.

What this process commits for somebody counts at once: who has changed something sees it with the next page.
What other processes commit, and work beside the requests, counts after ``behind_s`` at most, since the
database is asked no more often whether anything has changed. And while it changes all the time, as it does
when nights are stored, each answer is made at most once in that time.

Nothing is kept for more than a minute, whatever happens: pages tell how old things are.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from starlette.concurrency import run_in_threadpool

from perftrend.dashboard.kept.flights import Flights
from perftrend.store.changes import Changes

LONGEST_S = 60.0


@dataclass(frozen=True, slots=True)
class Mark:
    """The state that an answer was made of."""

    moment_s: float
    own: int
    state: Hashable


class Freshness:
    """Tells which answers are still right.

    :param behind_s: how far behind the store an answer may be.
    :param clock: seconds that never go back.
    """

    def __init__(
        self, changes: Changes, *, behind_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._changes = changes
        self._behind_s = behind_s
        self._clock = clock
        self._state: Hashable = None
        self._looked_s = -behind_s
        self._looks: Flights[None] = Flights()

    async def mark(self) -> Mark:
        """Return the state that an answer is made of which is begun now.

        :raises StoreError: if the store cannot tell.
        """
        now, own = self._clock(), self._changes.own
        await self._look(now)
        # The state may be older than what is read now. Then the answer is only made once more than needed.
        return Mark(now, own, self._state)

    async def holds(self, mark: Mark) -> bool:
        """Tell whether an answer is still right.

        :raises StoreError: if the store cannot tell.
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
            await self._looks.join("look", self._looked)

    async def _looked(self) -> None:
        now = self._clock()
        self._state = await run_in_threadpool(self._changes.state)
        self._looked_s = now
