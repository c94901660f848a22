"""The testbed of a build, as far as its job's name contains it."""

from __future__ import annotations

import re

from perftrend.errors import UsageError

DEFAULT = r"(?<![^-_/])(?P<testbed>[1-9][0-9]?n[0-9a-z]*-[0-9a-z]+)"
"""Finds ``2n-clx`` in ``perftrend-trending-nightly-2n-clx`` and in ``team/mrr-daily-master-2n-clx``."""


def pattern(expression: str) -> re.Pattern[str]:
    """Compile the pattern that finds the testbed in a job's name.

    The testbed is its group ``testbed``, else its first group, else the whole match.

    :raises UsageError: if it is not a regular expression.
    """
    try:
        return re.compile(expression)
    except re.error as error:
        raise UsageError(
            f"--testbed-pattern {expression!r}: {error}; write one such as {DEFAULT!r}"
        ) from None


def testbed_of(job: str, form: re.Pattern[str]) -> str:
    """Return the testbed in a job's name; empty if it contains none. The last match counts."""
    places = list(form.finditer(job))
    if not places:
        return ""
    found = places[-1]
    if "testbed" in form.groupindex:
        return found["testbed"] or ""
    return (found[1] if form.groups else found[0]) or ""
