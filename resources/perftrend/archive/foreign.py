"""Reads the sentences of a test's message where there is no line of JSON: archives of other CI.

Two forms are known: the trial results of MRR tests, and the bounds of NDR and PDR searches in
packets per second. See ``docs/formats/output.rst``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_MRR = re.compile(r"Maximum Receive Rate trial results in packets per second: \[(?P<rates>[^\]]*)\]")
_LOWER = re.compile(r"(?P<name>[A-Z]+)_LOWER: (?P<rate>[\d.eE+]+) pps\b")
_MISSED = re.compile(r"Minimal rate loss fraction \S+ does not reach target \S+?(?=\.?\s*$)")


@dataclass(slots=True)
class Reading:
    """What a message says of one metric."""

    samples: tuple[float, ...] = ()
    """In pps; of a search its lower bound alone."""
    invalid: str = ""


def read(message: str) -> dict[str, Reading]:
    """Return what the message's sentences say, by metric; empty when no form is recognised."""
    readings: dict[str, Reading] = {}
    searched: Reading | None = None
    for line in message.splitlines():
        if found := _MRR.search(line):
            readings["mrr"] = _reading(found["rates"].split(","), line)
        elif found := _LOWER.search(line):
            searched = _reading([found["rate"]], line)
            readings[found["name"].lower()] = searched
        elif searched and (found := _MISSED.search(line)):
            # It stands below the bound whose trial failed.
            searched.invalid = searched.invalid or found[0]
    return readings


def _reading(rates: list[str], line: str) -> Reading:
    try:
        return Reading(tuple(float(rate) for rate in rates))
    except ValueError:
        return Reading(invalid=f"rates cannot be read: {line.strip()[:100]}")
