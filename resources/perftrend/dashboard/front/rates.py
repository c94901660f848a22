"""Limits how often a client may ask: a bucket of tokens each, which a request takes one of.

A bucket holds ``burst`` tokens and fills at a steady rate. Buckets that are full again are forgotten, so that
clients who come once cost nothing; there are never more than a fixed number of them.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from http import HTTPStatus

from starlette.types import ASGIApp, Receive, Scope, Send

from perftrend.dashboard.front.answers import refused
from perftrend.dashboard.front.clients import bucket_of

MOST_BUCKETS = 10_000
_FREE = ("/static/", "/healthz")
"""What costs nothing to answer, and belongs to other requests."""


class Buckets:
    """The buckets of all clients.

    :param per_second: tokens that a bucket gets.
    :param burst: tokens that it holds.
    :param clock: seconds that never go back.
    """

    def __init__(self, per_second: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._clock = clock
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tokens)

    def wait_s(self, client: str) -> float:
        """Take a token of a client's bucket; return 0, or in how many seconds there will be one."""
        now = self._clock()
        tokens, then = self._tokens.pop(client, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._per_second)
        has_one = tokens >= 1.0
        self._tokens[client] = (tokens - 1.0 if has_one else tokens, now)
        self._forget(now)
        return 0.0 if has_one else (1.0 - tokens) / self._per_second

    def _forget(self, now: float) -> None:
        """Forget the buckets that are full again, of those not used for the longest time."""
        full_after_s = self._burst / self._per_second
        while self._tokens:
            _, then = next(iter(self._tokens.values()))
            if now - then < full_after_s and len(self._tokens) <= MOST_BUCKETS:
                break
            self._tokens.popitem(last=False)


class Limited:
    """Refuses the requests of clients whose bucket is empty."""

    def __init__(self, app: ASGIApp, *, buckets: Buckets) -> None:
        self._app = app
        self._buckets = buckets

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        if scope["path"].startswith(_FREE):
            await self._app(scope, receive, send)
            return
        wait_s = self._buckets.wait_s(bucket_of(scope["perftrend.client"]))
        if not wait_s:
            await self._app(scope, receive, send)
            return
        seconds = math.ceil(wait_s)
        message = f"too many requests; try again in {seconds} s"
        answer = refused(scope, HTTPStatus.TOO_MANY_REQUESTS, message, headers={"Retry-After": str(seconds)})
        await answer(scope, receive, send)
