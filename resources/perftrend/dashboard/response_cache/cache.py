"""The cache of responses: its middleware, how long responses are valid, and how they are sent to each user.

The cache drops the least recently used (LRU) responses. Identical concurrent requests share one computation
(single flight).

A commit of this process for a request invalidates all responses immediately, so users see their changes on
the next page. Commits of other processes and of background work become visible within ``max_age_s``, since
the database is not queried for changes more often. While the database changes continuously, as during the
ingestion of results, each response is computed at most once in that time.

No response is valid for more than :data:`LONGEST_S`, since pages show the age of data.

Bodies consist of parts, and each part is compressed once: after a full flush, a part does not refer to data
before it, so compressed parts can be joined in any order. Only the checksum at the end covers the whole body.

Source: RFC 1952, "GZIP file format specification"; zlib's manual, ``Z_FULL_FLUSH``.
"""

from __future__ import annotations

import asyncio
import struct
import time
import zlib
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Hashable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, Generic, Self, TypeVar

from fastapi import HTTPException
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perftrend.dashboard.auth import Authenticator
from perftrend.dashboard.auth.authentication import Identity
from perftrend.dashboard.auth.authorization import identity_of
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.pages import qualities, wants_json
from perftrend.dashboard.response_cache.cache_key import (
    CacheableRoutes,
    CacheKey,
    PlaceholderUser,
    Reader,
    parts_of,
)
from perftrend.errors import StoreError
from perftrend.store.connection import Changes

LONGEST_S = 60.0
OVERHEAD = 2048
"""Bytes that an entry counts in addition to its content, which limits the number of small entries."""
_SHARE = 8
"""Divisor of the cache size; larger entries are not cached."""
_WORTH_PACKING = 1000
_LEVEL = 4
"""Pages of many lines are at most 3 % larger than at 6, the usual level, and compressed in half the time."""
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_END = b"\x03\x00"
"""An empty block that is the last one."""
_Result = TypeVar("_Result")


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
        self._freshness = VersionTracker(site.store.changes, max_age_s=chosen.cache_max_age_s)
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
        """Return the identity of the user; reading the store needs a thread."""
        if self._authenticator.needs_store(request):
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


@dataclass(frozen=True, slots=True)
class DataVersion:
    """The state of the database that a response was computed from."""

    moment_s: float
    own: int
    state: Hashable


