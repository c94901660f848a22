"""HTTP services: their errors in one line with what to do about it, retries, and bodies within limits.

The line of an error shows the requested URL without its query, and nothing that the server wrote: a response
may contain anything, including what was sent to the server.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus

import requests
import tenacity
import urllib3

from perftrend.clients.http_session import RedirectError, slowness
from perftrend.errors import ServiceError

_PIECE = 64 * 1024
_LONGEST_PAUSE_S = 300.0
_LONGEST_BACKOFF_S = 30.0

Wait = Callable[[tenacity.RetryCallState], float]
"""How long to pause before the next attempt, in seconds."""


@dataclass(frozen=True, slots=True)
class ServiceLogin:
    """A service and its login, as far as a user may have to correct them."""

    section: str
    """Section of the settings with its ``url``, ``user`` and ``token``, such as ``jenkins``."""
    user: str | None
    """The user of the requests; None: anonymous."""
    timeout_s: float
    """Maximum wait for bytes of the server."""
    hints: Mapping[int, str] = field(default_factory=dict, hash=False)
    """What to do about a status, if it differs from what applies to all services."""


class RefusedError(ServiceError):
    """The server refused the request, and will refuse it again."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class UnavailableError(ServiceError):
    """The server failed or did not respond: the same request may succeed later."""

    def __init__(self, message: str, retry_after_s: float | None = None) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        """The pause that the server requests, in seconds."""


class UnreachedError(UnavailableError):
    """No connection was made, so the server did not receive the request."""


class TooLargeError(ServiceError):
    """A response exceeds its maximum size; request less."""


def status_error(request: str, response: requests.Response, service: ServiceLogin) -> ServiceError:
    """Return the error for a response with a status of 300 or more.

    :param request: the request as :func:`format_request` returns it.
    """
    status = response.status_code
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        hint = "look into its log, or try again later"
        return UnavailableError(
            f"{request}: {_phrase(status)}; {hint}", retry_after_s(response.headers.get("Retry-After", ""))
        )
    name = service.section
    hints = {
        HTTPStatus.UNAUTHORIZED: f"check {name}.user and {name}.token",
        HTTPStatus.FORBIDDEN: f"give the user {service.user!r} the permission for that"
        if service.user
        else f"give a {name}.user and {name}.token with that permission",
        HTTPStatus.NOT_FOUND: f"check {name}.url and the name, and that the user may see it",
        HTTPStatus.TOO_MANY_REQUESTS: "send fewer requests",
        **service.hints,
    }
    if status < HTTPStatus.BAD_REQUEST:
        hint = f"is a login page in between? check {name}.url, including https://"
    else:
        hint = hints.get(status, f"check {name}.url")
    return RefusedError(f"{request}: {_phrase(status)}; {hint}", status)


def transport_error(request: str, error: BaseException, service: ServiceLogin) -> ServiceError:
    """Return the error for a request or a response that broke off.

    :param error: what requests, urllib3 or the operating system raised.
    """
    url = f"{service.section}.url"
    if _is_unreached(error):
        reason = re.search(r"\[Errno -?\d+\] ([\w ,]+)", str(error))
        why = f" ({reason[1]})" if reason else ""
        return UnreachedError(f"{request}: cannot be reached{why}; check {url}, and that the server runs")
    if slow := slowness(error):
        return UnavailableError(f"{request}: {slow}; try again later")
    if isinstance(error, requests.Timeout | urllib3.exceptions.TimeoutError):
        return UnavailableError(f"{request}: sent nothing for {service.timeout_s:g} s; try again later")
    lasting = _permanent_reason(error, url)
    if lasting:
        return ServiceError(f"{request}: {lasting}")
    return UnavailableError(f"{request}: broke the connection off; try again later")


def format_request(method: str, url: str) -> str:
    """Return a request as text, without its query."""
    return f"{method} {url.partition('?')[0]}"


def _is_unreached(error: BaseException) -> bool:
    unreached = (urllib3.exceptions.NewConnectionError, urllib3.exceptions.ConnectTimeoutError)
    reason = getattr(error.args[0], "reason", None) if error.args else None
    return isinstance(error, requests.ConnectTimeout) or isinstance(reason, unreached)


