"""Answers as they are kept, and what of them each reader is sent."""

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
    """An answer with blanks."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    parts: tuple[bytes, ...] = field(repr=False)
    """Of the body; each second one is a blank."""
    packed: tuple[bytes, ...] = field(repr=False)
    """The parts packed, each alone; of a body without blanks the whole file. Empty: that does not pay."""
    digest: bytes
    """Of the body."""

    @classmethod
    def of(cls, messages: Sequence[Message]) -> Self:
        """Return what an application has sent."""
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
        """Whether it is good for those who ask the same later."""
        kept = Headers(raw=list(self.headers)).get("cache-control", "")
        return self.status == HTTPStatus.OK and "no-store" not in kept

    @property
    def may_be_shared(self) -> bool:
        """Whether it is good for those who ask the same now."""
        return all(name != b"set-cookie" for name, _ in self.headers)

    @property
    def size(self) -> int:
        """The bytes of memory that it takes, about."""
        headers = sum(len(name) + len(value) for name, value in self.headers)
        return headers + sum(map(len, self.parts)) + sum(map(len, self.packed))

    async def send(self, request: Request, person: Person, send: Send) -> None:
        """Answer a request."""
        headers = MutableHeaders(raw=list(self.headers))
        body, status = b"", self.status
        if self.may_be_kept:
            headers["ETag"] = self.tag(person)
        if "etag" in headers and _has(request, headers["etag"]):
            status = HTTPStatus.NOT_MODIFIED
            # All others stay: the browser replaces those that it has.
            del headers["content-type"]
        else:
            body = self._body(person, headers, in_gzip=_takes_gzip(request))
            headers["Content-Length"] = str(len(body))
        await send({"type": "http.response.start", "status": int(status), "headers": headers.raw})
        await send({"type": "http.response.body", "body": body})

    def tag(self, person: Person) -> str:
        """Return what a browser knows the answer by: where it has blanks, another one for each reader."""
        hashed = blake2b(self.digest, digest_size=12)
        if len(self.parts) > 1:
            hashed.update(person.told_apart())
        # Weak: it says nothing of the coding, and the token of a form has another text each time.
        return f'W/"{hashed.hexdigest()}"'

    def _body(self, person: Person, headers: MutableHeaders, *, in_gzip: bool) -> bytes:
        """Return the body as it is sent, and note how it is coded."""
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
    """Tell whether a browser has an answer of a tag already."""
    told = request.headers.get("if-none-match", "")
    wanted = tag.removeprefix("W/")
    return any(each.strip().removeprefix("W/") in (wanted, "*") for each in told.split(","))
