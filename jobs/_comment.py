"""The Gerrit comment that started a build, as Jenkins hands it on.

Gerrit Trigger puts the whole comment, base64-encoded, into ``GERRIT_EVENT_COMMENT_TEXT``, so that
no shell and no log ever meets what somebody typed. A line that begins with
``trendingtest-TESTBED`` asks for a run; tag expressions may follow. Gerrit's heading, quoted lines
and whatever else stands in the comment are not looked at.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping

from perftrend.errors import UsageError

VARIABLE = "GERRIT_EVENT_COMMENT_TEXT"
LONGEST = 65536
"""Characters of base64; a comment of Gerrit's has at most a quarter of this."""

BLANK = r"[ \t\u00A0]"
"""A copied line brings non-breaking blanks along."""
END = rf"{BLANK}*(?:\.{BLANK}*)?\r?$"
"""And a full stop, or the carriage return of a mail. No two blanks meet, so that many take no longer."""
WORDS = rf"(?:{BLANK}+[A-Za-z0-9_*?\[][A-Za-z0-9_.*?\[\]-]*)*"


def pattern(testbed: str) -> str:
    """Return the regular expression of a line that asks for a run, for Python and for Java."""
    return rf"(?m)^trendingtest-{re.escape(testbed)}{WORDS}{END}".replace(r"\-", "-")


def tags(environment: Mapping[str, str], testbed: str) -> tuple[str, ...] | None:
    """Return the tag expressions that the comment asks for on a testbed.

    :returns: none of them where the trigger stands alone; None where no comment started the build.
    :raises UsageError: if the comment cannot be decoded, does not ask for a run on this testbed, or
        asks for what is no tag expression.
    """
    encoded = environment.get(VARIABLE, "")
    if not encoded.strip():
        return None
    trigger = f"trendingtest-{testbed}"
    lines = re.findall(rf"(?m)^{re.escape(trigger)}\.?(?:[ \t\u00A0\r].*)?$", _decoded(encoded))
    for line in lines:
        if not re.fullmatch(pattern(testbed), line):
            raise UsageError(f"{VARIABLE}: {line[:200]!r} is not understood; {_right_form(trigger)}")
    if not lines:
        raise UsageError(f"{VARIABLE}: no line begins with {trigger}; {_right_form(trigger)}")
    words = (word for line in lines for word in re.split(BLANK, line.rstrip(" \t\u00a0\r."))[1:])
    return tuple(word for word in words if word)


def _right_form(trigger: str) -> str:
    return f"write {trigger}, and tag expressions after it where you want to: {trigger} mrrAND64b"


def _decoded(encoded: str) -> str:
    if len(encoded) > LONGEST:
        raise UsageError(f"{VARIABLE}: {len(encoded)} characters are too many for a comment of Gerrit's")
    try:
        return base64.b64decode("".join(encoded.split()), validate=True).decode()
    except (binascii.Error, ValueError):
        raise UsageError(
            f"{VARIABLE} is no UTF-8 text in base64; set the job's comment-text parameter mode to BASE64"
        ) from None
