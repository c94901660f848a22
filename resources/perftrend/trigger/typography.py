"""Normalization of copied and pasted text: whitespace, dashes and invisible characters."""

from __future__ import annotations

import re

_INVISIBLE = re.compile("[\xad\u180e\u200b-\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]+")
"""Soft hyphens, joiners, direction marks and byte order marks."""

_HYPHENS = "\u2010\u2011\u2012\u2013\u2212\ufe63\uff0d"
_LONG_DASHES = "\u2013\u2014\u2015"
"""Dashes that word processors substitute for ``--``."""

_LEADING = re.compile(f"^[{_LONG_DASHES}]-?")
_DASHES = str.maketrans(dict.fromkeys(_HYPHENS, "-"))
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


def visible(text: str) -> str:
    """Return the text without invisible characters."""
    return text if text.isascii() else _INVISIBLE.sub("", text)


def tidy(line: str) -> list[str]:
    """Return the words of a line with plain dashes; a long dash at the start of a word becomes ``--``."""
    words = line.split()
    return words if line.isascii() else [_LEADING.sub("--", word).translate(_DASHES) for word in words]


def printable_line(text: str, *, most: int = 200) -> str:
    """Return the text as one printable line, cut if it is longer than ``most`` characters."""
    printable = _UNPRINTABLE.sub("\ufffd", " ".join(text[: 4 * most].split()))
    return printable if len(printable) <= most else f"{printable[: most - 1]}…"


def quote(word: str) -> str:
    """Return a word in quotes, for the reason of a refusal."""
    return f"'{printable_line(word, most=60)}'"
