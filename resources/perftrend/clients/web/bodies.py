"""Bodies of answers, read as they come."""

from __future__ import annotations

from collections.abc import Iterator

import requests
import urllib3

from perftrend.clients.web.refusals import Service, TooLargeError, failed, shown

_PIECE = 64 * 1024


def pieces(response: requests.Response, service: Service, *, decode: bool) -> Iterator[bytes]:
    """Yield a body as it comes, up to 64 KiB at a time.

    :param decode: whether compression for the way is undone.
    :raises UnavailableError: if it breaks off, is shorter than announced, or comes too slowly.
    """
    while True:
        try:
            piece = response.raw.read1(_PIECE, decode_content=decode)
        except (OSError, ValueError, urllib3.exceptions.HTTPError) as error:
            raise failed(_shown(response), error, service) from None
        if not piece:
            return
        yield piece


def whole(response: requests.Response, maximum: int, service: Service) -> bytes:
    """Return a body.

    :param maximum: bytes that it may have.
    :raises TooLargeError: if it has more.
    """
    body = bytearray()
    for piece in pieces(response, service, decode=True):
        body += piece
        if len(body) > maximum:
            raise TooLargeError(f"{_shown(response)}: answers with more than {maximum} bytes; ask for less")
    return bytes(body)


def _shown(response: requests.Response) -> str:
    return shown(response.request.method or "", response.request.url or "")
