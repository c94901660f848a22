"""Bodies of answers: read as they come, with bounds in size and time."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

import requests
import urllib3

from perftrend.clients.jenkins.refusals import TooLargeError, UnavailableError, failed, shown

_PIECE = 64 * 1024
_LEAST_BYTES = 1024
"""What a server has to send in each period of its time-out: one that sends less hangs."""
_PERIODS = 10
"""A body that is read as a whole may take so many times the time-out."""


def pieces(response: requests.Response, period_s: float, *, decode: bool) -> Iterator[bytes]:
    """Yield a body as it comes, up to 64 KiB at a time.

    :param decode: whether compression for the way is undone.
    :raises UnavailableError: if it breaks off, is shorter than told, or does no more than drip.
    """
    asked = shown("GET", response.request.url or "")
    began, received = time.monotonic(), 0
    while True:
        try:
            piece = response.raw.read1(_PIECE, decode_content=decode)
        except (OSError, ValueError, urllib3.exceptions.HTTPError) as error:
            raise failed(asked, error, period_s) from None
        if not piece:
            return
        yield piece
        received += len(piece)
        if time.monotonic() - began > period_s:
            if received < _LEAST_BYTES:
                raise UnavailableError(f"{asked}: sends next to nothing; try again later")
            began, received = time.monotonic(), 0


def whole(response: requests.Response, maximum: int, period_s: float) -> bytes:
    """Return a body.

    :param maximum: bytes that it may have.
    :raises TooLargeError: if it has more.
    """
    asked = shown("GET", response.request.url or "")
    deadline = time.monotonic() + _PERIODS * period_s
    body = bytearray()
    for piece in pieces(response, period_s, decode=True):
        body += piece
        if len(body) > maximum:
            raise TooLargeError(f"{asked}: answers with more than {maximum} bytes; ask for less")
        if time.monotonic() > deadline:
            raise UnavailableError(f"{asked}: takes longer than {_PERIODS * period_s:g} s; try again later")
    return bytes(body)


@dataclass(frozen=True, slots=True)
class Download:
    """A file while it is transferred."""

    start: int
    """The offset that it really begins at: 0 where the server sends all of it whatever was asked."""
    size: int | None
    """Bytes of the whole file; None where the server does not tell."""
    validator: str
    """What tells this content from a later one, to resume by; empty where there is nothing."""
    encoding: str
    """How the bytes are packed for the way, such as ``gzip``; empty: they are the file's own."""
    _response: requests.Response
    _period_s: float

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes as they are sent, up to 64 KiB at a time.

        :raises UnavailableError: if it breaks off, is shorter than told, or does no more than drip; the
            rest can be had by opening it again at the right offset.
        """
        if self._response.status_code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            yield from pieces(self._response, self._period_s, decode=False)


def download(response: requests.Response, start: int, validator: str, period_s: float) -> Download | None:
    """Return the file that an answer brings; None if it is not the rest of the one that was begun.

    :param start: the offset that was asked for.
    :param validator: of the part that is there already; empty where it is not known.
    """
    found, size = _range(response)
    is_same = not validator or not _validator(response) or validator == _validator(response)
    is_rest = found == start and is_same
    if response.status_code == HTTPStatus.OK:
        found, size = 0, _whole_number(response.headers.get("Content-Length", ""))
    elif response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        # Asked for what comes after the last byte: the part that is there is the whole.
        found, is_rest = start, size == start and is_same
    if response.status_code != HTTPStatus.OK and not is_rest:
        return None
    encoding = response.headers.get("Content-Encoding", "").lower()
    return Download(
        start=found,
        size=size,
        validator=_validator(response),
        encoding="" if encoding == "identity" else encoding[:20],
        _response=response,
        _period_s=period_s,
    )


def _range(response: requests.Response) -> tuple[int, int | None]:
    """Return where the part begins and how long the whole is, from ``bytes 10-20/588895``."""
    told = response.headers.get("Content-Range", "")
    # Hudson leaves the unit out.
    parts = re.fullmatch(r"(?:bytes\s+)?(?:(\d{1,18})-\d{1,18}|\*)/(\d{1,18}|\*)", told)
    if not parts:
        return -1, None
    return int(parts[1] or -1), _whole_number(parts[2])


def _whole_number(text: str) -> int | None:
    return int(text) if re.fullmatch(r"[0-9]{1,18}", text) else None


def _validator(response: requests.Response) -> str:
    tag = response.headers.get("ETag", "")
    # A weak tag may stand for other bytes that mean the same.
    chosen = tag if tag and not tag.startswith("W/") else response.headers.get("Last-Modified", "")
    return chosen if len(chosen) <= 200 and chosen.isascii() and chosen.isprintable() else ""  # noqa: PLR2004
