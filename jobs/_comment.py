"""The Gerrit comment that started a build, as Jenkins hands it on.

Gerrit Trigger puts the whole comment, base64-encoded, into ``GERRIT_EVENT_COMMENT_TEXT``, so that
no shell and no log ever meets what somebody typed. What it asks for is decided by
:mod:`perftrend.trigger`; the pattern that Jenkins looks for is made of the same grammar.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping

from perftrend import trigger
from perftrend.errors import UsageError
from perftrend.trigger import Refusal, Trigger

VARIABLE = "GERRIT_EVENT_COMMENT_TEXT"
LONGEST = 65536
"""Characters of base64; a comment of Gerrit's has at most a quarter of this."""

_JOB = "trending"
_RIGHT_FORM = (
    "write trendingtest-{}, and tag expressions after it where you want to: trendingtest-{} mrrAND64b"
)


def tags(environment: Mapping[str, str], testbed: str) -> tuple[str, ...] | None:
    """Return the tag expressions that the comment asks for on a testbed.

    :returns: none of them where the trigger stands alone; None where no comment started the build.
    :raises UsageError: if the comment cannot be decoded, does not ask for a run on this testbed, or
        asks for what a run has not.
    """
    encoded = environment.get(VARIABLE, "")
    if not encoded.strip():
        return None
    requests = trigger.parse(_decoded(encoded))
    asked = [each for each in requests if isinstance(each, Trigger) and each.job == _JOB]
    wanted = [each for each in asked if each.testbed == testbed]
    refused = [str(each) for each in requests if _is_wrong(each, testbed)]
    if refused:
        raise UsageError(f"{VARIABLE}: {refused[0]}")
    if not wanted:
        right = _RIGHT_FORM.replace("{}", testbed)
        raise UsageError(f"{VARIABLE}: no line asks for a run on {testbed}; {right}")
    return tuple(dict.fromkeys(tag for each in wanted for tag in _expressions(each)))


def _is_wrong(request: Trigger | Refusal, testbed: str) -> bool:
    """Whether a line means a run on this testbed and cannot be understood."""
    head = f"trendingtest-{testbed}"
    return isinstance(request, Refusal) and request.line.lower().startswith(head.lower())


def _expressions(asked: Trigger) -> tuple[str, ...]:
    """Return the expressions of a request, those that it leaves out subtracted from each."""
    without = asked.exclude_patterns
    wrong = ""
    if asked.lists or str(asked.options):
        wrong = "takes tag expressions alone"
    elif without and not asked.include:
        wrong = "needs a tag beside what is left out"
    elif any("NOT" in each for each in without):
        wrong = "cannot leave out what an expression with NOT fits"
    if wrong:
        raise UsageError(f"{VARIABLE}: {asked} {wrong}; {_RIGHT_FORM.replace('{}', asked.testbed)}")
    return tuple("NOT".join((each, *without)) for each in asked.include_patterns)


def _decoded(encoded: str) -> str:
    if len(encoded) > LONGEST:
        raise UsageError(f"{VARIABLE}: {len(encoded)} characters are too many for a comment of Gerrit's")
    try:
        return base64.b64decode("".join(encoded.split()), validate=True).decode()
    except (binascii.Error, ValueError):
        raise UsageError(
            f"{VARIABLE} is no UTF-8 text in base64; set the job's comment-text parameter mode to BASE64"
        ) from None