class VersionTracker:
    """The check whether responses are still valid.

    :param max_age_s: maximum delay until a change of the store becomes visible, in seconds.
    :param clock: monotonic clock in seconds.
    """

    def __init__(
        self, changes: Changes, *, max_age_s: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._changes = changes
        self._max_age_s = max_age_s
        self._clock = clock
        self._state: Hashable = None
        self._looked_s = -max_age_s
        self._looks: SingleFlight[None] = SingleFlight()

    async def mark(self) -> DataVersion:
        """Return the current state, for a response whose computation begins now.

        :raises StoreError: if the store cannot be read.
        """
        now, own = self._clock(), self._changes.own
        await self._look(now)
        # The state may be older than the data that is read next; the response is then computed once more.
        return DataVersion(now, own, self._state)

    async def holds(self, mark: DataVersion) -> bool:
        """Return whether a response is still valid.

        :raises StoreError: if the store cannot be read.
        """
        now = self._clock()
        if mark.own != self._changes.own or now - mark.moment_s > LONGEST_S:
            return False
        if now - mark.moment_s < self._max_age_s:
            return True
        await self._look(now)
        return mark.own == self._changes.own and mark.state == self._state

    async def _look(self, now: float) -> None:
        if now - self._looked_s >= self._max_age_s:
            await self._looks.join("look", self._read_state)

    async def _read_state(self) -> None:
        now = self._clock()
        self._state = await run_in_threadpool(self._changes.state)
        self._looked_s = now


class SingleFlight(Generic[_Result]):
    """The running computations by key; for one event loop."""

    def __init__(self) -> None:
        self._under_way: dict[Hashable, asyncio.Task[_Result]] = {}

    async def join(self, key: Hashable, start: Callable[[], Coroutine[Any, Any, _Result]]) -> _Result:
        """Return the result of the running computation of a key; start one if there is none.

        The computation continues if a caller is cancelled. Its exception is raised in all callers.
        """
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.create_task(start())
            task.add_done_callback(lambda done: self._finish(key, done))
        return await asyncio.shield(task)

    def _finish(self, key: Hashable, task: asyncio.Task[_Result]) -> None:
        del self._under_way[key]
        if not task.cancelled():
            # Retrieve the exception: asyncio would log it if all callers were cancelled.
            task.exception()


async def _receive_empty_body() -> Message:
    return {"type": "http.request", "body": b"", "more_body": False}


def _is_cacheable(scope: Scope) -> bool:
    if scope["type"] != "http" or scope["method"] != "GET":
        return False
    # Programs with an API token send few requests, and their token has to be verified each time.
    return all(name != b"authorization" for name, _ in scope["headers"])


def _size(key: CacheKey, entry: CachedResponse) -> int:
    return key.size + entry.answer.size + OVERHEAD


@dataclass(frozen=True, slots=True)
class Answer:
    """A response with placeholders."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    parts: tuple[bytes, ...] = field(repr=False)
    """The body, split; every second part is a placeholder."""
    packed: tuple[bytes, ...] = field(repr=False)
    """Each part compressed separately, or the whole gzip file if there are no placeholders.

    Empty if the body is too short to be worth compressing.
    """
    digest: bytes
    """Hash of the body."""

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Self:
        """Return the response that consists of the ASGI messages of an application."""
        begin, *bodies = messages
        body = b"".join(message.get("body", b"") for message in bodies)
        parts = parts_of(body)
        headers = MutableHeaders(raw=list(begin["headers"]))
        del headers["content-length"]
        headers.add_vary_header("Accept-Encoding")
        return cls(
            status=begin["status"],
            headers=tuple(headers.raw),
            parts=tuple(parts),
            packed=_compress_parts(parts, body) if len(body) >= _WORTH_PACKING else (),
            digest=blake2b(body, digest_size=16).digest(),
        )

    @property
    def is_cacheable(self) -> bool:
        """Whether the response may be sent to later requests."""
        cache_control = Headers(raw=list(self.headers)).get("cache-control", "")
        return self.status == HTTPStatus.OK and "no-store" not in cache_control

    @property
    def may_be_shared(self) -> bool:
        """Whether the response may be sent to identical concurrent requests."""
        return all(name != b"set-cookie" for name, _ in self.headers)

    @property
    def size(self) -> int:
        """Approximate size in memory, in bytes."""
        headers = sum(len(name) + len(value) for name, value in self.headers)
        return headers + sum(map(len, self.parts)) + sum(map(len, self.packed))

    async def send(self, request: Request, person: PlaceholderUser, send: Send) -> None:
        """Send the response to a request."""
        headers = MutableHeaders(raw=list(self.headers))
        body, status = b"", self.status
        if self.is_cacheable:
            headers["ETag"] = self.tag(person)
        if "etag" in headers and _has(request, headers["etag"]):
            status = HTTPStatus.NOT_MODIFIED
            # The other headers are sent, since the browser updates its stored ones from them.
            del headers["content-type"]
        else:
            body = self._body(person, headers, in_gzip=_accepts_gzip(request))
            headers["Content-Length"] = str(len(body))
        await send({"type": "http.response.start", "status": int(status), "headers": headers.raw})
        await send({"type": "http.response.body", "body": body})

    def tag(self, person: PlaceholderUser) -> str:
        """Return the ETag; it differs between users if the response has placeholders."""
        hashed = blake2b(self.digest, digest_size=12)
        if len(self.parts) > 1:
            hashed.update(person.fingerprint())
        # Weak: it does not depend on the content coding, and the token of a form has another text each time.
        return f'W/"{hashed.hexdigest()}"'

    def _body(self, person: PlaceholderUser, headers: MutableHeaders, *, in_gzip: bool) -> bytes:
        """Return the body to send, and set Content-Encoding in the headers."""
        if in_gzip and self.packed:
            headers["Content-Encoding"] = "gzip"
        if len(self.parts) == 1:
            return (self.packed if in_gzip and self.packed else self.parts)[0]
        filled = person.replacements()
        body = b"".join(filled.get(part, part) for part in self.parts)
        if not (in_gzip and self.packed):
            return body
        ready = {blank: compress_part(text) for blank, text in filled.items()}
        return assemble_gzip(
            [ready.get(part, pack) for part, pack in zip(self.parts, self.packed, strict=True)], body
        )


def _compress_parts(parts: Sequence[bytes], body: bytes) -> tuple[bytes, ...]:
    if len(parts) == 1:
        return (assemble_gzip([compress_part(body)], body),)
    return tuple(b"" if number % 2 else compress_part(part) for number, part in enumerate(parts))


def _accepts_gzip(request: Request) -> bool:
    return qualities(request.headers.get("accept-encoding", "")).get("gzip", 0.0) > 0


def _has(request: Request, tag: str) -> bool:
    """Return whether If-None-Match of a request contains an ETag."""
    if_none_match = request.headers.get("if-none-match", "")
    wanted = tag.removeprefix("W/")
    return any(each.strip().removeprefix("W/") in (wanted, "*") for each in if_none_match.split(","))


def compress_part(part: bytes) -> bytes:
    """Compress a part."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(part) + packer.flush(zlib.Z_FULL_FLUSH)


def assemble_gzip(parts: Sequence[bytes], body: bytes) -> bytes:
    """Return a gzip file of compressed parts.

    :param parts: the compressed parts of the body.
    :param body: the uncompressed body, for the checksum and the length.
    """
    checked = struct.pack("<LL", zlib.crc32(body), len(body) & 0xFFFFFFFF)
    return b"".join((_HEADER, *parts, _END, checked))
