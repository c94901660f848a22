"""A bisection that a person can start: the comment and the command to copy. Nothing is started here."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass

from perftrend.dashboard import links
from perftrend.model import TraceKey
from perftrend.settings import Settings
from perftrend.store.tiles import Column
from perftrend.trigger import Trigger, parse, patterns_of

_TEST = re.compile(r"(\d+b|imix)-(\d+c)-([a-z0-9-]+?)(?:-(mrr|ndrpdr|soak|hold))?", re.IGNORECASE | re.ASCII)
"""How tests are named: frame, cores, what the device does, what is measured; each of them is a tag, too."""


@dataclass(frozen=True, slots=True)
class Bisection:
    """What is to be copied."""

    old: str
    new: str
    comment: str
    """For Gerrit, on the change of the newer commit."""
    command: str
    """For a person, in a checkout of perftrend."""
    change: str
    """Where the change of the newer commit is; empty: not known."""


def prepared(
    settings: Settings, testbed: str, key: TraceKey | None, older: Column, newer: Column
) -> Bisection | None:
    """Prepare a bisection between two columns; None where their commits are not known or are the same.

    :param key: of the trace, whose test is measured; None: the tests that the job chooses itself.
    """
    old, new = older.revision, newer.revision
    if not old or not new or old == new:
        return None
    expression = _expression(key)
    comment = str(
        Trigger(
            "bisection",
            testbed,
            old=old,
            include=(expression,) if expression else (),
            word=next(iter(patterns_of(settings.trigger.words, "bisection", testbed)), ""),
        )
    )
    command = ["./run", "bisection", "--testbed", testbed, "--old", old, "--new", new]
    command += ["--tags", expression] if expression else []
    return Bisection(old, new, comment, shlex.join(command), links.of_commit(new, settings))


def _expression(key: TraceKey | None) -> str:
    """Return the tag expression of a trace's test; empty where its name does not tell."""
    test = key.as_dict().get("test", "") if key else ""
    found = _TEST.fullmatch(test)
    if not found:
        return ""
    frame, cores, function, kind = found.groups()
    expression = "AND".join(part.lower() for part in (kind, frame, cores, function) if part)
    # What the grammar does not take for one expression is not offered.
    asked = parse(f"bisecttest-1n-veth 0123abcd {expression}")
    return (
        expression
        if [isinstance(each, Trigger) and each.include for each in asked] == [(expression,)]
        else ""
    )
