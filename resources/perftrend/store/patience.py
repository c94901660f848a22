"""How long a caller waits for the database.

Jobs are patient: a night's results are worth a minute. Somebody who looks at a page is not. So a request says
how much time it has, and whatever asks the store in it, however deep, has no more than what is left of that::

    with patience(30.0):
        site.store.runs(testbed)

It goes with the context (:mod:`contextvars`): into the threads that serve a request, and not into those that
work beside it.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

LEAST_S = 0.5
"""Who has spent the time on something else still gets this much: a database that is well needs less."""

_END: ContextVar[float | None] = ContextVar("end", default=None)


@contextmanager
def patience(seconds: float) -> Iterator[None]:
    """Let everything in the block wait no longer for the database, taken together."""
    token = _END.set(time.monotonic() + seconds)
    try:
        yield
    finally:
        _END.reset(token)


def left_s() -> float | None:
    """Return how long the database may take from now on, at least :data:`LEAST_S`; None: any time."""
    end = _END.get()
    return None if end is None else max(end - time.monotonic(), LEAST_S)