def _permanent_reason(error: BaseException, url: str) -> str:
    """Return the reason if the failure is permanent; empty otherwise."""
    text = str(error)
    if isinstance(error, requests.exceptions.SSLError | urllib3.exceptions.SSLError):
        return "" if "EOF" in text or "reset" in text else _about_tls(text, url)
    if isinstance(error, requests.TooManyRedirects):
        return f"is redirected without end; check {url}"
    if isinstance(error, requests.exceptions.ContentDecodingError | urllib3.exceptions.DecodeError):
        return "answers with broken compression; check the proxies in between"
    if "CA certificate bundle" in text:
        return "REQUESTS_CA_BUNDLE names no file with certificates; correct it"
    passing = requests.ConnectionError | urllib3.exceptions.HTTPError | ConnectionError
    if isinstance(error, passing | requests.exceptions.ChunkedEncodingError):
        return ""
    why = error if isinstance(error, RedirectError) else type(error).__name__
    return f"the request failed ({why}); check {url}"


def _about_tls(text: str, url: str) -> str:
    if "certificate" not in text.lower():
        return f"does not speak TLS; check {url}, should it be http://?"
    found = re.search(r"certificate verify failed: ([\w ,'.*-]+)", text)
    why = f" ({found[1].strip()})" if found else ""
    return (
        f"its certificate is not trusted{why}; to trust it, set REQUESTS_CA_BUNDLE to a file "
        "with the certificate of its issuer"
    )


def _phrase(status: int) -> str:
    return f"{status} {HTTPStatus(status).phrase}" if status in set(HTTPStatus) else str(status)


def retry_after_s(header: str) -> float | None:
    """Parse the header Retry-After: seconds, or a date, in UTC if it has no zone; None if it is neither."""
    header = header.strip()
    if re.fullmatch(r"[0-9]{1,9}", header):
        return float(header)
    try:
        moment = parsedate_to_datetime(header)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max(0.0, (moment - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError, IndexError, OverflowError):
        return None


def exponential_backoff(first_s: float) -> Wait:
    """Return exponential backoff of up to 30 s, plus random jitter of up to ``first_s``."""
    return tenacity.wait_exponential(first_s, _LONGEST_BACKOFF_S) + tenacity.wait_random(0, first_s)


_default_pauses = exponential_backoff(1.0)


def retrier(attempts: int, wait: Wait, *, sleep: Callable[[float], None] = time.sleep) -> tenacity.Retrying:
    """Return a retrier that calls a function again while it raises UnavailableError.

    :param sleep: pauses for the given number of seconds.
    """
    return tenacity.Retrying(
        stop=tenacity.stop_after_attempt(attempts),
        wait=wait,
        sleep=sleep,
        retry=tenacity.retry_if_exception_type(UnavailableError),
        reraise=True,
    )


def pause_before_retry(state: tenacity.RetryCallState) -> float:
    """Return the pause that the server requests, at most 300 s, or exponential backoff with jitter."""
    error = state.outcome.exception() if state.outcome else None
    requested_s = error.retry_after_s if isinstance(error, UnavailableError) else None
    return _default_pauses(state) if requested_s is None else min(requested_s, _LONGEST_PAUSE_S)


def pieces(response: requests.Response, service: ServiceLogin, *, decode: bool) -> Iterator[bytes]:
    """Yield a body as it arrives, up to 64 KiB at a time.

    :param decode: whether the content encoding is decoded.
    :raises UnavailableError: if it breaks off, is shorter than announced, or arrives too slowly.
    """
    while True:
        try:
            piece = response.raw.read1(_PIECE, decode_content=decode)
        except (OSError, ValueError, urllib3.exceptions.HTTPError) as error:
            raise transport_error(_format_request(response), error, service) from None
        if not piece:
            return
        yield piece


def whole(response: requests.Response, maximum: int, service: ServiceLogin) -> bytes:
    """Return a body.

    :param maximum: its maximum size in bytes.
    :raises TooLargeError: if it is larger.
    """
    body = bytearray()
    for piece in pieces(response, service, decode=True):
        body += piece
        if len(body) > maximum:
            raise TooLargeError(
                f"{_format_request(response)}: answers with more than {maximum} bytes; request less"
            )
    return bytes(body)


def _format_request(response: requests.Response) -> str:
    return format_request(response.request.method or "", response.request.url or "")
