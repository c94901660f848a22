"""Ports of a TRex server in use by a job: ownership, attributes, streams, traffic and counters.

A server does not notice that a job was killed: the job's ports stay owned. The name and the number of a
session therefore depend only on the user, the machine and the ports, so that the next job continues the
session, and removes its traffic. Jobs of one user on one machine exclude each other by the testbed's lock.
"""

from __future__ import annotations

import contextlib
import os
import platform
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perftrend.errors import TestbedError
from perftrend.measure.interfaces import Counters
from perftrend.measure.trex.rpc import Request, TrexEventQueue, TrexRpc
from perftrend.measure.trex.streams import Stream
from perftrend.measurement import Latency

_CONNECT_S = 5.0
_CLOSE_S = 2.0
_ALL_PROFILES = "*"
"""Can be stopped together, but not removed: the server ignores that."""
_PROFILE = "_"
_WHOLE_BURST = -1.0
"""Duration of traffic that ends by itself."""
_HISTOGRAM_BASE = 10
"""In microseconds: the classes are 10 wide below 100, 100 wide below 1000, and so on."""


@dataclass(frozen=True, slots=True)
class PortStatus:
    """The state of a port."""

    owner: str
    """The user who has acquired it; empty if it is free."""
    state: str
    """``IDLE`` without streams, ``STREAMS`` with streams, ``TX`` while it sends."""
    link: bool
    """Whether the link is up."""
    speed_bits_per_s: float
    """0 if the driver of the port does not know it."""


@dataclass(frozen=True, slots=True)
class TrexStatistics:
    """Counters of the ports and of the server, which only increase, and the load of its cores."""

    sent: tuple[int, ...]
    """Frames that each port has sent."""
    received: tuple[int, ...]
    unsent: int
    """Frames that were dropped instead of sent."""
    queue_full: int
    """How often a core has waited for a microsecond because a transmit queue was full."""
    cpu_percent: float
    """Average load of the cores that send, over about the last second."""


