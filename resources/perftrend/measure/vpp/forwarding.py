"""The configuration of a started VPP: interfaces, addresses, neighbours, routes, bridges and access lists.

It consists of messages of the binary API, which report every failure. Commands are used where VPP has
replaced a message by newer versions of it, and for routes, because one command adds as many as a million
messages.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from ipaddress import IPv4Interface, IPv4Network, IPv6Interface, IPv6Network, ip_interface, ip_network

from perftrend.errors import TestbedError
from perftrend.measure.embedded import frames
from perftrend.measure.interfaces import Link
from perftrend.measure.traffic import opposite
from perftrend.measure.vpp.api import VppApi
from perftrend.measure.vpp.options import VppOptions, receive_queues, vpp_name

Address = IPv4Interface | IPv6Interface
Network = IPv4Network | IPv6Network

IP4_NETWORKS = tuple(IPv4Network((first, 16)) for first in frames.NETWORKS)
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
_NEW = 0xFFFFFFFF


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
    for index in indexes:
        api.call("sw_interface_set_flags", sw_if_index=index, flags=_ADMIN_UP)
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
        indexes.append(index)
    return indexes


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
    version = 6 if options.forwarding == "ip6" else 4
    for number, (link, index) in enumerate(zip(links, indexes, strict=True)):
        host = _neighbour(link, number, version)
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
        if version == 6:  # noqa: PLR2004
            # Router advertisements would be counted as frames that the generator has not sent.
            api.call("sw_interface_ip6nd_ra_config", sw_if_index=index, suppress=1)
    networks: Sequence[Network] = frames.IP6_NETWORKS if version == 6 else IP4_NETWORKS  # noqa: PLR2004
    for number in range(frames.count_networks(len(links))):
        _add_consecutive_routes(api, networks[number], 1, _via(links, number, version))
    add_routes(api, links, version, range(options.routes))


def add_routes(api: VppApi, links: Sequence[Link], version: int, numbers: range) -> None:
    """Add routes to single addresses; the networks of the traffic take turns.

    :param version: of IP.
    """
    several = frames.count_networks(len(links))
    for number in range(several):
        via = _via(links, number, version)
        indexes = range(*((end + several - 1 - number) // several for end in (numbers.start, numbers.stop)))
        for network, count in _prefixes(number, version, indexes):
            _add_consecutive_routes(api, network, count, via)


def _via(links: Sequence[Link], network: int, version: int) -> str:
    """Return the words of a route to hosts of a network of the traffic."""
    port = frames.port_of_network(network, len(links))
    return f"via {_neighbour(links[port], port, version).neighbour} {vpp_name(port, links[port].device)}"


def _add_consecutive_routes(api: VppApi, network: Network, count: int, via: str) -> None:
    # A wrong prefix or a failure half-way is printed, and is no error.
    printed = api.command(f"ip route add {network} count {count} {via}", timeout_s=_BATCH_S).strip()
    if count > 1 and (printed.count("\n") or "routes/sec" not in printed):
        raise TestbedError(f"vpp: {count} routes from {network}: {' '.join(printed.split())[:200]}")


def _neighbour(link: Link, number: int, version: int) -> _Neighbour:
    """Return the addresses of a link, those of benchmarking (RFC 2544, RFC 5180) if the file has none."""
    own = ip_interface(f"198.18.{number}.1/24" if version == 4 else f"2001:2:0:{number}::1/64")  # noqa: PLR2004
    if link.device.ip and ip_interface(link.device.ip).version == version:
        own = ip_interface(link.device.ip)
    peer = own.ip + 1
    if link.generator.ip and ip_interface(link.generator.ip).version == version:
        peer = ip_interface(link.generator.ip).ip
    return _Neighbour(own, str(peer), link.next_hop or frames.host_mac(number).hex(":"))


def _prefixes(number: int, version: int, routes: range) -> Iterator[tuple[Network, int]]:
    """Return routes to single addresses of a network: the first of some consecutive ones, and their number.

    The addresses of the traffic come first.
    """
    networks: Sequence[Network] = frames.IP6_NETWORKS if version == 6 else IP4_NETWORKS  # noqa: PLR2004
    within = networks[number].num_addresses
    yield from _batches(networks[number], range(routes.start, min(routes.stop, within)))
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
    added = api.call("acl_add_replace", acl_index=_NEW, tag="perftrend", count=len(rules), r=rules)
    for index in indexes:
        api.call(
            "acl_interface_set_acl_list", sw_if_index=index, count=1, n_input=1, acls=[added["acl_index"]]
        )
