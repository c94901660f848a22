"""CPU cycles per packet of the parts of a device, as the device itself counts them.

A part is a node of the device's graph, such as ``ip4-lookup``, or :data:`TOTAL`, the whole device. Each part
becomes a trace of its own, whose metric is named after it. Only a run shows which parts a device has.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import islice

TOTAL = "total"
"""The part of a device that counts the cycles of all its work together."""

_PREFIX = "cycles_"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,99}")
_MOST_PARTS = 200
_MOST_CYCLES = 1e12
"""Some minutes."""


def per_packet(cycles: float, packets: float) -> dict[str, float]:
    """Return the cycles per packet of a device that counts them together; empty if it had no packets."""
    return {TOTAL: cycles / packets} if packets > 0 else {}


def plausible(reported: Mapping[str, float]) -> dict[str, float]:
    """Return the parts that may become traces: at most 200, with usual names and positive numbers.

    What devices print is not trusted: a trace is in the store forever.
    """
    parts = (
        (name, value)
        for name, value in reported.items()
        if _NAME.fullmatch(name) and 0 < value < _MOST_CYCLES
    )
    return dict(islice(parts, _MOST_PARTS))


def metric_of(part: str) -> str:
    """Return the metric of the trace of a part."""
    return f"{_PREFIX}{part}"


def is_metric(name: str) -> bool:
    """Whether a metric is the cycles per packet of a part."""
    return name.startswith(_PREFIX)