class TrexSession:
    """The ports that this job uses, in the order of the testbed's links.

    :param force: whether to take ports that belong to others.
    """

    def __init__(self, rpc: TrexRpc, publisher_port: int, ports: Sequence[int], *, force: bool) -> None:
        self.ports = tuple(ports)
        self.version = ""
        self.hardware_macs: tuple[str, ...] = ()
        self._rpc = rpc
        self._force = force
        self._user = f"perftrend-{os.getuid()}@{platform.node()}"
        self._number = zlib.crc32(f"{self._user} {self.ports}".encode()) or 1
        self._handlers: dict[int, str] = {}
        self._counter_names: dict[int, list[str]] = {}
        self.events = TrexEventQueue(rpc, publisher_port, self._number)

    def open(self) -> None:
        """Acquire the ports, and remove all traffic from them.

        :raises TestbedError: if the server does not respond, or if a port belongs to another user.
        """
        self._rpc.synchronize()
        self.version = str(self._rpc.call("get_version")["version"])
        information = self._rpc.call("get_system_info")
        known = {int(port["index"]): port for port in information["ports"]}
        for port in self.ports:
            if port not in known:
                choices = ", ".join(map(str, sorted(known)))
                raise TestbedError(f"TRex has no port {port} (generator option ports); it has {choices}")
        self.hardware_macs = tuple(known[port]["hw_mac"].lower() for port in self.ports)
        for port, status in zip(self.ports, self.status(), strict=True):
            self._acquire(port, status)
        attributes = {port: _attributes(known[port]) for port in self.ports}
        self._rpc.batch(
            [
                *self._for_each_port("stop_traffic", profile_id=_ALL_PROFILES),
                *self._for_each_port("remove_all_streams", profile_id=_PROFILE),
                *(self._owned("set_port_attr", port, attr=own) for port, own in attributes.items() if own),
            ]
        )
        for port in self.ports:
            # Some drivers have no counters of their own.
            with contextlib.suppress(TestbedError):
                names = self._rpc.call("get_port_xstats_names", port_id=port)
                self._counter_names[port] = names["xstats_names"]
        self.events.subscribe(_CONNECT_S)

    def _acquire(self, port: int, status: PortStatus) -> None:
        if status.owner not in {"", self._user} and not self._force:
            raise TestbedError(
                f"port {port} of TRex belongs to {status.owner!r}; wait until it is released, or take it "
                'with the generator option force: "yes"'
            )
        self._handlers[port] = self._rpc.call(
            "acquire", port_id=port, user=self._user, session_id=self._number, force=self._force
        )

    def close(self) -> None:
        """Remove all traffic and release the ports, as far as the server responds."""
        self._rpc.timeout_s = _CLOSE_S
        with contextlib.suppress(TestbedError):
            self._rpc.batch(
                [
                    *self._for_each_port("stop_traffic", profile_id=_ALL_PROFILES),
                    *self._for_each_port("remove_all_streams", profile_id=_PROFILE),
                    *self._for_each_port("release"),
                ]
            )
        self._handlers = {}

    def load(self, streams: Sequence[Sequence[Stream]]) -> None:
        """Replace the streams of each port."""
        requests = self._for_each_port("remove_all_streams", profile_id=_PROFILE)
        for port, own in zip(self.ports, streams, strict=True):
            requests += [
                self._owned("add_stream", port, profile_id=_PROFILE, stream_id=number, stream=stream)
                for number, stream in enumerate(own, start=1)
            ]
        self._rpc.batch(requests)

    def start(self, ports: Sequence[int], core_mask: int | None) -> None:
        """Start the streams of some ports together. :raises TestbedError: if one of them does not start."""
        cores = {} if core_mask is None else {"core_mask": core_mask}
        unchanged = {"type": "raw", "op": "abs", "value": 1.0}
        self._rpc.batch(
            [
                self._owned(
                    "start_traffic",
                    port,
                    profile_id=_PROFILE,
                    mul=unchanged,
                    duration=_WHOLE_BURST,
                    force=False,
                    **cores,
                )
                for port in ports
            ]
        )

    def stop(self) -> None:
        """Stop all traffic of the ports; those that send nothing stay as they are."""
        self._rpc.batch(self._for_each_port("stop_traffic", profile_id=_ALL_PROFILES))

    def is_own(self, data: Mapping[str, Any]) -> bool:
        """Return whether this job has acquired a port, by the data of the event."""
        return data.get("session_id") == self._number and data.get("who") == self._user

    def status(self) -> list[PortStatus]:
        """Return the state of each port."""
        # Without ``block``, a server that uses a network stack of Linux for its ports refuses it.
        found = self._rpc.batch(
            [("get_port_status", {"port_id": port, "block": False}) for port in self.ports]
        )
        return [
            PortStatus(
                owner=status["owner"],
                state=status["state"],
                link=bool(status["attr"]["link"]["up"]),
                speed_bits_per_s=1e9 * float(status["attr"]["speed"]),
            )
            for status in found
        ]

    def statistics(self) -> TrexStatistics:
        """Return the counters of this moment."""
        *ports, server = self._read_counters()
        return TrexStatistics(
            sent=tuple(int(port["opackets"]) for port in ports),
            received=tuple(int(port["ipackets"]) for port in ports),
            unsent=int(server["m_total_queue_drop"]) + int(server["m_total_alloc_error"]),
            queue_full=int(server["m_total_queue_full"]),
            cpu_percent=float(server["m_cpu_util"]),
        )

    def latency(self, groups: Sequence[int]) -> tuple[Latency, ...]:
        """Return the latency of each packet group in the last burst; nothing if a group has no frames."""
        found = self._rpc.call("get_pgid_stats", pgids=list(groups))["latency"] or {}
        measured = [found.get(str(group), {}).get("lat") for group in groups]
        return tuple(_latency(each) for each in measured) if all(measured) else ()

    def counters(self) -> Counters:
        """Return all counters of the ports and of the server."""
        *ports, server = self._read_counters()
        found: dict[str, Any] = {"server": server}
        for port, own in zip(self.ports, ports, strict=True):
            found[f"port {port}"] = own
            if names := self._counter_names.get(port):
                values = self._rpc.call("get_port_xstats_values", port_id=port)["xstats_values"]
                found[f"port {port}"] = {**own, **dict(zip(names, values, strict=True))}
        return found

    def _read_counters(self) -> list[Mapping[str, Any]]:
        requests: list[Request] = [("get_port_stats", {"port_id": port}) for port in self.ports]
        return self._rpc.batch([*requests, ("get_global_stats", {})])

    def _for_each_port(self, method: str, **parameters: Any) -> list[Request]:  # noqa: ANN401 - the same
        """Return a request for each port that this job has acquired."""
        return [self._owned(method, port, **parameters) for port in self._handlers]

    def _owned(self, method: str, port: int, **parameters: Any) -> Request:  # noqa: ANN401 - any value of JSON
        """Return a request that only the owner of a port may make."""
        return method, {"port_id": port, "handler": self._handlers[port], **parameters}


