"""The embedded traffic generator: a process that sends at one rate and counts what comes back.

Started by the driver :class:`perftrend.measure.embedded.drivers.EmbeddedGenerator`, which asks for trials on
standard input, one line of JSON each, and reads one line of JSON for each.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from perftrend.measure.embedded import topology
from perftrend.measure.embedded.frames import Profile, build, prepared_frames
from perftrend.measure.embedded.port import GeneratorPort
from perftrend.measure.embedded.ports import generator_port

_BATCH = 64
_CATCH_UP_S = 0.005
"""What could not be sent in time is sent late in bursts of at most so long, which a ring takes."""
_OWED_AT_MOST_S = 0.01
"""So much more is sent late little by little: a host that takes a core away does so for 6 to 8 ms."""
_FASTER = 0.02
"""By this part the rate is higher until that is done. It needs no more room in a ring than such bursts do."""
_COUNT_EVERY_S = 0.01
_UNDER_WAY_FRAMES = 10_000
"""No device on this machine has queues for so many: of more that are missing, the rest is lost."""
_UNDER_WAY_S = 0.3
"""A frame that has not come back after so long is suspected to be lost: full queues take less."""
_SETTLED_S = 0.1
"""A count that did not move for so long has settled: what is missing is lost."""
_LOOK_AGAIN_S = 0.002
_SETTLE_AT_MOST_S = 3.0


@dataclass(frozen=True, slots=True)
class Count:
    """What one trial counted."""

    planned: int
    """What the whole trial sends: exactly rate times duration, rounded."""
    sent: int
    received: int
    refused: int
    """Of those sent: what the device's queue refused at once."""
    sending_s: float
    elapsed_s: float
    """Sending, and waiting for the frames that were under way."""
    sent_each: list[int]
    """In each direction."""
    unproven: bool = False
    """Ended early, but what was under way came back after all."""

    @property
    def sent_pps(self) -> float:
        """The rate that was reached."""
        return self.sent / self.sending_s


class Stream:
    """The frames that go into one port, over and over."""

    def __init__(self, port: GeneratorPort, number: int, profile: Profile, *, bridged: bool) -> None:
        self.port = port
        self.sent = 0
        self.left = 0
        self.refused = 0
        self._next = 0
        self._prepared = prepared_frames(profile)
        port.prepare(*build(profile, topology.direction(number, bridged=bridged), self._prepared))

    def plan(self, count: int) -> None:
        """Begin a trial of so many frames."""
        self.left, self.sent, self.refused = count, 0, 0

    def send(self, limit: int) -> int:
        """Send the next frames, at most ``limit``; returns how many."""
        count = min(limit, self.left, self._prepared - self._next)
        self.refused += self.port.send(self._next, count)
        self._next = (self._next + count) % self._prepared
        self.sent += count
        self.left -= count
        return count


