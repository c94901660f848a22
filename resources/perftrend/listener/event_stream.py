"""Receiving of Gerrit's events: wakes the listener at an event, and reconnects after a failure.

An event only names the change to read. If events may have been missed, because the connection was not yet
established, was broken, or because Gerrit dropped events, the listener polls all changes.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Container
from contextlib import suppress

from typing_extensions import override

from perftrend.clients.gerrit import ChangeUpdated, CommentAdded, EventsDropped, EventStream
from perftrend.errors import PerftrendError, ServiceError

LOG = logging.getLogger(__name__)

_IDLE_S = 5.0
"""Time after which a connection counts as established, since ssh does not report when it is."""
_LONGEST_END_S = 20.0
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 1.0, 60.0


class Wakes:
    """The changes to read next; thread-safe."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._changes: set[int] = set()
        self._everywhere = False
        self._is_woken = False

    def wake(self, change: int | None = None, *, everywhere: bool = False) -> None:
        """Wake the waiting thread, to read a change, to poll all changes, or to check its own state."""
        with self._condition:
            if change is not None:
                self._changes.add(change)
            self._everywhere |= everywhere
            self._is_woken = True
            self._condition.notify_all()

    def drain(self) -> tuple[list[int], bool]:
        """Return the changes to read, and whether to poll all changes; reset both."""
        with self._condition:
            changes, everywhere = sorted(self._changes), self._everywhere
            self._changes.clear()
            self._everywhere = self._is_woken = False
        return changes, everywhere

    def wait(self, timeout_s: float) -> None:
        """Wait until :meth:`wake` is called, at most for the timeout."""
        with self._condition:
            self._condition.wait_for(lambda: self._is_woken, timeout_s)


class EventReceiver(threading.Thread):
    """A thread that receives events until it is stopped.

    :param listen: opens a stream of events.
    :param wakes: is woken for each comment, new patch set and abandoned change.
    :param projects: projects whose events are used; None: all.
    """

    def __init__(
        self,
        listen: Callable[[], EventStream],
        wakes: Wakes,
        *,
        projects: Container[str] | None,
        pause_s: float = _FIRST_PAUSE_S,
        idle_s: float = _IDLE_S,
    ) -> None:
        super().__init__(name="watch", daemon=True)
        self._listen, self._wakes, self._projects = listen, wakes, projects
        self._first_pause_s = self._pause_s = pause_s
        self._idle_s = idle_s
        self._stopping = threading.Event()
        self._stream: EventStream | None = None
        self.is_connected = False
        self.connected_at = time.monotonic()
        """Last time at which it was connected, or the time of the first attempt, by the monotonic clock."""
        self.problem = ""
        """Why it is not connected; empty if unknown or connected."""
        self.failure: PerftrendError | None = None
        """The error because of which it can never connect with these settings."""

    @override
    def run(self) -> None:
        while not self._stopping.is_set():
            try:
                self._follow()
            except ServiceError as error:
                self._mark_disconnected(str(error))
            except PerftrendError as error:
                self.failure = error
                self._wakes.wake()
                return
            self._stopping.wait(self._pause_s * random.uniform(0.5, 1.0))  # noqa: S311 - only jitter
            self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)

    def stop(self) -> None:
        """Stop the thread; if it does not stop in time, it ends with the process as a daemon thread."""
        self._stopping.set()
        if stream := self._stream:
            stream.close()
        with suppress(RuntimeError):
            self.join(_LONGEST_END_S)

    def _follow(self) -> None:
        with self._listen() as stream:
            self._stream = stream
            if self._stopping.is_set():
                return
            for event in stream.events(idle_s=self._idle_s):
                # A stream that is just being opened may not notice that it was closed.
                if self._stopping.is_set():
                    return
                self._mark_connected()
                if isinstance(event, EventsDropped):
                    LOG.debug("event: Gerrit has dropped events")
                    self._wakes.wake(everywhere=True)
                elif isinstance(event, CommentAdded | ChangeUpdated):
                    kind = type(event).__name__
                    LOG.debug("event: %s, change %d of the project %s", kind, event.change, event.project)
                    if self._is_ours(event.project):
                        self._wakes.wake(event.change)

    def _is_ours(self, project: str) -> bool:
        return self._projects is None or project in self._projects

    def _mark_connected(self) -> None:
        self.connected_at = time.monotonic()
        if not self.is_connected:
            LOG.debug("events: connected")
            self.is_connected, self.problem, self._pause_s = True, "", self._first_pause_s
            self._wakes.wake(everywhere=True)

    def _mark_disconnected(self, problem: str) -> None:
        if problem != self.problem:
            LOG.warning("%s", problem)
        self.is_connected, self.problem = False, problem
