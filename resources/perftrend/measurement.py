"""What a test measures: trials, latencies, searches, cycles per packet, and their results.

Frozen dataclasses with units in their names. Rates are the sum of all directions in packets per second.
Times are in seconds, and moments in UTC. ``invalid`` is the reason why data is not valid, or empty.

CPU cycles per packet are those that a device counts for its parts. A part is a node of the device's graph,
such as ``ip4-lookup``, or :data:`TOTAL`, the whole device. Each part becomes a trace of its own, whose
metric is named after it. Only a run shows which parts a device has.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from types import MappingProxyType

TOTAL = "total"
"""The part of a device that counts the cycles of all its work together."""

_PREFIX = "cycles_"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_./-]{0,99}")
_MOST_PARTS = 200
_MOST_CYCLES = 1e12
"""Some minutes."""

LATENCY_LOADS: Mapping[str, float] = MappingProxyType(
    {"latency_10": 0.1, "latency_50": 0.5, "latency_90": 0.9}
)
"""The loads at which a search for NDR and PDR measures latency, as fractions of PDR, by metric."""


def cycles_per_packet(cycles: float, packets: float) -> dict[str, float]:
    """Return the cycles per packet of a device that counts them together; empty if it had no packets."""
    return {TOTAL: cycles / packets} if packets > 0 else {}


def plausible_cycles(reported: Mapping[str, float]) -> dict[str, float]:
    """Return the parts that may become traces: at most 200, with usual names and positive numbers.

    What devices print is not trusted: a trace is in the store forever.
    """
    parts = (
        (name, value)
        for name, value in reported.items()
        if _NAME.fullmatch(name) and 0 < value < _MOST_CYCLES
    )
    return dict(islice(parts, _MOST_PARTS))


def cycle_metric(part: str) -> str:
    """Return the metric of the trace of a part."""
    return f"{_PREFIX}{part}"


def cycle_part(metric: str) -> str:
    """Return the part that a metric counts the cycles of; empty if it is another metric."""
    return metric.removeprefix(_PREFIX) if is_cycle_metric(metric) else ""


def is_cycle_metric(name: str) -> bool:
    """Whether a metric is the cycles per packet of a part."""
    return name.startswith(_PREFIX)


@dataclass(frozen=True, slots=True)
class Latency:
    """How long frames of one direction took from the generator's port to the other, in microseconds."""

    minimum_us: float
    average_us: float
    maximum_us: float
    histogram: tuple[tuple[float, int], ...] = ()
    """The upper bound of each class in microseconds, and the number of frames in it; ascending."""


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


@dataclass(frozen=True, slots=True)
class GeneratorHealth:
    """What may have slowed down the traffic generator in a trial; None is what its driver does not know."""

    load: float | None = None
    """The fraction of the time of sending in which it was busy; if it is almost 1, it cannot send faster."""
    core_share: float | None = None
    """The fraction of that time in which it had its core; the kernel or other work used the rest."""
    queue_full: int | None = None
    """How often the queue that it sends into accepted no more frames."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Traffic sent at one rate for one duration, and the frames received."""

    rate_pps: float
    """The intended rate, all directions together."""
    duration_s: float
    """The intended duration."""
    elapsed_s: float
    """The time spent; shorter than intended if the trial was ended early."""
    sent: int
    received: int
    invalid: str = ""
    """Why the trial is not valid; empty if it is."""
    sending_s: float = 0.0
    """The duration of sending; 0 if the driver does not know it: then the intended duration counts."""
    sent_each: tuple[int, ...] = ()
    """The number of frames sent in each direction; empty if the driver does not know it."""
    received_each: tuple[int, ...] = ()
    """The number of frames received of those sent in each direction; empty if the driver does not know it."""
    latency: tuple[Latency, ...] = ()
    """The latency of each direction; empty if the driver does not measure it."""
    unsent: int | None = None
    """The number of frames that the generator failed to send, which are not in ``sent``; None if the driver
    does not know it. Frames that an early end left out do not count."""
    unsent_each: tuple[int, ...] = ()
    """The number of these frames in each direction; empty if the driver does not know it."""
    generator_health: GeneratorHealth | None = None
    """None if the driver does not know any of it."""

    @property
    def loss_ratio(self) -> float:
        """The fraction of the sent frames that were not received."""
        return 1.0 - self.received / self.sent if self.sent else 0.0

    @property
    def receive_rate_pps(self) -> float:
        """Received frames over the time of sending: the sample of an MRR test.

        A generator that is slower than intended sends for longer. Divided by the intended duration, the
        received frames would give a higher rate than any that occurred.
        """
        return self.received / (self.sending_s or self.duration_s)

    @property
    def sent_each_pps(self) -> tuple[float, ...]:
        """The actual rate, for each direction if that is known, else for both together."""
        return tuple(sent / (self.sending_s or self.duration_s) for sent in self.sent_each or (self.sent,))


@dataclass(frozen=True, slots=True)
class Interval:
    """The bounds of a searched rate: it passed at ``lower`` and failed at ``upper``, in pps."""

    lower: float
    upper: float
    invalid: str = ""
    """Why a bound is not valid: loss at the minimum rate, or the search timed out."""

    @property
    def relative_width(self) -> float:
        """The width relative to the upper bound, as defined for MDR."""
        return (self.upper - self.lower) / self.upper if self.upper else 0.0


