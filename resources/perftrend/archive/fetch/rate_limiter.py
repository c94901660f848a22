"""Rate limit of requests: a maximum per second, and none while a server has requested a pause."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from collections.abc import Callable

from perftrend.errors import ServiceError


class RateLimiter:
    """Spaces the requests of all threads to each host evenly.

    :param requests_per_second: to one host.
    :param stop: if it is set, waiting ends with ServiceError.
    :param clock: a monotonic clock, in seconds.
    """

    def __init__(
        self,
        requests_per_second: float,
        stop: threading.Event | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.stop = stop or threading.Event()
        self._interval_s = 1.0 / requests_per_second
        self._clock = clock
        self._next: dict[str, float] = defaultdict(float)
        self._lock = threading.Lock()

    def wait(self, host: str) -> None:
        """Wait until the next request may be sent."""
        with self._lock:
            now = self._clock()
            turn = max(now, self._next[host])
            self._next[host] = turn + self._interval_s
        self.sleep(turn - now)

    def hold(self, host: str, seconds: float) -> None:
        """Delay all requests to a host by this time, as requested by the server."""
        with self._lock:
            self._next[host] = max(self._next[host], self._clock() + seconds)

    def sleep(self, seconds: float) -> None:
        """Wait, or raise ServiceError if ``stop`` is set."""
        if self.stop.wait(seconds) if seconds > 0 else self.stop.is_set():
            raise ServiceError("fetching was interrupted; run again to continue")
