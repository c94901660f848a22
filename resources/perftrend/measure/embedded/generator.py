"""The embedded traffic generator: a process that sends frames at one rate and counts those that return.

The driver :class:`perftrend.measure.embedded.drivers.EmbeddedGenerator` starts it, writes requests to its
standard input and reads the responses from its standard output, one line of JSON each.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from operator import attrgetter, sub

from typing_extensions import override

from perftrend.measure.embedded.frames import build, count_prepared_frames, frame_direction, parse_mac
from perftrend.measure.embedded.ports import GeneratorPort, generator_port
from perftrend.measure.traffic import TrafficProfile, opposite

_BATCH = 64
CATCH_UP_S = 0.005
"""Longest burst of late frames, in seconds of traffic; a receive ring has room for it."""
OWED_AT_MOST_S = 0.01
"""Longest further delay that is caught up gradually: a host withholds a core for 6 to 8 ms at a time."""
_FASTER = 0.02
"""Relative increase of the rate while catching up; it needs no more room in a ring than such bursts."""
COUNT_EVERY_S = 0.01
"""Interval of the checks whether a trial has lost too much already."""
_UNDER_WAY_FRAMES = 10_000
"""More frames than the queues of any device on this machine hold: frames missing beyond these are lost."""
_UNDER_WAY_S = 0.3
"""A frame missing for longer than this is presumed lost: full queues drain in less time."""
_SETTLED_S = 0.1
"""A count that has not changed for this time is final: missing frames are lost."""
_LOOK_AGAIN_S = 0.002
_SETTLE_AT_MOST_S = 3.0


@dataclass(frozen=True, slots=True)
class Count:
    """Counts of one trial."""

    planned: int
    """Frames of the whole trial: exactly rate times duration, rounded."""
    sent: int
    received: int
    refused: int
    """Frames of ``sent`` that the device's queue refused at once."""
    sending_s: float
    elapsed_s: float
    """Time of sending and of waiting for the frames in flight."""
    sent_each: list[int]
    """Frames sent in each direction."""
    received_each: list[int]
    """Frames received in each direction: those sent into one port arrive at the other of the pair."""
    load: float
    """The fraction of the time of sending in which the sender was busy."""
    core_share: float | None = None
    """The fraction of that time in which it had its core; None if it is not known."""
    unproven: bool = False
    """Whether the trial ended early, but the frames in flight returned after all."""

    @property
    def sent_pps(self) -> float:
        """The rate reached."""
        return self.sent / self.sending_s


class OverdueFrames:
    """A periodic check whether more frames are overdue than a trial may lose.

    :param limit: the number of frames that it may lose.
    :param count_received: returns the number of frames of the trial that have returned.
    """

    def __init__(self, limit: float, count_received: Callable[[], int]) -> None:
        self._limit = limit
        self._count_received = count_received
        self._sent: list[tuple[float, int]] = []
        self.next_look = 0.0

    def look(self, now: float, sent: int) -> bool:
        """Return whether more frames than the limit are missing and can no longer be in flight."""
        self.next_look = now + COUNT_EVERY_S
        received = self._count_received()
        if sent - received - _UNDER_WAY_FRAMES > self._limit:
            return True
        while len(self._sent) > 1 and now - self._sent[1][0] >= _UNDER_WAY_S:
            self._sent.pop(0)
        due = self._sent[0][1] if self._sent and now - self._sent[0][0] >= _UNDER_WAY_S else 0
        self._sent.append((now, sent))
        return due - received > self._limit


@dataclass(frozen=True, slots=True)
class SentFrames:
    """What was sent in one trial."""

    each: list[int]
    """Frames sent in each direction."""
    refused: int
    """Frames that the device's queue refused at once."""
    sending_s: float
    load: float
    """The fraction of the time of sending in which the sender was busy."""
    core_share: float | None = None
    """The fraction of that time in which the sender had its core; None if it does not know it."""


