"""Ports of the generator and the device: packet sockets on a link, or UDP on loopback.

A port name fits on a command line: ``packet:INTERFACE``, ``queued:INTERFACE`` (the same, behind the
interface's queueing discipline) or ``udp:ADDRESS:PORT:PEER_PORT``. The generator sends prepared frames and
reads the number of returned frames from the kernel. The device forwards frames from the memory where the
kernel stored them.

On a link, ports are AF_PACKET sockets, with a receive ring in memory on the device's side (packet(7)). On
loopback, each frame is sent inside a UDP datagram, which needs no privileges.
"""

from __future__ import annotations

import contextlib
import ctypes
import mmap
import socket
import struct
from abc import ABC, abstractmethod
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from perftrend import COMMAND, errors
from perftrend.measure.embedded.mmsg import Messages, frame_addresses
from perftrend.measure.traffic import USUAL_LONGEST

# linux/if_packet.h
_SOL_PACKET = 263
_PACKET_ADD_MEMBERSHIP = 1
_PACKET_RX_RING = 5
_PACKET_STATISTICS = 6
_PACKET_VERSION = 10
_PACKET_QDISC_BYPASS = 20
_PACKET_IGNORE_OUTGOING = 23
_TPACKET_V2 = 1
_MEMBERSHIP_PROMISCUOUS = 1
_ETH_P_ALL = 0x0003

_SLOT_STEP = 128
"""A slot is an odd multiple of this, so that neighbouring slots do not share cache sets."""
_BLOCK_SLOTS = 32
"""The least common multiple of slot and page has so many slots without a gap."""
_BLOCKS = 128
_STATUS, _LENGTH = 0, 4
"""Offsets in struct tpacket2_hdr, in bytes."""

QUEUES = 16
"""Number of UDP sockets of one port: the kernel limits the buffer of each, so one would be too small."""

_QUEUE_BYTES = 106_496
"""The kernel doubles it to 208 KiB, its own default: about 270 small frames."""
_ROWS = 512
_LONG_QUEUE_BYTES = 4 << 20
"""Room for as many frames of 9,000 bytes as the kernel's default has for small ones."""

# linux/socket.h, linux/sock_diag.h
_SO_ATTACH_FILTER = 26
_SO_SNDBUFFORCE = 32
_SO_MEMINFO = 55
_MEMINFO_DROPS = 8


def generator_port(name: str) -> GeneratorPort:
    """Open a port of the generator by its name."""
    kind, _, rest = name.partition(":")
    if kind in ("packet", "queued"):
        return PacketGeneratorPort(rest, queued=kind == "queued")
    return UdpGeneratorPort(*_endpoint(name))


def device_port(name: str, frame_bytes: int = USUAL_LONGEST) -> DevicePort:
    """Open a port of the device by its name.

    :param frame_bytes: the length of the longest frame; on loopback, it is always the usual one.
    """
    kind, _, rest = name.partition(":")
    return PacketRing(rest, frame_bytes) if kind == "packet" else UdpQueues(*_endpoint(name))


