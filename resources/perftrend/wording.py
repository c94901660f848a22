"""How numbers and names are written for people, in reports and on the dashboard alike."""

from __future__ import annotations

import math
import re

NOTHING = "\N{EN DASH}"
"""Stands where there is no number."""

_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")
_MEGA = 1e6
_WHOLE, _HUGE = 999.95, 1e15
"""From there on numbers need no decimals, and then an exponent."""


def plain(text: str) -> str:
    """Replace what must not reach a page or a terminal: control characters, lone surrogates."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", text.replace("\r\n", "\n"))


def percent(ratio: float) -> str:
    """Format a relative change with its sign; what rounds to nothing has none."""
    if not math.isfinite(ratio):
        return NOTHING
    text = f"{100 * ratio:+.1f} %"
    return "0.0 %" if text in {"+0.0 %", "-0.0 %"} else text


def value(number: float, unit: str) -> str:
    """Return a value with its unit, rates in Mpps, with four digits that matter."""
    if not math.isfinite(number):
        return NOTHING
    return f"{_digits(number / _MEGA)} Mpps" if unit == "pps" else f"{_digits(number)} {unit}".rstrip()


def _digits(number: float) -> str:
    """Write four digits that matter, large numbers without an exponent."""
    is_whole = _WHOLE <= abs(number) < _HUGE
    return f"{number:.0f}" if is_whole else f"{number:#.4g}"
