from __future__ import annotations

import struct
from collections.abc import Sequence
from ipaddress import IPv6Address, IPv6Network
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.measure.embedded.frames import build, frame_direction
from perftrend.measure.embedded.ports import DevicePort
from perftrend.measure.embedded.router import (
    Bridge,
    Burst,
    CrossConnect,
    Forwarding,
    Ip4Router,
    Ip6Router,
)
from perftrend.measure.traffic import TrafficProfile

OFFSET = 2
NETWORK = 0x0A140000
"""10.20.0.0/16, behind the other port."""
NEW_MACS = bytes(range(12))


def frame(
    *,
    source: int = 0x0A0A0001,
    destination: int = NETWORK + 1,
    time_to_live: int = 64,
    ethertype: int = 0x0800,
    port: int = 1024,
    macs: bytes = b"\x02" * 12,
) -> bytes:
    """Write one UDP frame; its checksum is computed here, word by word."""
    ip4 = bytearray(struct.pack(">BBHHHBBHII", 0x45, 0, 46, 0, 0, time_to_live, 17, 0, source, destination))
    struct.pack_into(">H", ip4, 10, 0xFFFF - folded(bytes(ip4)))
    return (
        macs + struct.pack(">H", ethertype) + bytes(ip4) + struct.pack(">HHHH", 1024, port, 26, 0) + bytes(18)
    )


def folded(header: bytes) -> int:
    total = sum(word for (word,) in struct.iter_unpack(">H", header))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return total


class Buffer:
    """Stands in for a device's port: frames in memory, and no socket."""

    def __init__(self, frames: Sequence[bytes]) -> None:
        self.memory = np.zeros((len(frames), 128), np.uint8)
        self.rows = slice(0, len(frames))
        for row, one in zip(self.memory, frames, strict=True):
            row[OFFSET : OFFSET + len(one)] = np.frombuffer(one, np.uint8)
        self.burst = Burst(cast(DevicePort, SimpleNamespace(buffer=self.memory, offset=OFFSET)))

    def frame(self, number: int, length: int = 60) -> bytes:
        return self.memory[number, OFFSET : OFFSET + length].tobytes()

    def through(self, forwarding: Forwarding) -> list[bool]:
        return forwarding.forward(self.burst, self.rows).tolist()


def router(acl_rules: int = 0, network: int = NETWORK) -> Ip4Router:
    return Ip4Router(network, NEW_MACS, acl_rules)


@given(
    st.lists(
        st.builds(
            frame,
            source=st.integers(0, 2**32 - 1),
            destination=st.integers(NETWORK, NETWORK + 0xFFFF),
            time_to_live=st.integers(2, 255),
        ),
        min_size=1,
        max_size=8,
    )
)
def test_routed_frame_lives_one_hop_less_and_its_checksum_stays_right(frames: list[bytes]) -> None:
    buffer = Buffer(frames)

    assert [True] * len(frames) == buffer.through(router())
    for number, before in enumerate(frames):
        after = buffer.frame(number)
        assert before[22] - 1 == after[22]
        assert 0xFFFF == folded(after[14:34])


def test_routed_frame_gets_new_addresses_and_keeps_all_behind_its_header() -> None:
    buffer = Buffer([frame()])

    buffer.through(router())

    after = buffer.frame(0)
    assert NEW_MACS == after[:12]
    assert frame()[26:] == after[26:]


def test_generators_frames_are_all_forwarded() -> None:
    """Behind 60 rules too, of which none may match the traffic."""
    traffic = TrafficProfile.parse("IMIX", {})
    frames, lengths = build(traffic, frame_direction(0, traffic), 512)
    buffer = Buffer(
        [one.tobytes()[: min(60, int(length))] for one, length in zip(frames, lengths, strict=True)]
    )

    assert all(buffer.through(router(acl_rules=60)))


@pytest.mark.parametrize(
    "stranger",
    [
        frame(destination=0x0A150001),
        frame(destination=0x0A0A0001),
        frame(time_to_live=1),
        frame(time_to_live=0),
        frame(ethertype=0x86DD),
        frame(ethertype=0x0806),
    ],
    ids=["foreign network", "own network", "TTL 1", "TTL 0", "IPv6", "ARP"],
)
def test_frame_that_cannot_be_routed_is_not_forwarded_and_its_neighbours_are(stranger: bytes) -> None:
    buffer = Buffer([frame(), stranger, frame()])

    assert [True, False, True] == buffer.through(router())


@pytest.mark.parametrize("rule", [0, 7, 19])
def test_each_rule_denies_the_frame_that_it_describes(rule: int) -> None:
    address = 0xC0A80000 + rule
    denied = frame(source=address, destination=address, port=9000 + rule)
    buffer = Buffer([denied, frame(source=address, destination=0xC0A80000 + 300, port=9000 + rule)])

    assert [False, True] == buffer.through(router(acl_rules=20, network=0xC0A80000))


@pytest.mark.parametrize(
    "near_miss",
    [
        frame(source=0xC0A80003, destination=0xC0A80004, port=9003),
        frame(source=0xC0A80004, destination=0xC0A80003, port=9003),
        frame(source=0xC0A80003, destination=0xC0A80003, port=9004),
        frame(source=0xC0A80014, destination=0xC0A80014, port=9020),
    ],
    ids=["destination", "source", "port", "rule beyond the list"],
)
def test_frame_that_differs_in_one_field_of_the_rule_is_forwarded(near_miss: bytes) -> None:
    assert [True] == Buffer([near_miss]).through(router(acl_rules=20, network=0xC0A80000))


