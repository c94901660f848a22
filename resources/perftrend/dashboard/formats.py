"""Formatting of values on pages; missing values are shown as a dash."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, timedelta

from markupsafe import Markup, escape

from perftrend import text
from perftrend.text import NOTHING, plain

_DAYS_FROM_HOURS = 36
_MINUS = "\N{MINUS SIGN}"


def value(number: float | None, unit: str = "") -> str:
    """Format a value with four significant digits, rates in Mpps: ``12.35 Mpps``."""
    if number is None:
        return NOTHING
    formatted = text.value(number, plain(unit))
    return formatted.replace("-", _MINUS, 1) if number < 0 else formatted


def percent(ratio: float | None) -> str:
    """Format a relative change in percent with its sign: ``+1.4 %``."""
    return NOTHING if ratio is None else text.percent(ratio).replace("-", _MINUS)


def change(ratio: float | None) -> str:
    """Format a relative change in percent with its sign; ``unchanged`` if it rounds to zero."""
    return NOTHING if ratio is None else text.relative_change(ratio).replace("-", _MINUS)


def moment(at: datetime | None) -> str | Markup:
    """Format a time as an element that the browser shows in the local time zone; UTC without JavaScript."""
    if at is None:
        return NOTHING
    utc = at.astimezone(UTC)
    return Markup('<time datetime="{}">{} UTC</time>').format(
        f"{utc:%Y-%m-%dT%H:%M:%SZ}", f"{utc:%Y-%m-%d %H:%M}"
    )


def monday_of(day: date) -> date:
    """Return the Monday on which the week of a day begins."""
    return day - timedelta(days=day.weekday())


def duration(seconds: float | None) -> str:
    """Format a duration in hours and minutes: ``1 h 05 min``."""
    if seconds is None:
        return NOTHING
    hours, minutes = divmod(max(1, round(seconds / 60)), 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"


def span(seconds: float) -> str:
    """Format the time between two moments in days or hours: ``3 days``, ``5 hours``."""
    hours = max(1, round(seconds / 3600))
    if hours < _DAYS_FROM_HOURS:
        return text.format_count(hours, "hour")
    return text.format_count(round(hours / 24), "day")


def commit(revision: str) -> str | Markup:
    """Format a commit as the first 12 characters of its hash."""
    if not revision:
        return NOTHING
    return Markup('<code title="{}">{}</code>').format(escape(plain(revision)), plain(revision)[:12])


def archive(place: str) -> str | Markup:
    """Format the location of a run's files; an HTTP address becomes a link."""
    if not place:
        return NOTHING
    if re.match(r"https?://", place):
        return Markup('<a href="{}">archive</a>').format(place)
    return Markup("<code>{}</code>").format(plain(place))


__all__ = [
    "FILTERS",
    "NOTHING",
    "activity_detail",
    "archive",
    "change",
    "commit",
    "duration",
    "moment",
    "percent",
    "plain",
    "span",
    "value",
]

_KINDS = {"silence": "missing data", "stopped": "no runs"}
"""Words for the kinds of items that the activity log names otherwise."""


def activity_detail(detail: str) -> str:
    """Return the detail of an entry of the activity log in the words of the pages."""
    kind, on, testbed = detail.partition(" on ")
    return plain(f"{_KINDS[kind]}{on}{testbed}" if on and kind in _KINDS else detail)


FILTERS: Mapping[str, Callable[..., object]] = {
    "value": value,
    "percent": percent,
    "change": change,
    "moment": moment,
    "duration": duration,
    "span": span,
    "commit": commit,
    "archive": archive,
    "plain": plain,
    "counted": text.format_count,
    "activity_detail": activity_detail,
}
