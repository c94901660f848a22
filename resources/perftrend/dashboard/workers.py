"""The background workers of a process: whether they are alive and make progress, and yield to requests.

A worker checks about every second whether it has to end. The event that it checks therefore shows its
progress, without any other code in the worker.

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
from typing_extensions import override

STUCK_S = 1800.0
"""Time without progress after which a worker counts as stuck.

The longest step without a check is the evaluation of one testbed, which takes minutes for 100,000 traces.
"""
_MOST_S = 0.5
"""Maximum wait of background work; under constant load it continues slowly."""
_TURN_S = 0.05
"""Time that background work continues after a wait before it yields again."""


class EndEvent(threading.Event):
    """Tells a worker to end, and notes when the worker last checked it or waited for it."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._seen_at = clock()

    @property
    def idle_s(self) -> float:
        """Time since the worker checked the event, in seconds; not positive while the worker waits."""
        return self._clock() - self._seen_at

    @override
    def is_set(self) -> bool:
        self._seen_at = self._clock()
        return super().is_set()

    @override
    def wait(self, timeout: float | None = None) -> bool:
        self._seen_at = self._clock() + (timeout or 0.0)
        try:
            return super().wait(timeout)
        finally:
            self._seen_at = self._clock()


class Workers:
    """The running workers of a process, by name; thread-safe."""

    def __init__(self) -> None:
        self._running: dict[str, tuple[threading.Thread, EndEvent]] = {}

    @contextmanager
    def run(self, name: str, work: Callable[[], None], ending: EndEvent) -> Iterator[None]:
        """Run a worker in a thread while the block runs; then let it end, and wait for it.

        :param work: a worker that returns before the event is set has nothing to do, and is healthy.
        """

        def run_to_end() -> None:
            work()
            self._running.pop(name, None)

        thread = threading.Thread(target=run_to_end, name=name)
        self._running[name] = thread, ending
        thread.start()
        try:
            yield
        finally:
            ending.set()
            thread.join()
            self._running.pop(name, None)

    def problems(self) -> dict[str, str]:
        """Return what is wrong with each running worker, by name; empty if nothing is."""
        return {name: _problem(*worker) for name, worker in list(self._running.items())}


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


def _problem(thread: threading.Thread, ending: EndEvent) -> str:
    if not thread.is_alive():
        return "has ended"
    if ending.idle_s > STUCK_S:
        return f"has made no progress for {ending.idle_s / 60:.0f} minutes"
    return ""
