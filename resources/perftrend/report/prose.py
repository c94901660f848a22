"""Formatting of hashes, counts, rates, fractions and foreign lines in reports."""

from __future__ import annotations

import math
from collections.abc import Iterable

from perftrend.wording import percent, plain

HASH = 12
"""Number of digits of a hash that are shown."""
_LONGEST_LINE = 200

signed = percent


def line(text: str) -> str:
    """Return a text on one line."""
    return " ".join(plain(text).split())


def excerpt(lines: Iterable[str]) -> list[str]:
    """Return the output of a program for display: without control characters and empty lines, and cut."""
    return [plain(line).replace("\t", "    ").rstrip()[:_LONGEST_LINE] for line in lines if line.strip()]


def format_count(count: int, word: str) -> str:
    """Return a count with its word: ``1 round``, ``2 rounds``."""
    return f"{count} {word}{'' if count == 1 else 's'}"


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
