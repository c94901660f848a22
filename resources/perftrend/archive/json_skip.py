"""Positions of the brackets of a JSON text that are outside its strings.

Strings are found for a whole piece of text at once: a character is within a string if the number of quotes
before it is odd. These parities are sums without carry, computed for 64 characters in one word. The idea is
that of "Parsing Gigabytes of JSON per Second" (Langdale and Lemire, 2019), adapted to numpy.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

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
    """State of a text in pieces, none of which ends between a backslash and the escaped character."""

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
