"""The hash after the trigger word of a bisection, and common mistakes in its place."""

from __future__ import annotations

import re

from perftrend.trigger.expressions import HASH
from perftrend.trigger.typography import quote

PLACEHOLDER = "HASH"
"""Placeholder for the hash in a correct form."""

_LEAST, _MOST = 7, 40
_HEX = frozenset("0123456789abcdef")
_NUMBER = re.compile(r"[0-9]{1,6}", re.ASCII)
_CHANGE_ID = re.compile(r"i[0-9a-f]{7,40}")
_ABBREVIATION = re.compile(r"[0-9a-f]{4,6}")
_FRAME_OR_CORES = re.compile(r"[0-9]+[bc]")
_REVISION = re.compile(r"head|main|master|v[0-9][0-9.]*(?:-.*)?|.*[~^/].*|.*\.\..*")


def read_hash(words: list[str]) -> tuple[str | None, str]:
    """Remove the hash, or the mistake in its place, from the front of the words.

    :returns: the hash in lower case or None, and the problem or an empty string.
    """
    word = words[0] if words else ""
    lower = word.lower()
    if HASH.fullmatch(lower):
        words.pop(0)
        return lower, ""
    wrong = _wrong_hash(lower)
    if wrong:
        words.pop(0)
        return None, f"{quote(word)} {wrong}"
    return None, "the hash of the older commit is missing after the trigger word"


def _wrong_hash(word: str) -> str:
    """Return why a word is not a hash; empty if it was probably not intended as one."""
    digits = len(word)
    strange = [each for each in word if each not in _HEX]
    wrong = {
        "looks like the number of a change; write the hash of the older commit": _NUMBER.fullmatch(word),
        "is a Change-Id; write the hash of the older commit": _CHANGE_ID.fullmatch(word),
        "is a link; write the hash of the older commit": "://" in word,
        f"has {digits} hex digits; a hash has at least {_LEAST}, so {_LEAST - digits} more": (
            _ABBREVIATION.fullmatch(word) and not _FRAME_OR_CORES.fullmatch(word)
        ),
        f"has {digits} hex digits; a hash has at most {_MOST}, so {digits - _MOST} fewer": (
            digits > _MOST and not strange
        ),
        "is a placeholder; write the hash of the older commit": word.strip("<>{}[]") == PLACEHOLDER.lower(),
        "is not a hash; git rev-parse prints the hash": _REVISION.fullmatch(word),
        f"has {quote(''.join(strange[:1]))}, which is not a hex digit": (
            len(strange) == 1 and digits >= _LEAST
        ),
    }
    return next((reason for reason, applies in wrong.items() if applies), "")
