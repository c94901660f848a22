"""Tag expressions of the tests that a request selects, and suggestions for unknown tags."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from robot.api import TestSuite

from perftrend import watchlist
from perftrend.errors import UsageError
from perftrend.settings import Settings
from perftrend.trigger import Trigger

_SOAK = "soak"
_OPERATORS = re.compile("(AND|OR|NOT)")
_PATTERN = re.compile(r"[*?\[\]]")


def expressions(trigger: Trigger, settings: Settings) -> tuple[str, ...]:
    """Return the tag expressions of a request; a test is selected if any of them matches.

    Exclusions are subtracted from each expression; test lists are those of the specification. If the result
    is empty, the job selects its default tests.

    :raises UsageError: if a list does not exist, or an exclusion contains NOT.
    """
    lists = tuple(each for name in trigger.lists for each in _listed(name, settings))
    included = (*trigger.include_patterns, *lists)
    excluded = trigger.exclude_patterns
    if not excluded:
        return tuple(dict.fromkeys(included))
    for each in excluded:
        if "NOT" in each:
            raise UsageError(f"'!{each}' contains NOT, which is not allowed in an exclusion")
    chosen = included or settings.tags or settings.cadences[settings.cadence]
    return tuple(dict.fromkeys("NOT".join((each, *_without(each, excluded))) for each in chosen))


def _without(expression: str, excluded: Sequence[str]) -> tuple[str, ...]:
    # Soak tests are only selected by an expression that names them, which an exclusion must not do.
    is_meant = _SOAK in expression.lower() or all(_SOAK not in each.lower() for each in excluded)
    return tuple(excluded) if is_meant or _SOAK in excluded else (*excluded, _SOAK)


def _listed(name: str, settings: Settings) -> tuple[str, ...]:
    file = settings.analysis.specification
    if file is None:
        raise UsageError(f"no test list is named '#{name}'; there are none")
    return watchlist.load(file).listed(name)


def known(suites: Path) -> frozenset[str]:
    """Return all tags of the suites."""
    return frozenset(tag for test in TestSuite.from_file_system(suites).all_tests for tag in test.tags)


def mended(trigger: Trigger, tags: frozenset[str]) -> Trigger:
    """Return a request whose unknown tags are replaced by similar known ones, if there are any."""
    return replace(
        trigger,
        include=tuple(_mended(each, tags) for each in trigger.include),
        exclude=tuple(_mended(each, tags) for each in trigger.exclude),
    )


def _mended(expression: str, tags: frozenset[str]) -> str:
    lowered = {tag.lower(): tag.lower() for tag in tags}
    parts = _OPERATORS.split(expression)
    for place in range(0, len(parts), 2):
        word = parts[place].lower()
        if not word or word in lowered or _PATTERN.search(word):
            continue
        close = difflib.get_close_matches(word, lowered, n=1)
        parts[place] = close[0] if close else parts[place]
    return "".join(parts)
