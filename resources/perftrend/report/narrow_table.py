"""Tables of plain text that fit a terminal: cells wrap, and nothing is cut.

If even the longest words of all columns do not fit next to each other, the first cell of each row gets a line
of its own, above the others. If that is not enough, each cell does, after its heading.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Sequence
from itertools import zip_longest

from perftrend.text import align

_GAP = 2
_LONGEST_WORD = 16
"""Longer words may be broken."""
_INDENT = "  "
_NO_BREAK = "\N{NO-BREAK SPACE}"
_BEFORE_UNIT = re.compile(r"(?<=[0-9]) (?=[^\W\d_]|%)|(?<=%) (?=to )")


def fit(rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Return the lines of a table.

    :param rows: as in :func:`perftrend.text.align`, the headings first.
    :param width: the maximum length of a line; None: rows are not wrapped.
    """
    return align(rows) if width is None else [line for row in fit_rows(rows, width) for line in row]


def fit_rows(rows: Sequence[Sequence[str]], width: int) -> list[list[str]]:
    """Return the lines of each row of a table."""
    if widths := _column_widths(rows, width):
        return [list(_wrap(row, widths, left=1)) for row in rows]
    rest = [row[1:] for row in rows]
    if widths := _column_widths(rest, width - len(_INDENT)):
        return [
            [*_words(row[0], width), *(f"{_INDENT}{line}" for line in _wrap(cells, widths, left=0))]
            for row, cells in zip(rows, rest, strict=True)
        ]
    return [[], *(list(_record(rows[0], row, width)) for row in rows[1:])]


def _column_widths(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Return the widths of columns that fit; an empty list if there are none.

    The first column is not broken within a word.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    words = [max(len(word) for cell in column for word in _join_units(cell).split(" ")) for column in columns]
    least = [*words[:1], *(min(longest, _LONGEST_WORD) for longest in words[1:])]
    excess = sum(widths) + _GAP * (len(widths) - 1) - width
    if excess > sum(widths) - sum(least):
        return []
    for _ in range(max(excess, 0)):
        wide = (place for place in range(len(widths)) if widths[place] > least[place])
        widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def _wrap(row: Sequence[str], widths: Sequence[int], *, left: int) -> Iterator[str]:
    """Yield the lines of a row, the first ``left`` columns and the last one justified to the left."""
    cells = [_words(cell, width) for cell, width in zip(row, widths, strict=True)]
    last = len(widths) - 1
    for parts in zip_longest(*cells, fillvalue=""):
        justified = (
            part.ljust(width) if place < left or place == last else part.rjust(width)
            for place, (part, width) in enumerate(zip(parts, widths, strict=True))
        )
        yield (" " * _GAP).join(justified).rstrip()


def _record(headings: Sequence[str], row: Sequence[str], width: int) -> Iterator[str]:
    yield from _words(row[0], width)
    for heading, cell in zip(headings[1:], row[1:], strict=True):
        if cell:
            lines = _words(f"{heading}: {cell}", width - 2 * len(_INDENT))
            yield from (f"{_INDENT * (2 if place else 1)}{line}" for place, line in enumerate(lines))


def _words(text: str, width: int) -> list[str]:
    lines = textwrap.wrap(_join_units(text), max(width, 1), break_on_hyphens=False)
    return [line.replace(_NO_BREAK, " ") for line in lines] or [""]


def _join_units(text: str) -> str:
    """Return a text in which a number, its unit and ``to`` are one word."""
    return _BEFORE_UNIT.sub(_NO_BREAK, text)