IP6_NETWORK = IPv6Network("2001:db8:14::/48")


def ip6_router(acl_rules: int = 0) -> Ip6Router:
    return Ip6Router(IP6_NETWORK, NEW_MACS, acl_rules)


def ip6_frame(
    *,
    source: str = "2001:db8:a::2",
    destination: str = "2001:db8:14::2",
    hop_limit: int = 64,
    ethertype: int = 0x86DD,
    port: int = 1024,
) -> bytes:
    addresses = IPv6Address(source).packed + IPv6Address(destination).packed
    header = struct.pack(">HIHBB", ethertype, 6 << 28, 16, 17, hop_limit) + addresses
    return b"\x02" * 12 + header + struct.pack(">HHHH", 1024, port, 16, 0xABCD) + bytes(8)


def test_routed_ip6_frame_lives_one_hop_less_and_gets_new_addresses() -> None:
    buffer = Buffer([ip6_frame(), ip6_frame(destination="2001:db8:14:ffff::1", hop_limit=2)])

    assert [True, True] == buffer.through(ip6_router())
    assert [63, 1] == [buffer.frame(row)[21] for row in range(2)]
    after = buffer.frame(0, len(ip6_frame()))
    assert NEW_MACS == after[:12]
    assert ip6_frame()[12:21] + ip6_frame()[22:] == after[12:21] + after[22:]


@pytest.mark.parametrize(
    "stranger",
    [
        ip6_frame(destination="2001:db8:15::2"),
        ip6_frame(destination="2001:db8:a::2"),
        ip6_frame(hop_limit=1),
        ip6_frame(hop_limit=0),
        ip6_frame(ethertype=0x0800),
    ],
    ids=["foreign network", "own network", "hop limit 1", "hop limit 0", "IPv4"],
)
def test_ip6_frame_that_cannot_be_routed_is_not_forwarded_and_its_neighbours_are(stranger: bytes) -> None:
    buffer = Buffer([ip6_frame(), stranger, ip6_frame()])

    assert [True, False, True] == buffer.through(ip6_router())


def test_generators_ip6_frames_are_all_forwarded() -> None:
    traffic = TrafficProfile.parse("78B", {"forwarding": "ip6"})
    frames, _ = build(traffic, frame_direction(0, traffic), 512)

    assert all(Buffer([one.tobytes() for one in frames]).through(ip6_router(acl_rules=20)))


@pytest.mark.parametrize(
    ("passing", "is_denied"),
    [
        (ip6_frame(source="fd00::", port=9000), True),
        (ip6_frame(source="fd00::13", port=9019), True),
        (ip6_frame(source="fd00::13", port=9018), False),
        (ip6_frame(source="fd00::1:13", port=9019), False),
        (ip6_frame(source="fd00::14", port=9020), False),
    ],
    ids=["first rule", "last rule", "port", "source", "rule beyond the list"],
)
def test_ip6_rule_denies_the_frame_that_it_describes(passing: bytes, is_denied: bool) -> None:
    assert [not is_denied] == Buffer([passing]).through(ip6_router(acl_rules=20))


def test_rows_outside_the_burst_are_left_alone() -> None:
    buffer = Buffer([frame(), frame(), frame()])
    buffer.rows = slice(1, 2)

    assert [True] == buffer.through(router())
    assert [frame(), frame()] == [buffer.frame(0), buffer.frame(2)]


A, B, C = (b"\x02\0\0\0\0" + bytes([station]) for station in (0xA, 0xB, 0xC))


def to(destination: bytes, source: bytes) -> bytes:
    return frame(macs=destination + source)


def test_bridge_forwards_to_stations_that_it_does_not_know() -> None:
    assert [True] == Buffer([to(B, A)]).through(Bridge({}, 0))


def test_bridge_filters_frames_between_stations_of_one_side() -> None:
    stations: dict[int, int] = {}
    Buffer([to(C, A), to(C, B)]).through(Bridge(stations, 0))

    assert [False, False] == Buffer([to(B, A), to(A, B)]).through(Bridge(stations, 0))


def test_bridge_forwards_to_a_station_that_it_learned_on_the_other_side() -> None:
    stations: dict[int, int] = {}
    Buffer([to(A, B)]).through(Bridge(stations, 1))

    assert [True] == Buffer([to(B, A)]).through(Bridge(stations, 0))
    assert [True] == Buffer([to(A, B)]).through(Bridge(stations, 1))


def test_bridge_learns_again_where_a_station_has_moved_to() -> None:
    stations: dict[int, int] = {}
    Buffer([to(C, A), to(C, B)]).through(Bridge(stations, 0))
    Buffer([to(C, B)]).through(Bridge(stations, 1))

    assert [True] == Buffer([to(B, A)]).through(Bridge(stations, 0))


def test_bridge_leaves_frames_unchanged() -> None:
    buffer = Buffer([to(B, A), frame(time_to_live=1, macs=B + A)])

    assert [True, True] == buffer.through(Bridge({}, 0))
    assert [to(B, A), frame(time_to_live=1, macs=B + A)] == [buffer.frame(0), buffer.frame(1)]


def test_cross_connect_forwards_all_frames_unchanged() -> None:
    buffer = Buffer([to(B, A), to(A, B), frame(time_to_live=1, macs=A + B)])

    assert [True, True, True] == buffer.through(CrossConnect())
    assert [to(B, A), to(A, B), frame(time_to_live=1, macs=A + B)] == [buffer.frame(row) for row in range(3)]
