"""The HTTP session of all clients: timeouts, deadlines, size limits, redirects and logins.

- The timeout applies to connecting and to each wait for bytes. The timeout of a socket starts again with each
  piece that arrives, so a server that sends a byte now and then would never reach it. Therefore the head of a
  response takes two timeouts at most, and the body has a deadline and a minimum rate. These limits hold
  wherever the library waits for the socket, including the head of a proxy's response, the length of a chunk,
  and a trailer.
- A head has 256 KiB at most. A body has 1 MiB at most, unless the caller reads it as a stream and limits it.
- Redirects are followed for GET and HEAD, ten at most, without reading their bodies: only to http and https,
  never from https to http, from a public server to a private one, or in a circle.
- A login belongs to the origin (scheme, host and port) of the URL that was requested. A redirect to another
  origin receives neither that login nor one from ``~/.netrc``, no cookies of the first server, and only
  harmless headers.
- Proxies and certificates come from the environment, separately for each URL.
"""

from __future__ import annotations

import http.client
import io
import ipaddress
import logging
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeAlias
from urllib.parse import urldefrag, urljoin, urlsplit

import requests
import urllib3
from requests.adapters import HTTPAdapter
from requests.utils import get_auth_from_url, requote_uri
from typing_extensions import override

from perftrend import __version__

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address
Network: TypeAlias = ipaddress.IPv4Network | ipaddress.IPv6Network

_NAT64: Final = ipaddress.ip_network("64:ff9b::/96")

MAXIMUM_HEAD = 256 * 1024
"""Bytes of all heads of one response, including interim (1xx) responses."""
MAXIMUM_BODY = 1024**2
"""Bytes of a body that is not read as a stream."""
MAXIMUM_REDIRECTS = 10
FILE_DEADLINE_S = 7200.0
"""Deadline for a file; other bodies have ten timeouts."""

_HEAD_PERIODS = 2
"""Maximum duration of a head in timeouts: a server may process for nearly one before it responds."""
_BODY_PERIODS = 10
_LEAST_BYTES = 1024
"""Minimum bytes of a body for each timeout that is spent waiting for it."""
_CHECK_EVERY_S = 0.5
_PIECE = 64 * 1024
_REDIRECTS = {301, 302, 303, 307, 308}
_HARMLESS = {
    *("accept", "accept-encoding", "user-agent"),
    *("range", "if-range", "if-none-match", "if-modified-since"),
}
"""Headers that a redirect to another origin retains."""
_PORTS = {"http": 80, "https": 443}

Origin = tuple[str, str, int | None]


def is_here(host: str) -> bool:
    """Return whether a host is this machine: ``localhost`` or a loopback address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def is_public(host: str) -> bool:
    """Return whether all addresses of a host are public: neither this machine's nor of a private network.

    False if the host does not resolve.
    """
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return False
    addresses = {str(address[0]).partition("%")[0] for *_, address in found}
    return bool(addresses) and all(may_reach(ipaddress.ip_address(each), ()) for each in addresses)


def may_reach(address: Address, allowed: Sequence[Network]) -> bool:
    """Return whether an address is public, or in one of the networks."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return may_reach(inner, allowed)
    if any(address in network for network in allowed if network.version == address.version):
        return True
    return address.is_global and not (address.is_multicast or address.is_reserved or address.is_unspecified)


class SlowServerError(TimeoutError):
    """A body that arrives too slowly, although each wait was short."""


class DeadlineError(SlowServerError):
    """A body that is not complete at its deadline."""


class RedirectError(requests.RequestException):
    """A redirect that is not followed."""


class PrivateRedirectError(RedirectError):
    """A redirect from a public server to a private address."""


