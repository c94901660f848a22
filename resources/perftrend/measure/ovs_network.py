"""The rules and tunnels by which Open vSwitch forwards as a test requires.

Rules are in the syntax of ``ovs-ofctl``. Forwarding has priority 1, routes have 2, and access lists 3.

The datapath in user space begins and ends tunnels itself. Each port then has a bridge of its own, whose
interface has the device's address in the network of the tunnel. A frame of the tunnel that the bridge sends
to this interface leaves the tunnel, and enters the bridge that forwards. On the way back, the switch finds
the bridge by the route of Linux to the other end of the tunnel.

Source: "Open vSwitch with Userspace Tunneling" of the Open vSwitch documentation.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address
from pathlib import Path

from perftrend import errors
from perftrend.measure.embedded import frames
from perftrend.measure.interfaces import Link
from perftrend.measure.traffic import DEFAULT_FLOWS, TUNNELS, opposite, parse_vlans, vlan_of_link

_BAD_LINE = re.compile(r"ovs-ofctl: -:(\d+): (.+)")
_REFUSED_RULE = re.compile(r"Error (OFP\w+) for: OFPT_FLOW_MOD .*?: [A-Z_]+ (.+)")
_LONGEST_AGE_S = 3600
"""How long the switch retains a neighbour that it sends nothing to: as long as it can."""


def rules(links: Sequence[Link], options: Mapping[str, str]) -> Iterator[str]:
    """Generate the OpenFlow rules for the options of a test."""
    forwarding = options.get("forwarding", "ip4")
    vlans = _inner_vlans(options)
    for number in range(sum(int(options.get(name, "0")) for name in ("acl_rules", "base_rules"))):
        yield _acl_rule(number, len(links), vlans, is_ip6=forwarding == "ip6")
    if forwarding == "l2":
        yield f"priority=1,{_match(vlans, 0)}actions=NORMAL"
        return
    kind = {"ip4": "ip,", "ip6": "ipv6,", "l2xc": ""}[forwarding]
    for number in range(len(links)):
        port = opposite(number, len(links))
        actions = _output(links, port) if forwarding == "l2xc" else _send(links, port)
        match = f"{kind}{_match(vlans, number)}in_port={number + 1}"
        yield f"priority=1,{match},actions={_change(vlans, number, port)}{actions}"


def route(links: Sequence[Link], number: int, options: Mapping[str, str]) -> str:
    """Return the rule of a route to a single host. It overrides the rule of its port, which does the same."""
    is_ip6 = options.get("forwarding") == "ip6"
    kind, field = ("ipv6", "ipv6_dst") if is_ip6 else ("ip", "nw_dst")
    address, network = frames.route(number, len(links), is_ip6=is_ip6)
    port = frames.port_of_network(network, len(links))
    source, vlans = opposite(port, len(links)), _inner_vlans(options)
    match = f"{kind},{_match(vlans, source)}in_port={source + 1},{field}={address}"
    return f"priority=2,{match},actions={_change(vlans, source, port)}{_send(links, port)}"


def _inner_vlans(options: Mapping[str, str]) -> Sequence[int]:
    """Return the VLANs of the frames that are forwarded: frames in a tunnel have none."""
    return parse_vlans(options) if options.get("tunnel", TUNNELS[0]) == TUNNELS[0] else ()


def _match(vlans: Sequence[int], number: int) -> str:
    """Return the match of the VLAN of a port; empty if there is none."""
    return f"dl_vlan={vlan_of_link(vlans, number)}," if vlans else ""


def _change(vlans: Sequence[int], source: int, target: int) -> str:
    """Return the action that changes the VLAN of a port to that of another; empty if it is the same."""
    vlan = vlan_of_link(vlans, target)
    return f"mod_vlan_vid:{vlan}," if vlan != vlan_of_link(vlans, source) else ""


def _send(links: Sequence[Link], number: int) -> str:
    """Return the actions that route a packet to the hosts behind a port."""
    return (
        f"mod_dl_src:{links[number].device.mac},mod_dl_dst:{links[number].next_hop},dec_ttl,"
        f"{_output(links, number)}"
    )


def _output(links: Sequence[Link], number: int) -> str:
    """Return the action that sends a packet to a port; the one that it came from has a name of its own."""
    return "in_port" if opposite(number, len(links)) == number else f"output:{number + 1}"


def _acl_rule(number: int, links: int, vlans: Sequence[int], *, is_ip6: bool) -> str:
    """Return a rule that drops no frame of the traffic, but gives the flow of one host a mask of its own.

    The hosts of all networks take turns. A rule compares a port with 1025 by its highest and its lowest
    bit, which frames of port 1024 fail, and by further bits, which only this rule has.
    """
    index, side = divmod(number, frames.count_networks(links))
    host = frames.FIRST_HOST + index % DEFAULT_FLOWS
    own_bits = index + 1
    mask = 0x0401 | own_bits % 512 << 1 | own_bits // 512 << 11
    if is_ip6:
        source = f"udp6,ipv6_src={frames.IP6_NETWORKS[side].network_address + host}"
    else:
        source = f"udp,nw_src={IPv4Address(frames.NETWORKS[side]) + host}"
    tag = _match(vlans, frames.port_of_network(side, links))
    return f"priority=3,{tag}{source},udp_src=1025/{mask:#06x},actions=drop"


def read_flows(path: str) -> str:
    """Return the rules of a file. :raises SettingsError: if it cannot be read."""
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise errors.SettingsError(
            f"device option flows={path!r}: {reason}; give the path of a file of OpenFlow rules"
        ) from None


def parse_flow_error(text: str) -> str:
    """Parse what ``ovs-ofctl add-flows`` wrote: return which rule is wrong and why; empty if none is.

    The program itself names the line that it cannot read. The switch refuses others, such as one with an
    unknown group, and names the rule.
    """
    if line := _BAD_LINE.search(text):
        return f"line {line[1]}: {line[2]}"
    if rule := _REFUSED_RULE.search(text):
        return f"rule {rule[2]}: the switch refuses it ({rule[1]})"
    return ""


def outer_bridge(number: int) -> str:
    """Return the name of the bridge of a port, and of its interface."""
    return f"perftrend{number}"


def tunnel_name(number: int) -> str:
    """Return the name of the tunnel of a port."""
    return f"tunnel{number}"


def tunnel_ports(bridge: str, tunnel: str, count: int) -> list[str]:
    """Return the arguments of ``ovs-vsctl`` that add so many tunnels to the bridge that forwards.

    There they have the numbers that the ports have in a test without tunnels.
    """
    words = []
    for number, identifier in enumerate(frames.TUNNEL_IDS[:count]):
        name = tunnel_name(number)
        words += ["--", "add-port", bridge, name, "--", "set", "interface", name]
        words += [f"type={tunnel}", f"ofport_request={number + 1}"]
        words += [f"options:remote_ip={_tunnel_address(number, 2)}", f"options:key={identifier}"]
    return words


def tunnel_addresses(links: Sequence[Link]) -> Iterator[Sequence[str]]:
    """Generate the commands that give the bridges the addresses of the tunnels."""
    for number in range(len(links)):
        bridge = outer_bridge(number)
        yield ["ip", "address", "add", f"{_tunnel_address(number, 1)}/24", "dev", bridge]
        yield ["ip", "link", "set", bridge, "up"]


def tunnel_neighbours(links: Sequence[Link]) -> Iterator[Sequence[str]]:
    """Generate the commands of ``ovs-appctl`` that set the other ends, so that the switch looks for none."""
    yield ["tnl/neigh/aging", str(_LONGEST_AGE_S)]
    for number, link in enumerate(links):
        yield ["tnl/neigh/set", outer_bridge(number), _tunnel_address(number, 2), link.next_hop]


def tunnel_rules(number: int, options: Mapping[str, str]) -> Sequence[str]:
    """Return the rules of the bridge of a port: it forwards what is in the tunnel, and nothing else.

    Linux also sends frames through the interface of the bridge.
    """
    match = f"udp,udp_dst={frames.TUNNEL_PORTS[options['tunnel']]}"
    has_tag, strip, tag = "", "", ""
    if vlan := vlan_of_link(parse_vlans(options), number):
        has_tag, strip, tag = f"dl_vlan={vlan},", "strip_vlan,", f"mod_vlan_vid:{vlan},"
    return (
        f"{match},{has_tag}in_port=1,actions={strip}LOCAL",
        f"{match},in_port=LOCAL,actions={tag}output:1",
    )


def _tunnel_address(number: int, host: int) -> str:
    """Return an address in the network of a port's tunnel: that of the device is 1, of the other end 2."""
    return str(IPv4Address(frames.TUNNEL_NETWORKS[number] + host))
