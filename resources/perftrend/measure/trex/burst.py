"""A burst that TRex sends: its counts, and whether TRex kept to the schedule.

TRex sends a whole burst however long that takes, so a slow sender loses nothing. Whether a rate was reached
is decided by the duration of sending, not by the number of frames. The server reports the end of a burst only
with the precision of its control plane, so full queues and busy cores are reasons to doubt a rate, too. At
the line rate, both are normal, and the port itself sets the pace.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from operator import sub

from perftrend.errors import TestbedError
from perftrend.measure.traffic import opposite
from perftrend.measure.trex.rpc import TrexEvent
from perftrend.measure.trex.session import TrexSession, TrexStatistics
from perftrend.measure.trial_validity import BUSY, explain_slowness
from perftrend.measurement import GeneratorHealth

_PORT_FINISHED, _PROFILE_FINISHED = 4, 14
_PORT_ACQUIRED, _PORT_CHANGED, _SERVER_STOPPED = 5, 8, 100
_CORE_ERRORS = (7, 17)

_EVENT_S = 0.03
"""An event may be this late: the server looks for finished bursts every 10 ms, after its cores did so."""
_MOST_LATE = 0.05
"""Largest relative excess of the duration; below it, the rate reached decides whether the trial is valid."""
_LOOK_S = 0.25
"""Interval of looks at a running burst; within this time, a frame has passed the device or is lost."""
_REPORTED_S = 1.0
"""An end that is reported later than this may have been reported in an event that was lost."""
_OVERDUE_S = 10.0
_SETTLED_S = 0.3
"""A count that has not changed for this time is final: missing frames are lost."""
_SETTLE_AT_MOST_S = 3.0
_SETTLE_PAUSE_S = 0.02


class TrexBurst:
    """A burst of the streams that are loaded, from some ports at the same time.

    :param planned_each: number of frames to send into each port.
    :param duration_s: how long sending them takes.
    """

    def __init__(self, session: TrexSession, planned_each: Sequence[int], duration_s: float) -> None:
        self._session = session
        self._planned_each = planned_each
        self._planned = sum(planned_each)
        self._duration_s = duration_s
        self._took_s = 0.0
        self._unfinished = self._unreported = self._link_lost = False
        self._load = 0.0
        session.events.skip()
        self._before = self._after = session.statistics()
        self.ended_early = False
        """Whether it was ended because more frames were lost than the limit."""

    @property
    def sent_each(self) -> tuple[int, ...]:
        """The number of frames that each port sent."""
        return tuple(map(sub, self._after.sent, self._before.sent))

    @property
    def received_each(self) -> tuple[int, ...]:
        """The frames received of those that each port sent; they arrive at the other of the pair."""
        at_ports = tuple(map(sub, self._after.received, self._before.received))
        return tuple(at_ports[opposite(port, len(at_ports))] for port in range(len(at_ports)))

    @property
    def unsent_each(self) -> tuple[int, ...]:
        """The frames that TRex failed to send into each port; empty if an early end makes them unknown."""
        if self.ended_early:
            return ()
        return tuple(
            max(0, planned - sent) for planned, sent in zip(self._planned_each, self.sent_each, strict=True)
        )

    @property
    def unsent(self) -> int:
        """The number of frames that TRex failed to send."""
        return sum(self.unsent_each) if self.unsent_each else self._dropped

    @property
    def _dropped(self) -> int:
        return self._after.unsent - self._before.unsent

    @property
    def health(self) -> GeneratorHealth:
        """The load of the cores that sent, at the moment when it was highest, and the waits for queues."""
        return GeneratorHealth(load=self._load, queue_full=self._after.queue_full - self._before.queue_full)

    @property
    def lost(self) -> int:
        """The number of frames that did not arrive."""
        return sum(self.sent_each) - sum(self.received_each)

    @property
    def sending_s(self) -> float:
        """The duration of sending: the intended one, unless the end was later than its report can be."""
        return max(self._duration_s, self._took_s - _EVENT_S)

    def run(self, ports: Sequence[int], core_mask: int | None, limit: float | None) -> None:
        """Send the frames, and wait for those that are late.

        :param limit: number of lost frames above which to end early; None to send all.
        :raises TestbedError: if a port does not start, or is lost.
        """
        begin = time.monotonic()
        self._session.start(ports, core_mask)
        running = set(ports)
        looked, sent = begin, 0
        while running and not self.ended_early and not self._unfinished:
            running -= self._wait()
            now = time.monotonic()
            self._took_s = now - begin
            self._unfinished = bool(running) and self._took_s > 2 * self._duration_s + _OVERDUE_S
            if running and now - looked >= _LOOK_S:
                self._look()
                # What had been sent at the look before had time to arrive.
                self.ended_early = limit is not None and sent - sum(self.received_each) > limit
                looked, sent = now, sum(self.sent_each)
        self._session.stop()
        self._settle()
        self._link_lost |= not all(status.link for status in self._session.status())

    def _wait(self) -> set[int]:
        """Wait for events, and return the ports that have finished."""
        found = self._session.events.wait(_LOOK_S)
        for event in found:
            self._examine(event)
        finished = {event.port for event in found if event.kind in {_PORT_FINISHED, _PROFILE_FINISHED}}
        if self._took_s > self._duration_s + _REPORTED_S:
            states = zip(self._session.ports, self._session.status(), strict=True)
            idle = {port for port, status in states if status.state != "TX"}
            self._unreported |= not idle <= finished
            finished |= idle
        return finished

    def _examine(self, event: TrexEvent) -> None:
        """Note what an event says about the burst. :raises TestbedError: if it cannot be completed."""
        if event.kind == _SERVER_STOPPED:
            raise TestbedError(f"the TRex server has ended: {event.data.get('cause', 'no cause given')}")
        if event.port not in self._session.ports:
            return
        if event.kind in _CORE_ERRORS:
            raise TestbedError(
                f"a core of TRex failed while it sent into port {event.port}; restart the server"
            )
        if event.kind == _PORT_ACQUIRED and not self._session.is_own(event.data):
            raise TestbedError(f"{event.data['who']!r} has taken port {event.port} of TRex from this job")
        if event.kind == _PORT_CHANGED:
            self._link_lost |= not event.data["attr"]["link"]["up"]

    def _look(self) -> None:
        self._after = self._session.statistics()
        self._load = max(self._load, self._after.cpu_percent / 100)

    def _settle(self) -> None:
        """Wait for late frames, and for counters that network cards update late."""
        self._look()
        begin = changed = now = time.monotonic()
        while self._is_incomplete() and now - changed < _SETTLED_S and now - begin < _SETTLE_AT_MOST_S:
            time.sleep(_SETTLE_PAUSE_S)
            last: TrexStatistics = self._after
            self._look()
            now = time.monotonic()
            if (last.sent, last.received) != (self._after.sent, self._after.received):
                changed = now

    def _is_incomplete(self) -> bool:
        return min(sum(self.sent_each), sum(self.received_each)) < self._planned

    def doubt(self, *, is_line_rate: bool) -> str:
        """Return why the counts are not to be trusted; empty if they are."""
        return (
            self._session.events.gap
            or self._doubt_of_counts()
            or self._doubt_of_duration()
            or ("" if is_line_rate else self._doubt_of_load())
        )

    def _doubt_of_counts(self) -> str:
        sent, received = sum(self.sent_each), sum(self.received_each)
        if self._link_lost:
            return "a port of TRex lost its link"
        if self._dropped:
            why = explain_slowness(self.health)
            return f"TRex dropped {self._dropped} frames instead of sending them{why}"
        if self._unfinished:
            return f"TRex was still sending after {self._took_s:.3g} s of a burst of {self._duration_s:.3g} s"
        if sent != self._planned and not self.ended_early:
            return f"TRex sent {sent} of {self._planned} frames{explain_slowness(self.health)}"
        if received > sent:
            return f"received {received} of {sent} frames sent: frames leaked into the trial"
        return ""

    def _doubt_of_duration(self) -> str:
        if self._unreported:
            return "TRex did not report the end of a burst"
        if self._took_s - _EVENT_S <= (1 + _MOST_LATE) * self._duration_s:
            return ""
        why = explain_slowness(self.health)
        return f"TRex took {self._took_s:.3g} s to send a burst of {self._duration_s:.3g} s{why}"

    def _doubt_of_load(self) -> str:
        if queue_full := self.health.queue_full:
            return f"transmit queues of TRex were full {queue_full} times, so that its rate was not steady"
        if self._load > BUSY:
            return f"the cores of TRex were busy for {100 * self._load:.0f} % of the time"
        return ""
