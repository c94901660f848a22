"""The frames of the test traffic in memory, and the addresses of their hosts.

The checksum of a frame is never in memory, so a 64-byte frame has 60 bytes there.

The generator has a host behind each port of the device, and there the other end of the device's tunnel, too.
Hosts exchange frames in pairs: those behind the ports 0 and 1, and those behind 2 and 3. If the device does
not have the second port of a pair, both are behind the first one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv6Network
from typing import Self

import numpy as np
from numpy.typing import NDArray

from perftrend.measure.traffic import (
    CHECKSUM_BYTES,
    DEFAULT_FLOWS,
    ETHERNET_BYTES,
    IP_BYTES,
    TRANSPORT_BYTES,
    TUNNEL_BYTES,
    TrafficProfile,
    vlan_of_link,
)

NETWORKS = (0x0A0A0000, 0x0A140000, 0x0A1E0000, 0x0A280000)
"""10.10.0.0/16 is behind port 0, 10.20.0.0/16 behind port 1, and so on."""
_NETWORK_HOSTS = 1 << 16
IP6_NETWORKS = tuple(IPv6Network(f"2001:db8:{number:x}::/48") for number in (10, 20, 30, 40))
MORE_NETWORKS = (0x14000000, 0x1E000000, 0x28000000, 0x32000000)
"""20.0.0.0/8, 30.0.0.0/8 and so on are behind the ports, too: for routes that NETWORKS have no room for."""
TUNNEL_NETWORKS = (0xC6120000, 0xC6120100, 0xC6120200, 0xC6120300)
"""198.18.0.0/24 to 198.18.3.0/24: the device is host 1 of each, and the other end of its tunnel host 2."""
TUNNEL_IDS = (100, 101, 102, 103)
"""The network identifier of the tunnel at each port."""
TUNNEL_PORTS = {"vxlan": 4789, "geneve": 6081}
"""The assigned UDP ports."""
UDP_PORT = 1024
"""Destination port of all frames, and source port of the first flow."""
FIRST_HOST = 2
_ETHERTYPES = {4: 0x0800, 6: 0x86DD}
_PROTOCOLS = {"udp": 17, "tcp": 6}
_ADDRESS_BYTES = {4: 4, 6: 16}
_CHECKSUM_OFFSETS = {"udp": 6, "tcp": 16}
DYNAMIC_PORTS = range(49_152, 65_536)
"""Source ports of a tunnel: each host of the traffic has one."""
_ROUNDS = 12
"""Short patterns of sizes are prepared as often as IMIX, so that all need about as much memory."""


@dataclass(frozen=True, slots=True)
class FrameDirection:
    """The addresses of the frames that are sent into a port of the generator, from 0 on."""

    port: int
    source_mac: bytes
    destination_mac: bytes


@dataclass(frozen=True, slots=True)
class FlowFields:
    """Where flows differ: offsets of fields of two bytes, None for those that a frame does not have."""

    ip: int
    """The inner packet."""
    hosts: tuple[int, int]
    """The last two bytes of the source and of the destination address: no network has more hosts."""
    transport: int
    """The header in the inner packet, which begins with the source port."""
    tunnel_port: int | None
    """The source port of the outer UDP header."""
    ip_checksum: int | None
    transport_checksum: int | None

    @classmethod
    def of(cls, traffic: TrafficProfile) -> Self:
        """Return the fields of the frames of this traffic."""
        transport = traffic.header_bytes - TRANSPORT_BYTES[traffic.protocol]
        ip = transport - IP_BYTES[traffic.ip_version]
        # The destination ends the header.
        destination = transport - 2
        has_tunnel = traffic.tunnel != "none"
        has_checksum = has_transport_checksum(traffic)
        return cls(
            ip=ip,
            hosts=(destination - _ADDRESS_BYTES[traffic.ip_version], destination),
            transport=transport,
            tunnel_port=ip - ETHERNET_BYTES - TUNNEL_BYTES + IP_BYTES[4] if has_tunnel else None,
            ip_checksum=None if traffic.is_ip6 else ip + 10,
            transport_checksum=transport + _CHECKSUM_OFFSETS[traffic.protocol] if has_checksum else None,
        )


def count_prepared_frames(traffic: TrafficProfile) -> int:
    """Return the number of frames that a generator prepares: whole rounds of the flows and of the sizes."""
    rounds = len(traffic.frame.sizes)
    if traffic.flow_count > DEFAULT_FLOWS:
        return math.lcm(traffic.flow_count, rounds)
    return traffic.flow_count * (_ROUNDS if _ROUNDS % rounds == 0 else rounds)


def build(
    traffic: TrafficProfile, direction: FrameDirection, count: int
) -> tuple[NDArray[np.uint8], NDArray[np.uint64]]:
    """Build ``count`` consecutive frames of a direction.

    :returns: the frames, shape (count, bytes), and their lengths in memory, shape (count,).
    """
    sizes = np.resize(np.array(traffic.frame.sizes, dtype=np.uint64), count) - np.uint64(CHECKSUM_BYTES)
    buffer = np.zeros((count, int(sizes.max())), dtype=np.uint8)
    flow = np.arange(count, dtype=np.uint32) % traffic.flow_count
    macs = (direction.destination_mac, direction.source_mac)
    vlan = vlan_of_link(traffic.vlans, direction.port)
    if traffic.tunnel == "none":
        inner = _write_ethernet(buffer, macs, traffic.ip_version, vlan)
    else:
        outer = _write_ethernet(buffer, macs, 4, vlan)
        inner = _write_tunnel(outer, sizes - _offset(buffer, outer), traffic, direction.port, flow)
        inner_macs = (host_mac(direction.port ^ 1), host_mac(direction.port))
        inner = _write_ethernet(inner, inner_macs, traffic.ip_version)
    _write_packet(inner, sizes - _offset(buffer, inner), traffic, direction.port, flow)
    return buffer, sizes


def _offset(whole: NDArray[np.uint8], part: NDArray[np.uint8]) -> np.uint64:
    """Return the length of the headers before a part of the frames."""
    return np.uint64(whole.shape[1] - part.shape[1])


def _write_ethernet(
    buffer: NDArray[np.uint8], macs: Sequence[bytes], ip_version: int, vlan: int = 0
) -> NDArray[np.uint8]:
    """Write the header and return the rest of the frames.

    :param macs: the destination and the source.
    """
    for number, mac in enumerate(macs):
        buffer[:, 6 * number : 6 * number + 6] = np.frombuffer(mac, np.uint8)
    types = [0x8100, vlan, _ETHERTYPES[ip_version]] if vlan else [_ETHERTYPES[ip_version]]
    _put(buffer, 12, np.tile(np.array(types, dtype=np.uint16), (len(buffer), 1)), 2)
    return buffer[:, 12 + 2 * len(types) :]


def _write_tunnel(
    buffer: NDArray[np.uint8],
    lengths: NDArray[np.uint64],
    traffic: TrafficProfile,
    port: int,
    flow: NDArray[np.uint32],
) -> NDArray[np.uint8]:
    """Write the headers of a tunnel from the host to the device, and return the frames in it."""
    network = TUNNEL_NETWORKS[port]
    addresses = np.array([[network + 2, network + 1]], dtype=np.uint32).repeat(len(buffer), axis=0)
    _write_ip4(buffer, lengths, addresses, _PROTOCOLS["udp"])
    # As real ends do it, so that devices spread the flows over their queues (RFC 7348, section 5).
    source = DYNAMIC_PORTS.start + flow % traffic.hosts % len(DYNAMIC_PORTS)
    _write_ports(buffer[:, 20:], source, TUNNEL_PORTS[traffic.tunnel])
    _put(buffer, 24, lengths - np.uint64(20), 2)
    # The UDP checksum stays zero, which means that it is not used.
    if traffic.tunnel == "vxlan":
        buffer[:, 28] = 0x08
    else:
        buffer[:, 30:32] = (0x65, 0x58)
    _put(buffer, 32, np.full(len(buffer), TUNNEL_IDS[port] << 8), 4)
    return buffer[:, TUNNEL_BYTES:]


def _write_packet(
    buffer: NDArray[np.uint8],
    lengths: NDArray[np.uint64],
    traffic: TrafficProfile,
    port: int,
    flow: NDArray[np.uint32],
) -> None:
    """Write the headers of IP and of the transport protocol."""
    hosts = (flow % traffic.hosts + FIRST_HOST).astype(np.uint32)
    protocol = _PROTOCOLS[traffic.protocol]
    if traffic.is_ip6:
        _write_ip6(buffer, lengths, hosts, port, protocol)
        addresses, transport, lengths = buffer[:, 8:40], buffer[:, 40:], lengths - np.uint64(40)
    else:
        _write_ip4(buffer, lengths, hosts[:, None] + np.array(_pair(NETWORKS, port), np.uint32), protocol)
        addresses, transport, lengths = buffer[:, 12:20], buffer[:, 20:], lengths - np.uint64(20)
    _write_ports(transport, UDP_PORT + flow % traffic.ports, UDP_PORT)
    if traffic.protocol == "udp":
        _put(transport, 4, lengths, 2)
    else:
        transport[:, 12:14] = (0x50, 0x10)  # a header of 20 bytes, and an acknowledgement
    if not has_transport_checksum(traffic):
        return
    # All data are zero.
    header = transport[:, : TRANSPORT_BYTES[traffic.protocol]]
    total = _sum_words(addresses) + _sum_words(header) + lengths + np.uint64(protocol)
    checksum = _fold(total)
    if traffic.protocol == "udp":
        # The same number in ones' complement; zero would mean that the checksum is not used.
        checksum[checksum == 0] = 0xFFFF
    _put(transport, _CHECKSUM_OFFSETS[traffic.protocol], checksum, 2)


def has_transport_checksum(traffic: TrafficProfile) -> bool:
    """Return whether frames have a checksum of their data; UDP over IPv4 needs none (RFC 768)."""
    return traffic.protocol == "tcp" or traffic.is_ip6


def _pair(networks: Sequence[int], port: int) -> tuple[int, int]:
    """Return the networks of the source and of the destination."""
    return networks[port], networks[port ^ 1]


def _write_ip4(
    buffer: NDArray[np.uint8], lengths: NDArray[np.uint64], addresses: NDArray[np.uint32], protocol: int
) -> None:
    """Write IPv4 headers; the addresses, shape (n, 2), are the source and the destination."""
    buffer[:, 0] = 0x45
    _put(buffer, 2, lengths, 2)
    buffer[:, 8] = 64  # time to live
    buffer[:, 9] = protocol
    _put(buffer, 12, addresses, 4)
    _put(buffer, 10, ip4_checksum(buffer[:, :20]), 2)


def _write_ip6(
    buffer: NDArray[np.uint8],
    lengths: NDArray[np.uint64],
    hosts: NDArray[np.uint32],
    port: int,
    protocol: int,
) -> None:
    """Write IPv6 headers; the host is the last part of both addresses."""
    buffer[:, 0] = 0x60
    _put(buffer, 4, lengths - np.uint64(40), 2)
    buffer[:, 6] = protocol
    buffer[:, 7] = 64  # hop limit
    for offset, network in ((8, IP6_NETWORKS[port]), (24, IP6_NETWORKS[port ^ 1])):
        buffer[:, offset : offset + 16] = np.frombuffer(network.network_address.packed, np.uint8)
        _put(buffer, offset + 12, hosts, 4)


def _write_ports(buffer: NDArray[np.uint8], source: NDArray[np.generic], destination: int) -> None:
    _put(buffer, 0, source, 2)
    _put(buffer, 2, np.full(len(buffer), destination), 2)


def ip4_checksum(headers: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Compute the checksum of IPv4 headers of 20 bytes whose checksum field is zero (RFC 1071).

    :param headers: shape (n, 20).
    :returns: shape (n,).
    """
    return _fold(_sum_words(headers)).astype(np.uint32)


