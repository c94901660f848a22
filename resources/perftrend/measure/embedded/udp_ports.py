"""Ports on loopback: each frame is sent inside a UDP datagram. No privileges are needed."""

from __future__ import annotations

import ctypes
import socket
import struct

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from perftrend.measure.embedded.mmsg import Messages, frame_addresses
from perftrend.measure.embedded.port import DevicePort, GeneratorPort

QUEUES = 16
"""Number of UDP sockets of one port: the kernel limits the buffer of each, so one would be too small."""

_QUEUE_BYTES = 106_496
"""The kernel doubles it to 208 KiB, its own default: about 270 small frames."""
_ROWS = 512
_ROW_BYTES = 1664

# linux/socket.h, linux/sock_diag.h
_SO_ATTACH_FILTER = 26
_SO_MEMINFO = 55
_MEMINFO_DROPS = 8


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
        self.buffer = np.zeros((_ROWS, _ROW_BYTES), dtype=np.uint8)
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
