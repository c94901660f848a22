"""Requests go before what is done beside them.

Python lets one thread compute at a time. A page that reads much gives that up again and again, and each time
waits until a thread that computes beside it gives it back: by seconds of work beside it, a page of 0.2 s
took 1.5 s. So such work asks between its steps whether somebody waits for an answer.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_MOST_S = 0.5
"""For so long at a time work waits: it goes on, slowly, where there is always somebody."""
_TURN_S = 0.05
"""For so long it then works all the same."""


class Traffic:
    """Whether somebody waits for an answer."""

    def __init__(self) -> None:
        self._requests = 0
        self._nobody_waits = threading.Event()
        self._nobody_waits.set()

    @contextmanager
    def request(self) -> Iterator[None]:
        """Count a request until it is answered; in the thread of the event loop alone."""
        self._requests += 1
        self._nobody_waits.clear()
        try:
            yield
        finally:
            self._requests -= 1
            if not self._requests:
                self._nobody_waits.set()

    def giving_way(self) -> Callable[[], None]:
        """Return what a piece of work is to call between its steps: it returns when the next may be done."""
        turn_ends = 0.0

        def give_way() -> None:
            nonlocal turn_ends
            if not self._nobody_waits.is_set() and time.monotonic() >= turn_ends:
                self._nobody_waits.wait(_MOST_S)
                turn_ends = time.monotonic() + _TURN_S

        return give_way
