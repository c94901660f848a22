"""The configuration of a started VPP: interfaces, tunnels, addresses, routes, bridges and access lists.

It consists of messages of the binary API, which report every failure. Commands are used where VPP has
replaced a message by newer versions of it, and for routes, because one command adds as many as a million
messages.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network, ip_interface, ip_network

from perftrend.errors import TestbedError
from perftrend.measure.embedded import frames
from perftrend.measure.interfaces import Link
from perftrend.measure.traffic import TUNNELS, USUAL_LONGEST, mtu, opposite, vlan_of_link
from perftrend.measure.vpp.api import VppApi
from perftrend.measure.vpp.options import VppOptions, receive_queues, vpp_name

Address = IPv4Interface | IPv6Interface
Network = IPv4Network | IPv6Network

_NETWORKS: Mapping[int, Sequence[Network]] = {
    4: [IPv4Network((first, 16)) for first in frames.NETWORKS],
    6: frames.IP6_NETWORKS,
}
_ADDRESSES = {4: "198.18.{port}.1/24", 6: "2001:2:0:{port}::1/64"}
"""Of the ports, by the version of IP, if the testbed's file has none: those of RFC 2544 and RFC 5180."""
_MORE_IP4_NETWORKS = tuple(IPv4Network((first, 8)) for first in frames.MORE_NETWORKS)
"""For the routes to single addresses that a network of the traffic has no room for."""
_BATCH = 250_000
"""Routes that one command adds, while VPP does nothing else."""
_BATCH_S = 120.0
_LINK_S = 10.0
"""Enough for network cards to negotiate the speed of the link."""
_ADMIN_UP, _LINK_UP = 1, 2
"""Flags of an interface: ``if_status_flags`` in ``src/vnet/interface_types.api`` of VPP."""
_STATIC = 1
"""Flag of a neighbour: ``ip_neighbor_flags`` in ``src/vnet/ip-neighbor/ip_neighbor.api``."""
_DENY, _PERMIT = 0, 1
_UDP = 17
_UNSET = 0xFFFFFFFF
_TUNNEL_MESSAGES = {"vxlan": "vxlan_add_del_tunnel_v3", "geneve": "geneve_add_del_tunnel2"}


@dataclass(frozen=True, slots=True)
class _Neighbour:
    """A host of the generator behind a port, and the address of the port."""

    address: Address
    neighbour: str
    mac: str


def configure(api: VppApi, links: Sequence[Link], options: VppOptions) -> None:
    """Make VPP forward between the ports of each pair.

    :raises TestbedError: for a message or command that VPP refuses, and for a port without a link.
    """
    indexes = _create_interfaces(api, links, options)
    _set_up(api, indexes)
    if options.vlans:
        indexes = [
            api.call("create_vlan_subif", sw_if_index=index, vlan_id=vlan_of_link(options.vlans, number))[
                "sw_if_index"
            ]
            for number, index in enumerate(indexes)
        ]
        _set_up(api, indexes)
    if options.tunnel != TUNNELS[0]:
        indexes = [
            _end_tunnel(api, link, number, index, options.tunnel)
            for number, (link, index) in enumerate(zip(links, indexes, strict=True))
        ]
    if options.forwarding == "l2":
        for number, index in enumerate(indexes):
            bridge = number // 2 + 1
            if number % 2 == 0:
                api.command(f"create bridge-domain {bridge} learn 1 forward 1 uu-flood 1 flood 1 arp-term 0")
            api.call("sw_interface_set_l2_bridge", rx_sw_if_index=index, bd_id=bridge, enable=True)
    elif options.forwarding == "l2xc":
        for number, index in enumerate(indexes):
            sends = indexes[opposite(number, len(indexes))]
            api.call("sw_interface_set_l2_xconnect", rx_sw_if_index=index, tx_sw_if_index=sends, enable=True)
    else:
        _route(api, links, indexes, options)
    if options.acl_rules:
        _filter(api, indexes, options)
    _await_links(api, links)
    for command in options.commands:
        api.command(command)


