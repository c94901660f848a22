"""The latency of frames at some load of the device."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class Latency:
    """How long frames of one direction took from the generator's port to the other, in microseconds."""

    minimum_us: float
    average_us: float
    maximum_us: float
    histogram: tuple[tuple[float, int], ...] = ()
    """The upper bound of each class in microseconds, and the number of frames in it; ascending."""


LATENCY_LOADS: Mapping[str, float] = MappingProxyType(
    {"latency_10": 0.1, "latency_50": 0.5, "latency_90": 0.9}
)
"""The loads at which a search for NDR and PDR measures latency, as fractions of PDR, by metric."""


@dataclass(frozen=True, slots=True)
class LoadLatency:
    """The latency at one load of the device."""

    rate_pps: float
    """The intended rate, all directions together; 0 if it is not known."""
    directions: tuple[Latency, ...] = ()
    """The latency of each direction; empty if it is not valid."""
    invalid: str = ""
    """Why there is no valid latency; empty if there is."""

    @property
    def average_us(self) -> float:
        """The mean of the directions' averages, which count equally; NaN if it is not valid."""
        averages = [each.average_us for each in self.directions]
        return math.fsum(averages) / len(averages) if averages and not self.invalid else math.nan
