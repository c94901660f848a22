"""Percent escapes: how a name or a value contains characters with a special meaning.

A character is written as ``%`` and two hex digits for each byte of its UTF-8. Unprintable characters are
always escaped, so that two texts that look the same are the same.
"""

from __future__ import annotations

import re
from functools import cache

from perftrend.errors import FormulaError

_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_SHOWN = 40
"""Characters of a wrong text that an error message repeats."""


def escape(text: str, special: str) -> str:
    """Return the text with ``%``, the special characters and unprintable ones escaped.

    :raises FormulaError: for half a surrogate pair, which is not a character.
    """
    if is_plain(text, special):
        return text
    try:
        return "".join(each if is_plain(each, special) else _escape(each) for each in text)
    except UnicodeEncodeError as error:
        raise FormulaError(
            "text", error.start, "half a surrogate pair is not a character; leave it out"
        ) from None


def unescape(text: str, special: str, *, subject: str, position: int) -> str:
    """Return the text without escapes.

    :param special: characters that must be escaped.
    :param subject: name of the whole text, for the error.
    :param position: where this text begins in the whole one.
    :raises FormulaError: for a special character that is not escaped, or an invalid escape.
    """
    if is_plain(text, special):
        return text
    pieces: list[bytes] = []
    place = 0
    while place < len(text):
        character = text[place]
        found = _ESCAPE.match(text, place)
        if character == "%" and not found:
            reason = "a % is not followed by two hex digits; write %25 for a percent sign"
            raise FormulaError(subject, position + place, reason)
        if character != "%" and not is_plain(character, special):
            reason = f"{quote(character)} is not allowed here{_rather(character)}"
            raise FormulaError(subject, position + place, reason)
        pieces.append(bytes.fromhex(found[0][1:]) if found else character.encode())
        place += len(found[0]) if found else 1
    try:
        return b"".join(pieces).decode()
    except UnicodeDecodeError:
        raise FormulaError(
            subject, position, "the escapes are not valid UTF-8; write each byte as %XX"
        ) from None


def is_plain(text: str, special: str) -> bool:
    """Return whether a text needs no escapes."""
    return text.isprintable() and _set_of(special).isdisjoint(text)


def quote(text: str) -> str:
    """Return a wrong text for an error message: in quotes, on one line, printable, truncated if long."""
    return repr(text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…")


@cache
def _set_of(special: str) -> frozenset[str]:
    """Return the characters that need an escape; the modules of formulas have a handful of such sets."""
    return frozenset(f"%{special}")


def _escape(character: str) -> str:
    return "".join(f"%{byte:02X}" for byte in character.encode())


def _rather(character: str) -> str:
    try:
        return f"; write {_escape(character)}"
    except UnicodeEncodeError:
        return "; leave it out"
