"""Places of a commit, a day or a time among the columns of testbeds.

Testbeds measure different commits. A testbed that did not measure the commit itself still has a place for it:
between the columns that started before and after another testbed first measured that commit.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, time

from perftrend.errors import UsageError
from perftrend.settings.values import moment_of
from perftrend.store.tiles import Axis, TileColumn

_HASH = re.compile(r"[0-9a-f]{7,40}")


@dataclass(frozen=True, slots=True)
class AxisPlace:
    """Columns of an axis: those of the commit, or a gap.

    ``first`` to ``last`` are the columns of the commit. If there are none, ``last`` is the column before the
    gap and ``first`` the one after it, so first is greater.
    """

    first: int
    last: int


def newest(axes: Mapping[str, Axis]) -> dict[str, AxisPlace]:
    """Return the place of the newest column of each testbed."""
    return {
        testbed: AxisPlace(len(axis.columns) - 1, len(axis.columns) - 1) for testbed, axis in axes.items()
    }


def places_of(text: str, axes: Mapping[str, Axis]) -> dict[str, AxisPlace]:
    """Return the place of a commit or of a time on each testbed.

    :param text: a prefix of a hash with at least seven digits, a day or a time.
    :raises UsageError: if it is neither, if no testbed has measured the commit, or if several commits match.
    """
    wanted = text.lower()
    # Eight digits may also be a day without hyphens; commits take precedence.
    if _HASH.fullmatch(wanted) and (found := _of_commit(wanted, axes)):
        return found
    try:
        moment = moment_of(text, of_day=time.max)
    except ValueError:
        if _HASH.fullmatch(wanted):
            raise UsageError(
                f"no testbed of these traces has measured commit {wanted}; "
                "enter a measured commit, or a day such as 2026-03-02"
            ) from None
        raise UsageError(
            "enter a commit of 7 to 40 hex digits, or a time such as 2026-03-02 or 2026-03-02T18:00Z"
        ) from None
    return {testbed: _gap(axis.columns, moment) for testbed, axis in axes.items()}


def _of_commit(wanted: str, axes: Mapping[str, Axis]) -> dict[str, AxisPlace]:
    """Return the places of a commit; empty if no testbed has measured it."""
    numbers = {
        testbed: [number for number, column in enumerate(axis.columns) if _is_same(column.revision, wanted)]
        for testbed, axis in axes.items()
    }
    measured = [axes[testbed].columns[number] for testbed, each in numbers.items() for number in each]
    if not measured:
        return {}
    revisions = {column.revision for column in measured}
    longest = max(revisions, key=len)
    if not all(longest.startswith(revision) for revision in revisions):
        matches = ", ".join(sorted(revision[:12] for revision in revisions)[:3])
        raise UsageError(f"several commits begin with {wanted}: {matches}; enter more digits")
    begun = min(column.started for column in measured)
    return {
        testbed: AxisPlace(min(each), max(each)) if each else _gap(axes[testbed].columns, begun)
        for testbed, each in numbers.items()
    }


def _is_same(revision: str, wanted: str) -> bool:
    return bool(revision) and (revision.startswith(wanted) or wanted.startswith(revision))


def _gap(columns: Sequence[TileColumn], moment: datetime) -> AxisPlace:
    before = sum(column.started <= moment for column in columns)
    return AxisPlace(before, before - 1)
