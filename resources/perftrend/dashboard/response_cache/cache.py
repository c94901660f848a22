"""The middleware that serves cached responses, and the least recently used (LRU) cache that stores them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass

from fastapi import HTTPException
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perftrend.dashboard.auth import Authenticator
from perftrend.dashboard.auth.authentication import Identity
from perftrend.dashboard.auth.authorization import identity_of
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.pages import wants_json
from perftrend.dashboard.response_cache.answers import Answer
from perftrend.dashboard.response_cache.cache_key import CacheableRoutes, CacheKey, PlaceholderUser, Reader
from perftrend.dashboard.response_cache.version import DataVersion, SingleFlight, VersionTracker
from perftrend.errors import StoreError

OVERHEAD = 2048
"""Bytes that an entry counts in addition to its content, which limits the number of small entries."""
_SHARE = 8
"""Divisor of the cache size; larger entries are not cached."""


class ResponseCache:
    """The innermost middleware: all middleware that depends on the client runs before it.

    :param routes: all routes of the application, in the order in which they are tried.
    """

    def __init__(
        self, app: ASGIApp, *, routes: Sequence[BaseRoute], site: AppContext, authenticator: Authenticator
    ) -> None:
        chosen = site.settings.dashboard
        self._app = app
        self._routes = CacheableRoutes(routes)
        self._authenticator = authenticator
        self._memory = LruCache(chosen.response_cache_bytes or 0)
        self._freshness = VersionTracker(site.store.changes, behind_s=chosen.cache_max_age_s)
        self._flights: SingleFlight[Answer] = SingleFlight()
        self._metrics = site.metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        route = self._routes.of(scope["path"]) if _is_cacheable(scope) else None
        if route is None:
            await self._app(scope, receive, send)
            return
        request = Request(scope)
        try:
            identity = await self._identity(request)
            answer = await self._answer(request, identity)
        except (HTTPException, StoreError):
            # The application fails in the same way, and responds with its error page.
            answer = None
        if answer is None:
            await self._app(scope, receive, send)
            return
        scope["route"] = route
        await answer.send(request, PlaceholderUser(identity, self._authenticator), send)

    async def _identity(self, request: Request) -> Identity:
        """Return the identity of the user; only sessions need the store, and therefore a thread."""
        if "cookie" in request.headers:
            return await run_in_threadpool(identity_of, request)
        return identity_of(request)

    async def _answer(self, request: Request, identity: Identity) -> Answer | None:
        """Return the response to a request; None if the application should handle it itself."""
        if not (identity.user.signed_in or self._authenticator.is_public):
            return None
        scope = request.scope
        reader = Reader.of(request, identity)
        key = CacheKey(scope["path"], scope["query_string"], wants_json(request), reader)
        found = self._memory.find(key)
        if found is not None and await self._freshness.holds(found.mark):
            self._metrics.cacheable_responses.labels("memory").inc()
            return found.answer
        mark = await self._freshness.mark()

        answer = await self._flights.join((key, mark.own), lambda: self._compute(key, mark, scope))
        return answer if answer.may_be_shared else None

    async def _compute(self, key: CacheKey, mark: DataVersion, came: Scope) -> Answer:
        messages: list[Message] = []

        async def collect(message: Message) -> None:
            messages.append(message)

        await self._app(key.scope(came), _receive_empty_body, collect)
        answer = await run_in_threadpool(Answer.of, messages)
        self._metrics.cacheable_responses.labels("made").inc()
        if answer.is_cacheable and answer.may_be_shared:
            self._memory.put(key, CachedResponse(answer, mark))
            self._metrics.cached_bytes.set(self._memory.bytes)
        return answer


@dataclass(frozen=True, slots=True)
class CachedResponse:
    """A response and the state that it was computed from."""

    answer: Answer
    mark: DataVersion


class LruCache:
    """Responses by cache key, limited by their size in bytes; for one event loop.

    :param most_bytes: maximum size of all entries.
    """

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes = most_bytes
        self._entries: OrderedDict[CacheKey, CachedResponse] = OrderedDict()
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: CacheKey) -> CachedResponse | None:
        """Return the entry of a key, or None."""
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
        return found

    def put(self, key: CacheKey, entry: CachedResponse) -> None:
        """Store an entry in place of an older one of the same key, unless it is too large."""
        self.forget(key)
        size = _size(key, entry)
        if size > self._most_bytes // _SHARE:
            return
        self._entries[key] = entry
        self.bytes += size
        while self.bytes > self._most_bytes:
            oldest, dropped = self._entries.popitem(last=False)
            self.bytes -= _size(oldest, dropped)

    def forget(self, key: CacheKey) -> None:
        """Remove the entry of a key."""
        dropped = self._entries.pop(key, None)
        if dropped is not None:
            self.bytes -= _size(key, dropped)


async def _receive_empty_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def _is_cacheable(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    # Programs with an API token send few requests, and their token has to be verified each time.
    return all(name != b"authorization" for name, _ in scope["headers"])


def _size(key: CacheKey, entry: CachedResponse) -> int:
    return key.size + entry.answer.size + OVERHEAD
