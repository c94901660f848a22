"""The latency of a simulated device: the time to forward a frame, and to wait for those before it.

A device forwards frames in batches. At a load u, a fraction of the critical rate, a frame waits for
u / (1 - u) batches on average, as in a queue with random arrivals (M/M/1): for a ninth of a batch at 10 %,
for nine batches at 90 %. The wait is exponential, up to that of a full queue, which all frames have from the
critical rate on. Nothing is drawn at random: the noise of a trend is that of PDR.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass

from perftrend.measurement import Latency

FRAMES_PER_S = 1000
"""Rate of the frames that latency is measured with, in each direction, as that of TRex."""
_FORWARDING_US = 5.0
"""The latency of a frame that does not wait."""
_BATCH_FRAMES = 64
_QUEUE_FRAMES = 4096
_MOST_BATCHES = 1e9
"""The mean wait at and above the critical rate, before the limit of the queue."""


def latency(load: float, critical_pps: float, frames: int) -> Latency:
    """Return the expected latency of a number of frames, at least one.

    :param load: the rate, relative to the critical rate.
    """
    batch_us, queue_us = (1e6 * each / critical_pps for each in (_BATCH_FRAMES, _QUEUE_FRAMES))
    batches = min(load / (1.0 - load), _MOST_BATCHES) if load < 1.0 else _MOST_BATCHES
    wait = _Wait(batches * batch_us, queue_us)
    return Latency(
        minimum_us=_FORWARDING_US + wait.quantile_us(1.0 / (frames + 1)),
        average_us=_FORWARDING_US + wait.average_us,
        maximum_us=_FORWARDING_US + wait.quantile_us(frames / (frames + 1)),
        histogram=tuple(_histogram(wait, frames)),
    )


@dataclass(frozen=True, slots=True)
class _Wait:
    """An exponential distribution whose values above a limit are the limit."""

    mean_us: float
    """Of the exponential distribution, above 0."""
    limit_us: float

    @property
    def average_us(self) -> float:
        return -self.mean_us * math.expm1(-self.limit_us / self.mean_us)

    def quantile_us(self, probability: float) -> float:
        return min(self.limit_us, -self.mean_us * math.log1p(-probability))

    def share_below(self, wait_us: float) -> float:
        return 1.0 if wait_us > self.limit_us else -math.expm1(-max(0.0, wait_us) / self.mean_us)


def _histogram(wait: _Wait, frames: int) -> Iterator[tuple[float, int]]:
    """Yield the classes that have frames; their bounds are those of TRex: 10, 20, …, 90, 100, 200, … us."""
    before = 0
    for bound_us in (digit * 10.0**power for power in itertools.count(1) for digit in range(1, 10)):
        until = round(frames * wait.share_below(bound_us - _FORWARDING_US))
        if until > before:
            yield bound_us, until - before
        if until == frames:
            break
        before = until