class HttpSession(requests.Session):
    """Sends requests by the rules of this module; threads may share it.

    :param timeout_s: for connecting, and for each wait for bytes.
    :param private_redirects: whether a public server may redirect to a private address.
    :param netrc: whether ``~/.netrc`` provides a login for requested URLs without one.
    :param connections: maximum number of connections to one host that are reused.
    :param before: called with the URL before each request, redirects included.
    :param log: receives each request with its status and duration, redirects included; None if the path of a
        URL may be secret.
    :param check: called at least twice a second while waiting for bytes; raises to end the wait.
    :param options: for another base class, if a library brings its own session.
    """

    def __init__(
        self,
        *,
        timeout_s: float,
        private_redirects: bool = False,
        netrc: bool = False,
        connections: int = 10,
        before: Callable[[str], None] = lambda _: None,
        check: Callable[[], None] = lambda: None,
        log: logging.Logger | None = None,
        **options: Any,  # noqa: ANN401 - whatever the other base class accepts
    ) -> None:
        super().__init__(**options)
        self.headers["User-Agent"] = f"perftrend/{__version__}"
        self._timeout_s = timeout_s
        self._private_redirects = private_redirects
        self._netrc = netrc
        self._before = before
        self._log = log
        for scheme in _PORTS:
            self.mount(f"{scheme}://", _Adapter(check, pool_maxsize=connections))

    @override
    def prepare_request(self, request: requests.Request) -> requests.PreparedRequest:
        if not (self._netrc or request.auth or self.auth):
            login = get_auth_from_url(request.url)
            request.auth = login if any(login) else _anonymous
        return super().prepare_request(request)

    @override
    def send(
        self, request: requests.PreparedRequest, *, deadline_s: float | None = None, **options: Any
    ) -> requests.Response:
        """Send a request, and follow redirects.

        :param deadline_s: maximum duration of the body; by default ten timeouts.
        :param options: ``stream``: the body is left to the caller; ``allow_redirects``. The session sets
            everything else.
        :raises requests.RequestException: :class:`RedirectError` among others.
        """
        deadline_s = deadline_s or _BODY_PERIODS * self._timeout_s
        follows = options.get("allow_redirects", True) and request.method in ("GET", "HEAD")
        requested, seen = request, {(request.url, request.headers.get("Cookie"))}
        while True:
            response = self._send_once(request, deadline_s)
            location = self.get_redirect_target(response) if response.status_code in _REDIRECTS else None
            if not follows or location is None:
                break
            response.close()
            request = self._build_redirect_request(requested, request, location)
            # With other cookies, the same URL may return another response.
            step = request.url, request.headers.get("Cookie")
            if step in seen or len(seen) > MAXIMUM_REDIRECTS:
                raise requests.TooManyRedirects("the server redirects in a circle", response=response)
            seen.add(step)
        if not options.get("stream"):
            _read_whole(response)
        return response

    @override
    def resolve_redirects(self, *args: object, **kwargs: object) -> Iterator[requests.Response]:
        # The library would look ahead, which reads the whole body of the redirect.
        return iter(())

    def _send_once(self, request: requests.PreparedRequest, deadline_s: float) -> requests.Response:
        self._before(request.url or "")
        environment = self.merge_environment_settings(request.url, {}, True, None, None)
        began, status = time.monotonic(), "no response"
        try:
            response = super().send(request, timeout=self._timeout_s, allow_redirects=False, **environment)
            status = str(response.status_code)
        finally:
            if self._log:
                took_s = time.monotonic() - began
                url = _without_secrets(request.url or "")
                self._log.debug("%s %s: %s after %.3f s", request.method, url, status, took_s)
        connection = getattr(response.raw, "connection", None)
        if isinstance(connection, _LimitedConnection) and connection.reader:
            connection.reader.begin_body(deadline_s)
        return response

    def _build_redirect_request(
        self, requested: requests.PreparedRequest, last: requests.PreparedRequest, location: str
    ) -> requests.PreparedRequest:
        """Return the request for the target of a redirect, based on the original request."""
        target = _target(last.url or "", location)
        home, away = origin(requested.url or ""), origin(target)
        is_private = home[1] != away[1] and is_public(home[1]) and not is_public(away[1])
        if is_private and not self._private_redirects:
            raise PrivateRedirectError(f"the server redirects to {away[1]}, a private address; refused")
        following = requested.copy()
        following.url = target
        following.headers.pop("Cookie", None)
        if home != away:
            for name in [name for name in following.headers if name.lower() not in _HARMLESS]:
                del following.headers[name]
        # Cookies are not bound to a port: another server on the same host would receive them.
        if home == away or home[1] != away[1]:
            following.prepare_cookies(self.cookies)
        return following


def origin(url: str) -> Origin:
    """Return scheme, host and port of a URL. A login belongs to one origin."""
    parts = urlsplit(url)
    return parts.scheme, parts.hostname or "", parts.port or _PORTS.get(parts.scheme)


def read_date(url: str, timeout_s: float) -> str:
    """Return the header Date of a response; empty if there is none, or no response."""
    try:
        with HttpSession(timeout_s=timeout_s) as session, session.get(url, stream=True) as response:
            return str(response.headers.get("Date", ""))
    except (OSError, ValueError, urllib3.exceptions.HTTPError):
        return ""


def slowness(error: BaseException | None) -> SlowServerError | None:
    """Return the error of a server that is too slow, if that is the cause of what a library raised."""
    while error is not None and not isinstance(error, SlowServerError):
        error = error.__cause__ or error.__context__
    return error


def _anonymous(request: requests.PreparedRequest) -> requests.PreparedRequest:
    return request


