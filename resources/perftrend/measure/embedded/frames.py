"""Test traffic: the contents of the frames, the sequence of their sizes, and the addresses of their hosts.

Lengths are Ethernet lengths including the four bytes of the checksum, as in the usual names (64B, 1518B).
The checksum itself is never in memory, so a 64-byte frame has 60 bytes there.

The embedded testbeds have two hosts of the generator, one behind each port of the device.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perftrend import errors

CHECKSUM_BYTES = 4
FLOWS = 256
"""Number of different destinations in each direction; every burst contains many of them."""

_IMIX = (64, 570, 64, 64, 570, 64, 64, 570, 64, 1518, 64, 570)
"""The simple IMIX: 64, 570 and 1518 bytes in the ratio 7:4:1, in an order that spreads the long frames."""

SHORTEST, LONGEST = 64, 9000
"""In bytes: the shortest Ethernet frame, and the longest frame that most devices accept."""
_MOST_FRAMES = 24
"""Frames in one round of a pattern: generators prepare whole rounds in memory."""
_SIZE = re.compile(r"([0-9]{1,5})B")
_PATTERN = re.compile(r"[0-9]{1,5}X[0-9]{1,3}(?:\+[0-9]{1,5}X[0-9]{1,3})+")

NETWORKS = (0x0A0A0000, 0x0A140000)
"""10.10.0.0/16 is behind port 0, 10.20.0.0/16 behind port 1."""


@dataclass(frozen=True, slots=True)
class FrameProfile:
    """A named sequence of frame sizes."""

    name: str
    sizes: tuple[int, ...]

    @classmethod
    def parse(cls, name: str) -> FrameProfile:
        """Return the profile with this name.

        :param name: ``64B``, or any other length from 64 to 9000 bytes; ``IMIX``; or a custom pattern of
            lengths and counts, such as ``64x7+570x4+1518x1``.
        :raises SettingsError: for any other name.
        """
        typed = name.upper()
        if typed == "IMIX":
            return cls(typed, _IMIX)
        if size := _SIZE.fullmatch(typed):
            return cls(typed, (_length(name, size[1]),))
        if not _PATTERN.fullmatch(typed):
            nearest = errors.nearest(name, ("64B", "1518B", "IMIX"))
            raise errors.SettingsError(
                f"frame {name!r} is unknown{nearest} Lengths are 64B to 9000B, patterns 64x7+570x4+1518x1"
            )
        shares = [part.split("X") for part in typed.split("+")]
        counts = [(_length(name, size), int(count)) for size, count in shares]
        total = sum(count for _, count in counts)
        if not all(count for _, count in counts) or total > _MOST_FRAMES:
            raise errors.SettingsError(
                f"frame {name!r}: each length must occur at least once, and all at most {_MOST_FRAMES} times"
            )
        return cls(typed.replace("X", "x"), _spread(counts, total))

    @property
    def mean_bytes(self) -> float:
        """Average frame length, including the checksum."""
        return sum(self.sizes) / len(self.sizes)


def _length(name: str, digits: str) -> int:
    length = int(digits)
    if not SHORTEST <= length <= LONGEST:
        raise errors.SettingsError(f"frame {name!r}: a frame has from {SHORTEST} to {LONGEST} bytes")
    return length


def _spread(counts: list[tuple[int, int]], total: int) -> tuple[int, ...]:
    """Return the lengths of one round, each spread as evenly as possible."""
    places = [((number + 0.5) * total / count, length) for length, count in counts for number in range(count)]
    return tuple(length for _, length in sorted(places))


def count_prepared_frames(profile: FrameProfile) -> int:
    """Return the number of frames that a generator prepares: whole rounds of the flows and of the sizes."""
    rounds = len(profile.sizes)
    return FLOWS * (len(_IMIX) if len(_IMIX) % rounds == 0 else rounds)


@dataclass(frozen=True, slots=True)
class FrameDirection:
    """Source and destination addresses of the frames of one direction."""

    source_mac: bytes
    destination_mac: bytes
    source_network: int
    """First address of 10.x.0.0/16 as a number; flow n has address first + 2 + n."""
    destination_network: int


def build(
    profile: FrameProfile, direction: FrameDirection, count: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    """Build ``count`` consecutive frames of a direction.

    :returns: the frames, shape (count, bytes), and their lengths in memory, shape (count,).
    """
    sizes = np.resize(np.array(profile.sizes, dtype=np.uint64), count) - np.uint64(CHECKSUM_BYTES)
    buffer = np.zeros((count, int(sizes.max())), dtype=np.uint8)
    flow = np.arange(count, dtype=np.uint32) % FLOWS
    _write_ethernet(buffer, direction)
    _write_ip4(buffer, direction, flow, sizes)
    _write_udp(buffer, sizes)
    return buffer, sizes


def _write_ethernet(buffer: NDArray[np.uint8], direction: FrameDirection) -> None:
    buffer[:, 0:6] = np.frombuffer(direction.destination_mac, np.uint8)
    buffer[:, 6:12] = np.frombuffer(direction.source_mac, np.uint8)
    buffer[:, 12:14] = (0x08, 0x00)


def _write_ip4(
    buffer: NDArray[np.uint8], direction: FrameDirection, flow: NDArray[np.uint32], sizes: NDArray[np.uint64]
) -> None:
    buffer[:, 14] = 0x45
    _put(buffer, 16, sizes - 14, 2)
    buffer[:, 22] = 64  # time to live
    buffer[:, 23] = 17  # UDP
    _put(buffer, 26, flow + (direction.source_network + 2), 4)
    _put(buffer, 30, flow + (direction.destination_network + 2), 4)
    _put(buffer, 24, ip4_checksum(buffer[:, 14:34]), 2)


def _write_udp(buffer: NDArray[np.uint8], sizes: NDArray[np.uint64]) -> None:
    _put(buffer, 34, np.full(len(buffer), 1024), 2)
    _put(buffer, 36, np.full(len(buffer), 1024), 2)
    _put(buffer, 38, sizes - 34, 2)
    # The UDP checksum stays zero, which means that it is not used (RFC 768).


def ip4_checksum(headers: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Compute the checksum of IPv4 headers of 20 bytes whose checksum field is zero (RFC 1071).

    :param headers: shape (n, 20).
    :returns: shape (n,).
    """
    words = headers[:, 0::2].astype(np.uint32) * 256 + headers[:, 1::2]
    total: NDArray[np.uint32] = words.sum(axis=1, dtype=np.uint32)
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return ~total & np.uint32(0xFFFF)


