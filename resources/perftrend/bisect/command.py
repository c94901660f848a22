"""The comment and the command with which a user can start a bisection. Nothing is started here."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import replace

from pydantic import BaseModel, ConfigDict

from perftrend import COMMAND, links
from perftrend.analysis.formula import format_key
from perftrend.model import TraceKey
from perftrend.settings import Settings
from perftrend.trigger import Trigger, parse, patterns_of

_TEST = re.compile(
    r"(\d+b|imix)-(\d+c)-([a-z0-9-]+?)(?:-(mrr|ndrpdr|soak|hold|reconf))?", re.IGNORECASE | re.ASCII
)
"""Names of tests: frame size, cores, function of the device, kind of test; each part is also a tag."""


class Bisection(BaseModel):
    """A bisection to copy; it is not started."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    old: str
    new: str
    comment: str
    """To post in Gerrit, on the change of the newer commit."""
    command: str
    """Starts the bisection from the command line."""
    change: str
    """URL of that change; empty: unknown."""
    start: str
    """Path of the page of the dashboard that starts it."""


def prepare(
    settings: Settings, testbed: str, key: TraceKey | None, *, old: str, new: str
) -> Bisection | None:
    """Return a bisection between two commits; None if there is nothing to bisect.

    That is if a commit is not known, both are the same, or no comment can name the testbed of an archive.

    :param key: key of the trace whose test is measured; None: the default tests of the job.
    :param old: hash of the older commit; empty: not known.
    :param new: hash of the newer commit; empty: not known.
    """
    if not old or not new or old == new:
        return None
    tests = tests_of(key)
    comment = format_comment(settings, testbed, old=old, include=tests)
    if not comment:
        return None
    command = [COMMAND, "bisect", "--testbed", testbed, "--old", old, "--new", new]
    command += ["--tags", *tests] if tests else []
    return Bisection(
        old=old,
        new=new,
        comment=comment,
        command=shlex.join(command),
        change=links.of_commit(new, settings),
        start=links.of_new_bisection(testbed, old=old, new=new, trace=format_key(key) if key else ""),
    )


def format_comment(settings: Settings, testbed: str, *, old: str, include: Sequence[str]) -> str:
    """Return the comment that starts a bisection; empty if a comment cannot name the testbed or the tests.

    :param old: hash of the older commit.
    :param include: tag expressions of the tests to measure.
    """
    trigger = Trigger("bisect", testbed, old=old, include=tuple(include))
    requests = parse(str(trigger))
    if len(requests) != 1 or not isinstance(requests[0], Trigger):
        return ""
    return str(replace(trigger, word=usual_word(settings, "bisect", testbed)))


def usual_word(settings: Settings, job: str, testbed: str) -> str:
    """Return the first trigger word that starts a job on a testbed; empty if the settings have none."""
    return next(iter(patterns_of(settings.trigger.words, job, testbed)), "")


def tests_of(key: TraceKey | None) -> tuple[str, ...]:
    """Return the tag expression of a trace's test; nothing if it cannot be derived from the name."""
    expression = _expression(key)
    return (expression,) if expression else ()


def _expression(key: TraceKey | None) -> str:
    """Return the tag expression of a trace's test; empty if it cannot be derived from the name."""
    test = key.as_dict().get("test", "") if key else ""
    found = _TEST.fullmatch(test)
    if not found:
        return ""
    frame, cores, function, kind = found.groups()
    expression = "AND".join(part.lower() for part in (kind, frame, cores, function) if part)
    # Only offer an expression that the grammar of comments parses as a single expression.
    requests = parse(f"bisecttest-1n-veth 0123abcd {expression}")
    return (
        expression
        if [isinstance(each, Trigger) and each.include for each in requests] == [(expression,)]
        else ""
    )
