"""The XDP generator alongside the embedded one: ``python -m benchmarks.generator [--json]``. Needs root.

Both send into a sink, the kernel behind the device's ports, which drops and counts every frame. They take
turns, so that both meet the same machine. Trials that another process disturbed are counted separately.

The error is that of the rate of a whole trial. The highest rate is that of the fastest trial that was within
1 % of its rate and lost nothing, found by bisection. CPU is the part of its core that the generator's process
uses, and the time that a frame costs in a flood. The load is what the generator reports of a trial.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import asdict, dataclass

from benchmarks.output import finite, grid
from perftrend import errors
from perftrend.measure import lock
from perftrend.measure.embedded.drivers import EmbeddedGenerator
from perftrend.measure.embedded.generator import Count
from perftrend.measure.interfaces import Node
from perftrend.measure.traffic import TrafficProfile
from perftrend.measure.trial_validity import CoreWatch, schedstat, two_cores
from perftrend.measure.wiring import VethPairs, run
from perftrend.measure.xdp.generator import XdpGenerator

RATES_PPS = (10_000, 100_000, 500_000, 1_000_000)
FRAMES = ("64B", "1518B", "IMIX")
_STEPS = 7
"""Halvings of the interval that contains the highest rate: to 1 % of it or less."""
_ATTEMPTS = 3
_AT_RATE = 0.01


@dataclass(frozen=True, slots=True)
class RateRow:
    """One generator at one rate."""

    generator: str
    frame: str
    rate_pps: float
    median_error: float
    """Relative error of the rate; NaN if all trials were disturbed."""
    worst_error: float
    wrong_counts: int
    """Trials whose number of frames was not rate times duration."""
    lost: float
    """The median of the fraction of frames that did not reach the sink."""
    core_use: float
    load: float
    """The median of the load that the generator reports."""
    disturbed: int
    trials: int


@dataclass(frozen=True, slots=True)
class LimitRow:
    """The limits of one generator."""

    generator: str
    frame: str
    lossless_pps: float
    flood_pps: float
    ns_per_frame: float
    """CPU time in a flood."""


class Sink:
    """The kernel behind the device's ports, and a generator that sends into it."""

    def __init__(self, name: str, generator: EmbeddedGenerator, wiring: VethPairs) -> None:
        self.name = name
        self.generator = generator
        self._wiring = wiring
        self.disturbed = False
        """Whether another process disturbed the last trial."""
        self.ran_s = 0.0
        """CPU time of the generator in the last trial."""
        self.lost = 0
        """Frames of the last trial that did not arrive."""

    def trial(self, rate_pps: float, duration_s: float) -> Count:
        """Send frames at a rate."""
        watch = CoreWatch(self.generator.busy_processes())
        before, ran_s = self._count(), self._ran_s()
        with watch.observe():
            count = self.generator.count(rate_pps, duration_s)
        self.disturbed = bool(watch.foreign)
        self.ran_s = self._ran_s() - ran_s
        self.lost = count.sent - (self._count() - before)
        return count

    def highest_lossless_pps(self, duration_s: float) -> float:
        """Return the highest rate without loss, by bisection; 0 if none was found."""
        low_pps, high_pps = 0.0, 1.25 * self.generator.highest_pps()
        for _ in range(_STEPS):
            rate_pps = (low_pps + high_pps) / 2
            if any(self._is_lossless(rate_pps, duration_s) for _ in range(_ATTEMPTS)):
                low_pps = rate_pps
            else:
                high_pps = rate_pps
        return low_pps

    def _is_lossless(self, rate_pps: float, duration_s: float) -> bool:
        count = self.trial(rate_pps, duration_s)
        return not self.lost and abs(count.sent_pps / rate_pps - 1) <= _AT_RATE

    def _count(self) -> int:
        lines = run(self._wiring.at_device(["cat", "/proc/net/dev"])).splitlines()
        ports = tuple(f"{link.device.interface}:" for link in self._wiring.links)
        return sum(int(line.split()[2]) for line in lines if line.strip().startswith(ports))

    def _ran_s(self) -> float:
        ran_s, _ = schedstat(self.generator.busy_processes()[0]) or (0.0, 0.0)
        return ran_s


def rate_row(sink: Sink, frame: str, rate_pps: float, *, trials: int, duration_s: float) -> RateRow:
    """Measure one generator at one rate."""
    measured, uses, loads, lost, disturbed, wrong = [], [], [], [], 0, 0
    for _ in range(trials):
        count = sink.trial(rate_pps, duration_s)
        wrong += count.sent != round(rate_pps * duration_s)
        lost.append(sink.lost / count.sent)
        uses.append(sink.ran_s / count.sending_s)
        loads.append(count.load)
        if sink.disturbed:
            disturbed += 1
        else:
            measured.append(abs(count.sent_pps / rate_pps - 1))
    return RateRow(
        generator=sink.name,
        frame=frame,
        rate_pps=rate_pps,
        median_error=statistics.median(measured) if measured else math.nan,
        worst_error=max(measured, default=math.nan),
        wrong_counts=wrong,
        lost=statistics.median(lost),
        core_use=statistics.median(uses),
        load=statistics.median(loads),
        disturbed=disturbed,
        trials=trials,
    )


