"""Cached responses, and how they are sent to each user.

Bodies consist of parts, and each part is compressed once: after a full flush, a part does not refer to data
before it, so compressed parts can be joined in any order. Only the checksum at the end covers the whole body.

Source: RFC 1952, "GZIP file format specification"; zlib's manual, ``Z_FULL_FLUSH``.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from http import HTTPStatus
from typing import Self

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import Message, Send

from perftrend.dashboard.pages import qualities
from perftrend.dashboard.response_cache.cache_key import PlaceholderUser, parts_of

_WORTH_PACKING = 1000
_LEVEL = 4
"""Pages of many lines are at most 3 % larger than at 6, the usual level, and compressed in half the time."""
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
_END = b"\x03\x00"
"""An empty block that is the last one."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A response with placeholders."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    parts: tuple[bytes, ...] = field(repr=False)
    """The body, split; every second part is a placeholder."""
    packed: tuple[bytes, ...] = field(repr=False)
    """Each part compressed separately, or the whole gzip file if there are no placeholders.

    Empty if the body is too short to be worth compressing.
    """
    digest: bytes
    """Hash of the body."""

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Self:
        """Return the response that consists of the ASGI messages of an application."""
        begin, *bodies = messages
        body = b"".join(message.get("body", b"") for message in bodies)
        parts = parts_of(body)
        headers = MutableHeaders(raw=list(begin["headers"]))
        del headers["content-length"]
        headers.add_vary_header("Accept-Encoding")
        return cls(
            status=begin["status"],
            headers=tuple(headers.raw),
            parts=tuple(parts),
            packed=_compress_parts(parts, body) if len(body) >= _WORTH_PACKING else (),
            digest=blake2b(body, digest_size=16).digest(),
        )

    @property
    def is_cacheable(self) -> bool:
        """Whether the response may be sent to later requests."""
        cache_control = Headers(raw=list(self.headers)).get("cache-control", "")
        return self.status == HTTPStatus.OK and "no-store" not in cache_control

    @property
    def may_be_shared(self) -> bool:
        """Whether the response may be sent to identical concurrent requests."""
        return all(name != b"set-cookie" for name, _ in self.headers)

    @property
    def size(self) -> int:
        """Approximate size in memory, in bytes."""
        headers = sum(len(name) + len(value) for name, value in self.headers)
        return headers + sum(map(len, self.parts)) + sum(map(len, self.packed))

    async def send(self, request: Request, person: PlaceholderUser, send: Send) -> None:
        """Send the response to a request."""
        headers = MutableHeaders(raw=list(self.headers))
        body, status = b"", self.status
        if self.is_cacheable:
            headers["ETag"] = self.tag(person)
        if "etag" in headers and _has(request, headers["etag"]):
            status = HTTPStatus.NOT_MODIFIED
            # The other headers are sent, since the browser updates its stored ones from them.
            del headers["content-type"]
        else:
            body = self._body(person, headers, in_gzip=_accepts_gzip(request))
            headers["Content-Length"] = str(len(body))
        await send({"type": "http.response.start", "status": int(status), "headers": headers.raw})
        await send({"type": "http.response.body", "body": body})

    def tag(self, person: PlaceholderUser) -> str:
        """Return the ETag; it differs between users if the response has placeholders."""
        hashed = blake2b(self.digest, digest_size=12)
        if len(self.parts) > 1:
            hashed.update(person.fingerprint())
        # Weak: it does not depend on the content coding, and the token of a form has another text each time.
        return f'W/"{hashed.hexdigest()}"'

    def _body(self, person: PlaceholderUser, headers: MutableHeaders, *, in_gzip: bool) -> bytes:
        """Return the body to send, and set Content-Encoding in the headers."""
        if in_gzip and self.packed:
            headers["Content-Encoding"] = "gzip"
        if len(self.parts) == 1:
            return (self.packed if in_gzip and self.packed else self.parts)[0]
        filled = person.replacements()
        body = b"".join(filled.get(part, part) for part in self.parts)
        if not (in_gzip and self.packed):
            return body
        ready = {blank: compress_part(text) for blank, text in filled.items()}
        return assemble_gzip(
            [ready.get(part, pack) for part, pack in zip(self.parts, self.packed, strict=True)], body
        )


def _compress_parts(parts: Sequence[bytes], body: bytes) -> tuple[bytes, ...]:
    if len(parts) == 1:
        return (assemble_gzip([compress_part(body)], body),)
    return tuple(b"" if number % 2 else compress_part(part) for number, part in enumerate(parts))


def _accepts_gzip(request: Request) -> bool:
    return qualities(request.headers.get("accept-encoding", "")).get("gzip", 0.0) > 0


def _has(request: Request, tag: str) -> bool:
    """Return whether If-None-Match of a request contains an ETag."""
    if_none_match = request.headers.get("if-none-match", "")
    wanted = tag.removeprefix("W/")
    return any(each.strip().removeprefix("W/") in (wanted, "*") for each in if_none_match.split(","))


def compress_part(part: bytes) -> bytes:
    """Compress a part."""
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return packer.compress(part) + packer.flush(zlib.Z_FULL_FLUSH)


def assemble_gzip(parts: Sequence[bytes], body: bytes) -> bytes:
    """Return a gzip file of compressed parts.

    :param parts: the compressed parts of the body.
    :param body: the uncompressed body, for the checksum and the length.
    """
    checked = struct.pack("<LL", zlib.crc32(body), len(body) & 0xFFFFFFFF)
    return b"".join((_HEADER, *parts, _END, checked))
