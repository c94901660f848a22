"""Conditional and partial requests of HTTP: headers of the request, and metadata of the response.

Source: RFC 9110, sections 13 (conditions) and 14 (ranges).
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from http import HTTPStatus

import requests

from perftrend.archive.fetch.builds import Checksum, Transfer, Version

_RANGE = re.compile(r"bytes (?:(?P<start>\d+)-(?P<stop>\d+)|\*)/(?P<size>\d+|\*)")


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
