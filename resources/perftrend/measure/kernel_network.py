"""The commands by which Linux forwards as a test requires, and those that remove all of it again.

The machine may have other interfaces, such as the one that the job reaches it by. So everything that is
created has a name of its own, routes that exist are not replaced, and parameters are those of the ports as
far as Linux allows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address

from perftrend.measure.embedded import frames
from perftrend.measure.interfaces import Link
from perftrend.measure.traffic import (
    ETHERNET_BYTES,
    TUNNEL_BYTES,
    USUAL_LONGEST,
    mtu,
    opposite,
    parse_frame_bytes,
    parse_vlans,
    vlan_of_link,
)

Command = Sequence[str]

_IP4_GATEWAYS, _IP6_GATEWAYS = "192.0.2.{}", "2001:2::{}"
"""One neighbour per port represents all hosts behind it, so that flows add no neighbour entries."""
_VLAN, _TUNNEL, _BRIDGE = "perftrend-vlan{}", "perftrend-tun{}", "perftrend-br{}"
"""The names of interfaces; 15 characters are the most."""
_TABLE = "perftrend"
EXAMPLES = {
    "vlan": "link add link parent type vlan id 1",
    "vxlan": "link add type vxlan id 1 remote 192.0.2.1 dstport 4789",
    "geneve": "link add type geneve id 1 remote 192.0.2.1",
}
"""A command of ``ip`` that creates an interface of each kind."""
_SET = 'if [ -e "/proc/sys/$1" ]; then echo "$2" > "/proc/sys/$1"; fi'
_PORT_PARAMETERS = (
    "net/ipv4/conf/{}/forwarding",
    "net/ipv4/conf/{}/rp_filter",
    "net/ipv4/conf/{}/send_redirects",
    "net/ipv6/conf/{}/addr_gen_mode",
    "net/ipv6/conf/{}/disable_ipv6",
)
_PARAMETERS = (
    "net/ipv4/conf/all/rp_filter",
    "net/ipv4/conf/all/send_redirects",
    "net/ipv6/conf/all/forwarding",
)


def parameters(links: Sequence[Link]) -> list[str]:
    """Return the names of the kernel's parameters that the commands change, except of what they create."""
    own = [name.format(link.device.interface) for link in links for name in _PORT_PARAMETERS]
    return [*_PARAMETERS, *own]


def commands(options: Mapping[str, str], links: Sequence[Link]) -> Iterator[Command]:
    """Generate the commands for the options of a test, to be run in the network of the device."""
    ends = _ends(options, links)
    # Only once lo is up, a namespace has a table of local addresses, without which no gateway is valid.
    yield ["ip", "link", "set", "lo", "up"]
    for link in links:
        # An interface with IPv6 reports its multicast groups and looks for routers.
        yield _sysctl(f"net/ipv6/conf/{link.device.interface}/disable_ipv6", "1")
    if vlans := parse_vlans(options):
        for number, (end, link) in enumerate(zip(ends, links, strict=True)):
            kind = ["type", "vlan", "id", str(vlan_of_link(vlans, number))]
            yield from _create(end, kind, parent=link.device.interface)
            yield ["ip", "link", "set", end, "arp", "off", "up"]
    if (tunnel := options.get("tunnel", "none")) != "none":
        yield from _end_tunnels(tunnel, ends, links)
        ends = [_TUNNEL.format(port) for port in range(len(ends))]
        if (frame_bytes := parse_frame_bytes(options)) > USUAL_LONGEST:
            for end in ends:
                # Linux does not derive it from the interface below.
                inner = str(mtu(frame_bytes) - ETHERNET_BYTES - TUNNEL_BYTES)
                yield ["ip", "link", "set", end, "mtu", inner]
    forwarding = options.get("forwarding", "ip4")
    if forwarding in {"l2", "l2xc"}:
        yield from _bridge(ends, is_learning=forwarding == "l2")
    else:
        yield from _route(ends, links, is_ip6=forwarding == "ip6")


