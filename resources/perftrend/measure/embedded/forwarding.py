"""Forwarding of bursts of frames in the embedded device: IPv4 routing with an access list, or bridging.

Array operations process a whole burst in place, in the memory where the kernel stored the frames. The time
per burst grows with the access list, as in any software data plane.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from perftrend.measure.embedded.port import DevicePort

_ETHERTYPE_IP4 = 0x0800


class Burst:
    """The header fields of the frames in a port's buffer, as writable array views."""

    def __init__(self, port: DevicePort) -> None:
        offset = port.offset
        words = port.buffer.view(">u2")
        doubles = port.buffer.view(">u4")
        # Header fields by their offset from the start of the frame (Ethernet II, RFC 791, RFC 768).
        self.macs = port.buffer[:, offset : offset + 12]
        self.mac_words = words[:, offset // 2 : offset // 2 + 6]
        self.ethertype = words[:, (offset + 12) // 2]
        self.time_to_live = port.buffer[:, offset + 22]
        self.checksum = words[:, (offset + 24) // 2]
        self.source = doubles[:, (offset + 26) // 4]
        self.destination = doubles[:, (offset + 30) // 4]
        self.destination_port = words[:, (offset + 36) // 2]


class Forwarding(Protocol):
    """Processing of the frames that arrive at one port and leave through the other."""

    def forward(self, burst: Burst, rows: slice) -> NDArray[np.bool_]:
        """Rewrite the frames in place, if needed, and return a mask of those to forward, shape (count,)."""


class Ip4Router(Forwarding):
    """An IPv4 router to the other port, with an access list that no test traffic matches.

    :param network: the /16 network behind the other port, as its first address.
    :param macs: the destination and the source MAC address of forwarded frames.
    :param acl_rules: number of rules in the access list; every frame is compared with every rule.
    """

    def __init__(self, network: int, macs: bytes, acl_rules: int) -> None:
        self._prefix = network >> 16
        self._macs = np.frombuffer(macs, np.uint8)
        self._rules = [
            (np.uint32(0xC0A80000 + number), np.uint32(9000 + number)) for number in range(acl_rules)
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


class Bridge(Forwarding):
    """A learning bridge, which forwards frames unchanged to the other port.

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