def _sum_words(data: NDArray[np.uint8]) -> NDArray[np.uint64]:
    """Return the sum of the 16-bit words of each row."""
    total: NDArray[np.uint64] = (data[:, 0::2].astype(np.uint64) * 256 + data[:, 1::2]).sum(axis=1)
    return total


def _fold(total: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return the complement of the ones' complement sums."""
    total = (total & 0xFFFF) + (total >> 16)
    total = (total & 0xFFFF) + (total >> 16)
    return ~total & np.uint64(0xFFFF)


def _put(buffer: NDArray[np.uint8], offset: int, values: NDArray[np.generic], size: int) -> None:
    """Write numbers in network byte order at an offset of every frame; shape (n,), or (n, k) for several."""
    order = np.ascontiguousarray(values.astype(f">u{size}")).view(np.uint8).reshape(len(buffer), -1)
    buffer[:, offset : offset + order.shape[1]] = order


def count_networks(links: int) -> int:
    """Return the number of networks behind the ports of a device with so many links."""
    return links + links % 2


def port_of_network(network: int, links: int) -> int:
    """Return the device's port with a network behind it, by its number: its own one, or the last one."""
    return min(network, links - 1)


def route(number: int, links: int, *, is_ip6: bool = False) -> tuple[str, int]:
    """Return the address of a route to a single host, and the number of the network that it is in.

    The networks take turns.
    """
    index, network = divmod(number, count_networks(links))
    if is_ip6:
        return str(IP6_NETWORKS[network].network_address + index), network
    first = NETWORKS[network] if index < _NETWORK_HOSTS else MORE_NETWORKS[network] - _NETWORK_HOSTS
    return str(IPv4Address(first + index)), network


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


def parse_mac(text: str) -> bytes:
    """Return the MAC address of a text such as ``02:00:00:00:0a:00``. :raises ValueError: if it is none."""
    return bytes.fromhex(text.replace(":", ""))


def frame_direction(port: int, traffic: TrafficProfile, device: Sequence[bytes] = ()) -> FrameDirection:
    """Return the addresses of the traffic that is sent into a port, towards the other one of its pair.

    :param device: the MAC addresses of the device's ports; empty if they are those of :func:`device_mac`.
    """
    own = device[port] if device else device_mac(port)
    return FrameDirection(port, host_mac(port), own if traffic.is_for_device else host_mac(port ^ 1))
