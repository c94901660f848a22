"""Sources of an archived output: a path or a file of bytes, gzipped or not.

All input is untrusted. Bytes that are not text, and gzip data that expands to many times its size, are
detected here, so that other modules need not check for them.
"""

from __future__ import annotations

import codecs
import io
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol, TypeAlias

from perftrend.errors import ArchiveError

Source: TypeAlias = str | Path | BinaryIO
"""One file: a path, or a file that was opened for reading bytes."""

CHUNK_BYTES = 1 << 18

SWELLING_LIMIT = 800
"""Gzip data of a log expands to 20 to 100 times its size; that of a bomb to some 1000 times."""
SWELLING_FREE_BYTES = 100_000_000
"""Smaller output is harmless, however small its gzip data is."""

_GZIP_MAGIC = b"\x1f\x8b"
_GZIP_WINDOW = 16 + zlib.MAX_WBITS


class ByteStream(Protocol):
    """A source of bytes."""

    def read1(self, size: int, /) -> bytes:
        """Return up to ``size`` bytes; empty only at the end."""


def name_of(source: Source) -> str:
    """Return the name of a source for messages."""
    if isinstance(source, (str, Path)):
        return str(source)
    return str(getattr(source, "name", source))


@contextmanager
def open_stream(source: Source) -> Generator[ByteStream, None, None]:
    """Open a path, or use a file as it is; gzip is detected by its first bytes, whatever the name.

    :raises OSError: if it cannot be opened; the stream raises it too, EOFError and zlib.error if gzip data is
        damaged, and ArchiveError if it expands like a bomb.
    """
    if isinstance(source, (str, Path)):
        with Path(source).open("rb") as file, open_stream(file) as stream:
            yield stream
        return
    buffered = io.BufferedReader(source)  # type: ignore[type-var]  # any file of bytes is suitable
    try:
        yield _Gunzip(buffered) if buffered.peek(2)[:2] == _GZIP_MAGIC else buffered
    finally:
        buffered.detach()  # the file stays open for its owner


class _Gunzip:
    """Gzip data of one or several members, decompressed in pieces."""

    def __init__(self, packed: ByteStream) -> None:
        self._packed = packed
        self._member = zlib.decompressobj(_GZIP_WINDOW)
        self._consumed = 0
        self._given = 0

    def read1(self, size: int, /) -> bytes:
        while True:
            packed = self._member.unconsumed_tail or self._more()
            if self._member.eof:
                packed = packed.lstrip(b"\0")  # zero padding, as on tapes
                if not packed:
                    return b""
                self._member = zlib.decompressobj(_GZIP_WINDOW)
            elif not packed:
                raise EOFError("the end marker is missing")
            text = self._member.decompress(packed, size)
            self._given += len(text)
            if self._given > max(SWELLING_FREE_BYTES, SWELLING_LIMIT * self._consumed):
                raise ArchiveError(f"the gzip data swells to over {SWELLING_LIMIT} times its size; refused")
            if text:
                return text

    def _more(self) -> bytes:
        if self._member.eof and self._member.unused_data:
            return self._member.unused_data
        more = self._packed.read1(CHUNK_BYTES)
        self._consumed += len(more)
        return more


class TextCheck:
    """Checks whether bytes in chunks are text: UTF-8, without NUL."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def sound(self, chunk: bytes) -> tuple[int, str]:
        """Return the number of bytes of the chunk that are text, and what follows them if not all are."""
        before = len(self._decoder.getstate()[0])
        nul = chunk.find(b"\0")
        if nul < 0 and not before and chunk.isascii():
            return len(chunk), ""
        try:
            self._decoder.decode(chunk)
        except UnicodeDecodeError as error:
            start = max(0, error.start - before)
            if nul < 0 or start <= nul:
                return start, "what follows is not UTF-8"
        return (len(chunk), "") if nul < 0 else (nul, "a NUL character follows")


def reason(error: Exception) -> str:
    """Return in one line why a stream could not be read."""
    if isinstance(error, (EOFError, zlib.error)):
        return f"the gzip data is cut off or damaged: {error}"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)
