from __future__ import annotations

import struct
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from perftrend.measure.embedded import frames as addresses
from perftrend.measure.embedded.frames import (
    build,
    count_prepared_frames,
    ip4_checksum,
)
from perftrend.measure.traffic import DEFAULT_FLOWS, FrameProfile, TrafficProfile

PROFILES = ["64B", "65B", "1518B", "9000B", "IMIX", "64x3+9000x1"]


def built(frame: str, port: int, count: int, **options: str) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    traffic = TrafficProfile.parse(frame, options)
    return build(traffic, addresses.frame_direction(port, traffic), count)


def folded(header: bytes) -> int:
    """Add up 16 bit words, carry by carry: 0xFFFF for a header whose checksum is right."""
    total = 0
    for (word,) in struct.iter_unpack(">H", header):
        total += word
        total = (total & 0xFFFF) + (total >> 16)
    return total


@pytest.mark.parametrize("name", [*PROFILES, "64x6+65x1", "64x23+1518x1"])
def test_whole_rounds_are_prepared(name: str) -> None:
    profile = FrameProfile.parse(name)
    count = count_prepared_frames(TrafficProfile(profile))

    assert 0 == count % DEFAULT_FLOWS == count % len(profile.sizes)
    assert count <= 24 * DEFAULT_FLOWS


@given(st.binary(min_size=20, max_size=20))
def test_checksum_makes_any_header_add_up(header: bytes) -> None:
    blank = header[:10] + b"\0\0" + header[12:]
    checksum = int(ip4_checksum(np.frombuffer(blank, np.uint8).reshape(1, 20))[0])

    # Only a header of zeros adds up to zero, which is the same number in ones' complement.
    assert 0xFFFF == folded(blank[:10] + struct.pack(">H", checksum) + blank[12:])


@given(st.sampled_from(PROFILES), st.integers(1, 600), st.integers(0, 1))
def test_every_frame_has_a_right_header(name: str, count: int, port: int) -> None:
    frames, lengths = built(name, port, count)

    for frame, length in zip(frames, lengths.tolist(), strict=True):
        raw = frame.tobytes()
        assert 0xFFFF == folded(raw[14:34])
        assert (length - 14, length - 34) == struct.unpack_from(">H20xH", raw, 16)


@pytest.mark.parametrize("name", PROFILES)
def test_lengths_follow_the_profile_without_the_checksum(name: str) -> None:
    profile = FrameProfile.parse(name)

    _, lengths = built(name, 0, 3 * len(profile.sizes))

    assert [size - 4 for size in profile.sizes] * 3 == lengths.tolist()


def test_a_direction_has_256_flows() -> None:
    frames, _ = built("64B", 0, 1024)

    flows = Counter((frame[26:30].tobytes(), frame[30:34].tobytes()) for frame in frames)

    assert [4] * 256 == list(flows.values())


@pytest.mark.parametrize("port", [0, 1])
def test_routed_frames_go_to_the_device_and_to_the_other_network(port: int) -> None:
    frames, _ = built("64B", port, 4)

    raw = frames[0].tobytes()
    assert addresses.device_mac(port) + addresses.host_mac(port) == raw[:12]
    assert addresses.NETWORKS[port] >> 16 == int.from_bytes(raw[26:28], "big")
    assert addresses.NETWORKS[1 - port] >> 16 == int.from_bytes(raw[30:32], "big")


@pytest.mark.parametrize("port", [0, 1])
def test_bridged_frames_go_straight_to_the_other_host(port: int) -> None:
    frames, _ = built("64B", port, 4, forwarding="l2")

    assert addresses.host_mac(1 - port) + addresses.host_mac(port) == frames[0].tobytes()[:12]


def transport_sum(packet: bytes) -> int:
    """Add up the pseudo-header and the rest of an IP packet (RFC 9293, RFC 8200)."""
    if packet[0] >> 4 == 4:
        addresses, protocol, data = packet[12:20], packet[9], packet[20:]
    else:
        addresses, protocol, data = packet[8:40], packet[6], packet[40:]
    even = data + b"\0" * (len(data) % 2)
    return folded(addresses + struct.pack(">IHH", len(data), 0, protocol) + even)


@pytest.mark.parametrize("frame", ["78B", "79B", "1518B", "78x3+1000x1"])
@pytest.mark.parametrize("port", [0, 1])
@pytest.mark.parametrize("protocol", ["udp", "tcp"])
def test_ip6_frame_has_right_headers(frame: str, port: int, protocol: str) -> None:
    frames, lengths = built(frame, port, 300, forwarding="ip6", protocol=protocol)

    for row, length in zip(frames, lengths.tolist(), strict=True):
        raw = row.tobytes()[:length]
        assert 0x86DD == int.from_bytes(raw[12:14], "big")
        assert length - 54 == int.from_bytes(raw[18:20], "big")
        assert addresses.IP6_NETWORKS[port].network_address.packed[:12] == raw[22:34]
        assert addresses.IP6_NETWORKS[1 - port].network_address.packed[:12] == raw[38:50]
        assert raw[34:38] == raw[50:54]
        assert 0xFFFF == transport_sum(raw[14:])