@dataclass(frozen=True, slots=True)
class Step:
    """One trial of a search."""

    trial: Trial
    reason: str
    """Why this rate was measured, such as ``lower bound of 0.005 exceeds it``."""
    intervals: tuple[Interval, ...]
    """The bounds after the trial, one per loss ratio; empty while none were known."""


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of a search with one trial duration and one width goal."""

    name: str
    """``initial``, ``intermediate 1``, …, ``final``; or ``locate 0.005`` and ``bound 0.005``."""
    duration_s: float
    relative_width: float
    """The width goal relative to the upper bound."""
    steps: tuple[Step, ...]

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials of this phase, in the order of time."""
        return tuple(step.trial for step in self.steps)


@dataclass(frozen=True, slots=True)
class CriticalLoad:
    """The rate whose average loss ratio over a long time is a target, as estimated by a soak test."""

    rate_pps: float
    target_loss_ratio: float
    credibility: float
    """The probability that the critical load is in the interval that is reported with it."""
    hiccups: int = 0
    """Trials that lost frames which their rate does not explain; the estimate excludes them."""


@dataclass(frozen=True, slots=True)
class HeldRate:
    """The loss at one rate that was offered for a long time, in slices."""

    rate_pps: float
    loss_ratio: float
    loss_ratio_limit: float
    """The limit of the average loss ratio, with the confidence, if loss is random."""
    confidence: float
    lossy_slices: int
    bursty: bool = False
    """Whether loss was in bursts: the average may then exceed the limit."""


@dataclass(frozen=True, slots=True)
class Reconfiguration:
    """The loss of a trial during which the device was reconfigured."""

    rate_pps: float
    changes: Mapping[str, str] = field(hash=False)
    """The options of the device that were changed, with their new values."""
    duration_s: float
    """How long the device took to change them."""
    lost: int
    """The number of frames that were lost in the whole trial."""
    baseline_lost: int
    """The number of frames that were lost in the same trial without reconfiguration."""

    @property
    def lost_s(self) -> float:
        """The time without service: how long the lost frames were sent."""
        return self.lost / self.rate_pps


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurement of one test: the contents of its message, for users and for programs."""

    kind: str
    """``mrr``, ``ndrpdr`` (several loss ratios in one search), ``binary`` (one loss ratio), ``soak`` (the
    critical load), ``hold`` (one rate for a long time) or ``reconf`` (a reconfiguration under traffic)."""
    testbed: str
    frame: str
    """``64B`` or another length, ``IMIX``, or a pattern such as ``64x7+570x4+1518x1``."""
    frame_bytes: float
    """Average length of a frame with its checksum; 20 bytes are added for the bandwidth."""
    started: datetime
    finished: datetime
    samples: tuple[float, ...] = ()
    """MRR: the receive rate of each trial, in pps; a hold: that of each slice."""
    intervals: Mapping[str, Interval] = field(default_factory=dict, hash=False)
    """Searches: ``{"ndr": …, "pdr": …}``; a soak: ``{"soak": …}``, which contains the critical load; a
    reconfiguration: ``{"ndr": …}``, which its rate is derived from."""
    trials: tuple[Trial, ...] = ()
    """Every trial, in the order of time, including those that were repeated."""
    loss_ratios: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Searches: the accepted loss ratio of each of the intervals, ``{"ndr": 0.0, "pdr": 0.005}``, ascending.
    Further PDRs are named after their loss ratio: ``pdr_0.01``."""
    phases: tuple[Phase, ...] = ()
    """The course of an MDR search. The trials of its steps are those in ``trials``, and their
    intervals are in the order of ``loss_ratios``."""
    strategy: str = ""
    """The strategy of a search for NDR and PDR: ``predictive``, ``mdr`` or ``binary``."""
    conditional_throughput_pps: Mapping[str, float] = field(default_factory=dict, hash=False)
    """A search whose bounds are decided by several trials: the throughput at each lower bound."""
    mrr_pps: float = 0.0
    """Searches: the receive rate at the highest rate, with which the search begins; 0 if not known."""
    latency: Mapping[str, LoadLatency] = field(default_factory=dict, hash=False)
    """A search for NDR and PDR: the latency by metric; empty if the generator does not measure it."""
    cycles_per_packet: Mapping[str, float] = field(default_factory=dict, hash=False)
    """The CPU cycles per packet of each part of the device at PDR, at the rate of a search for one rate, or
    at the highest rate of MRR; empty if the device does not count them."""
    critical_load: CriticalLoad | None = None
    """A soak: its estimate."""
    held: HeldRate | None = None
    """A hold: the loss at the rate."""
    reconfiguration: Reconfiguration | None = None
    """A reconfiguration: its loss; None if there was none, as NDR was not found."""
    counters: str = ""
    """File with the counters that were collected, relative to the archive."""
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The versions of the device and of the generator: ``{"device": "<commit>", "generator": …}``."""
    invalid: str = ""
    """Why the result is not valid; empty if it is."""
    simulated: bool = False

    @property
    def rates(self) -> dict[str, tuple[float, ...]]:
        """The samples of each trace that the test belongs to, in pps, by metric.

        For a search that is the lower bound; for a soak, the critical load. A reconfiguration has none.
        """
        if self.kind == "reconf":
            return {}
        sampled = {self.kind: self.samples} if self.samples else {}
        found = {name: (interval.lower,) for name, interval in self.intervals.items()}
        estimated = {self.kind: (self.critical_load.rate_pps,)} if self.critical_load else {}
        return {**sampled, **found, **estimated}
