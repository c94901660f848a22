"""Reads large JSON files as a stream, without the values that are not used.

The counterpart of :mod:`perftrend.archive.output_xml` for JSON: the ends of the bodies of tests, their
set-ups and teardowns are found by brackets alone, and these values are replaced by ``null``. Whether the
kinds of brackets match is not checked. The rest is parsed value by value.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import ijson  # type: ignore[import-untyped]  # it has no types
import numpy as np
from numpy.typing import NDArray

from perftrend.archive import source
from perftrend.archive.result_records import LogLines
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

Bits: TypeAlias = NDArray[np.uint64]
"""64 characters per word, the first one in the lowest bit."""
Marks: TypeAlias = NDArray[np.bool_]
"""One item per character."""
Places: TypeAlias = NDArray[np.int64]

_ESCAPE, _QUOTE = ord("\\"), ord('"')
_STEPS = np.zeros(256, np.int64)
_STEPS[[ord("["), ord("{")]] = 1
_STEPS[[ord("]"), ord("}")]] = -1
_WORD = np.dtype("<u8")
_WORD_BITS = 64
_DOUBLINGS = [np.uint64(1 << power) for power in range(6)]
_LAST = np.uint64(_WORD_BITS - 1)

DEPTH_LIMIT = 50
"""Maximum nesting of values that are read."""


class BinaryFile(Protocol):
    """A file of bytes."""

    def read(self, size: int = -1, /) -> bytes:
        """Return some bytes; empty only at the end."""


class Cursor:
    """Reads a JSON file once, from start to end. Callers read the values that they need and skip the others.

    A value that does not have the requested type counts as an empty one, since file formats change.

    :param charge: called with each text that is retained; it may raise an error.
    :raises ArchiveError: by every method, if the file is not valid JSON.
    """

    def __init__(self, file: BinaryFile, charge: Callable[[str], None]) -> None:
        self._events = self._sound(ijson.basic_parse(file, use_float=True))
        self._charge = charge
        self._event: str
        self._value: Any
        self._advance()

    def members(self) -> Iterator[str]:
        """Yield the keys of an object. The value of each has to be read before the next key."""
        if self._event != "start_map":
            self.skip()
            return
        self._advance()
        while self._event != "end_map":
            key = str(self._value)
            self._advance()
            yield key
        self._advance()

    def items(self) -> Iterator[None]:
        """Yield before each item of a list. The item has to be read before the next one."""
        if self._event != "start_array":
            self.skip()
            return
        self._advance()
        while self._event != "end_array":
            yield
        self._advance()

    def skip(self) -> None:
        """Skip a value."""
        depth = 0
        while True:
            depth += self._event.startswith("start_")
            depth -= self._event.startswith("end_")
            self._advance()
            if depth <= 0:
                return

    def text(self) -> str:
        """Return a string or a number as a string; an empty one for other values."""
        if self._event not in ("string", "number"):
            self.skip()
            return ""
        return str(self.value())

    def value(self, depth: int = DEPTH_LIMIT) -> Any:  # noqa: ANN401 - any JSON value
        """Return a value of any type.

        :raises ArchiveError: if it is nested more deeply than ``depth``.
        """
        if not depth:
            raise ArchiveError(f"has a value that is nested more than {DEPTH_LIMIT} deep")
        if self._event == "start_map":
            return {key: self._member(key, depth) for key in self.members()}
        if self._event == "start_array":
            return [self.value(depth - 1) for _ in self.items()]
        value = self._value
        self._charge(value if isinstance(value, str) else "")
        self._advance()
        return value

    def _member(self, key: str, depth: int) -> Any:  # noqa: ANN401 - as value()
        self._charge(key)
        return self.value(depth - 1)

    def _advance(self) -> None:
        self._event, self._value = next(self._events, ("", None))

    def _sound(self, events: Iterator[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
        try:
            yield from events
        except (ijson.JSONError, UnicodeDecodeError) as error:
            lines = str(error).splitlines() or ["it is cut off"]
            raise ArchiveError(
                f"is not valid JSON: {lines[0].strip()}; was the file cut off or damaged?"
            ) from error


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


@dataclass(frozen=True, slots=True)
class Outside:
    """The brackets of a piece of text outside strings, in the order of the text."""

    places: Places
    """Their positions, shape (n,)."""
    depths: Places
    """Number of open brackets after each, shape (n,)."""
    opens: Marks
    """True for opening brackets, shape (n,)."""
    end: int
    """After the last of them, or after the word with the last quote; 0: the piece has neither."""


class Brackets:
    """Finds the brackets of a JSON text that are outside its strings.

    The text is in pieces, none of which ends between a backslash and the escaped character. Strings are found
    for a whole piece at once: a character is within a string if the number of quotes before it is odd. These
    parities are sums without carry, computed for 64 characters in one word. The idea is that of "Parsing
    Gigabytes of JSON per Second" (Langdale and Lemire, 2019), adapted to numpy.
    """

    def __init__(self) -> None:
        self.depth = 0
        """Number of open brackets."""
        self.in_string = False

    def scan(self, text: bytes) -> Outside:
        """Return the brackets of the next piece."""
        characters = np.frombuffer(text, np.uint8)
        quotes = _bits(_quotes(text))
        # After subtracting [, the four brackets are 0, 2, 32 and 34: only they have no other bits.
        shifted = characters - np.uint8(ord("["))
        shifted &= np.uint8(0xDD)
        places = np.flatnonzero(shifted == 0)
        within = self._within(quotes).view(np.uint8)[places >> 3] >> (places & 7).astype(np.uint8)
        places = places[within & 1 == 0]
        steps = _STEPS[characters[places]]
        depths = self.depth + np.cumsum(steps)
        quoted = np.flatnonzero(quotes)
        if depths.size:
            self.depth = int(depths[-1])
        return Outside(
            places,
            depths,
            opens=steps > 0,
            end=max(
                int(places[-1]) + 1 if places.size else 0,
                min(len(text), _WORD_BITS * (int(quoted[-1]) + 1)) if quoted.size else 0,
            ),
        )

    def _within(self, quotes: Bits) -> Bits:
        """Return a mask of the characters within strings, including the opening quote."""
        within = quotes
        for distance in _DOUBLINGS:
            within = within ^ (within << distance)
        odd = (within >> _LAST).astype(np.bool_)
        begun = np.logical_xor.accumulate(np.concatenate(([self.in_string], odd)))
        self.in_string = bool(begun[-1])
        return np.where(begun[:-1], ~within, within)


def _quotes(text: bytes) -> Marks:
    """Return a mask of the quotes that are not escaped."""
    characters = np.frombuffer(text, np.uint8)
    quotes: Marks = characters == _QUOTE
    escapes: Marks = characters == _ESCAPE
    escaped: Marks = quotes[1:] & escapes[:-1]
    if (escaped[1:] & escapes[:-2]).any():
        # The backslash before the quote may itself be escaped. Without pairs it cannot be.
        return _quotes(text.replace(b"\\\\", b"  "))
    quotes[1:] ^= escaped
    return quotes


def _bits(marks: Marks) -> Bits:
    packed = np.packbits(marks, bitorder="little")
    words = np.zeros(-(-packed.size // 8), _WORD)
    words.view(np.uint8)[: packed.size] = packed
    return words
