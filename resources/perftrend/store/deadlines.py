"""Deadlines for database access.

A job can wait a minute for the database: a night's results are worth it. A user who waits for a page cannot.
So a request sets a deadline, and all database access in it, at any depth, has only the time that is left::

    with patience(30.0):
        site.store.runs(testbed)

The deadline is part of the context (:mod:`contextvars`). It applies to the threads that serve the request,
but not to background threads.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LEAST_S = 0.5
"""Minimum time, even after the deadline: a working database needs less."""

_END: ContextVar[float | None] = ContextVar("end", default=None)


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Set a deadline for all waits for the database in the block."""
    token = _END.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _END.reset(token)


def remaining_s() -> float | None:
    """Return how long the database may take from now on, at least :data:`LEAST_S`; None if unlimited."""
    end = _END.get()
    return None if end is None else max(end - time.monotonic(), LEAST_S)
