"""Reads the sentences of a test's message without a line of JSON, as in archives of other CI.

``docs/formats/output.rst`` lists the supported sentences. Text that resembles a result but cannot be read is
listed in :attr:`Told.unknown`; no error is raised.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from perftrend.archive import fragments
from perftrend.archive.fragments import FRAGMENT, finite, scaled
from perftrend.model import Better


@dataclass(slots=True)
class Reading:
    """The values of one metric."""

    samples: tuple[float, ...] = ()
    """In ``unit``; of a search only its lower bound."""
    invalid: str = ""
    unit: str = "pps"
    better: Better = Better.HIGHER
    details: dict[str, Any] = field(default_factory=dict)
    """All other values: bounds, bandwidths in bits per second, latencies in microseconds."""


@dataclass(slots=True)
class Told:
    """The content of a message."""

    readings: dict[str, Reading] = field(default_factory=dict)
    """By metric, in the order of the message."""
    unknown: list[str] = field(default_factory=list)
    """Forms of text that resembles a result but could not be read."""


def read(message: str, *, expected: Collection[str] = ()) -> Told:
    """Return the content of a message's sentences.

    :param expected: metrics by the test's tags or name, since a ``FINAL_RATE`` does not name its search.
    """
    reader = _Reader(expected)
    for fragment in FRAGMENT.finditer(message):
        reader.take(fragment)
    return reader.finished()


class _Reader:
    """Combines the fragments of one message; each kind has a method of its name."""

    def __init__(self, expected: Collection[str]) -> None:
        self._expected = expected
        self._told = Told()
        self._above = ""
        """The metric of the preceding bound."""
        self._label = ""
        """The load of the next latencies, if it precedes them."""
        self._final: Reading | None = None
        self._final_of = ""
        self._accepted: float | None = None
        self._missed: list[tuple[str, float, str]] = []
        """Missed targets: the sentence, the target loss ratio, and the metric of the preceding bound."""
        self._latencies: dict[str, dict[str, Any]] = {}

    def take(self, found: re.Match[str]) -> None:
        """Process the next fragment."""
        try:
            getattr(self, f"_take_{found.lastgroup}")(found)
        except ValueError:
            self._take_strange(found)

    def finished(self) -> Told:
        """Return the content of all fragments together."""
        readings = self._told.readings
        if self._final:
            readings.setdefault(self._searched(), self._final)
        for sentence, target, above in self._missed:
            if reading := readings.get(self._aimed_at(target, above)):
                reading.invalid = reading.invalid or sentence
        for metric, latencies in self._latencies.items():
            if metric in readings and any(map(any, latencies.values())):
                readings[metric].details["latency_us"] = latencies
        for reading in readings.values():
            if not reading.samples and not reading.invalid:
                reading.invalid = "the message tells no lower bound"
        return self._told

    def _searched(self) -> str:
        """Return the search of the final rate: by tags and names, else by the message."""
        promised = [metric for metric in ("ndr", "pdr") if metric in self._expected]
        if len(promised) == 1:
            return promised[0]
        if self._accepted is not None:
            return "pdr" if self._accepted > 0 else "ndr"
        return "pdr" if self._final_of == "pdr" else "ndr"

    def _aimed_at(self, target: float, above: str) -> str:
        """Return the search with this target loss ratio: all sentences may follow the last bound."""
        aimed = "pdr" if target > 0 else "ndr"
        return aimed if aimed in self._told.readings else above

    def _take_mrr(self, found: re.Match[str]) -> None:
        unit = fragments.COUNTED.get(found["counted"], found["counted"])
        reading = self._told.readings["mrr"] = Reading()
        try:
            reading.unit = scaled(0.0, unit)[1]
            reading.samples = tuple(map(finite, found["rates"].split(",")))
        except ValueError:
            reading.invalid = f"rates cannot be read: {found[0][:100]}"
            raise

    def _take_max_received(self, found: re.Match[str]) -> None:
        seconds, sent, received = (finite(found[name]) for name in ("seconds", "sent", "received"))
        if seconds <= 0:
            raise ValueError("no rate without a duration")
        details = {"sent": sent, "received": received, "duration_s": seconds}
        self._told.readings["mrr"] = Reading((received / seconds,), details=details)

    def _take_final(self, found: re.Match[str]) -> None:
        rate, unit = scaled(finite(found["end_rate"]), found["end_unit"] or "pps")
        self._final = Reading((rate,), unit=unit)

    def _take_final_bandwidth(self, found: re.Match[str]) -> None:
        if self._final:
            bandwidth, _ = scaled(finite(found["bandwidth"]), found["bandwidth_unit"])
            self._final.details["bandwidth_bps"] = bandwidth

    def _take_acceptance(self, found: re.Match[str]) -> None:
        self._accepted = finite(found["accepted"])

    def _take_bound(self, found: re.Match[str]) -> None:
        self._above = found["search"].lower()
        self._set_bound(self._above, found["side"].lower(), found, "bound", found["bound_unit"] or "")

    def _take_critical(self, found: re.Match[str]) -> None:
        self._set_bound("soak", found["critical_side"], found, "critical", found["critical_unit"] or "pps")

    def _set_bound(self, metric: str, side: str, found: re.Match[str], group: str, unit: str) -> None:
        rate, unit = scaled(finite(found[f"{group}_rate"]), unit)
        bound = {"rate": rate}
        if found[f"{group}_bandwidth"]:
            name = found[f"{group}_bandwidth_unit"]
            bound["bandwidth_bps"], _ = scaled(finite(found[f"{group}_bandwidth"]), name)
        reading = self._told.readings.setdefault(metric, Reading(unit=unit))
        reading.details[side] = bound
        if side == "lower":
            reading.samples, reading.unit = (rate,), unit

    def _take_missed(self, found: re.Match[str]) -> None:
        self._missed.append((found[0], finite(found["target"]), self._above))

    def _take_lost(self, found: re.Match[str]) -> None:
        if self._missed:
            sentence, target, above = self._missed[-1]
            self._missed[-1] = (f"{sentence}, {found[0]}", target, above)

    def _take_packets(self, found: re.Match[str]) -> None:
        lost = finite(found["packets_lost"])
        self._told.readings["reconf_packets"] = Reading((lost,), unit="packets", better=Better.LOWER)

    def _take_time(self, found: re.Match[str]) -> None:
        lost_s = finite(found["time_lost_s"])
        self._told.readings["reconf_time"] = Reading((lost_s,), unit="s", better=Better.LOWER)

    def _take_share(self, found: re.Match[str]) -> None:
        self._final_of, self._label = found["share_of"].lower(), found["share_load"]

    def _take_load(self, found: re.Match[str]) -> None:
        self._above, self._label = found["load_of"].lower(), found["load_load"]

    def _take_streams(self, found: re.Match[str]) -> None:
        metric = self._searched() if self._final else self._above
        self._latencies.setdefault(metric, {})[self._label or "100%"] = fragments.of_streams(found["triples"])
        self._label = ""

    def _take_strange(self, found: re.Match[str]) -> None:
        self._told.unknown.append(fragments.shape(found[0]))
