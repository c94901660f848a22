"""Reads the sentences of a test's message without a line of JSON, as in archives of other CI.

``docs/formats/output.rst`` lists the supported sentences. Every generation of packet-forwarding CI wrote
different sentences and line breaks. In all of them, a fragment can be distinguished from the text around it
by its first words. Text that resembles a result but cannot be read is listed in
:attr:`ParsedMessage.unknown`; no error is raised.
"""

from __future__ import annotations

import html
import math
import re
from collections.abc import Collection
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from perftrend.model import Better

_NUMBER = r"[-+]?(?:\d+(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?"

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


@dataclass(slots=True)
class MetricValue:
    """The values of one metric."""

    samples: tuple[float, ...] = ()
    """In ``unit``; of a search only its lower bound."""
    invalid: str = ""
    unit: str = "pps"
    better: Better = Better.HIGHER
    details: dict[str, Any] = field(default_factory=dict)
    """All other values: bounds, bandwidths in bits per second, latencies in microseconds."""


@dataclass(slots=True)
class ParsedMessage:
    """The content of a message."""

    readings: dict[str, MetricValue] = field(default_factory=dict)
    """By metric, in the order of the message."""
    unknown: list[str] = field(default_factory=list)
    """Forms of text that resembles a result but could not be read."""


def read(message: str, *, expected: Collection[str] = ()) -> ParsedMessage:
    """Return the content of a message's sentences.

    :param expected: metrics by the test's tags or name, since a ``FINAL_RATE`` does not name its search.
    """
    reader = _MessageReader(expected)
    for fragment in FRAGMENT.finditer(message):
        reader.read_fragment(fragment)
    return reader.finish()


class _MessageReader:
    """Combines the fragments of one message; each kind has a method of its name."""

    def __init__(self, expected: Collection[str]) -> None:
        self._expected = expected
        self._message = ParsedMessage()
        self._above = ""
        """The metric of the preceding bound."""
        self._label = ""
        """The load of the next latencies, if it precedes them."""
        self._final: MetricValue | None = None
        self._final_of = ""
        self._accepted: float | None = None
        self._missed: list[tuple[str, float, str]] = []
        """Missed targets: the sentence, the target loss ratio, and the metric of the preceding bound."""
        self._latencies: dict[str, dict[str, Any]] = {}

    def read_fragment(self, found: re.Match[str]) -> None:
        """Process the next fragment."""
        try:
            getattr(self, f"_read_{found.lastgroup}")(found)
        except ValueError:
            self._read_strange(found)

    def finish(self) -> ParsedMessage:
        """Return the content of all fragments together."""
        readings = self._message.readings
        if self._final:
            readings.setdefault(self._select_final_metric(), self._final)
        for sentence, target, above in self._missed:
            if reading := readings.get(self._find_metric_by_target(target, above)):
                reading.invalid = reading.invalid or sentence
        for metric, latencies in self._latencies.items():
            if metric in readings and any(map(any, latencies.values())):
                readings[metric].details["latency_us"] = latencies
        for reading in readings.values():
            if not reading.samples and not reading.invalid:
                reading.invalid = "the message has no lower bound"
        return self._message

    def _select_final_metric(self) -> str:
        """Return the search of the final rate: by tags and names, else by the message."""
        promised = [metric for metric in ("ndr", "pdr") if metric in self._expected]
        if len(promised) == 1:
            return promised[0]
        if self._accepted is not None:
            return "pdr" if self._accepted > 0 else "ndr"
        return "pdr" if self._final_of == "pdr" else "ndr"

    def _find_metric_by_target(self, target: float, above: str) -> str:
        """Return the search with this target loss ratio: all sentences may follow the last bound."""
        aimed = "pdr" if target > 0 else "ndr"
        return aimed if aimed in self._message.readings else above

    def _read_mrr(self, found: re.Match[str]) -> None:
        unit = COUNTED.get(found["counted"], found["counted"])
        reading = self._message.readings["mrr"] = MetricValue()
        try:
            reading.unit = scale_to_base_unit(0.0, unit)[1]
            reading.samples = tuple(map(finite, found["rates"].split(",")))
        except ValueError:
            reading.invalid = f"rates cannot be read: {found[0][:100]}"
            raise

    def _read_max_received(self, found: re.Match[str]) -> None:
        seconds, sent, received = (finite(found[name]) for name in ("seconds", "sent", "received"))
        if seconds <= 0:
            raise ValueError("no rate without a duration")
        details = {"sent": sent, "received": received, "duration_s": seconds}
        self._message.readings["mrr"] = MetricValue((received / seconds,), details=details)

    def _read_final(self, found: re.Match[str]) -> None:
        rate, unit = scale_to_base_unit(finite(found["end_rate"]), found["end_unit"] or "pps")
        self._final = MetricValue((rate,), unit=unit)

    def _read_final_bandwidth(self, found: re.Match[str]) -> None:
        if self._final:
            bandwidth, _ = scale_to_base_unit(finite(found["bandwidth"]), found["bandwidth_unit"])
            self._final.details["bandwidth_bps"] = bandwidth

    def _read_acceptance(self, found: re.Match[str]) -> None:
        self._accepted = finite(found["accepted"])

    def _read_bound(self, found: re.Match[str]) -> None:
        self._above = found["search"].lower()
        self._set_bound(self._above, found["side"].lower(), found, "bound", found["bound_unit"] or "")

    def _read_critical(self, found: re.Match[str]) -> None:
        self._set_bound("soak", found["critical_side"], found, "critical", found["critical_unit"] or "pps")

    def _set_bound(self, metric: str, side: str, found: re.Match[str], group: str, unit: str) -> None:
        rate, unit = scale_to_base_unit(finite(found[f"{group}_rate"]), unit)
        bound = {"rate": rate}
        if found[f"{group}_bandwidth"]:
            name = found[f"{group}_bandwidth_unit"]
            bound["bandwidth_bps"], _ = scale_to_base_unit(finite(found[f"{group}_bandwidth"]), name)
        reading = self._message.readings.setdefault(metric, MetricValue(unit=unit))
        reading.details[side] = bound
        if side == "lower":
            reading.samples, reading.unit = (rate,), unit

    def _read_missed(self, found: re.Match[str]) -> None:
        self._missed.append((found[0], finite(found["target"]), self._above))

    def _read_lost(self, found: re.Match[str]) -> None:
        if self._missed:
            sentence, target, above = self._missed[-1]
            self._missed[-1] = (f"{sentence}, {found[0]}", target, above)

    def _read_packets(self, found: re.Match[str]) -> None:
        lost = finite(found["packets_lost"])
        self._message.readings["reconf_packets"] = MetricValue((lost,), unit="packets", better=Better.LOWER)

    def _read_time(self, found: re.Match[str]) -> None:
        lost_s = finite(found["time_lost_s"])
        self._message.readings["reconf_time"] = MetricValue((lost_s,), unit="s", better=Better.LOWER)

    def _read_share(self, found: re.Match[str]) -> None:
        self._final_of, self._label = found["share_of"].lower(), found["share_load"]

    def _read_load(self, found: re.Match[str]) -> None:
        self._above, self._label = found["load_of"].lower(), found["load_load"]

    def _read_streams(self, found: re.Match[str]) -> None:
        metric = self._select_final_metric() if self._final else self._above
        self._latencies.setdefault(metric, {})[self._label or "100%"] = of_streams(found["triples"])
        self._label = ""

    def _read_strange(self, found: re.Match[str]) -> None:
        self._message.unknown.append(shape(found[0]))


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
