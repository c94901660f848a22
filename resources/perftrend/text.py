"""Formatting of numbers, names, tables and foreign lines for users, in reports and on the dashboard alike.

Tables that fit a terminal wrap their cells, and nothing is cut. If even the longest words of all columns do
not fit next to each other, the first cell of each row gets a line of its own, above the others. If that is
not enough, each cell does, after its heading.
"""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from itertools import zip_longest

NOTHING = "\N{EN DASH}"
"""Shown instead of a missing number."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_NUMBERS = re.compile(r"([0-9]{1,18})")
"""Python refuses to convert thousands of digits, which a name may have."""
_MEGA = 1e6
_LEAST_DECIMALS, _MOST_DECIMALS = 2, 6
_WHOLE, _HUGE = 999.95, 1e15
"""Numbers from the first on have no decimals, and from the second on an exponent."""
HASH = 12
"""Number of digits of a hash that are shown."""
_LONGEST_LINE = 200
_GAP = 2
_LONGEST_WORD = 16
"""Longer words may be broken."""
_INDENT = "  "
_NO_BREAK = "\N{NO-BREAK SPACE}"
_BEFORE_UNIT = re.compile(r"(?<=[0-9]) (?=[^\W\d_]|%)|(?<=%) (?=to )")


def natural_key(text: str) -> list[tuple[int, str]]:
    """Return a sort key that puts 64B before 128B."""
    parts = _NUMBERS.split(text)
    return [(int(part) if place % 2 else -1, part) for place, part in enumerate(parts)]


def plain(text: str) -> str:
    """Replace characters that must not reach a page or a terminal: control characters, lone surrogates."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def percent(ratio: float) -> str:
    """Format a relative change with its sign; a value that rounds to zero has none."""
    if not math.isfinite(ratio):
        return NOTHING
    text = f"{100 * ratio:+.1f} %"
    return "0.0 %" if text in {"+0.0 %", "-0.0 %"} else text


INSTRUCTIONS = "instructions"
"""The unit of counted instructions."""
UNCHANGED = "unchanged"
"""Shown instead of a change that rounds to zero."""


def relative_change(ratio: float) -> str:
    """Format a relative change with its sign; ``unchanged`` if it rounds to zero."""
    text = percent(ratio)
    return UNCHANGED if text == "0.0 %" else text


def value(number: float, unit: str) -> str:
    """Return a value with its unit, with four significant digits; rates in Mpps, instructions in millions."""
    if not math.isfinite(number):
        return NOTHING
    if unit == INSTRUCTIONS and abs(number) >= _MEGA:
        return f"{_digits(number / _MEGA)} million {unit}"
    return f"{_digits(number / _MEGA)} Mpps" if unit == "pps" else f"{_digits(number)} {unit}".rstrip()


def _digits(number: float) -> str:
    """Return four significant digits, large numbers without an exponent."""
    is_whole = _WHOLE <= abs(number) < _HUGE
    return f"{number:.0f}" if is_whole else f"{number:#.4g}"


def decimals_of_rates(rates_pps: Iterable[float]) -> int:
    """Return the number of decimals in Mpps that gives the smallest rate four significant digits."""
    smallest = min((rate for rate in rates_pps if math.isfinite(rate) and rate > 0), default=_MEGA)
    return min(max(3 - math.floor(math.log10(smallest / _MEGA)), _LEAST_DECIMALS), _MOST_DECIMALS)


def line(text: str) -> str:
    """Return a text on one line."""
    return " ".join(plain(text).split())


def excerpt(lines: Iterable[str]) -> list[str]:
    """Return the output of a program for display: without control characters and empty lines, and cut."""
    return [plain(line).replace("\t", "    ").rstrip()[:_LONGEST_LINE] for line in lines if line.strip()]


def format_count(count: int, word: str, plural: str = "") -> str:
    """Return a count with its word: ``1 round``, ``2 rounds``; ``plural`` is for irregular words."""
    return f"{count} {word if count == 1 else plural or f'{word}s'}"


def share(ratio: float) -> str:
    """Return a ratio without its sign and with two significant digits: ``3.1 %``."""
    value = abs(100 * ratio)
    return f"{value:.0f} %" if value >= 10 else f"{value:.2g} %"  # noqa: PLR2004 - two digits


def format_probability(probability: float) -> str:
    """Return a probability in per cent, never as certainty."""
    if probability > 0.9995:  # noqa: PLR2004 - would be rounded to 1
        return "over 99.9 %"
    return "under 0.1 %" if probability < 0.0005 else f"{100 * probability:.1f} %"  # noqa: PLR2004 - to 0


def span(ratios: Iterable[float]) -> str:
    """Return the range of some ratios, without their signs: ``3.1 to 5.2 %``; empty for none."""
    sizes = sorted(abs(ratio) for ratio in ratios if math.isfinite(ratio))
    if not sizes:
        return ""
    low, high = share(sizes[0]), share(sizes[-1])
    return high if low == high else f"{low.removesuffix(' %')} to {high}"


def align(rows: Sequence[Sequence[str]], *, left: int = 1) -> list[str]:
    """Align cells in columns: the first ``left`` and the last to the left, the others to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    return [
        "  ".join(
            cell.ljust(width) if place < left or place == last else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def fit_table(rows: Sequence[Sequence[str]], width: int | None) -> list[str]:
    """Return the lines of a table.

    :param rows: as in :func:`align`, the headings first.
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