class Sender(ABC):
    """Sends test traffic into all ports, and counts the frames that return."""

    @abstractmethod
    def use(self, traffic: TrafficProfile) -> None:
        """Prepare the frames to send."""

    @abstractmethod
    def send(self, planned: int, rate_pps: float, overdue: OverdueFrames | None) -> SentFrames:
        """Send this number of frames at a steady rate, or fewer if too many are overdue."""

    @abstractmethod
    def count_received(self) -> list[int]:
        """Return the number of frames that each port has received since it was opened."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources."""


class FrameStream:
    """The frames sent into one port, in a repeating sequence."""

    def __init__(
        self, port: GeneratorPort, number: int, traffic: TrafficProfile, device_macs: Sequence[bytes]
    ) -> None:
        self.port = port
        self.sent = 0
        self.refused = 0
        self.progress = 1.0
        """The fraction of the trial's frames that has been sent; 1 if there are none."""
        self._planned = 0
        self._next = 0
        self._prepared = count_prepared_frames(traffic)
        port.prepare(*build(traffic, frame_direction(number, traffic, device_macs), self._prepared))

    def plan(self, count: int) -> None:
        """Begin a trial of ``count`` frames."""
        self._planned, self.sent, self.refused = count, 0, 0
        self.progress = 0.0 if count else 1.0

    def send(self, limit: int) -> int:
        """Send the next frames, at most ``limit``, and return their number."""
        count = min(limit, self._planned - self.sent, self._prepared - self._next)
        self.refused += self.port.send(self._next, count)
        self._next = (self._next + count) % self._prepared
        self.sent += count
        self.progress = self.sent / self._planned
        return count


class SocketSender(Sender):
    """A loop that sends whatever is due through sockets.

    :param device_macs: the addresses of the device's ports, as for :func:`frame_direction`.
    """

    def __init__(self, ports: Sequence[GeneratorPort], device_macs: Sequence[bytes] = ()) -> None:
        self._ports = ports
        self._device_macs = device_macs
        self._streams: list[FrameStream] = []

    @override
    def use(self, traffic: TrafficProfile) -> None:
        self._split = traffic.split
        self._streams = [
            FrameStream(port, number, traffic, self._device_macs) for number, port in enumerate(self._ports)
        ]

    @override
    def send(self, planned: int, rate_pps: float, overdue: OverdueFrames | None) -> SentFrames:
        streams, progress = self._streams, attrgetter("progress")
        for stream, count in zip(streams, self._split(planned, len(streams)), strict=True):
            stream.plan(count)
        clock = time.perf_counter
        catch_up = max(1, int(rate_pps * CATCH_UP_S))
        sent = 0
        owed_s = busy_s = 0.0
        is_full = False
        ran_s = time.thread_time()
        now = start = begin = clock()
        while sent < planned:
            before_s, now = now, clock()
            if is_full:
                # Smaller batches take longer for each frame: then there is time left.
                busy_s += now - before_s
            if owed_s:
                paid_s = min(owed_s, _FASTER * (now - before_s))
                owed_s -= paid_s
                start -= paid_s
            behind = int((now - start) * rate_pps) + 1 - sent
            if behind > catch_up:
                # Too late to send everything at once. A delay beyond the gradual catch-up extends the trial,
                # which lowers the rate that it reports.
                late_s = (behind - catch_up) / rate_pps
                start += late_s
                owed_s = min(owed_s + late_s, OWED_AT_MOST_S)
                behind = catch_up
            is_full = behind >= _BATCH
            if behind > 0:
                sent += min(streams, key=progress).send(min(behind, _BATCH))
            if overdue and now >= overdue.next_look and overdue.look(now, sent):
                break
        sending_s = clock() - begin
        return SentFrames(
            each=[stream.sent for stream in self._streams],
            refused=sum(stream.refused for stream in self._streams),
            sending_s=sending_s,
            load=busy_s / sending_s,
            core_share=(time.thread_time() - ran_s) / sending_s,
        )

    @override
    def count_received(self) -> list[int]:
        return [port.count_received() for port in self._ports]

    @override
    def close(self) -> None:
        for port in self._ports:
            port.close()