def _create_interfaces(api: VppApi, links: Sequence[Link], options: VppOptions) -> list[int]:
    """Create the interfaces that have no PCI address, and return the indexes of all."""
    queues = receive_queues(options, len(links))
    for port in [link.device for link in links if not link.device.pci]:
        address = f" hw-addr {port.mac}" if port.mac else ""
        several = f" num-rx-queues {queues}" if queues > 1 else ""
        api.command(f"create host-interface name {port.interface}{address}{several}")
    known = api.interfaces()
    indexes = []
    for number, link in enumerate(links):
        name = vpp_name(number, link.device)
        if name not in known:
            raise TestbedError(
                f"vpp: no interface for PCI address {link.device.pci}: is the address right, the kernel's "
                "interface down, vfio-pci loaded, and no other VPP running (systemctl disable --now vpp)?"
            )
        index = known[name]["sw_if_index"]
        if link.device.mac and str(known[name]["l2_address"]) != link.device.mac:
            api.call("sw_interface_set_mac_address", sw_if_index=index, mac_address=link.device.mac)
        if options.frame_bytes > USUAL_LONGEST:
            api.command(f"set interface mtu {mtu(options.frame_bytes)} {name}")
        indexes.append(index)
    return indexes


def _set_up(api: VppApi, indexes: Sequence[int]) -> None:
    for index in indexes:
        api.call("sw_interface_set_flags", sw_if_index=index, flags=_ADMIN_UP)


def _end_tunnel(api: VppApi, link: Link, number: int, index: int, tunnel: str) -> int:
    """Create the tunnel of a port, and return the index of its interface, which VPP sets up."""
    network = IPv4Network((frames.TUNNEL_NETWORKS[number], 24))
    own, peer = IPv4Interface((network.network_address + 1, 24)), str(network.network_address + 2)
    _add_host(api, index, _Neighbour(own, peer, _next_hop(link, number)))
    ends = ("src_address", "dst_address") if tunnel == "vxlan" else ("local_address", "remote_address")
    created = api.call(
        _TUNNEL_MESSAGES[tunnel],
        is_add=True,
        vni=frames.TUNNEL_IDS[number],
        # The next node is that of L2; the default of the message, 0, drops the frames.
        decap_next_index=_UNSET,
        **dict(zip(ends, (str(own.ip), peer), strict=True)),
    )
    found: int = created["sw_if_index"]
    return found


def _await_links(api: VppApi, links: Sequence[Link]) -> None:
    """Wait until all ports have a link: without, all frames would be lost."""
    deadline = time.monotonic() + _LINK_S
    names = [vpp_name(number, link.device) for number, link in enumerate(links)]
    while True:
        known = api.interfaces()
        down = [name for name in names if not known[name]["flags"] & _LINK_UP]
        if not down:
            return
        if time.monotonic() > deadline:
            raise TestbedError(f"vpp: interface {down[0]} has no link; check the cable and the other end")
        time.sleep(0.1)


def _route(api: VppApi, links: Sequence[Link], indexes: Sequence[int], options: VppOptions) -> None:
    for number, (link, index) in enumerate(zip(links, indexes, strict=True)):
        host = _neighbour(link, number, options.ip_version)
        _add_host(api, index, host)
        if options.forwarding == "ip6":
            # Router advertisements would be counted as frames that the generator has not sent.
            api.call("sw_interface_ip6nd_ra_config", sw_if_index=index, suppress=1)
    for number in range(frames.count_networks(len(links))):
        network = _NETWORKS[options.ip_version][number]
        _add_consecutive_routes(api, network, 1, _via(links, number, options))
    add_routes(api, links, options, range(options.routes))


def _add_host(api: VppApi, index: int, host: _Neighbour) -> None:
    """Give an interface its address, and its neighbour."""
    api.call("sw_interface_add_del_address", sw_if_index=index, is_add=True, prefix=str(host.address))
    api.call(
        "ip_neighbor_add_del",
        is_add=True,
        neighbor={
            "sw_if_index": index,
            "flags": _STATIC,
            "mac_address": host.mac,
            "ip_address": host.neighbour,
        },
    )


