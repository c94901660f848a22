"""Bodies of answers: read as they come, with bounds in size and time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import requests
import urllib3

from perftrend.clients.web.refusals import Service, TooLargeError, UnavailableError, failed, shown

_PIECE = 64 * 1024
_LEAST_BYTES = 1024
"""What a server has to send in each period of its time-out: one that sends less hangs."""
_PERIODS = 10
"""A body that is read as a whole may take so many times the time-out."""


def pieces(response: requests.Response, service: Service, *, decode: bool) -> Iterator[bytes]:
    """Yield a body as it comes, up to 64 KiB at a time.

    :param decode: whether compression for the way is undone.
    :raises UnavailableError: if it breaks off, is shorter than told, or does no more than drip.
    """
    asked = shown(response.request.method or "", response.request.url or "")
    began, received = time.monotonic(), 0
    while True:
        try:
            piece = response.raw.read1(_PIECE, decode_content=decode)
        except (OSError, ValueError, urllib3.exceptions.HTTPError) as error:
            raise failed(asked, error, service) from None
        if not piece:
            return
        yield piece
        received += len(piece)
        if time.monotonic() - began > service.timeout_s:
            if received < _LEAST_BYTES:
                raise UnavailableError(f"{asked}: sends next to nothing; try again later")
            began, received = time.monotonic(), 0


def whole(response: requests.Response, maximum: int, service: Service) -> bytes:
    """Return a body.

    :param maximum: bytes that it may have.
    :raises TooLargeError: if it has more.
    """
    asked = shown(response.request.method or "", response.request.url or "")
    longest_s = _PERIODS * service.timeout_s
    deadline = time.monotonic() + longest_s
    body = bytearray()
    for piece in pieces(response, service, decode=True):
        body += piece
        if len(body) > maximum:
            raise TooLargeError(f"{asked}: answers with more than {maximum} bytes; ask for less")
        if time.monotonic() > deadline:
            raise UnavailableError(f"{asked}: takes longer than {longest_s:g} s; try again later")
    return bytes(body)
