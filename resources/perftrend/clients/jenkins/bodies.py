"""Files while they are transferred, from the beginning or from an offset."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

import requests

from perftrend.clients.web.bodies import pieces
from perftrend.clients.web.refusals import Service

_LONGEST_VALIDATOR = 200


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
    _service: Service

    def chunks(self) -> Iterator[bytes]:
        """Yield the bytes as they are sent, up to 64 KiB at a time.

        :raises UnavailableError: if it breaks off, is shorter than told, or does no more than drip; the
            rest can be had by opening it again at the right offset.
        """
        if self._response.status_code != HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            yield from pieces(self._response, self._service, decode=False)


def download(response: requests.Response, start: int, validator: str, service: Service) -> Download | None:
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
        _service=service,
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
    return chosen if len(chosen) <= _LONGEST_VALIDATOR and chosen.isascii() and chosen.isprintable() else ""
