"""Text of mails: names, amounts and lines from tests and archives, aligned tables and wrapped paragraphs."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable, Sequence

from rich.cells import cell_len, chop_cells

from perftrend.model import Verdict
from perftrend.text import NOTHING

WIDTH = 100
"""Maximum number of columns of a mail."""

_GAP = "  "
_LEAST_FIRST = 24

_MEGA = 1e6
_NIC = re.compile(r"\b\d+ge\d+p\d+[a-z0-9]+", re.IGNORECASE)
"""The name of a NIC in names of suites: 10ge2p1x710 is two ports of 10 Gbit/s of an X710."""
_DIGITS = 4
_MOST_DECIMALS = 6
_EXPONENT_BELOW, _EXPONENT_FROM = 1e-6, 1e9
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})


def plain(text: str) -> str:
    """Replace control, format and bidirectional characters; newlines and tabs remain.

    No remaining character can hide text or change the direction of the rest of a line.
    """
    unified = text.replace("\r\n", "\n")
    if unified.replace("\n", "").replace("\t", "").isprintable():
        return unified
    return "".join(
        "\N{REPLACEMENT CHARACTER}"
        if each not in "\n\t" and unicodedata.category(each) in _INVISIBLE
        else each
        for each in unified
    )


def line(text: str) -> str:
    """Return a text on one line."""
    return " ".join(plain(text).split())


def shorten(text: str, length: int) -> str:
    """Cut a line that is longer than ``length`` characters."""
    return text if len(text) <= length else f"{text[: length - 1]}…"


def name_of(verdict: Verdict) -> str:
    """Return the name of a verdict's test; that of the trace if it has none."""
    return line(verdict.series.key.as_dict().get("test", str(verdict.series.key)))


def nic(verdict: Verdict) -> str:
    """Return the network card of a test, from its trace or from the names of suite and test."""
    parameters = verdict.series.key.as_dict()
    if "nic" in parameters:
        return line(parameters["nic"])
    for name in ("suite", "test"):
        if found := _NIC.search(parameters.get(name, "")):
            return found[0].lower()
    return NOTHING


def unit_name(unit: str) -> str:
    """Return the unit of trends in mails: packets per second are shown in millions."""
    return "Mpps" if unit == "pps" else line(unit)


def amounts(values: Iterable[float], unit: str) -> list[str]:
    """Format the trends of one column: the smallest with four digits, all with the same decimals."""
    scaled = [value / _MEGA if unit == "pps" else value for value in values]
    sizes = [abs(value) for value in scaled if math.isfinite(value) and value]
    smallest, largest = min(sizes, default=1.0), max(sizes, default=1.0)
    if smallest < _EXPONENT_BELOW or largest >= _EXPONENT_FROM:
        return [f"{value:.{_DIGITS}g}" if math.isfinite(value) else NOTHING for value in scaled]
    decimals = min(max(_DIGITS - 1 - math.floor(math.log10(smallest)), 0), _MOST_DECIMALS + _DIGITS)
    return [f"{value:.{decimals}f}" if math.isfinite(value) else NOTHING for value in scaled]


def align(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: int) -> list[list[str]]:
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


def wrap(text: str, *, indent: str, lines: int) -> list[str]:
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