def limit_row(sink: Sink, frame: str, *, duration_s: float) -> LimitRow:
    """Measure the limits of one generator."""
    lossless_pps = sink.highest_lossless_pps(duration_s)
    count = sink.trial(1e8, 0.005)
    return LimitRow(sink.name, frame, lossless_pps, count.sent_pps, 1e9 * sink.ran_s / count.sent)


def rows(
    sinks: Sequence[Sink], frames: Sequence[str], *, trials: int, duration_s: float
) -> Iterator[RateRow | LimitRow]:
    """Yield the rows of all generators, of which one follows the other at each rate."""
    for frame in frames:
        for sink in sinks:
            sink.generator.use(TrafficProfile.parse(frame, {}))
        for rate_pps in RATES_PPS:
            for sink in sinks:
                yield rate_row(sink, frame, rate_pps, trials=trials, duration_s=duration_s)
        for sink in sinks:
            yield limit_row(sink, frame, duration_s=duration_s)


def open_sinks(stack: ExitStack) -> list[Sink]:
    """Open both generators, each on links of its own. :raises TestbedError: if XDP cannot be used here."""
    core, _ = two_cores()
    sinks = []
    for name, driver in (("embedded", EmbeddedGenerator), ("xdp", XdpGenerator)):
        wiring = stack.enter_context(closing(VethPairs()))
        wiring.open()
        generator = stack.enter_context(closing(driver(wiring, Node(cpu=core), {})))
        generator.open()
        if isinstance(generator, XdpGenerator) and generator.fallback:
            raise errors.TestbedError(f"there is nothing to compare: {generator.fallback}")
        sinks.append(Sink(name, generator, wiring))
    return sinks


def print_tables(found: Sequence[RateRow | LimitRow]) -> None:
    """Print all rows, and how many times as fast the XDP generator is."""
    rates = [row for row in found if isinstance(row, RateRow)]
    limits = [row for row in found if isinstance(row, LimitRow)]
    grid(
        "Rates",
        (
            "generator", "frame", "pps", "median error", "worst error", "wrong counts", "lost", "CPU",
            "load", "disturbed",
        ),
        (
            (
                row.generator, row.frame, f"{row.rate_pps:,.0f}", f"{row.median_error:.4%}",
                f"{row.worst_error:.4%}", f"{row.wrong_counts}", f"{row.lost:.2%}", f"{row.core_use:.0%}",
                f"{row.load:.0%}", f"{row.disturbed} of {row.trials}",
            )
            for row in rates
        ),
    )  # fmt: skip
    grid(
        "Limits",
        ("generator", "frame", "highest lossless pps", "flood pps", "CPU ns per frame"),
        (
            (
                row.generator, row.frame, f"{row.lossless_pps:,.0f}", f"{row.flood_pps:,.0f}",
                f"{row.ns_per_frame:,.0f}",
            )
            for row in limits
        ),
    )  # fmt: skip
    grid(
        "xdp relative to embedded",
        ("frame", "highest lossless rate", "flood", "CPU per frame"),
        [(frame, *(f"{ratio:.2f}" for ratio in ratios)) for frame, *ratios in relative(limits)],
    )


def relative(limits: Sequence[LimitRow]) -> Iterator[tuple[str, float, float, float]]:
    """Return for each frame the limits of the XDP generator, relative to those of the embedded one."""
    by_name = {(row.generator, row.frame): row for row in limits}
    for frame in dict.fromkeys(row.frame for row in limits):
        embedded, xdp = by_name["embedded", frame], by_name["xdp", frame]
        yield (
            frame,
            xdp.lossless_pps / embedded.lossless_pps if embedded.lossless_pps else math.nan,
            xdp.flood_pps / embedded.flood_pps,
            xdp.ns_per_frame / embedded.ns_per_frame,
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Print the tables, or each row as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--frames", nargs="+", default=FRAMES)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--duration", type=float, default=0.5)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(argv)
    with errors.report_to_stderr() as outcome, lock.hold("this-machine", wait_s=3600), ExitStack() as stack:
        found = []
        for row in rows(open_sinks(stack), given.frames, trials=given.trials, duration_s=given.duration):
            found.append(row)
            if given.json:
                print(json.dumps(finite(asdict(row))), flush=True)
        if not given.json:
            print_tables(found)
    return outcome.exit_code


if __name__ == "__main__":
    sys.exit(main())
