"""Ports on a link: AF_PACKET sockets, with a receive ring in memory on the device's side (packet(7))."""

from __future__ import annotations

import mmap
import socket
import struct
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from perftrend import COMMAND, errors
from perftrend.measure.embedded.mmsg import Messages, frame_addresses
from perftrend.measure.embedded.port import DevicePort, GeneratorPort

# linux/if_packet.h
_SOL_PACKET = 263
_PACKET_RX_RING = 5
_PACKET_STATISTICS = 6
_PACKET_VERSION = 10
_PACKET_QDISC_BYPASS = 20
_PACKET_IGNORE_OUTGOING = 23
_TPACKET_V2 = 1
_ETH_P_ALL = 0x0003

_SLOT_BYTES = 1664
"""Room for 1518 bytes; not a power of two, so that neighbouring slots do not share cache sets."""
_BLOCK_BYTES = 13 * 4096
"""The least common multiple of slot and page: 32 slots without a gap."""
_BLOCKS = 128
_STATUS, _LENGTH = 0, 4
"""Offsets in struct tpacket2_hdr, in bytes."""


class PacketGeneratorPort(GeneratorPort):
    """An AF_PACKET socket that only sends; the interface's own counter shows the frames that returned."""

    def __init__(self, interface: str, *, queued: bool) -> None:
        self._interface = interface
        self._socket = _packet_socket(interface, protocol=0, queued=queued)
        # Open for the life of the port: opening the file again would cost more than reading it.
        self._counters = Path("/proc/self/net/dev").open("rb", buffering=0)  # noqa: SIM115 - closed in close()
        self._first = self._interface_count()

    @override
    def prepare(self, frames: NDArray[np.uint8], lengths: NDArray[np.uint64]) -> None:
        self._frames = frames
        self._messages = Messages(frame_addresses(frames), lengths)

    @override
    def send(self, start: int, count: int) -> int:
        return self._messages.send(self._socket.fileno(), start, count)[1]

    @override
    def count_received(self) -> int:
        return self._interface_count() - self._first

    def _interface_count(self) -> int:
        self._counters.seek(0)
        for line in self._counters.read().decode().splitlines():
            name, found, fields = line.partition(":")
            if found and name.strip() == self._interface:
                return int(fields.split()[1])
        raise errors.TestbedError(f"interface {self._interface} no longer exists; was the testbed closed?")

    @override
    def close(self) -> None:
        self._counters.close()
        self._socket.close()


class PacketRing(DevicePort):
    """An AF_PACKET receive ring (TPACKET_V2) on one interface."""

    def __init__(self, interface: str) -> None:
        self._socket = _packet_socket(interface, protocol=_ETH_P_ALL)
        slots = _BLOCKS * _BLOCK_BYTES // _SLOT_BYTES
        request = struct.pack("4I", _BLOCK_BYTES, _BLOCKS, _SLOT_BYTES, slots)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_RX_RING, request)
        self._map = mmap.mmap(self._socket.fileno(), _BLOCKS * _BLOCK_BYTES)
        self.buffer = np.frombuffer(self._map, np.uint8).reshape(slots, _SLOT_BYTES)
        words = np.frombuffer(self._map, np.uint32).reshape(slots, _SLOT_BYTES // 4)
        # Aligned 32-bit views: numpy accesses each status by a single load or store, which hands over the
        # slot. A wider or byte-wise copy would race with the kernel.
        self._status = words[:, _STATUS // 4]
        self._lengths = words[:, _LENGTH // 4]
        self.offset = _mac_offset()
        self._next = 0
        self._dropped = 0

    @override
    def receive(self, limit: int) -> tuple[int, int]:
        start = self._next
        ready = self._status[start : start + limit] & 1
        count = len(ready) if ready.all() else int(ready.argmin())
        return start, count

    @override
    def lengths(self, start: int, count: int) -> NDArray[np.uint64]:
        return self._lengths[start : start + count].astype(np.uint64)

    @override
    def release(self, start: int, count: int) -> None:
        self._status[start : start + count] = 0
        self._next = (start + count) % len(self._status)

    @override
    def messages_from(self, source: DevicePort) -> Messages:
        return Messages(frame_addresses(source.buffer) + np.uint64(source.offset), 0)

    @override
    def send(self, messages: Messages, start: int, count: int) -> int:
        return messages.send(self._socket.fileno(), start, count)[1]

    @override
    @property
    def sockets(self) -> list[socket.socket]:
        return [self._socket]

    @override
    def count_dropped(self) -> int:
        # The kernel resets its counts when they are read.
        _, drops = struct.unpack("2I", self._socket.getsockopt(_SOL_PACKET, _PACKET_STATISTICS, 8))
        self._dropped += drops
        return self._dropped

    @override
    def close(self) -> None:
        self._socket.close()


def _packet_socket(interface: str, protocol: int, *, queued: bool = False) -> socket.socket:
    packet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        packet.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
        packet.setsockopt(_SOL_PACKET, _PACKET_QDISC_BYPASS, int(not queued))
        # Otherwise the device would receive, and forward again, the frames that it sends.
        packet.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        packet.bind((interface, protocol))
    except OSError as error:
        packet.close()
        raise errors.TestbedError(
            f"interface {interface}: no packet socket ({error.strerror}); "
            f"{COMMAND} trending --testbed 1n-loopback needs none"
        ) from None
    return packet


def _mac_offset() -> int:
    """Return the offset of the Ethernet header in a slot (``tpacket_rcv`` in af_packet.c)."""
    header_and_address = 52  # TPACKET2_HDRLEN: struct tpacket2_hdr aligned to 16, and sockaddr_ll
    ethernet = 14
    network = -(-(header_and_address + max(ethernet, 16)) // 16) * 16
    return network - ethernet
