"""Reads the sentences of a test's message without a line of JSON, as in archives of other CI.

``docs/formats/output.rst`` lists the supported sentences. Text that resembles a result but cannot be read is
listed in :attr:`ParsedMessage.unknown`; no error is raised.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from perftrend.archive import fragments
from perftrend.archive.fragments import FRAGMENT, finite, scale_to_base_unit
from perftrend.model import Better


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
                reading.invalid = "the message tells no lower bound"
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
        unit = fragments.COUNTED.get(found["counted"], found["counted"])
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
        self._latencies.setdefault(metric, {})[self._label or "100%"] = fragments.of_streams(found["triples"])
        self._label = ""

    def _read_strange(self, found: re.Match[str]) -> None:
        self._message.unknown.append(fragments.shape(found[0]))
