"""A table of aligned text, for mails that are read without HTML."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len, chop_cells

WIDTH = 100
"""Maximum number of columns of a mail."""

_GAP = "  "
_LEAST_FIRST = 24


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> list[list[str]]:
    """Align the cells of a table.

    :param header: names of the columns.
    :param rows: cells, one line each, as many as the header has.
    :param left: the number of columns that are aligned to the left; the others are aligned to the right.
    :returns: the lines of the header and of each row. A row has two if its first cell is too wide:
        the whole cell alone, so that it can be copied, and the others below it.
    """
    table = [header, *rows]
    widths = [max(cell_len(row[column]) for row in table) for column in range(len(header))]
    rest = sum(widths[1:]) + len(_GAP) * (len(header) - 1)
    widths[0] = min(widths[0], max(WIDTH - rest, _LEAST_FIRST))
    return [_row(row, widths, left) for row in table]


def wrapped(text: str, *, indent: str, lines: int) -> list[str]:
    """Break a text into lines of a mail's width, between words if possible.

    :param text: its line breaks are preserved.
    :param lines: the maximum number of lines; if there are more, the last one ends with an ellipsis.
    """
    width = WIDTH - len(indent)
    found: list[str] = []
    for paragraph in text.split("\n"):
        current = ""
        for word in paragraph.split():
            for part in chop_cells(word, width) if cell_len(word) > width else [word]:
                if current and cell_len(current) + 1 + cell_len(part) > width:
                    found.append(current)
                    current = part
                else:
                    current = f"{current} {part}" if current else part
        if current:
            found.append(current)
        if len(found) > lines:
            break
    if len(found) > lines:
        found = [*found[: lines - 1], f"{found[lines - 1]} …"]
    return [f"{indent}{each}" for each in found]


def _row(cells: Sequence[str], widths: Sequence[int], left: int) -> list[str]:
    first, *others = cells
    places = enumerate(zip(others, widths[1:], strict=True), 1)
    rest = [_cell(cell, width, to_left=column < left) for column, (cell, width) in places]
    if cell_len(first) > widths[0]:
        return [first, _GAP.join([" " * widths[0], *rest]).rstrip()]
    return [_GAP.join([_cell(first, widths[0], to_left=True), *rest]).rstrip()]


def _cell(text: str, width: int, *, to_left: bool) -> str:
    space = " " * (width - cell_len(text))
    return text + space if to_left else space + text
