"""HTTP with a rate limit and retries, for servers that may be malicious.

Bytes are read as they are stored: a log server sends ``output.xml.gz`` with ``Content-Encoding: gzip``, and a
client that decoded it could neither resume nor check it. For deadlines, redirects and logins, see
:mod:`perftrend.clients.http_session`.

Requests may be conditional and for a part of a file (RFC 9110, sections 13 and 14).
"""

from __future__ import annotations

import base64
import binascii
import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException
from types import TracebackType
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import HTTPError

from perftrend.archive.fetch.builds import (
    ANY,
    Checksum,
    InterruptedTransferError,
    MissingError,
    Transfer,
    Version,
)
from perftrend.clients.http_service import exponential_backoff, retrier, retry_after_s
from perftrend.clients.http_session import (
    FILE_DEADLINE_S,
    DeadlineError,
    HttpSession,
    PrivateRedirectError,
    RedirectError,
    origin,
    slowness,
)
from perftrend.errors import ServiceError

LONGEST_HOLD_S = 600.0
"""If a server requests a longer pause, fetching from it fails."""
MAXIMUM_PAGE_BYTES = 32 * 1024 * 1024
"""Maximum size of an index page: some 200,000 entries."""
PAGE_DEADLINE_S = 300.0

_CHUNK_BYTES = 1 << 16
_CONNECTIONS = 64
_ANSWERED = {200, 206, 304, 416}
_GONE = {404, 410}
_REFUSED = {401, 403, 407}
_BUSY = {408, 425, 429}
_SERVER_ERRORS = 500

_RANGE = re.compile(r"bytes (?:(?P<start>\d+)-(?P<stop>\d+)|\*)/(?P<size>\d+|\*)")


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and a token for one server."""

    user: str
    token: str = field(repr=False)


class RateLimiter:
    """Spaces the requests of all threads to each host evenly; none is sent while a server requests a pause.

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


class Web:
    """Opens URLs.

    :param credentials: by the server's address; the user's ``.netrc`` applies to all others.
    :param timeout_s: maximum wait for bytes of a server.
    :param attempts: maximum number of attempts of a request for a page.
    :param private_redirects: whether a public server may redirect to a private address.
    """

    def __init__(
        self,
        pace: RateLimiter,
        *,
        credentials: Mapping[str, Credentials] | None = None,
        timeout_s: float = 30.0,
        attempts: int = 5,
        first_pause_s: float = 0.5,
        private_redirects: bool = False,
    ) -> None:
        self._pace = pace
        self._retrying = retrier(attempts, exponential_backoff(first_pause_s), sleep=pace.sleep)
        self._credentials = {origin(url): known for url, known in (credentials or {}).items()}
        self._session = HttpSession(
            timeout_s=timeout_s,
            private_redirects=private_redirects,
            netrc=True,
            connections=_CONNECTIONS,
            before=lambda url: pace.wait(urlsplit(url).netloc),
            check=lambda: pace.sleep(0),
        )
        self._session.headers["Accept-Encoding"] = "identity"

    def __enter__(self) -> Web:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._session.close()

    def page(self, url: str, *, limit: int = MAXIMUM_PAGE_BYTES) -> tuple[str, bytes]:
        """Return the final URL of a page, after redirects, and the page.

        :raises MissingError: if it does not exist.
        :raises ServiceError: if it cannot be read, or is longer than the limit in bytes.
        """
        return self._retrying(self._page, url, limit)

    @contextmanager
    def open(self, url: str, *, offset: int = 0, version: Version = ANY) -> Generator[Transfer, None, None]:
        """Open a file, in one attempt; see :meth:`Source.open`."""
        response = self._request(url, conditions(offset, version), FILE_DEADLINE_S)
        if offset and not continues(response, offset, version):
            response.close()
            response = self._request(url, {}, FILE_DEADLINE_S)
        with closing(response):
            yield transfer(response, lambda amount: _read(response, amount))

    def _page(self, url: str, limit: int) -> tuple[str, bytes]:
        page = bytearray()
        with closing(self._request(url, {}, PAGE_DEADLINE_S)) as response:
            while chunk := _read(response, _CHUNK_BYTES):
                page += chunk
                if len(page) > limit:
                    raise ServiceError(
                        f"{redact_url(url)}: the page is longer than {limit} bytes; is it an index?"
                    )
            return response.url, bytes(page)

    def _request(self, url: str, headers: Mapping[str, str], deadline_s: float) -> requests.Response:
        """Send a request once, and follow redirects."""
        known = self._credentials.get(origin(url))
        login = (known.user, known.token) if known else None
        try:
            request = self._session.prepare_request(requests.Request("GET", url, headers, auth=login))
            response = self._session.send(request, stream=True, deadline_s=deadline_s)
        except requests.TooManyRedirects as error:
            raise ServiceError(f"{redact_url(url)}: {error}") from error
        except RedirectError as error:
            allowed = ": the setting fetch.private_redirects allows it"
            hint = allowed if isinstance(error, PrivateRedirectError) else ""
            raise ServiceError(f"{redact_url(url)}: {error}{hint}") from error
        except (requests.ConnectionError, requests.Timeout) as error:
            raise _unreachable(url, error) from error
        except (requests.RequestException, HTTPError, HTTPException, ValueError) as error:
            raise ServiceError(f"{redact_url(url)}: the request failed: {_brief(error)}") from error
        self._judge(response, url)
        return response

    def _judge(self, response: requests.Response, url: str) -> None:
        """Raise the error for a status, unless it is a success."""
        status = response.status_code
        if status in _ANSWERED:
            return
        response.close()
        if status in _GONE:
            raise MissingError(f"{redact_url(url)}: the file does not exist ({status})")
        if status in _REFUSED:
            raise ServiceError(
                f"{redact_url(url)}: the server refuses it ({status}); "
                "give user and token as settings jenkins.user and jenkins.token, or in ~/.netrc"
            )
        if status in _BUSY or status >= _SERVER_ERRORS:
            self._delay_requests(response.headers.get("Retry-After", ""), url)
            raise InterruptedTransferError(
                f"{redact_url(url)}: the server failed ({status}); try again later"
            )
        raise ServiceError(f"{redact_url(url)}: the server answers {status} instead of a file")

    def _delay_requests(self, retry_after: str, url: str) -> None:
        """Delay further requests by the pause that a server requests."""
        seconds = retry_after_s(retry_after) or 0.0
        if seconds > LONGEST_HOLD_S:
            raise ServiceError(
                f"{redact_url(url)}: the server requests a pause of {seconds:.0f} s; try again then"
            )
        if seconds > 0:
            self._pace.hold(urlsplit(url).netloc, seconds)