def add_routes(api: VppApi, links: Sequence[Link], options: VppOptions, numbers: range) -> None:
    """Add routes to single addresses; the networks of the traffic take turns."""
    several = frames.count_networks(len(links))
    for number in range(several):
        via = _via(links, number, options)
        indexes = range(*((end + several - 1 - number) // several for end in (numbers.start, numbers.stop)))
        for network, count in _prefixes(number, options.ip_version, indexes):
            _add_consecutive_routes(api, network, count, via)


def _via(links: Sequence[Link], network: int, options: VppOptions) -> str:
    """Return the words of a route to hosts of a network of the traffic."""
    port = frames.port_of_network(network, len(links))
    tag = f".{vlan_of_link(options.vlans, port)}" if options.vlans else ""
    neighbour = _neighbour(links[port], port, options.ip_version).neighbour
    return f"via {neighbour} {vpp_name(port, links[port].device)}{tag}"


def _add_consecutive_routes(api: VppApi, network: Network, count: int, via: str) -> None:
    # A wrong prefix or a failure half-way is printed, and is no error.
    printed = api.command(f"ip route add {network} count {count} {via}", timeout_s=_BATCH_S).strip()
    if count > 1 and (printed.count("\n") or "routes/sec" not in printed):
        raise TestbedError(f"vpp: {count} routes from {network}: {' '.join(printed.split())[:200]}")


def _neighbour(link: Link, number: int, version: int) -> _Neighbour:
    """Return the addresses of a link."""
    own = ip_interface(_ADDRESSES[version].format(port=number))
    if link.device.ip and ip_interface(link.device.ip).version == version:
        own = ip_interface(link.device.ip)
    peer = own.ip + 1
    if link.generator.ip and ip_interface(link.generator.ip).version == version:
        peer = ip_interface(link.generator.ip).ip
    return _Neighbour(own, str(peer), _next_hop(link, number))


def _next_hop(link: Link, number: int) -> str:
    return link.next_hop or frames.host_mac(number).hex(":")


def _prefixes(number: int, version: int, routes: range) -> Iterator[tuple[Network, int]]:
    """Return routes to single addresses of a network: the first of some consecutive ones, and their number.

    The addresses of the traffic come first.
    """
    network = _NETWORKS[version][number]
    within = network.num_addresses
    yield from _batches(network, range(routes.start, min(routes.stop, within)))
    yield from _batches(
        _MORE_IP4_NETWORKS[number], range(max(routes.start - within, 0), routes.stop - within)
    )


def _batches(network: Network, routes: range) -> Iterator[tuple[Network, int]]:
    for first in routes[::_BATCH]:
        yield ip_network(network.network_address + first), min(_BATCH, routes.stop - first)


def _filter(api: VppApi, indexes: Sequence[int], options: VppOptions) -> None:
    """Apply an access list to what the ports receive: rules that match nothing, and one that permits all."""
    source, everything = ("fd00::", "::/0") if options.forwarding == "ip6" else ("192.168.0.0", "0.0.0.0/0")
    first = ip_interface(source).ip
    rules = [
        {
            "is_permit": _DENY,
            "src_prefix": str(ip_network(first + number)),
            "dst_prefix": everything,
            "proto": _UDP,
            "srcport_or_icmptype_last": 65_535,
            "dstport_or_icmpcode_first": 9_000 + number,
            "dstport_or_icmpcode_last": 9_000 + number,
        }
        for number in range(options.acl_rules)
    ]
    rules.append(
        {
            "is_permit": _PERMIT,
            "src_prefix": everything,
            "dst_prefix": everything,
            "srcport_or_icmptype_last": 65_535,
            "dstport_or_icmpcode_last": 65_535,
        }
    )
    added = api.call("acl_add_replace", acl_index=_UNSET, tag="perftrend", count=len(rules), r=rules)
    for index in indexes:
        api.call(
            "acl_interface_set_acl_list", sw_if_index=index, count=1, n_input=1, acls=[added["acl_index"]]
        )