def _put(buffer: NDArray[np.uint8], offset: int, values: NDArray[np.generic], size: int) -> None:
    """Write numbers in network byte order at an offset of every frame."""
    order = np.ascontiguousarray(values.astype(f">u{size}"))
    buffer[:, offset : offset + size] = order.view(np.uint8).reshape(-1, size)


def host_mac(port: int) -> bytes:
    """Return the MAC address of the generator's host behind a port.

    It differs from the address of the generator's interface: the kernel there counts a frame for a
    foreign address and drops it at once, which costs the device's core the least.
    """
    return bytes((0x02, 0, 0, 0, 0x0A, port))


def device_mac(port: int) -> bytes:
    """Return the MAC address of the device's port."""
    return bytes((0x02, 0, 0, 0, 0x0D, port))


def generator_mac(port: int) -> bytes:
    """Return the MAC address of the generator's interface at a port."""
    return bytes((0x02, 0, 0, 0, 0x0C, port))


def frame_direction(port: int, *, bridged: bool) -> FrameDirection:
    """Return the addresses of the traffic that the generator sends into a port, towards the other."""
    other = 1 - port
    return FrameDirection(
        source_mac=host_mac(port),
        destination_mac=host_mac(other) if bridged else device_mac(port),
        source_network=NETWORKS[port],
        destination_network=NETWORKS[other],
    )
