"""The embedded device: a process that forwards frames between the ports of each pair.

It routes IPv4 and IPv6 with an access list, bridges, or cross-connects its ports. Array operations process a
whole burst in place, in the memory where the kernel stored the frames. The time per burst grows with the
access list, as in any software data plane.

The drivers in :mod:`perftrend.measure.embedded.drivers` start it. To start it by hand::

    python -m perftrend.measure.embedded.router --ports packet:d0 packet:d1 --acl-rules 20
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys
import time
from collections.abc import Sequence
from ipaddress import IPv6Network
from operator import add
from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from perftrend.measure.embedded import frames
from perftrend.measure.embedded.ports import DevicePort, device_port
from perftrend.measure.traffic import FORWARDINGS, LINK_COUNTS, USUAL_LONGEST, opposite

_IDLE_SPIN_S = 0.002
"""Duration of busy polling after the last frame, as in a data plane; then the process waits."""
_WAIT_MS = 10
"""Longest delay until a signal is handled: Python resumes an interrupted wait."""

_ETHERTYPE_IP4, _ETHERTYPE_IP6 = 0x0800, 0x86DD
_FIRST_RULE_PORT = 9000
_RULE_NETWORK = 0xFD000000
"""The first 32 bits of the addresses in the access list for IPv6."""


class Burst:
    """The header fields of the frames in a port's buffer, as writable array views."""

    def __init__(self, port: DevicePort) -> None:
        offset = port.offset
        words = port.buffer.view(">u2")
        doubles = port.buffer.view(">u4")
        # Header fields by their offset from the start of the frame (Ethernet II, RFC 791, RFC 8200, RFC 768).
        self.macs = port.buffer[:, offset : offset + 12]
        self.mac_words = words[:, offset // 2 : offset // 2 + 6]
        self.ethertype = words[:, (offset + 12) // 2]
        self.time_to_live = port.buffer[:, offset + 22]
        self.checksum = words[:, (offset + 24) // 2]
        self.source = doubles[:, (offset + 26) // 4]
        self.destination = doubles[:, (offset + 30) // 4]
        self.destination_port = words[:, (offset + 36) // 2]
        self.ip6_hop_limit = port.buffer[:, offset + 21]
        self.ip6_source = doubles[:, (offset + 22) // 4 : (offset + 38) // 4]
        self.ip6_destination = words[:, (offset + 38) // 2 : (offset + 54) // 2]
        self.ip6_destination_port = words[:, (offset + 56) // 2]


class Forwarding(Protocol):
    """Processing of the frames that arrive at one port and leave through the opposite one."""

    def forward(self, burst: Burst, rows: slice) -> NDArray[np.bool_]:
        """Rewrite the frames in place, if needed, and return a mask of those to forward, shape (count,)."""


class Ip4Router(Forwarding):
    """An IPv4 router to the opposite port, with an access list that no test traffic matches.

    :param network: the /16 network behind that port, as its first address.
    :param macs: the destination and the source MAC address of forwarded frames.
    :param acl_rules: number of rules in the access list; every frame is compared with every rule.
    """

    def __init__(self, network: int, macs: bytes, acl_rules: int) -> None:
        self._prefix = network >> 16
        self._macs = np.frombuffer(macs, np.uint8)
        self._rules = [
            (np.uint32(0xC0A80000 + number), np.uint32(_FIRST_RULE_PORT + number))
            for number in range(acl_rules)
        ]

    @override
    def forward(self, burst: Burst, rows: slice) -> NDArray[np.bool_]:
        destination = burst.destination[rows].astype(np.uint32)
        time_to_live = burst.time_to_live[rows]
        forwarded: NDArray[np.bool_] = (burst.ethertype[rows] == _ETHERTYPE_IP4) & (time_to_live > 1)
        forwarded &= destination >> 16 == self._prefix
        if self._rules:
            forwarded &= ~self._match_deny_rules(burst, rows, destination)
        time_to_live -= 1
        # TTL is a high byte: decrementing it adds 0x100 to the checksum, with end-around carry (RFC 1624).
        checksum = burst.checksum[rows].astype(np.uint32) + 0x100
        burst.checksum[rows] = (checksum & 0xFFFF) + (checksum >> 16)
        burst.macs[rows] = self._macs
        return forwarded

    def _match_deny_rules(
        self, burst: Burst, rows: slice, destination: NDArray[np.uint32]
    ) -> NDArray[np.bool_]:
        """Evaluate ``deny udp host SOURCE host DESTINATION eq PORT`` for each rule in turn."""
        source = burst.source[rows].astype(np.uint32)
        port = burst.destination_port[rows].astype(np.uint32)
        denied = np.zeros(len(source), dtype=np.bool_)
        for address, number in self._rules:
            denied |= (source == address) & (destination == address) & (port == number)
        return denied


class Ip6Router(Forwarding):
    """An IPv6 router to the opposite port, with an access list that no test traffic matches.

    :param network: the /48 network behind that port.
    :param macs: the destination and the source MAC address of forwarded frames.
    :param acl_rules: number of rules in the access list; every frame is compared with every rule.
    """

    def __init__(self, network: IPv6Network, macs: bytes, acl_rules: int) -> None:
        self._prefix = np.frombuffer(network.network_address.packed[: network.prefixlen // 8], ">u2")
        self._macs = np.frombuffer(macs, np.uint8)
        self._acl_rules = acl_rules

    @override
    def forward(self, burst: Burst, rows: slice) -> NDArray[np.bool_]:
        hop_limit = burst.ip6_hop_limit[rows]
        forwarded: NDArray[np.bool_] = (burst.ethertype[rows] == _ETHERTYPE_IP6) & (hop_limit > 1)
        forwarded &= (burst.ip6_destination[rows, : len(self._prefix)] == self._prefix).all(axis=1)
        if self._acl_rules:
            forwarded &= ~self._match_deny_rules(burst, rows)
        hop_limit -= 1
        burst.macs[rows] = self._macs
        return forwarded

    def _match_deny_rules(self, burst: Burst, rows: slice) -> NDArray[np.bool_]:
        """Evaluate ``deny udp host fd00::NUMBER any eq PORT`` for each rule in turn."""
        source = burst.ip6_source[rows].astype(np.uint32)
        port = burst.ip6_destination_port[rows].astype(np.uint32)
        denied = np.zeros(len(source), dtype=np.bool_)
        for number in range(self._acl_rules):
            address = np.array((_RULE_NETWORK, 0, 0, number), np.uint32)
            denied |= (source == address).all(axis=1) & (port == _FIRST_RULE_PORT + number)
        return denied


class Bridge(Forwarding):
    """A learning bridge, which forwards frames unchanged to the opposite port.

    :param stations: the port where each MAC address was seen; shared by the two directions.
    :param port: the number of the port where the frames arrive.
    """

    def __init__(self, stations: dict[int, int], port: int) -> None:
        self._stations = stations
        self._port = port

    @override
    def forward(self, burst: Burst, rows: slice) -> NDArray[np.bool_]:
        words = burst.mac_words[rows].astype(np.uint64)
        destination = (words[:, 0] << 32) | (words[:, 1] << 16) | words[:, 2]
        source = (words[:, 3] << 32) | (words[:, 4] << 16) | words[:, 5]
        for station in np.unique(source).tolist():
            self._stations[station] = self._port
        here = [station for station, port in self._stations.items() if port == self._port]
        return ~np.isin(destination, np.array(here, dtype=np.uint64))


class CrossConnect(Forwarding):
    """A cross-connect, which forwards all frames unchanged to the opposite port."""

    @override
    def forward(self, burst: Burst, rows: slice) -> NDArray[np.bool_]:
        del burst
        return np.ones(rows.stop - rows.start, dtype=np.bool_)


class Path:
    """One direction: frames that arrive at one port and leave through the opposite one."""

    def __init__(self, source: DevicePort, target: DevicePort, forwarding: Forwarding) -> None:
        self._source = source
        self._target = target
        self._forwarding = forwarding
        self._burst = Burst(source)
        self._messages = target.messages_from(source)
        self.received = self.sent = self.refused = self.not_forwarded = 0

    def move(self, burst_size: int) -> int:
        """Forward at most one burst and return the number of frames received."""
        start, count = self._source.receive(burst_size)
        if not count:
            return 0
        rows = slice(start, start + count)
        self._messages.frame_lengths[rows] = self._source.lengths(start, count)
        forwarded = self._forwarding.forward(self._burst, rows)
        for first, last in _runs(forwarded):
            self.refused += self._target.send(self._messages, start + first, last - first)
            self.sent += last - first
        self._source.release(start, count)
        self.received += count
        self.not_forwarded += count - int(np.count_nonzero(forwarded))
        return count


def _runs(mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[tuple[int, int]]:
    """Return the begin and the end of each run of true values."""
    if mask.all():
        return [(0, len(mask))]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]


def _paths(ports: Sequence[DevicePort], forwarding: str, acl_rules: int, macs: Sequence[bytes]) -> list[Path]:
    """Return the way from each port.

    :param macs: for each port, those of the next hop and of the port itself.
    """
    bridges: list[dict[int, int]] = [{} for _ in ports[::2]]
    paths = []
    for number, source in enumerate(ports):
        other = opposite(number, len(ports))
        behaviour: Forwarding
        if forwarding == "l2":
            behaviour = Bridge(bridges[number // 2], number)
        elif forwarding == "l2xc":
            behaviour = CrossConnect()
        elif forwarding == "ip6":
            behaviour = Ip6Router(frames.IP6_NETWORKS[number ^ 1], macs[other], acl_rules)
        else:
            behaviour = Ip4Router(frames.NETWORKS[number ^ 1], macs[other], acl_rules)
        paths.append(Path(source, ports[other], behaviour))
    return paths


def _forward_until_stopped(ports: Sequence[DevicePort], paths: Sequence[Path], burst_size: int) -> None:
    waiting = select.poll()
    for port in ports:
        for member in port.sockets:
            waiting.register(member, select.POLLIN)
    stopped = counters_requested = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    def request_counters(*_: object) -> None:
        nonlocal counters_requested
        counters_requested = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGUSR1, request_counters)
    print(json.dumps({"ready": os.getpid()}), flush=True)  # noqa: T201 - the protocol with the driver
    last_frame = time.monotonic()
    while not stopped:
        if sum([path.move(burst_size) for path in paths]):
            last_frame = time.monotonic()
        elif time.monotonic() - last_frame > _IDLE_SPIN_S:
            waiting.poll(_WAIT_MS)
        if counters_requested:
            counters_requested = False
            print(json.dumps(_counters(ports, paths)), flush=True)  # noqa: T201 - the protocol with the driver


def _counters(ports: Sequence[DevicePort], paths: Sequence[Path]) -> dict[str, list[dict[str, int]]]:
    return {
        "ports": [
            {
                "received": path.received,
                "sent": path.sent,
                "refused": path.refused,
                "not_forwarded": path.not_forwarded,
                "dropped": port.count_dropped(),
            }
            for path, port in zip(paths, ports, strict=True)
        ]
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Forward frames until SIGTERM; on SIGUSR1, print the counters as a line of JSON."""
    parser = argparse.ArgumentParser(description="forward frames between the ports of each pair")
    parser.add_argument(
        "--ports", nargs="+", required=True, help="1 to 4; a third or only one is its own pair"
    )
    parser.add_argument("--cpu", type=int)
    parser.add_argument("--forwarding", choices=FORWARDINGS, default="ip4")
    parser.add_argument("--acl-rules", type=int, default=0)
    parser.add_argument("--burst", type=int, default=4)
    parser.add_argument("--frame-bytes", type=int, default=USUAL_LONGEST, help="length of the longest frame")
    most = max(LINK_COUNTS)
    parser.add_argument(
        "--macs", nargs="+", type=frames.parse_mac, default=[frames.device_mac(port) for port in range(most)]
    )
    parser.add_argument(
        "--next-hops",
        nargs="+",
        type=frames.parse_mac,
        default=[frames.host_mac(port) for port in range(most)],
    )
    options = parser.parse_args(argv)
    if options.cpu is not None:
        os.sched_setaffinity(0, {options.cpu})
    ports = [device_port(name, options.frame_bytes) for name in options.ports]
    macs = list(map(add, options.next_hops, options.macs))
    paths = _paths(ports, options.forwarding, options.acl_rules, macs)
    _forward_until_stopped(ports, paths, options.burst)
    for port in ports:
        port.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
