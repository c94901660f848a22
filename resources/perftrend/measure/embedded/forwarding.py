"""What the embedded device does with a burst of frames: IPv4 routing with an access list, or bridging.

All work is done on whole bursts by array operations, in place, where the kernel put the frames;
the time that a burst takes grows with the access list, as it does in any software data plane.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from perftrend.measure.embedded.port import DevicePort

_ETHERTYPE_IP4 = 0x0800


class Burst:
    """The header fields of the frames in a port's buffer, as arrays that write through."""

    def __init__(self, port: DevicePort) -> None:
        offset = port.offset
        words = port.buffer.view(">u2")
        doubles = port.buffer.view(">u4")
        # Header fields by their distance from the frame's first byte (Ethernet II, RFC 791, RFC 768).
        self.macs = port.buffer[:, offset : offset + 12]
        self.mac_words = words[:, offset // 2 : offset // 2 + 6]
        self.ethertype = words[:, (offset + 12) // 2]
        self.time_to_live = port.buffer[:, offset + 22]
        self.checksum = words[:, (offset + 24) // 2]
        self.source = doubles[:, (offset + 26) // 4]
        self.destination = doubles[:, (offset + 30) // 4]
        self.destination_port = words[:, (offset + 36) // 2]


class Forwarding(Protocol):
    """What a device does with the frames that came in at one port and leave by the other."""

    def forward(self, burst: Burst, rows: slice) -> NDArray[np.bool_]:
        """Change the frames as they are forwarded; returns which ones are, shape (count,)."""


class Ip4Router(Forwarding):
    """Route IPv4 to the other port, after an access list of which no rule matches test traffic.

    :param network: the /16 that lies behind the other port, as its first address.
    :param macs: the destination and the source address that forwarded frames carry.
    :param acl_rules: length of the access list; every rule is looked at for every frame.
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
            forwarded &= ~self._denied(burst, rows, destination)
        time_to_live -= 1
        # The checksum grows by what the high byte of its word lost, with the carry added (RFC 1624).
        checksum = burst.checksum[rows].astype(np.uint32) + 0x100
        burst.checksum[rows] = (checksum & 0xFFFF) + (checksum >> 16)
        burst.macs[rows] = self._macs
        return forwarded

    def _denied(self, burst: Burst, rows: slice, destination: NDArray[np.uint32]) -> NDArray[np.bool_]:
        """Evaluate ``deny udp host SOURCE host DESTINATION eq PORT`` for each rule in turn."""
        source = burst.source[rows].astype(np.uint32)
        port = burst.destination_port[rows].astype(np.uint32)
        denied = np.zeros(len(source), dtype=np.bool_)
        for address, number in self._rules:
            denied |= (source == address) & (destination == address) & (port == number)
        return denied


class Bridge(Forwarding):
    """Forward frames unchanged to the other port, learning which station is behind which.

    :param stations: shared by the two directions: the port behind which each address was seen.
    :param port: the number of the port where the frames come in.
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