def redact_url(url: str) -> str:
    """Return a URL without its potentially secret parts: user, password and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _read(response: requests.Response, amount: int) -> bytes:
    try:
        # read1 returns available bytes at once, so that a slow server is detected.
        return response.raw.read1(amount, decode_content=False) or b""
    except (HTTPError, HTTPException, OSError) as error:
        if isinstance(slow := slowness(error), DeadlineError):
            raise ServiceError(f"{redact_url(response.url)}: {slow}") from error
        raise InterruptedTransferError(f"{redact_url(response.url)}: broke off: {_brief(error)}") from error


def _unreachable(url: str, error: Exception) -> ServiceError:
    if "CERTIFICATE_VERIFY_FAILED" in str(error) or "doesn't match" in str(error):
        return ServiceError(
            f"{redact_url(url)}: the server's certificate is not trusted; "
            "set REQUESTS_CA_BUNDLE to the file of its authority"
        )
    return InterruptedTransferError(f"{redact_url(url)}: does not answer: {_brief(error)}")


def _brief(error: Exception) -> str:
    """Return a library's message in short form, without addresses of objects."""
    reason = slowness(error) or error
    while reason.args and isinstance(reason.args[-1], Exception):
        reason = reason.args[-1]
    inner = getattr(reason, "reason", None)
    text = str(inner if isinstance(inner, Exception) else reason)
    return " ".join(text.rpartition("object at 0x")[2].split())[:200] or type(error).__name__


def conditions(offset: int, version: Version) -> dict[str, str]:
    """Return the headers that request the rest of a version, or any version except that one."""
    if offset:
        same = version.strong_etag or version.modified
        return {"Range": f"bytes={offset}-"} | ({"If-Range": same} if same else {})
    if version.etag:
        return {"If-None-Match": version.etag}
    return {"If-Modified-Since": version.modified} if version.modified else {}


def continues(response: requests.Response, offset: int, version: Version) -> bool:
    """Whether the response to a request for the rest is usable: it is that rest, or the whole file."""
    if response.status_code == HTTPStatus.OK:
        return True
    start, size = _range(response)
    if version.size is not None and size != version.size:
        return False
    if response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        return size == offset
    return response.status_code == HTTPStatus.PARTIAL_CONTENT and start == offset


def transfer(response: requests.Response, read: Callable[[int], bytes]) -> Transfer:
    """Return the transfer of a response."""
    headers = response.headers
    start: int | None = 0
    size = _number(headers.get("Content-Length", ""))
    if response.status_code != HTTPStatus.OK:
        start, size = _range(response)
    version = Version(headers.get("ETag", ""), headers.get("Last-Modified", ""), size)
    if response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        return Transfer(lambda _: b"", size or 0, version)
    unchanged = response.status_code == HTTPStatus.NOT_MODIFIED
    checksum = _checksum(response) if response.status_code == HTTPStatus.OK else None
    return Transfer(read, start or 0, version, checksum, unchanged)


def _range(response: requests.Response) -> tuple[int | None, int | None]:
    """Return the offset of the bytes and the size of the whole file, as far as they are known."""
    found = _RANGE.fullmatch(response.headers.get("Content-Range", "").strip())
    return (_number(found["start"] or ""), _number(found["size"])) if found else (None, None)


def _checksum(response: requests.Response) -> Checksum | None:
    """Return the checksum of the whole body, from Content-MD5 or the header of artifact repositories."""
    sha256 = response.headers.get("X-Checksum-Sha256", "").strip().lower()
    if re.fullmatch(r"[0-9a-f]{64}", sha256):
        return Checksum("sha256", sha256)
    try:
        md5 = base64.b64decode(response.headers.get("Content-MD5", ""), validate=True)
    except binascii.Error:
        return None
    return Checksum("md5", md5.hex()) if len(md5) == 16 else None  # noqa: PLR2004 - the bytes of an MD5


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) < 19 else None  # noqa: PLR2004 - fits 64 bits