def _slot_bytes(frame_bytes: int) -> int:
    """Return the memory for a frame of this length, and for the kernel's header in front of it."""
    steps = -(-(_mac_offset() + frame_bytes) // _SLOT_STEP)
    return _SLOT_STEP * (steps | 1)


def _endpoint(name: str) -> tuple[str, int, int]:
    try:
        kind, address, port, peer = name.split(":")
        if kind != "udp":
            raise ValueError
        return address, int(port), int(peer)
    except ValueError:
        raise errors.TestbedError(
            f"port {name!r}: write packet:INTERFACE, queued:INTERFACE or udp:ADDRESS:PORT:PEER_PORT"
        ) from None


class GeneratorPort(ABC):
    """A port of the traffic generator: it sends prepared frames and counts those that return."""

    @abstractmethod
    def prepare(self, frames: NDArray[np.uint8], lengths: NDArray[np.uint64]) -> None:
        """Store the frames, shape (count, bytes), that :meth:`send` refers to by number."""

    @abstractmethod
    def send(self, start: int, count: int) -> int:
        """Send prepared frames, each exactly once, and return how many the next queue refused."""

    @abstractmethod
    def count_received(self) -> int:
        """Return the number of frames received since the port was opened, by the kernel's count."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources."""


class DevicePort(ABC):
    """A port of the device: received frames are in ``buffer`` and are forwarded from there."""

    buffer: NDArray[np.uint8]
    """Room for frames, shape (slots, bytes)."""
    offset: int
    """Offset of a frame in its row: two more than a multiple of four, so that the IPv4 header is aligned."""

    @abstractmethod
    def receive(self, limit: int) -> tuple[int, int]:
        """Return the first row and the number of the waiting frames, at most ``limit``."""

    @abstractmethod
    def lengths(self, start: int, count: int) -> NDArray[np.uint64]:
        """Return the length of each of these frames, in bytes."""

    @abstractmethod
    def release(self, start: int, count: int) -> None:
        """Return the rows of these frames to the kernel."""

    @abstractmethod
    def messages_from(self, source: DevicePort) -> Messages:
        """Prepare messages that send the frames in another port's buffer through this port."""

    @abstractmethod
    def send(self, messages: Messages, start: int, count: int) -> int:
        """Send frames through this port and return how many the next queue refused."""

    @property
    @abstractmethod
    def sockets(self) -> list[socket.socket]:
        """The sockets to poll while no frame is waiting."""

    @abstractmethod
    def count_dropped(self) -> int:
        """Return the number of frames that were lost because the port's queue was full."""

    @abstractmethod
    def close(self) -> None:
        """Release all resources."""


class InterfaceCount(NamedTuple):
    """The frames of an interface since it exists."""

    received: int
    sent: int
    refused: int
    """Frames that were to be sent and were dropped instead."""


class InterfaceCounters:
    """The kernel's counters of an interface."""

    def __init__(self, interface: str) -> None:
        self._interface = interface
        # Open for the life of the port: opening the file again would cost more than reading it.
        self._file = Path("/proc/self/net/dev").open("rb", buffering=0)  # noqa: SIM115 - closed in close()

    def read(self) -> InterfaceCount:
        """Return the current counts. :raises TestbedError: if the interface no longer exists."""
        self._file.seek(0)
        for line in self._file.read().decode().splitlines():
            name, found, fields = line.partition(":")
            if found and name.strip() == self._interface:
                counts = fields.split()
                return InterfaceCount(int(counts[1]), int(counts[9]), int(counts[11]))
        raise errors.TestbedError(f"interface {self._interface} no longer exists; was the testbed closed?")

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class PacketGeneratorPort(GeneratorPort):
    """An AF_PACKET socket that only sends; the interface's own counter shows the frames that returned."""

    def __init__(self, interface: str, *, queued: bool) -> None:
        self._socket = _packet_socket(interface, protocol=0, queued=queued)
        self._is_queued = queued
        self._counters = InterfaceCounters(interface)
        self._first = self._counters.read().received

    @override
    def prepare(self, frames: NDArray[np.uint8], lengths: NDArray[np.uint64]) -> None:
        self._frames = frames
        self._messages = Messages(frame_addresses(frames), lengths)
        if self._is_queued and lengths.max() > USUAL_LONGEST:
            # The kernel counts the bytes of queued frames: its default is full after about 15 long ones.
            with contextlib.suppress(PermissionError):
                self._socket.setsockopt(socket.SOL_SOCKET, _SO_SNDBUFFORCE, _LONG_QUEUE_BYTES)

    @override
    def send(self, start: int, count: int) -> int:
        return self._messages.send(self._socket.fileno(), start, count)[1]

    @override
    def count_received(self) -> int:
        return self._counters.read().received - self._first

    @override
    def close(self) -> None:
        self._counters.close()
        self._socket.close()


class PacketRing(DevicePort):
    """An AF_PACKET receive ring (TPACKET_V2) on one interface."""

    def __init__(self, interface: str, frame_bytes: int) -> None:
        self._socket = _packet_socket(interface, protocol=_ETH_P_ALL)
        slots, slot_bytes = _BLOCKS * _BLOCK_SLOTS, _slot_bytes(frame_bytes)
        request = struct.pack("4I", _BLOCK_SLOTS * slot_bytes, _BLOCKS, slot_bytes, slots)
        self._socket.setsockopt(_SOL_PACKET, _PACKET_RX_RING, request)
        self._map = mmap.mmap(self._socket.fileno(), slots * slot_bytes)
        self.buffer = np.frombuffer(self._map, np.uint8).reshape(slots, slot_bytes)
        words = np.frombuffer(self._map, np.uint32).reshape(slots, slot_bytes // 4)
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


def receive_all(interface: str) -> socket.socket:
    """Let an interface receive frames for all MAC addresses as long as the socket is open."""
    return _packet_socket(interface, protocol=0)


def _packet_socket(interface: str, protocol: int, *, queued: bool = False) -> socket.socket:
    packet = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    try:
        packet.setsockopt(_SOL_PACKET, _PACKET_VERSION, _TPACKET_V2)
        packet.setsockopt(_SOL_PACKET, _PACKET_QDISC_BYPASS, int(not queued))
        # Otherwise the device would receive, and forward again, the frames that it sends.
        packet.setsockopt(_SOL_PACKET, _PACKET_IGNORE_OUTGOING, 1)
        packet.bind((interface, protocol))
        # The hosts of the traffic have addresses of their own, whose frames a network card would discard.
        request = struct.pack("iHH8x", socket.if_nametoindex(interface), _MEMBERSHIP_PROMISCUOUS, 0)
        packet.setsockopt(_SOL_PACKET, _PACKET_ADD_MEMBERSHIP, request)
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


class UdpGeneratorPort(GeneratorPort):
    """A UDP socket that sends to the device's queues, and one that only counts the frames that return."""

    def __init__(self, address: str, port: int, peer: int) -> None:
        self._peer = [(address, peer + queue) for queue in range(QUEUES)]
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        # The filter accepts nothing: the kernel drops each datagram on arrival and counts it, so that
        # counting never overflows a buffer and costs the generator no time.
        _attach_filter_that_drops(self._sink)
        self._sink.bind((address, port))
        self._socket.bind((address, 0))
        self._last = self._first = _socket_drops(self._sink)
        self._wraps = 0

    @override
    def prepare(self, frames: NDArray[np.uint8], lengths: NDArray[np.uint64]) -> None:
        self._frames = frames
        # Consecutive frames go to the same queue, so that the device receives several frames from each.
        queue = np.arange(len(frames)) // 16 % QUEUES
        addresses = np.array([list(_sockaddr(*self._peer[number])) for number in queue], dtype=np.uint8)
        self._messages = Messages(frame_addresses(frames), lengths, addresses)

    @override
    def send(self, start: int, count: int) -> int:
        return self._messages.send(self._socket.fileno(), start, count)[1]

    @override
    def count_received(self) -> int:
        drops = _socket_drops(self._sink)
        # The kernel's counter has 32 bits.
        if drops < self._last:
            self._wraps += 1
        self._last = drops
        return drops - self._first + (self._wraps << 32)

    @override
    def close(self) -> None:
        self._sink.close()
        self._socket.close()


class UdpQueues(DevicePort):
    """Several UDP sockets, read in turn, each with the kernel's buffer as its queue."""

    def __init__(self, address: str, port: int, peer: int) -> None:
        self._sockets = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(QUEUES)]
        for number, queue in enumerate(self._sockets):
            # A size that every kernel allows, so that the queues have the same depth everywhere.
            queue.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _QUEUE_BYTES)
            queue.bind((address, port + number))
        self._peer = _sockaddr(address, peer)
        self.offset = 2
        self.buffer = np.zeros((_ROWS, _slot_bytes(USUAL_LONGEST)), dtype=np.uint8)
        addresses = frame_addresses(self.buffer) + np.uint64(self.offset)
        self._messages = Messages(addresses, self.buffer.shape[1] - self.offset)
        self._turn = 0

    @override
    def receive(self, limit: int) -> tuple[int, int]:
        for _ in range(QUEUES):
            self._turn = (self._turn + 1) % QUEUES
            count = self._messages.receive(self._sockets[self._turn].fileno(), min(limit, len(self.buffer)))
            if count:
                return 0, count
        return 0, 0

    @override
    def lengths(self, start: int, count: int) -> NDArray[np.uint64]:
        return self._messages.received_lengths[start : start + count].astype(np.uint64)

    def release(self, start: int, count: int) -> None:
        """Do nothing: the rows belong to this process and are free as soon as the frames are sent."""

    @override
    def messages_from(self, source: DevicePort) -> Messages:
        rows = frame_addresses(source.buffer) + np.uint64(source.offset)
        destinations = np.tile(np.frombuffer(self._peer, np.uint8), (len(rows), 1))
        return Messages(rows, 0, destinations)

    @override
    def send(self, messages: Messages, start: int, count: int) -> int:
        return messages.send(self._sockets[0].fileno(), start, count)[1]

    @override
    @property
    def sockets(self) -> list[socket.socket]:
        return self._sockets

    @override
    def count_dropped(self) -> int:
        return sum(_socket_drops(queue) for queue in self._sockets)

    @override
    def close(self) -> None:
        for queue in self._sockets:
            queue.close()


def _socket_drops(receiver: socket.socket) -> int:
    """Return how many datagrams the kernel dropped at a socket, modulo 2**32."""
    meminfo = receiver.getsockopt(socket.SOL_SOCKET, _SO_MEMINFO, 36)
    return int(struct.unpack("9I", meminfo)[_MEMINFO_DROPS])


def _sockaddr(address: str, port: int) -> bytes:
    return struct.pack("=HH4s8x", socket.AF_INET, socket.htons(port), socket.inet_aton(address))


def _attach_filter_that_drops(receiver: socket.socket) -> None:
    instruction = ctypes.create_string_buffer(struct.pack("HBBI", 0x06, 0, 0, 0))  # BPF_RET | BPF_K, 0
    program = struct.pack("HxxxxxxQ", 1, ctypes.addressof(instruction))
    receiver.setsockopt(socket.SOL_SOCKET, _SO_ATTACH_FILTER, program)
