"""The outline of a large JSON file: all of it but the values that nobody looks at.

What :mod:`perftrend.archive.outline` does for XML, this does for JSON: the bodies of tests, their
set-ups and teardowns are followed by their brackets alone and ``null`` takes their place. A bracket
within a string does not count; which kind of bracket closes which is not looked at.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from perftrend.archive import source
from perftrend.archive.loglines import LogLines
from perftrend.archive.source import Stream, TextCheck
from perftrend.errors import ArchiveError

NESTING_LIMIT = 10_000
STRING_LIMIT_BYTES = 4_000_000
"""Longer strings are read only where they are skipped: elsewhere they have to be held in memory."""
NUMBER_LIMIT_BYTES = 1_000_000
"""Likewise for numbers, with what stands between them."""

_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_SKIPPED = rb"body|setup|teardown|telemetry"
_KEPT = re.compile(
    rb'"(?P<key>%b)"\s*:\s*(?P<value>[\[{])' % _SKIPPED
    # A chunk may end before it is clear whether that is a key, or within a string.
    + rb'|(?P<begun>"(?:%b)"\s*(?::\s*)?\Z)' % _SKIPPED
    + rb"|%b" % _STRING
    + rb'|(?P<string>")|(?P<start>[\[{])|(?P<end>[\]}])',
    re.DOTALL,
)
_WINDOWS_BYTES = (1 << 12, 1 << 16)
_ESCAPE, _QUOTE = ord("\\"), ord('"')
_STEPS = np.zeros(256, np.int32)
_STEPS[[ord("["), ord("{")]] = 1
_STEPS[[ord("]"), ord("}")]] = -1


class JsonOutline:
    """Reads JSON in chunks and passes on what is not skipped; a file object for a parser."""

    def __init__(self, stream: Stream, lines: LogLines) -> None:
        self._stream = stream
        self._lines = lines
        self._skipped = 0
        """How many brackets are open in a value that is skipped."""
        self._in_string = False
        self._in_set_up = False
        self._depth = 0
        self._unbroken = 0
        self._window = _WINDOWS_BYTES[0]
        self._pieces = self._outline()

    def read(self, size: int = -1, /) -> bytes:
        """Return the next piece, of any size; none at the end.

        :raises ArchiveError: for what is no text, nests too deep, or has a string that is too long.
        :raises OSError, EOFError, zlib.error: as the stream does.
        """
        return next(self._pieces, b"") if size else b""

    def _outline(self) -> Iterator[bytes]:
        check = TextCheck()
        rest = b""
        while chunk := self._stream.read1(source.CHUNK_BYTES):
            length, damage = check.sound(chunk)
            text = rest + chunk[:length]
            start = 0
            while start < len(text):
                before = start
                if self._skipped:
                    start = self._skip(text, start)
                else:
                    start, piece = self._keep(text, start)
                    if piece:
                        yield piece
                if start == before:
                    break
            rest = text[start:]
            if damage:
                raise ArchiveError(damage)
            if len(rest) > STRING_LIMIT_BYTES:
                raise ArchiveError(f"has a string of more than {STRING_LIMIT_BYTES} bytes")
        if self._skipped:
            raise ArchiveError("the file is cut off within a test or a set-up")
        if rest:
            yield rest

    def _keep(self, text: bytes, start: int) -> tuple[int, bytes]:
        """Return where the next value begins that is skipped, or what the chunk cuts, and all before."""
        self._unbroken += len(text) - start
        for found in _KEPT.finditer(text, start):
            self._unbroken = len(text) - found.end()
            kind = found.lastgroup
            if kind == "value":
                self._skipped = 1
                self._in_set_up = found["key"] == b"setup"
                return found.end(), text[start : found.end() - 1] + b"null"
            if kind in ("begun", "string"):
                return found.start(), text[start : found.start()]
            if kind:
                self._depth += 1 if kind == "start" else -1
                if self._depth > NESTING_LIMIT:
                    raise ArchiveError(f"is nested more than {NESTING_LIMIT} deep")
        if self._unbroken > NUMBER_LIMIT_BYTES:
            raise ArchiveError(f"has {NUMBER_LIMIT_BYTES} bytes without a string or a bracket")
        return len(text), text[start:]

    def _skip(self, text: bytes, start: int) -> int:
        """Return where the value ends that is skipped, or where the chunk cuts it."""
        # What lies behind the value should not be looked at for nothing, so its length is guessed.
        position, window = start, self._window
        while self._skipped and position < len(text):
            end = min(position + window, len(text))
            if text[end - 1] == _ESCAPE:
                end = _behind_escapes(text, end)
            if end == position:
                break
            position += self._skip_window(text[position:end])
            window *= 2
        least, most = _WINDOWS_BYTES
        self._window = max(least, self._window // 2, min(most, position - start))
        if self._in_set_up:
            self._lines.take(text[start:position])
        if not self._skipped:
            self._lines.end()
        return position

    def _skip_window(self, text: bytes) -> int:
        """Follow the brackets outside of strings; return where the last open one is closed, or the end."""
        characters = np.frombuffer(text, np.uint8)
        quotes = np.flatnonzero(characters == _QUOTE)
        if (characters[quotes[quotes > 0] - 1] == _ESCAPE).any():
            unescaped = text.replace(b"\\\\", b"  ").replace(b'\\"', b"  ")
            quotes = np.flatnonzero(np.frombuffer(unescaped, np.uint8) == _QUOTE)
        # Less [, the four brackets are 0, 2, 32 and 34: nothing else has no bit but these.
        brackets = np.flatnonzero(((characters - ord("[")) & 0xDD) == 0)
        within = (np.searchsorted(quotes, brackets) + self._in_string) % 2
        brackets = brackets[within == 0]
        depths = self._skipped + np.cumsum(_STEPS[characters[brackets]])
        closed = np.flatnonzero(depths == 0)
        if closed.size:
            self._skipped, self._in_string = 0, False
            return int(brackets[closed[0]]) + 1
        if depths.size:
            self._skipped = int(depths[-1])
            if depths.max() > NESTING_LIMIT:
                raise ArchiveError(f"is nested more than {NESTING_LIMIT} deep")
        self._in_string = bool((quotes.size + self._in_string) % 2)
        return len(text)


def _behind_escapes(text: bytes, end: int) -> int:
    """Return the first place from an end on where nothing is escaped; what a chunk cuts is left out."""
    while end < len(text) and text[end - 1] == _ESCAPE:
        end += 1
    if end < len(text) or text[end - 1] != _ESCAPE:
        return end
    escapes = end - len(text.rstrip(b"\\"))
    return end - escapes % 2
