"""The outline of a large JSON file: everything except values that are not used.

The counterpart of :mod:`perftrend.archive.xml_skip` for JSON: the ends of the bodies of tests, their set-ups
and teardowns are found by brackets alone, and these values are replaced by ``null``. Whether the kinds of
brackets match is not checked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from perftrend.archive import source
from perftrend.archive.json_skip import Brackets, Outside, Places
from perftrend.archive.loglines import LogLines
from perftrend.archive.source import ByteStream, TextCheck
from perftrend.errors import ArchiveError

NESTING_LIMIT = 10_000
STRING_LIMIT_BYTES = 4_000_000
"""Longer strings are allowed only in skipped values: elsewhere they have to be held in memory."""
NUMBER_LIMIT_BYTES = 1_000_000
"""The same limit for numbers, including the characters between them."""

# An escaped quote does not begin a key; every key has a character before it.
_KEY = re.compile(rb'[^\\]"(body|setup|teardown|telemetry)"\s*:\s*\Z')
_KEY_BYTES = 64
"""A key that begins further before its value is not found: then the parser skips the value."""
_PIECE_BYTES = 1 << 17
"""The memory of larger arrays is returned to the system each time, which takes longer than the rest."""
_AFTER_KEY = np.zeros(256, np.bool_)
_AFTER_KEY[list(b": \t\r\n")] = True
_NEAR = 64


class JsonOutline:
    """Reads JSON in pieces and returns everything that is not skipped; a file object for a parser."""

    def __init__(self, stream: ByteStream, lines: LogLines) -> None:
        self._stream = stream
        self._lines = lines
        self._brackets = Brackets()
        self._around: int | None = None
        """Number of open brackets around the value that is skipped."""
        self._in_set_up = False
        self._before = b""
        """The end of the returned text, which may be a key."""
        self._unbroken = 0
        """Bytes since the start of the current string, number, or text between them."""
        self._pieces = self._outline()

    def read(self, size: int = -1, /) -> bytes:
        """Return the next piece, of any size; empty at the end.

        :raises ArchiveError: if the file is not text, nests too deeply, or has a string that is too long.
        :raises OSError, EOFError, zlib.error: as the stream does.
        """
        return next(self._pieces, b"") if size else b""

    def _outline(self) -> Iterator[bytes]:
        check = TextCheck()
        rest = b""
        while chunk := self._stream.read1(min(source.CHUNK_BYTES, _PIECE_BYTES)):
            length, damage = check.sound(chunk)
            text = rest + chunk[:length]
            # No piece ends between a backslash and the character that it escapes.
            end = len(text) - (len(text) - len(text.rstrip(b"\\"))) % 2
            text, rest = text[:end], text[end:]
            if text:
                yield from filter(None, self._outside(text))
            if damage:
                raise ArchiveError(damage)
        if self._around is not None:
            raise ArchiveError("the file is cut off within a test or a set-up")
        if rest:
            yield rest

    def _outside(self, text: bytes) -> Iterator[bytes]:
        """Yield the parts of a piece that are not skipped."""
        found = self._brackets.scan(text)
        if found.depths.size and found.depths.max() > NESTING_LIMIT:
            raise ArchiveError(f"is nested more than {NESTING_LIMIT} deep")
        # Most pieces are skipped completely, and need no values.
        values: Places | None = None
        start = index = 0
        while True:
            if self._around is not None:
                index = _find_closing(found.depths, index, self._around) + 1
                start = self._skip(text, start, found, index)
                if self._around is not None:
                    return
            if values is None:
                values = _values(text, found)
            index = self._find_value_to_skip(text, start, found, values[values.searchsorted(index) :])
            stop = int(found.places[index]) if index < found.places.size else len(text)
            self._before = (self._before + text[max(start, stop - _KEY_BYTES) : stop])[-_KEY_BYTES:]
            if index == found.places.size:
                yield text[start:]
                self._limit(len(text), max(start, found.end))
                return
            yield text[start:stop] + b"null"
            self._around = int(found.depths[index]) - 1
            start = stop

    def _find_value_to_skip(self, text: bytes, start: int, found: Outside, values: Places) -> int:
        """Return the index of the first bracket that opens a value to skip; past the end if there is none."""
        for index in values:
            place = int(found.places[index])
            before = text[max(start, place - _KEY_BYTES) : place]
            if place - start < _KEY_BYTES:
                before = self._before + before
            if key := _KEY.search(before):
                self._in_set_up = key[1] == b"setup"
                return int(index)
        return int(found.places.size)

    def _skip(self, text: bytes, start: int, found: Outside, index: int) -> int:
        """Return the end of the skipped value: after a bracket, or the end of this piece."""
        is_whole = index <= found.places.size
        end = int(found.places[index - 1]) + 1 if is_whole else len(text)
        if self._in_set_up:
            self._lines.search(text[start:end])
        if is_whole:
            self._lines.end()
            self._around = None
        self._unbroken = 0
        return end

    def _limit(self, length: int, broken: int) -> None:
        """Raise ArchiveError for text that the parser would have to hold in memory.

        :param broken: position of the last string, bracket or skipped value of the piece; 0: it has none.
        """
        self._unbroken = length - broken if broken else self._unbroken + length
        if self._brackets.in_string and self._unbroken > STRING_LIMIT_BYTES:
            raise ArchiveError(f"has a string of more than {STRING_LIMIT_BYTES} bytes")
        if not self._brackets.in_string and self._unbroken > NUMBER_LIMIT_BYTES:
            raise ArchiveError(f"has {NUMBER_LIMIT_BYTES} bytes without a string or a bracket")


def _values(text: bytes, found: Outside) -> Places:
    """Return the indices of the brackets that open a value and may follow a key."""
    before = np.frombuffer(text, np.uint8)[found.places - 1]
    # The character before the first one is in another piece.
    return np.flatnonzero(found.opens & (_AFTER_KEY[before] | (found.places == 0)))


def _find_closing(depths: Places, index: int, around: int) -> int:
    """Return the first index at or after ``index`` with the depth ``around``; past the end if none has."""
    near = _NEAR
    while index < depths.size:
        closes = depths[index : index + near] == around
        first = int(closes.argmax())
        if closes[first]:
            return index + first
        # Search a growing range, since text after the value need not be searched.
        index, near = index + near, 2 * near
    return int(depths.size)
