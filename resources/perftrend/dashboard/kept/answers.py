"""Cached responses, and how they are sent to each user."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from http import HTTPStatus
from typing import Self

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.types import Message, Send

from perftrend.dashboard.kept.blanks import Person, parts_of
from perftrend.dashboard.kept.packing import gzipped, packed
from perftrend.dashboard.pages import qualities

_WORTH_PACKING = 1000


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
            packed=_packed(parts, body) if len(body) >= _WORTH_PACKING else (),
            digest=blake2b(body, digest_size=16).digest(),
        )

    @property
    def may_be_kept(self) -> bool:
        """Whether the response may be sent to later requests."""
        kept = Headers(raw=list(self.headers)).get("cache-control", "")
        return self.status == HTTPStatus.OK and "no-store" not in kept

    @property
    def may_be_shared(self) -> bool:
        """Whether the response may be sent to identical concurrent requests."""
        return all(name != b"set-cookie" for name, _ in self.headers)

    @property
    def size(self) -> int:
        """Approximate size in memory, in bytes."""
        headers = sum(len(name) + len(value) for name, value in self.headers)
        return headers + sum(map(len, self.parts)) + sum(map(len, self.packed))

    async def send(self, request: Request, person: Person, send: Send) -> None:
        """Send the response to a request."""
        headers = MutableHeaders(raw=list(self.headers))
        body, status = b"", self.status
        if self.may_be_kept:
            headers["ETag"] = self.tag(person)
        if "etag" in headers and _has(request, headers["etag"]):
            status = HTTPStatus.NOT_MODIFIED
            # The other headers are sent, since the browser updates its stored ones from them.
            del headers["content-type"]
        else:
            body = self._body(person, headers, in_gzip=_takes_gzip(request))
            headers["Content-Length"] = str(len(body))
        await send({"type": "http.response.start", "status": int(status), "headers": headers.raw})
        await send({"type": "http.response.body", "body": body})

    def tag(self, person: Person) -> str:
        """Return the ETag; it differs between users if the response has placeholders."""
        hashed = blake2b(self.digest, digest_size=12)
        if len(self.parts) > 1:
            hashed.update(person.told_apart())
        # Weak: it does not depend on the content coding, and the token of a form has another text each time.
        return f'W/"{hashed.hexdigest()}"'

    def _body(self, person: Person, headers: MutableHeaders, *, in_gzip: bool) -> bytes:
        """Return the body to send, and set Content-Encoding in the headers."""
        if in_gzip and self.packed:
            headers["Content-Encoding"] = "gzip"
        if len(self.parts) == 1:
            return (self.packed if in_gzip and self.packed else self.parts)[0]
        filled = person.filled()
        body = b"".join(filled.get(part, part) for part in self.parts)
        if not (in_gzip and self.packed):
            return body
        ready = {blank: packed(text) for blank, text in filled.items()}
        return gzipped(
            [ready.get(part, pack) for part, pack in zip(self.parts, self.packed, strict=True)], body
        )


def _packed(parts: Sequence[bytes], body: bytes) -> tuple[bytes, ...]:
    if len(parts) == 1:
        return (gzipped([packed(body)], body),)
    return tuple(b"" if number % 2 else packed(part) for number, part in enumerate(parts))


def _takes_gzip(request: Request) -> bool:
    return qualities(request.headers.get("accept-encoding", "")).get("gzip", 0.0) > 0


def _has(request: Request, tag: str) -> bool:
    """Return whether If-None-Match of a request contains an ETag."""
    told = request.headers.get("if-none-match", "")
    wanted = tag.removeprefix("W/")
    return any(each.strip().removeprefix("W/") in (wanted, "*") for each in told.split(","))
