"""Response bodies, read in pieces as they arrive."""

from __future__ import annotations

from collections.abc import Iterator

import requests
import urllib3

from perftrend.clients.web.errors import ServiceLogin, TooLargeError, format_request, transport_error

_PIECE = 64 * 1024


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