def test_udp_over_ip6_never_has_a_checksum_of_zero() -> None:
    """It means that the checksum is not used, which only tunnels may do (RFC 8200, section 8.1)."""
    frames, _ = built("78B", 0, 65_000, forwarding="ip6", flow_count="65000")

    checksums = frames[:, 60:62].astype(np.uint16) @ np.array([256, 1], dtype=np.uint16)
    assert 0xFFFF in checksums
    assert 0 not in checksums


@pytest.mark.parametrize("frame", ["64B", "65B", "IMIX"])
def test_tcp_frame_has_a_right_checksum(frame: str) -> None:
    frames, lengths = built(frame, 0, 300, protocol="tcp")

    for row, length in zip(frames, lengths.tolist(), strict=True):
        raw = row.tobytes()[:length]
        assert (6, 0x50, 0x10) == (raw[23], raw[46], raw[47])
        assert 0xFFFF == folded(raw[14:34])
        assert 0xFFFF == transport_sum(raw[14:])


@pytest.mark.parametrize("forwarding", ["ip4", "ip6", "l2"])
def test_tag_precedes_the_same_packet(forwarding: str) -> None:
    frames, _ = built("128B", 1, 20, forwarding=forwarding)
    tagged, lengths = built("132B", 1, 20, forwarding=forwarding, vlan="100")

    assert {128} == set(lengths.tolist())
    assert b"\x81\0\0\x64" == tagged[0, 12:16].tobytes()
    assert frames[:, :12].tolist() == tagged[:, :12].tolist()
    assert frames[:, 12:].tolist() == tagged[:, 16:].tolist()


@pytest.mark.parametrize(("port", "tag"), [(0, b"\x81\0\0\x64"), (1, b"\x81\0\x0f\xfe")])
def test_tag_is_that_of_the_link(port: int, tag: bytes) -> None:
    frames, _ = built("64B", port, 20, vlan="100,4094")

    assert {tag} == {row[12:16].tobytes() for row in frames}


@pytest.mark.parametrize(("tunnel", "header"), [
    ("vxlan", b"\x08\0\0\0\0\0\x65\0"), ("geneve", b"\0\0\x65\x58\0\0\x65\0"),
])  # fmt: skip
@pytest.mark.parametrize("tag", [0, 7])
def test_tunnel_goes_to_the_device_and_has_the_bridged_frame_in_it(
    tunnel: str, header: bytes, tag: int
) -> None:
    begin = 4 if tag else 0
    inner, _ = built("100B", 1, 300, forwarding="l2")
    frames, lengths = built(f"{150 + begin}B", 1, 300, forwarding="l2", tunnel=tunnel, vlan=str(tag))

    outer_ports = set()
    for row, length, bridged in zip(frames, lengths.tolist(), inner, strict=True):
        raw = row.tobytes()[:length]
        assert addresses.device_mac(1) + addresses.host_mac(1) == raw[:12]
        ip = raw[14 + begin :]
        assert 0xFFFF == folded(ip[:20])
        assert (len(ip), len(ip) - 20, 17) == (*struct.unpack_from(">H20xH", ip, 2), ip[9])
        assert b"\xc6\x12\1\2\xc6\x12\1\1" == ip[12:20]
        outer_ports.add(ip[20:22])
        assert addresses.TUNNEL_PORTS[tunnel] == int.from_bytes(ip[22:24], "big")
        assert header == ip[28:36]
        assert bridged.tobytes() == ip[36:]
    assert 256 == len(outer_ports)


@pytest.mark.parametrize("count", [1, 3, 1000, 66_000])
def test_flows_differ_in_addresses_or_ports(count: int) -> None:
    frames, _ = built("64B", 0, count + 10, flow_count=str(count))

    flows = Counter(frame[26:36].tobytes() for frame in frames)

    assert count == len(flows)
    assert all(bytes(flow[2:4]) == bytes(flow[6:8]) for flow in flows)


def test_routes_are_those_of_the_traffic_and_then_others() -> None:
    """Each network of the traffic has 65,536 addresses."""
    numbers = (0, 1, 2, 3, 131_071, 131_072, 131_073, 1_999_999)

    assert [
        "10.10.0.0", "10.20.0.0", "10.10.0.1", "10.20.0.1", "10.20.255.255", "20.0.0.0", "30.0.0.0",
        "30.14.66.63",
    ] == [addresses.route(number, 2)[0] for number in numbers]  # fmt: skip
    assert ["2001:db8:a::", "2001:db8:14::", "2001:db8:a::1"] == [
        addresses.route(number, 2, is_ip6=True)[0] for number in range(3)
    ]


@pytest.mark.parametrize(("links", "expected"), [
    (1, [("10.10.0.0", 0), ("10.20.0.0", 1), ("10.10.0.1", 0), ("10.20.0.1", 1)]),
    (4, [("10.10.0.0", 0), ("10.20.0.0", 1), ("10.30.0.0", 2), ("10.40.0.0", 3)]),
])  # fmt: skip
def test_networks_behind_all_links_take_turns(links: int, expected: list[tuple[str, int]]) -> None:
    assert expected == [addresses.route(number, links) for number in range(4)]