def _without_secrets(url: str) -> str:
    """Return a URL for the log, without login and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _target(url: str, location: str) -> str:
    try:
        target = requote_uri(urldefrag(urljoin(url, location)).url)
        scheme, host, _ = origin(target)
    except ValueError:
        scheme = host = ""
    if scheme not in _PORTS or not host:
        raise RedirectError("the server redirects to a URL that is neither http nor https; refused")
    if scheme == "http" and urlsplit(url).scheme == "https":
        raise RedirectError("the server redirects from https to http; refused")
    return target


def _read_whole(response: requests.Response) -> None:
    body = bytearray()
    for piece in response.iter_content(_PIECE):
        body += piece
        if len(body) > MAXIMUM_BODY:
            response.close()
            raise requests.RequestException(f"the answer has more than {MAXIMUM_BODY} bytes")
    # What `content` returns; the library reads it without a bound.
    response._content = bytes(body)


class _ResponseReader(io.RawIOBase):
    """The bytes that a connection receives for one response, within limits; replaces the socket's file."""

    def __init__(self, connection: _LimitedConnection) -> None:
        self._socket = connection.sock
        # The socket is closed when the connection and this file both are.
        self._file = connection.sock.makefile("rb", buffering=0)
        self._check = connection.check
        self._timeout_s = connection.timeout
        self._end = time.monotonic() + _HEAD_PERIODS * self._timeout_s
        self._deadline_s: float | None = None
        self._received = 0
        self._waited_s = 0.0

    def makefile(self, _: str) -> io.BufferedReader:
        """Return this reader with the interface that the library expects."""
        return io.BufferedReader(self)

    def begin_body(self, deadline_s: float) -> None:
        """Replace the limits of a head by those of a body."""
        self._end = time.monotonic() + deadline_s
        self._deadline_s = deadline_s
        self._received, self._waited_s = 0, 0.0

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: Any) -> int:
        began = time.monotonic()
        count = self._receive(buffer, min(began + self._timeout_s, self._end))
        self._received += count
        self._waited_s += time.monotonic() - began
        if self._deadline_s is None:
            if self._received > MAXIMUM_HEAD:
                raise http.client.HTTPException(f"the head has more than {MAXIMUM_HEAD} bytes")
        elif count and self._waited_s > self._timeout_s:
            if self._received < _LEAST_BYTES:
                raise SlowServerError("sends next to nothing")
            self._received, self._waited_s = 0, 0.0
        return count

    @override
    def close(self) -> None:
        if not self.closed:
            self._file.close()
        super().close()

    def _receive(self, buffer: bytearray, end: float) -> int:
        while True:
            self._check()
            now = time.monotonic()
            if now >= self._end and self._deadline_s is not None:
                raise DeadlineError(f"takes longer than {self._deadline_s:g} s")
            if now >= end:
                raise TimeoutError
            self._socket.settimeout(min(end - now, _CHECK_EVERY_S))
            try:
                return int(self._socket.recv_into(buffer))
            except TimeoutError:
                continue


class _LimitedConnection:
    """A connection whose responses are read within limits."""

    timeout: Any
    sock: socket.socket
    reader: _ResponseReader | None = None

    def __init__(
        self,
        *arguments: Any,  # noqa: ANN401 - whatever the other base class accepts
        check: Callable[[], None],
        **options: Any,  # noqa: ANN401 - as above
    ) -> None:
        super().__init__(*arguments, **options)
        self.check = check

    def response_class(
        self,
        _: socket.socket,
        *arguments: Any,  # noqa: ANN401 - as above
        **options: Any,  # noqa: ANN401 - as above
    ) -> http.client.HTTPResponse:
        """Return the response of the server, or of a proxy that opens a tunnel."""
        self.reader = _ResponseReader(self)
        return http.client.HTTPResponse(self.reader, *arguments, **options)  # type: ignore[arg-type]  # no socket


class _HTTPConnection(_LimitedConnection, urllib3.connection.HTTPConnection):  # type: ignore[misc]  # the class is a method
    pass


class _HTTPSConnection(_LimitedConnection, urllib3.connection.HTTPSConnection):  # type: ignore[misc]  # as above
    pass


class _HTTPPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _HTTPConnection


class _HTTPSPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _HTTPSConnection


class _Adapter(HTTPAdapter):
    """Makes connections of these classes, direct and through proxies."""

    def __init__(self, check: Callable[[], None], *, pool_maxsize: int) -> None:
        self._pools: dict[str, Any] = {
            "http": partial(_HTTPPool, check=check),
            "https": partial(_HTTPSPool, check=check),
        }
        super().__init__(pool_maxsize=pool_maxsize)

    @override
    def init_poolmanager(self, *arguments: Any, **options: Any) -> None:
        super().init_poolmanager(*arguments, **options)
        self.poolmanager.pool_classes_by_scheme = self._pools

    @override
    def proxy_manager_for(self, proxy: str, **options: Any) -> urllib3.ProxyManager:
        manager: urllib3.ProxyManager = super().proxy_manager_for(proxy, **options)
        manager.pool_classes_by_scheme = self._pools
        return manager