def _ends(options: Mapping[str, str], links: Sequence[Link]) -> Sequence[str]:
    """Return the interfaces that receive the traffic, without its tag."""
    has_tag = bool(parse_vlans(options))
    return [_VLAN.format(port) if has_tag else link.device.interface for port, link in enumerate(links)]


def _create(name: str, kind: Sequence[str], parent: str = "") -> Iterator[Command]:
    """Create an interface that sends nothing by itself."""
    yield ["ip", "link", "add", *(["link", parent] if parent else []), "name", name, *kind]
    yield _sysctl(f"net/ipv6/conf/{name}/disable_ipv6", "1")


def needed_interfaces(options: Mapping[str, str]) -> Sequence[str]:
    """Return the kinds of interfaces that a test needs, and that a kernel may lack."""
    tunnel = options.get("tunnel", "none")
    return [*(["vlan"] if parse_vlans(options) else []), *([tunnel] if tunnel != "none" else [])]


def cleanup(links: Sequence[Link]) -> Iterator[Command]:
    """Generate commands that remove all that those of :func:`commands` create; each may fail."""
    for family in ("ip", "ip6"):
        yield ["nft", "delete", "table", family, _TABLE]
    for port, link in enumerate(links):
        interface = link.device.interface
        if port % 2 == 0:
            yield ["ip", "link", "delete", _BRIDGE.format(port // 2)]
        yield ["ip", "link", "delete", _TUNNEL.format(port)]
        yield ["ip", "link", "delete", _VLAN.format(port)]
        yield ["ip", "address", "delete", f"{_tunnel_address(port, 1)}/24", "dev", interface]
        for family in ("-4", "-6"):
            # Other programs that add routes say who they are.
            yield ["ip", family, "route", "flush", "dev", interface, "proto", "boot"]
            yield ["ip", family, "neigh", "flush", "dev", interface, "nud", "permanent"]


def rules(options: Mapping[str, str], links: Sequence[Link]) -> str:
    """Return the rules of nftables: an access list that no frame of the traffic matches, and silence.

    Linux reports errors and its multicast groups to others by ICMP.
    """
    family, icmp = ("ip6", "icmpv6") if options.get("forwarding") == "ip6" else ("ip", "icmp")
    count = sum(int(options.get(name, "0")) for name in ("acl_rules", "base_rules"))
    lines = [f"table {family} {_TABLE} {{", "  chain forward {", "    type filter hook forward priority 0;"]
    for number in range(count):
        host = f"fd00::{number:x}" if family == "ip6" else str(IPv4Address("192.168.0.0") + number)
        lines.append(f"    {family} saddr {host} udp dport {9000 + number} drop")
    ends = ", ".join(f'"{name}"' for name in _ends(options, links))
    lines += ["  }", "  chain output {", "    type filter hook output priority 0;"]
    return "\n".join([*lines, f"    oifname {{ {ends} }} meta l4proto {icmp} drop", "  }", "}"])


def _end_tunnels(tunnel: str, ends: Sequence[str], links: Sequence[Link]) -> Iterator[Command]:
    for port, end in enumerate(ends):
        own, peer = (_tunnel_address(port, host) for host in (1, 2))
        kind = ["type", tunnel, "id", str(frames.TUNNEL_IDS[port]), "remote", peer]
        kind += ["dstport", str(frames.TUNNEL_PORTS[tunnel])]
        yield _sysctl(f"net/ipv4/conf/{end}/rp_filter", "0")
        yield ["ip", "address", "add", f"{own}/24", "dev", end]
        yield _neighbour(peer, links[port], end)
        name = _TUNNEL.format(port)
        yield from _create(name, [*kind, *(["local", own] if tunnel == "vxlan" else [])])
        yield ["ip", "link", "set", name, "up"]


def _tunnel_address(port: int, host: int) -> str:
    return str(IPv4Address(frames.TUNNEL_NETWORKS[port] + host))


def _bridge(ends: Sequence[str], *, is_learning: bool) -> Iterator[Command]:
    """Bridge the ports of each pair; without learning, a bridge sends each frame on to the other port.

    A port without another one sends it back.
    """
    for port, end in enumerate(ends):
        bridge = _BRIDGE.format(port // 2)
        if port % 2 == 0:
            yield from _create(bridge, ["type", "bridge", "mcast_snooping", "0"])
            yield ["ip", "link", "set", bridge, "up"]
        yield ["ip", "link", "set", end, "master", bridge]
        if not is_learning:
            yield ["bridge", "link", "set", "dev", end, "learning", "off"]
        if opposite(port, len(ends)) == port:
            yield ["bridge", "link", "set", "dev", end, "hairpin", "on"]


def _route(ends: Sequence[str], links: Sequence[Link], *, is_ip6: bool) -> Iterator[Command]:
    if is_ip6:
        networks = [str(network) for network in frames.IP6_NETWORKS]
        # Linux has no such parameter for an interface.
        yield _sysctl("net/ipv6/conf/all/forwarding", "1")
    else:
        networks = [f"{IPv4Address(network)}/16" for network in frames.NETWORKS]
        # The parameters of all interfaces apply to each one as well.
        yield _sysctl("net/ipv4/conf/all/send_redirects", "0")
        yield _sysctl("net/ipv4/conf/all/rp_filter", "0")
    for port, end in enumerate(ends):
        if is_ip6:
            # Without an address of the link, Linux does not look for routers or for others with its address.
            yield _sysctl(f"net/ipv6/conf/{end}/addr_gen_mode", "1")
            yield _sysctl(f"net/ipv6/conf/{end}/disable_ipv6", "0")
        else:
            yield _sysctl(f"net/ipv4/conf/{end}/forwarding", "1")
            yield _sysctl(f"net/ipv4/conf/{end}/rp_filter", "0")
            # A router reports to hosts that send it what others behind the same port should get.
            yield _sysctl(f"net/ipv4/conf/{end}/send_redirects", "0")
        yield _neighbour(_gateway(port, is_ip6=is_ip6), links[port], end)
    for number in range(frames.count_networks(len(links))):
        yield ["ip", "route", "add", networks[number], *_way(number, ends, is_ip6=is_ip6)]


def routes(numbers: Iterable[int], options: Mapping[str, str], links: Sequence[Link]) -> str:
    """Return the commands, for ``ip -batch``, that add routes to single hosts of the traffic."""
    is_ip6 = options.get("forwarding") == "ip6"
    count, ends = len(links), _ends(options, links)
    ways = [" ".join(_way(network, ends, is_ip6=is_ip6)) for network in range(frames.count_networks(count))]
    added = (frames.route(number, count, is_ip6=is_ip6) for number in numbers)
    return "\n".join(f"route add {address} {ways[network]}" for address, network in added)


def _way(network: int, ends: Sequence[str], *, is_ip6: bool) -> list[str]:
    """Return the words of a route to a network of the traffic, or to one of its hosts."""
    port = frames.port_of_network(network, len(ends))
    return ["via", _gateway(port, is_ip6=is_ip6), "dev", ends[port], "onlink"]


def _gateway(port: int, *, is_ip6: bool) -> str:
    return (_IP6_GATEWAYS if is_ip6 else _IP4_GATEWAYS).format(port + 1)


def _neighbour(address: str, link: Link, interface: str) -> Command:
    return ["ip", "neigh", "replace", address, "lladdr", link.next_hop, "dev", interface, "nud", "permanent"]


def _sysctl(name: str, value: str) -> Command:
    """Return the command that sets a kernel parameter if the kernel has it."""
    return ["sh", "-c", _SET, "sh", name, value]
