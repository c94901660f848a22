"""Limits of requests: their rate for each client, and the length of their bodies.

The rate is limited by a token bucket for each client, from which each request consumes one token. A bucket
holds ``burst`` tokens and is refilled at a constant rate. Full buckets are removed, so clients that send few
requests use no memory; the number of buckets is limited to :data:`MOST_BUCKETS`.

A client is known by its address. A proxy appends the address of its own client to ``X-Forwarded-For``. A
client can forge all entries before that one, so the list is read from its end, while the entries are trusted
proxies.
"""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network

from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perftrend.errors import SettingsError

_UNKNOWN = "unknown"
_WIDEST_PREFIX = {4: 8, 6: 7}
"""Least length of the prefix of a trusted network, by IP version: that of the widest private networks."""
_SITE_BITS = 64
"""Length of the IPv6 prefix that a customer is assigned; the customer chooses the remaining bits."""

MOST_BUCKETS = 10_000
_FREE = ("/static/", "/healthz", "/livez")
"""Path prefixes that are not limited: static files, which accompany a page, and health checks are cheap."""
_CLOSE = {"Connection": "close"}
"""Closes the connection instead of reading the rest of a rejected body."""


class Clients:
    """The rules by which clients are identified.

    :param proxies: addresses and networks of the trusted proxies.
    :raises SettingsError: if one is not a valid address or network, or a large part of the Internet.
    """

    def __init__(self, proxies: Iterable[str]) -> None:
        try:
            self._proxies = tuple(ip_network(word) for word in proxies)
        except ValueError as error:
            raise SettingsError(
                f"dashboard.proxies: {error}; write addresses or networks such as 10.1.2.3 or 10.1.2.0/24"
            ) from None
        for network in self._proxies:
            if network.prefixlen < _WIDEST_PREFIX[network.version]:
                raise SettingsError(
                    f"dashboard.proxies: {network} would let every client name its own address and user; "
                    "name the addresses of your proxies"
                )

    def of(self, scope: Scope) -> str:
        """Return the address that a request comes from."""
        peer = (scope.get("client") or (_UNKNOWN, 0))[0]
        address = _read(peer)
        if address is None:
            return str(peer)
        if self._proxies:
            named = ",".join(Headers(scope=scope).getlist("x-forwarded-for")).split(",")
            while named and self._is_proxy(address):
                before = _read(named.pop())
                if before is None:
                    break
                address = before
        return str(address)

    def are_behind(self, scope: Scope) -> bool:
        """Return whether a request comes directly from a trusted proxy."""
        address = _read((scope.get("client") or (_UNKNOWN, 0))[0])
        return address is not None and self._is_proxy(address)

    def _is_proxy(self, address: IPv4Address | IPv6Address) -> bool:
        return any(address in network for network in self._proxies)


def bucket_of(client: str) -> str:
    """Return what counts as one client: the /64 network of an IPv6 address, otherwise the client itself."""
    address = _read(client)
    if isinstance(address, IPv6Address):
        return str(ip_network((address, _SITE_BITS), strict=False))
    return client


def is_loopback(client: str) -> bool:
    """Return whether a client is on this machine; False for a Unix socket, which has no address."""
    address = _read(client)
    return address is not None and address.is_loopback


def _read(text: str) -> IPv4Address | IPv6Address | None:
    try:
        address = ip_address(text.strip())
    except ValueError:
        return None
    return (address.ipv4_mapped or address) if isinstance(address, IPv6Address) else address


def error_response(
    scope: Scope, status: int, message: str, *, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a one-line response, as text or JSON, to a request that is rejected before routing."""
    response_headers = {"Cache-Control": "no-store", **(headers or {})}
    if "application/json" in Headers(scope=scope).get("accept", ""):
        return JSONResponse({"error": message}, status, headers=response_headers)
    return PlainTextResponse(f"{message}\n", status, headers=response_headers)


class Buckets:
    """The token buckets of all clients.

    :param per_second: tokens that are added to a bucket per second.
    :param burst: capacity of a bucket in tokens.
    :param clock: monotonic clock in seconds.
    """

    def __init__(self, per_second: float, burst: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_second = per_second
        self._burst = float(burst)
        self._clock = clock
        self._tokens: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._tokens)

    def wait_s(self, client: str) -> float:
        """Consume a token of a client; return 0, or the seconds until a token is available."""
        now = self._clock()
        tokens, then = self._tokens.pop(client, (self._burst, now))
        tokens = min(self._burst, tokens + (now - then) * self._per_second)
        has_one = tokens >= 1.0
        self._tokens[client] = (tokens - 1.0 if has_one else tokens, now)
        self._forget(now)
        return 0.0 if has_one else (1.0 - tokens) / self._per_second

    def _forget(self, now: float) -> None:
        """Remove the least recently used buckets while they are full or there are too many."""
        full_after_s = self._burst / self._per_second
        while self._tokens:
            _, then = next(iter(self._tokens.values()))
            if now - then < full_after_s and len(self._tokens) <= MOST_BUCKETS:
                break
            self._tokens.popitem(last=False)


class RateLimit:
    """Middleware that rejects requests of clients whose bucket is empty."""

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
        answer = error_response(
            scope, HTTPStatus.TOO_MANY_REQUESTS, message, headers={"Retry-After": str(seconds)}
        )
        await answer(scope, receive, send)


class BodyLimit:
    """Middleware that rejects request bodies longer than ``maximum_bytes``.

    A request is rejected immediately if its Content-Length exceeds the limit, otherwise once the received
    bytes exceed it.
    """

    def __init__(self, app: ASGIApp, *, maximum_bytes: int) -> None:
        self._app = app
        self._maximum_bytes = maximum_bytes
        self._message = f"the request is too long; at most {maximum_bytes} bytes are allowed"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request."""
        headers = Headers(scope=scope)
        content_length = headers.get("content-length", "0")
        if not content_length.isdecimal() or int(content_length) > self._maximum_bytes:
            answer = error_response(scope, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, self._message, headers=_CLOSE)
            await answer(scope, receive, send)
            return
        received, is_open = 0, "transfer-encoding" in headers

        async def bounded() -> Message:
            nonlocal received, is_open
            message = await receive()
            received += len(message.get("body", b""))
            is_open = message.get("more_body", False)
            if received > self._maximum_bytes:
                raise HTTPException(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, self._message, headers=_CLOSE)
            return message

        async def closing(message: Message) -> None:
            if message["type"] == "http.response.start" and is_open:
                MutableHeaders(scope=message).update(_CLOSE)
            await send(message)

        await self._app(scope, bounded, closing)
