"""Formatting of numbers and names for users, in reports and on the dashboard alike."""

from __future__ import annotations

import math
import re

NOTHING = "\N{EN DASH}"
"""Shown instead of a missing number."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_MEGA = 1e6
_WHOLE, _HUGE = 999.95, 1e15
"""Numbers from the first on have no decimals, and from the second on an exponent."""


def plain(text: str) -> str:
    """Replace characters that must not reach a page or a terminal: control characters, lone surrogates."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def percent(ratio: float) -> str:
    """Format a relative change with its sign; a value that rounds to zero has none."""
    if not math.isfinite(ratio):
        return NOTHING
    text = f"{100 * ratio:+.1f} %"
    return "0.0 %" if text in {"+0.0 %", "-0.0 %"} else text


def value(number: float, unit: str) -> str:
    """Return a value with its unit, rates in Mpps, with four significant digits."""
    if not math.isfinite(number):
        return NOTHING
    return f"{_digits(number / _MEGA)} Mpps" if unit == "pps" else f"{_digits(number)} {unit}".rstrip()


def _digits(number: float) -> str:
    """Return four significant digits, large numbers without an exponent."""
    is_whole = _WHOLE <= abs(number) < _HUGE
    return f"{number:.0f}" if is_whole else f"{number:#.4g}"