class Generator:
    """Sends two streams at one rate, half of it in each direction."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams = streams

    def trial(self, rate_pps: float, duration_s: float, fail_above: float | None = None) -> Count:
        """Send round(rate x duration) frames at a steady rate and count those that come back.

        With ``fail_above`` sending stops as soon as the frames that are overdue show that the loss
        ratio of the whole trial exceeds it; the frames still under way are then waited for, so
        that nothing is called lost that only was late.
        """
        planned = round(rate_pps * duration_s)
        limit = None if fail_above is None else fail_above * planned
        before = self._received()
        begin = time.perf_counter()
        sent = self._send(planned, rate_pps, limit, before)
        sending_s = time.perf_counter() - begin
        received = self._settled(before + sent) - before
        return Count(
            planned=planned,
            sent=sent,
            received=received,
            refused=sum(stream.refused for stream in self._streams),
            sending_s=sending_s,
            elapsed_s=time.perf_counter() - begin,
            sent_each=[stream.sent for stream in self._streams],
            unproven=sent < planned and limit is not None and sent - received <= limit,
        )

    def _send(self, planned: int, rate_pps: float, limit: float | None, before: int) -> int:
        first, second = self._streams
        first.plan(planned - planned // 2)
        second.plan(planned // 2)
        clock = time.perf_counter
        catch_up = max(1, int(rate_pps * _CATCH_UP_S))
        overdue = _Overdue(limit) if limit is not None else None
        sent = 0
        owed_s = 0.0
        now = start = clock()
        while sent < planned:
            before_s, now = now, clock()
            if owed_s:
                paid_s = min(owed_s, _FASTER * (now - before_s))
                owed_s -= paid_s
                start -= paid_s
            behind = int((now - start) * rate_pps) + 1 - sent
            if behind > catch_up:
                # Too late to send all of it at once, and of what is much too late the trial lasts longer,
                # which its rate then tells.
                late_s = (behind - catch_up) / rate_pps
                start += late_s
                owed_s = min(owed_s + late_s, _OWED_AT_MOST_S)
                behind = catch_up
            if behind > 0:
                stream = first if second.left == 0 or (first.left and first.sent <= second.sent) else second
                sent += stream.send(min(behind, _BATCH))
            if overdue and now >= overdue.next_look and overdue.look(now, sent, self._received() - before):
                break
        return sent

    def _received(self) -> int:
        return sum(stream.port.received() for stream in self._streams)

    def _settled(self, all_back: int) -> int:
        """Wait until no frame is under way: it would leak into the next trial.

        :param all_back: the count when every frame has come back; short of it, the count has settled
            when it did not move for a while.
        """
        last, moved = self._received(), time.perf_counter()
        end = moved + _SETTLE_AT_MOST_S
        while last < all_back and moved + _SETTLED_S > (now := time.perf_counter()) and now < end:
            time.sleep(_LOOK_AGAIN_S)
            received = self._received()
            if received != last:
                last, moved = received, now
        # What comes now was never sent, or sent twice: one more look must not miss it.
        time.sleep(_LOOK_AGAIN_S)
        return self._received()


class _Overdue:
    """Looks now and then whether more frames are overdue than a trial may lose."""

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._sent: list[tuple[float, int]] = []
        self.next_look = 0.0

    def look(self, now: float, sent: int, received: int) -> bool:
        """Return whether more frames than the limit are missing that can no longer be under way."""
        self.next_look = now + _COUNT_EVERY_S
        if sent - received - _UNDER_WAY_FRAMES > self._limit:
            return True
        while len(self._sent) > 1 and now - self._sent[1][0] >= _UNDER_WAY_S:
            self._sent.pop(0)
        due = self._sent[0][1] if self._sent and now - self._sent[0][0] >= _UNDER_WAY_S else 0
        self._sent.append((now, sent))
        return due - received > self._limit


def main(argv: Sequence[str] | None = None) -> int:
    """Answer requests until standard input ends.

    A request is ``{"frame": NAME, "bridged": BOOL}``, which chooses the traffic, or
    ``{"rate_pps": …, "duration_s": …, "fail_above": …}``, which is answered by a :class:`Count`.
    """
    parser = argparse.ArgumentParser(description="send frames at a rate and count what comes back")
    parser.add_argument("--ports", nargs=2, required=True)
    parser.add_argument("--cpu", type=int)
    options = parser.parse_args(argv)
    if options.cpu is not None:
        os.sched_setaffinity(0, {options.cpu})
    ports = [generator_port(name) for name in options.ports]
    generator = Generator([])
    _answer({"ready": os.getpid()})
    for line in sys.stdin:
        request = json.loads(line)
        if "frame" in request:
            profile = Profile.named(request["frame"])
            streams = [
                Stream(port, number, profile, bridged=request["bridged"]) for number, port in enumerate(ports)
            ]
            generator = Generator(streams)
            _answer({"frame": profile.name})
        else:
            _answer(asdict(generator.trial(**request)))
    for port in ports:
        port.close()
    return 0


def _answer(answer: dict[str, object]) -> None:
    print(json.dumps(answer), flush=True)  # noqa: T201 - the protocol with the driver


if __name__ == "__main__":
    sys.exit(main())