class Generator:
    """Trials of a sender: what it sends, and what returns of it."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def trial(self, rate_pps: float, duration_s: float, fail_above: float | None = None) -> Count:
        """Send round(rate x duration) frames at a steady rate and count those that return.

        With ``fail_above``, sending stops as soon as the overdue frames show that the loss ratio of the whole
        trial exceeds it. The trial then waits for the frames in flight, so that late frames do not count as
        lost.
        """
        planned = round(rate_pps * duration_s)
        limit = None if fail_above is None else fail_above * planned
        count_received = self._sender.count_received
        before_each = count_received()
        before = sum(before_each)
        overdue = None if limit is None else OverdueFrames(limit, lambda: sum(count_received()) - before)
        begin = time.perf_counter()
        frames = self._sender.send(planned, rate_pps, overdue)
        sent = sum(frames.each)
        at_ports = list(map(sub, self._wait_for_final_count(before + sent), before_each))
        received = sum(at_ports)
        return Count(
            planned=planned,
            sent=sent,
            received=received,
            refused=frames.refused,
            sending_s=frames.sending_s,
            elapsed_s=time.perf_counter() - begin,
            sent_each=frames.each,
            received_each=[at_ports[opposite(port, len(at_ports))] for port in range(len(at_ports))],
            load=frames.load,
            core_share=frames.core_share,
            unproven=sent < planned and limit is not None and sent - received <= limit,
        )

    def _wait_for_final_count(self, all_back: int) -> list[int]:
        """Wait until no frame is in flight, which would count in the next trial, and return the counts.

        :param all_back: the sum of the counts when every frame has returned; below it, the counts are final
            once they have not changed for a while.
        """
        last, moved = sum(self._sender.count_received()), time.perf_counter()
        end = moved + _SETTLE_AT_MOST_S
        while last < all_back and moved + _SETTLED_S > (now := time.perf_counter()) and now < end:
            time.sleep(_LOOK_AGAIN_S)
            received = sum(self._sender.count_received())
            if received != last:
                last, moved = received, now
        # Frames that arrive now were never sent or were duplicated: a last read must include them.
        time.sleep(_LOOK_AGAIN_S)
        return self._sender.count_received()


def serve(sender: Sender) -> None:
    """Respond to requests until standard input ends.

    A request is ``{"frame": NAME, "options": {…}}``, which selects the traffic by the arguments of
    :meth:`TrafficProfile.parse`, or ``{"rate_pps": …, "duration_s": …, "fail_above": …}``, whose response is
    a :class:`Count`.
    """
    generator = Generator(sender)
    _answer({"ready": os.getpid()})
    for line in sys.stdin:
        request = json.loads(line)
        if "frame" in request:
            sender.use(TrafficProfile.parse(request["frame"], request["options"]))
            _answer({"frame": request["frame"]})
        else:
            _answer(asdict(generator.trial(**request)))
    sender.close()


def _answer(answer: dict[str, object]) -> None:
    print(json.dumps(answer), flush=True)  # noqa: T201 - the protocol with the driver


def parse_arguments(argv: Sequence[str] | None) -> tuple[list[str], list[bytes]]:
    """Parse the arguments of a generator's process, and pin it to its core.

    :returns: the names of its ports, and the MAC addresses of the device's ports; empty if they are the usual
        ones.
    """
    parser = argparse.ArgumentParser(description="send frames at a rate and count those that return")
    parser.add_argument("--ports", nargs="+", required=True)
    parser.add_argument("--device-macs", nargs="+", type=parse_mac, default=[])
    parser.add_argument("--cpu", type=int)
    options = parser.parse_args(argv)
    if options.cpu is not None:
        os.sched_setaffinity(0, {options.cpu})
    return options.ports, options.device_macs


def main(argv: Sequence[str] | None = None) -> int:
    """Send through sockets."""
    ports, device_macs = parse_arguments(argv)
    serve(SocketSender([generator_port(name) for name in ports], device_macs))
    return 0


if __name__ == "__main__":
    sys.exit(main())
