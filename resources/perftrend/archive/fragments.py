"""The grammar of messages of other CI: their fragments, numbers and units.

Every generation of packet-forwarding CI wrote different sentences and line breaks. In all of them, a fragment
can be distinguished from the text around it by its first words.
"""

from __future__ import annotations

import html
import math
import re
from decimal import Decimal
from typing import Any

_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"


def _rate(name: str) -> str:
    """Return the pattern of a rate as in ``12345678.0 pps, 8.296 Gbps``; the bandwidth may be missing."""
    return (
        rf"(?P<{name}_rate>{_NUMBER})(?:[ ]?(?P<{name}_unit>[A-Za-z]+)\b)?"
        rf"(?:,[ ](?P<{name}_bandwidth>{_NUMBER})[ ](?P<{name}_bandwidth_unit>[kMGT]?bps)\b)?"
    )


# The outer group of each fragment is its name, which ``lastgroup`` returns.
_FRAGMENTS = (
    # Brackets must not be nested, so that the search for the closing one is limited.
    r"(?P<mrr>trial\ results\ in\ (?P<counted>\w+)\ per\ second:\s*\[(?P<rates>[^\[\]]*)\])",
    rf"(?P<max_received>MaxReceivedRate_Results\s+\[pkts/(?P<seconds>\d+)sec\]:"
    rf"\s*tx\s(?P<sent>{_NUMBER}),\s*rx\s(?P<received>{_NUMBER}))",
    rf"(?P<final>FINAL_RATE:\s*{_rate('end')})",
    rf"(?P<final_bandwidth>FINAL_BANDWIDTH:\s*(?P<bandwidth>{_NUMBER})[ ](?P<bandwidth_unit>[kMGT]?bps)\b)",
    rf"(?P<acceptance>LOSS_ACCEPTANCE:\s*(?P<accepted>{_NUMBER}))",
    rf"(?P<bound>(?P<search>[A-Z][A-Z0-9]*)_(?P<side>LOWER|UPPER):\s*{_rate('bound')})",
    rf"(?P<critical>PLRsearch\ (?P<critical_side>lower|upper)\ bound:+\s*{_rate('critical')})",
    rf"(?P<missed>[Mm]inimal\ rate\ loss\ fraction\ {_NUMBER}"
    rf"\ does\ not\ reach\ target\ (?P<target>{_NUMBER}))",
    rf"(?P<lost>(?<!\S)(?P<frames>{_NUMBER})\ packets\ lost\b)",
    rf"(?P<packets>Packets\ lost\ due\ to\ reconfig:\s*(?P<packets_lost>{_NUMBER}))",
    rf"(?P<time>Implied\ time\ lost:\s*(?P<time_lost_s>{_NUMBER}))",
    r"(?P<share>LAT_(?P<share_load>\d+%)(?P<share_of>[A-Z]+):)",
    r"(?P<load>Latency\ at\ (?P<load_load>\d+%)\ (?P<load_of>[A-Z]+):)",
    r"(?P<streams>\[\s*(?P<triples>'[^\[\]]*)\])",
    # Last: text that begins like one of them but continues differently.
    r"(?P<strange>MaxReceivedRate_Results|FINAL_RATE:|FINAL_BANDWIDTH:|trial\ results\ in\ \w+\ per\ second"
    r"|PLRsearch\ \w+\ bound|[A-Z][A-Z0-9]*_(?:LOWER|UPPER):|Packets\ lost\ due\ to\ reconfig"
    r"|Implied\ time\ lost|Minimal\ rate\ loss)[^\n]*",
)
FRAGMENT = re.compile(
    # Most of a long message is histograms: the search is limited to the beginnings of words.
    rf"(?<![\w/+=])(?=[A-Zmt\[\d.+-])(?:{'|'.join(_FRAGMENTS)})"
)

COUNTED = {"packets": "pps", "connections": "cps", "transactions": "tps", "requests": "rps"}
"""Units of counts per second."""

_UNIT = re.compile(r"(?P<scale>[kKMGT]?)(?P<unit>pps|cps|tps|rps|bps)", re.IGNORECASE)
_POWERS = {"": 0, "k": 3, "K": 3, "M": 6, "G": 9, "T": 12}
_TIMES = {"s": 0, "ms": -3, "us": -6, "ns": -9}

_NEW_MESSAGE = re.compile(
    r'<span class="new-message">New message:</span>(.*?)(?:<br>)?(?:<hr><span class="old-status">|\Z)',
    re.DOTALL,
)
_TAG = re.compile(r"</?(?:a|span|br|hr|b|i|p|div|code)\b[^<>]*>")


def finite(text: str) -> float:
    """Return a text as a number.

    :raises ValueError: if it is not a finite number.
    """
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:20]} is not a finite number")
    return value


def scale_to_base_unit(value: float, unit: str) -> tuple[float, str]:
    """Return a value in a unit without a prefix: ``8.2 Gbps`` is ``8.2e9 bps``.

    :raises ValueError: if the unit is not known, or the value becomes too large.
    """
    if unit in _TIMES:
        return _scale_by_power(value, _TIMES[unit]), "s"
    if unit.lower() == "packets":
        return value, "packets"
    found = _UNIT.fullmatch(unit)
    if not found:
        raise ValueError(f"{unit[:20]!r} is not a known unit")
    return _scale_by_power(value, _POWERS[found["scale"]]), found["unit"].lower()


def _scale_by_power(value: float, power: int) -> float:
    """Multiply by a power of ten in decimal, as if the number had that unit: 8.296 Gbps is 8296000000 bps."""
    return finite(str(Decimal(str(value)).scaleb(power))) if power else value


def plain(message: str) -> str:
    """Return a message without the HTML that rebot adds; for a repeated test, the new message."""
    if not message.startswith("*HTML*"):
        return message
    text = message.removeprefix("*HTML*")
    if found := _NEW_MESSAGE.search(text):
        text = found[1]
    return html.unescape(_TAG.sub("", text.replace("<br>", "\n").replace("<hr>", "\n"))).strip()


def shape(text: str) -> str:
    """Return the form that a text shares with similar ones: its first line, with ``#`` for numbers."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return re.sub(_NUMBER, "#", line[:200])[:80] or "no message"


def of_streams(triples: str) -> list[dict[str, Any] | None]:
    """Parse latencies, one entry per stream: ``'10/12/40', '10/11/39/HISTF…'``.

    :returns: minimum, average and maximum in microseconds, and, if present, the histogram as HDR string
        (``hdrh``); None if none was measured, which is written as ``-1``.
    """
    return [_stream(each.strip().strip("'")) for each in triples.split(",")]


def _stream(triple: str) -> dict[str, Any] | None:
    # A histogram is base64, which may contain slashes.
    *values, histogram = [*triple.split("/", 3), "", ""][:4]
    try:
        minimum, average, maximum = map(finite, values)
    except ValueError:
        return None
    if minimum < 0:
        return None
    latency: dict[str, Any] = {"min": minimum, "avg": average, "max": maximum}
    return latency | {"hdrh": histogram} if histogram else latency
