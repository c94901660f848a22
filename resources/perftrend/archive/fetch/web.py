"""HTTP with a rate limit and retries, for servers that may be malicious.

Bytes are read as they are stored: a log server sends ``output.xml.gz`` with ``Content-Encoding: gzip``, and a
client that decoded it could neither resume nor check it. For deadlines, redirects and logins, see
:mod:`perftrend.clients.web.session`.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from types import TracebackType
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import HTTPError

from perftrend.archive.fetch import answer
from perftrend.archive.fetch.builds import ANY, InterruptedTransferError, MissingError, Transfer, Version
from perftrend.archive.fetch.pace import Pace
from perftrend.clients.web.refusals import retry_after_s
from perftrend.clients.web.retrying import backing_off, retrying
from perftrend.clients.web.session import (
    FILE_DEADLINE_S,
    DeadlineError,
    PrivateRedirectError,
    RedirectError,
    Session,
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


@dataclass(frozen=True, slots=True)
class Credentials:
    """A user and a token for one server."""

    user: str
    token: str = field(repr=False)


class Web:
    """Opens URLs.

    :param credentials: by the server's address; the user's ``.netrc`` applies to all others.
    :param timeout_s: maximum wait for bytes of a server.
    :param attempts: maximum number of attempts of a request for a page.
    :param private_redirects: whether a public server may redirect to a private address.
    """

    def __init__(
        self,
        pace: Pace,
        *,
        credentials: Mapping[str, Credentials] | None = None,
        timeout_s: float = 30.0,
        attempts: int = 5,
        first_pause_s: float = 0.5,
        private_redirects: bool = False,
    ) -> None:
        self._pace = pace
        self._retrying = retrying(attempts, backing_off(first_pause_s), sleep=pace.sleep)
        self._credentials = {origin(url): known for url, known in (credentials or {}).items()}
        self._session = Session(
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
        response = self._ask(url, answer.conditions(offset, version), FILE_DEADLINE_S)
        if offset and not answer.continues(response, offset, version):
            response.close()
            response = self._ask(url, {}, FILE_DEADLINE_S)
        with closing(response):
            yield answer.transfer(response, lambda amount: _read(response, amount))

    def _page(self, url: str, limit: int) -> tuple[str, bytes]:
        page = bytearray()
        with closing(self._ask(url, {}, PAGE_DEADLINE_S)) as response:
            while chunk := _read(response, _CHUNK_BYTES):
                page += chunk
                if len(page) > limit:
                    raise ServiceError(
                        f"{shown(url)}: the page is longer than {limit} bytes; is it an index?"
                    )
            return response.url, bytes(page)

    def _ask(self, url: str, headers: Mapping[str, str], deadline_s: float) -> requests.Response:
        """Send a request once, and follow redirects."""
        known = self._credentials.get(origin(url))
        login = (known.user, known.token) if known else None
        try:
            request = self._session.prepare_request(requests.Request("GET", url, headers, auth=login))
            response = self._session.send(request, stream=True, deadline_s=deadline_s)
        except requests.TooManyRedirects as error:
            raise ServiceError(f"{shown(url)}: {error}") from error
        except RedirectError as error:
            allowed = ": the setting fetch.private_redirects allows it"
            hint = allowed if isinstance(error, PrivateRedirectError) else ""
            raise ServiceError(f"{shown(url)}: {error}{hint}") from error
        except (requests.ConnectionError, requests.Timeout) as error:
            raise _unreachable(url, error) from error
        except (requests.RequestException, HTTPError, HTTPException, ValueError) as error:
            raise ServiceError(f"{shown(url)}: the request failed: {_brief(error)}") from error
        self._judge(response, url)
        return response

    def _judge(self, response: requests.Response, asked: str) -> None:
        """Raise the error for a status, unless it is a success."""
        status = response.status_code
        if status in _ANSWERED:
            return
        response.close()
        if status in _GONE:
            raise MissingError(f"{shown(asked)}: the file does not exist ({status})")
        if status in _REFUSED:
            raise ServiceError(
                f"{shown(asked)}: the server refuses it ({status}); "
                "give user and token as settings jenkins.user and jenkins.token, or in ~/.netrc"
            )
        if status in _BUSY or status >= _SERVER_ERRORS:
            self._heed(response.headers.get("Retry-After", ""), asked)
            raise InterruptedTransferError(f"{shown(asked)}: the server failed ({status}); try again later")
        raise ServiceError(f"{shown(asked)}: the server answers {status} instead of a file")

    def _heed(self, retry_after: str, asked: str) -> None:
        """Delay further requests by the pause that a server requests."""
        seconds = retry_after_s(retry_after) or 0.0
        if seconds > LONGEST_HOLD_S:
            raise ServiceError(
                f"{shown(asked)}: the server requests a pause of {seconds:.0f} s; try again then"
            )
        if seconds > 0:
            self._pace.hold(urlsplit(asked).netloc, seconds)


def shown(url: str) -> str:
    """Return a URL without its potentially secret parts: user, password and query."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def _read(response: requests.Response, amount: int) -> bytes:
    try:
        # read1 returns available bytes at once, so that a slow server is detected.
        return response.raw.read1(amount, decode_content=False) or b""
    except (HTTPError, HTTPException, OSError) as error:
        if isinstance(slow := slowness(error), DeadlineError):
            raise ServiceError(f"{shown(response.url)}: {slow}") from error
        raise InterruptedTransferError(f"{shown(response.url)}: broke off: {_brief(error)}") from error


def _unreachable(url: str, error: Exception) -> ServiceError:
    if "CERTIFICATE_VERIFY_FAILED" in str(error) or "doesn't match" in str(error):
        return ServiceError(
            f"{shown(url)}: the server's certificate is not trusted; "
            "set REQUESTS_CA_BUNDLE to the file of its authority"
        )
    return InterruptedTransferError(f"{shown(url)}: does not answer: {_brief(error)}")


def _brief(error: Exception) -> str:
    """Return a library's message in short form, without addresses of objects."""
    reason = slowness(error) or error
    while reason.args and isinstance(reason.args[-1], Exception):
        reason = reason.args[-1]
    inner = getattr(reason, "reason", None)
    text = str(inner if isinstance(inner, Exception) else reason)
    return " ".join(text.rpartition("object at 0x")[2].split())[:200] or type(error).__name__
