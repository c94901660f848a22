"""How values are written on pages; what is no number is a dash."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from markupsafe import Markup, escape

from perftrend import wording
from perftrend.wording import NOTHING, plain

_MINUS = "\N{MINUS SIGN}"


def value(number: float | None, unit: str = "") -> str:
    """Write a value with four digits that matter, rates in Mpps: ``12.35 Mpps``."""
    if number is None:
        return NOTHING
    text = wording.value(number, plain(unit))
    return text.replace("-", _MINUS, 1) if number < 0 else text


def percent(ratio: float | None) -> str:
    """Write a relative change in percent, with its sign: ``+1.4 %``."""
    return NOTHING if ratio is None else wording.percent(ratio).replace("-", _MINUS)


def moment(at: datetime | None) -> str | Markup:
    """Write a moment as an element that the browser shows in its reader's zone; UTC without a script."""
    if at is None:
        return NOTHING
    utc = at.astimezone(UTC)
    return Markup('<time datetime="{}">{} UTC</time>').format(
        f"{utc:%Y-%m-%dT%H:%M:%SZ}", f"{utc:%Y-%m-%d %H:%M}"
    )


def commit(revision: str) -> str | Markup:
    """Write the begin of a commit's hash."""
    if not revision:
        return NOTHING
    return Markup('<code title="{}">{}</code>').format(escape(plain(revision)), plain(revision)[:12])


def archive(place: str) -> str | Markup:
    """Write where a run's files lie: a link, where a browser can follow it."""
    if not place:
        return NOTHING
    if re.match(r"https?://", place):
        return Markup('<a href="{}">archive</a>').format(place)
    return Markup("<code>{}</code>").format(plain(place))


__all__ = ["FILTERS", "NOTHING", "archive", "commit", "moment", "percent", "plain", "value"]

FILTERS: Mapping[str, Callable[..., object]] = {
    "value": value,
    "percent": percent,
    "moment": moment,
    "commit": commit,
    "archive": archive,
    "plain": plain,
}