def _attributes(port: Mapping[str, Any]) -> dict[str, Any]:
    """Return the attributes to set: receive all frames, and send on even if the device asks to pause."""
    found: dict[str, Any] = {}
    if port.get("is_prom_supported"):
        found["promiscuous"] = {"enabled": True}
    if port.get("is_fc_supported"):
        found["flow_ctrl_mode"] = {"mode": 0}
    return found


def _latency(found: Mapping[str, Any]) -> Latency:
    classes = sorted((int(begin), int(count)) for begin, count in (found.get("histogram") or {}).items())
    coarse = tuple((_end_us(begin), count) for begin, count in classes)
    return Latency(
        minimum_us=float(found["total_min"]),
        average_us=float(found["average"]),
        maximum_us=float(found["total_max"]),
        histogram=_decode_hdr(str(found.get("hdrh") or "")) or coarse,
    )


def _decode_hdr(text: str) -> tuple[tuple[float, int], ...]:
    """Return the classes of an HDR histogram in microseconds; nothing if it cannot be decoded.

    The server adds it if it was started with ``--hdrh``: the form V2 of HdrHistogram, compressed and in
    base64. It covers 1 us to 10 s with three digits. Source: ``src/time_histogram.cpp`` of TRex 3.08.
    """
    try:
        # An extra, as pyzmq: without it, the histogram of the server itself is used.
        from hdrh.codec import HdrCookieException, HdrLengthException  # noqa: PLC0415
        from hdrh.histogram import HdrHistogram  # noqa: PLC0415
    except ImportError:
        return ()
    try:
        classes = HdrHistogram.decode(text).get_recorded_iterator()
        return tuple((float(each.value_iterated_to), each.count_added_in_this_iter_step) for each in classes)
    except (HdrCookieException, HdrLengthException, ValueError, IndexError, zlib.error):
        return ()


def _end_us(begin_us: int) -> float:
    """Return the end of the class of the histogram that begins with some latency."""
    width = _HISTOGRAM_BASE
    while begin_us >= _HISTOGRAM_BASE * width:
        width *= _HISTOGRAM_BASE
    return float(begin_us + width)


@contextlib.contextmanager
def connected(
    request_port: int, publisher_port: int, ports: Sequence[int], *, force: bool, check: Callable[[], object]
) -> Iterator[TrexSession]:
    """Use ports of a server while the block runs.

    :param request_port: the TCP port of this machine that leads to the server's, as ``publisher_port``.
    :param check: raises a TestbedError with the reason if the generator's node cannot be reached.
    """
    rpc = TrexRpc(request_port, check=check)
    try:
        session = TrexSession(rpc, publisher_port, ports, force=force)
        try:
            session.open()
            yield session
        finally:
            session.close()
    finally:
        rpc.close()
