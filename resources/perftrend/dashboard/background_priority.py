"""Priority of requests over background work, by counting the requests in progress.

Only one Python thread computes at a time (GIL). A request that reads much releases the lock often, and each
time waits until a background thread releases it again: a page of 0.2 s took 1.5 s alongside background work
of several seconds. Background work therefore checks between its steps whether requests are in progress.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp, Receive, Scope, Send

_MOST_S = 0.5
"""Maximum wait of background work; under constant load it continues slowly."""
_TURN_S = 0.05
"""Time that background work continues after a wait before it yields again."""


class Traffic:
    """The requests in progress."""

    def __init__(self) -> None:
        self._requests = 0
        self._idle = threading.Event()
        self._idle.set()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count a request while it is in progress; only call it in the thread of the event loop."""
        self._requests += 1
        self._idle.clear()
        try:
            yield
        finally:
            self._requests -= 1
            if not self._requests:
                self._idle.set()

    def give_way_callback(self) -> Callable[[], None]:
        """Return a function for background work to call between its steps; it blocks to yield to requests."""
        turn_ends = 0.0

        def give_way() -> None:
            nonlocal turn_ends
            if not self._idle.is_set() and time.monotonic() >= turn_ends:
                self._idle.wait(_MOST_S)
                turn_ends = time.monotonic() + _TURN_S

        return give_way


class RequestPriority:
    """Middleware that gives requests priority over background work."""

    def __init__(self, app: ASGIApp, *, traffic: Traffic) -> None:
        self._app = app
        self._traffic = traffic

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        with self._traffic.request():
            await self._app(scope, receive, send)
