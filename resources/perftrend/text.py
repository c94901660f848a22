"""Formatting of numbers, names, tables and foreign lines for users, in reports and on the dashboard alike."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence

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


UNCHANGED = "unchanged"
"""Shown instead of a change that rounds to zero."""


def relative_change(ratio: float) -> str:
    """Format a relative change with its sign; ``unchanged`` if it rounds to zero."""
    text = percent(ratio)
    return UNCHANGED if text == "0.0 %" else text


def value(number: float, unit: str) -> str:
    """Return a value with its unit, rates in Mpps, with four significant digits."""
    if not math.isfinite(number):
        return NOTHING
    return f"{_digits(number / _MEGA)} Mpps" if unit == "pps" else f"{_digits(number)} {unit}".rstrip()


def _digits(number: float) -> str:
    """Return four significant digits, large numbers without an exponent."""
    is_whole = _WHOLE <= abs(number) < _HUGE
    return f"{number:.0f}" if is_whole else f"{number:#.4g}"


def decimals_of_rates(rates_pps: Iterable[float]) -> int:
    """Return the number of decimals in Mpps that gives the smallest rate four significant digits."""
    smallest = min((rate for rate in rates_pps if math.isfinite(rate) and rate > 0), default=_MEGA)
    return min(max(3 - math.floor(math.log10(smallest / _MEGA)), _LEAST_DECIMALS), _MOST_DECIMALS)


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


def span(ratios: Iterable[float]) -> str:
    """Return the range of some ratios, without their signs: ``3.1 to 5.2 %``; empty for none."""
    sizes = sorted(abs(ratio) for ratio in ratios if math.isfinite(ratio))
    if not sizes:
        return ""
    low, high = share(sizes[0]), share(sizes[-1])
    return high if low == high else f"{low.removesuffix(' %')} to {high}"
