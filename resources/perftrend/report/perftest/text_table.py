"""The table of a per-patch test as aligned text."""

from __future__ import annotations

from collections.abc import Sequence

from perftrend.report.perftest.texts import PatchTestRow

_HEADINGS = ("test", "parent", "patch", "difference", "interval", "verdict")
_RIGHT = frozenset({1, 2, 3, 4})


def align(rows: Sequence[PatchTestRow]) -> list[str]:
    """Return a line of headings and one for each row, in columns."""
    cells = [
        _HEADINGS,
        *((row.test, row.parent, row.patch, row.difference, row.interval, row.verdict) for row in rows),
    ]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return ["  ".join(_cells(line, widths)).rstrip() for line in cells]


def _cells(line: Sequence[str], widths: Sequence[int]) -> list[str]:
    return [
        cell.rjust(width) if column in _RIGHT else cell.ljust(width)
        for column, (cell, width) in enumerate(zip(line, widths, strict=True))
    ]
