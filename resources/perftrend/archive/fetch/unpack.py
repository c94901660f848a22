"""Reads compressed files that may be malicious: zip, tar and gzip, as streams.

Nothing is written to disk under a name from an archive. Names outside the archive, links, devices, encrypted
members, nested archives, and data that expands more than logs do are refused, with the name in the message.
Memory use does not grow with the content.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, cast

from typing_extensions import override

from perftrend.archive import source
from perftrend.archive.fetch import zips
from perftrend.archive.fetch.builds import UnpackingError

SWELLING_LIMIT = source.SWELLING_LIMIT
SWELLING_FREE_BYTES = source.SWELLING_FREE_BYTES

_MAGIC = {b"PK\x03\x04": "a zip", b"\x1f\x8b": "a gzip", b"BZh": "a bzip2", b"\xfd7zXZ": "an xz"}
_TAR_MAGIC_AT = 257
_BLOCK_BYTES = 512


class BoundedStream(io.RawIOBase):
    """A stream that raises an error if it exceeds its maximum size.

    :param read: returns some bytes, about as many as requested; empty at the end.
    :param name: name of the stream for messages.
    :param packed_bytes: its compressed size; None if that does not matter.
    :param begun: bytes that precede those that are read.
    """

    def __init__(
        self,
        read: Callable[[int], bytes],
        name: str,
        maximum_bytes: int,
        packed_bytes: int | None = None,
        begun: bytes = b"",
    ) -> None:
        self.name = name
        self._read = read
        self._maximum_bytes = maximum_bytes
        self._packed_bytes = packed_bytes
        self._begun = begun
        self._given = 0

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # as io calls it
        chunk = self._begun or self._read(len(buffer))
        chunk, self._begun = chunk[: len(buffer)], chunk[len(buffer) :]
        buffer[: len(chunk)] = chunk
        self._given += len(chunk)
        if self._given > self._maximum_bytes:
            raise UnpackingError(f"{self.name}: unpacks to more than {self._maximum_bytes} bytes; refused")
        if self._packed_bytes is not None and self._given > max(
            SWELLING_FREE_BYTES, SWELLING_LIMIT * self._packed_bytes
        ):
            raise UnpackingError(f"{self.name}: swells to over {SWELLING_LIMIT} times its size; refused")
        return len(chunk)


def stream(path: Path, name: str, maximum_bytes: int) -> BinaryIO:
    """Return an output, decompressed if necessary, as a stream; the file is open while it is read.

    :param name: name of the file for messages.
    :param maximum_bytes: maximum decompressed size.
    :raises UnpackingError: by the stream, if it is refused.
    :raises OSError: by the stream, if it cannot be read.
    """
    chunks = _chunks(path, name, maximum_bytes)
    return cast("BinaryIO", BoundedStream(lambda _: next(chunks, b""), name, maximum_bytes))


def _chunks(path: Path, name: str, maximum_bytes: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        packed_as_zip = zips.is_zip(file.read(len(zips.MAGIC)))
        file.seek(0)
        if packed_as_zip:
            with zips.output(file, name) as member:
                unzipped = BoundedStream(member.read, member.name, maximum_bytes, member.packed_bytes)
                yield from _text(cast("BinaryIO", unzipped), member.name)
        else:
            yield from _text(file, name)


def detect_archive(begun: bytes) -> str:
    """Return the kind of an archive by its first bytes; empty if it is not an archive."""
    if begun[_TAR_MAGIC_AT:].startswith(b"ustar"):
        return "a tar"
    return next((kind for magic, kind in _MAGIC.items() if begun.startswith(magic)), "")


def _text(packed: BinaryIO, name: str) -> Iterator[bytes]:
    """Decompress one level of gzip."""
    with source.open_stream(packed) as opened:
        begun = b""
        while len(begun) < _BLOCK_BYTES and (chunk := opened.read1(source.CHUNK_BYTES)):
            begun += chunk
        if kind := detect_archive(begun):
            raise UnpackingError(f"{name}: contains {kind} archive instead of an output; refused")
        yield begun
        while chunk := opened.read1(source.CHUNK_BYTES):
            yield chunk
