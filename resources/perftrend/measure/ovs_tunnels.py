"""Tunnels of Open vSwitch, which its datapath in user space begins and ends itself.

Each port has a bridge of its own, whose interface has the device's address in the network of the tunnel. A
frame of the tunnel that the bridge sends to this interface leaves the tunnel, and enters the bridge that
forwards. On the way back, the switch finds the bridge by the route of Linux to the other end of the tunnel.

Source: "Open vSwitch with Userspace Tunneling" of the Open vSwitch documentation.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from ipaddress import IPv4Address

from perftrend.measure.embedded import frames
from perftrend.measure.interfaces import Link

_LONGEST_AGE_S = 3600
"""How long the switch retains a neighbour that it sends nothing to: as long as it can."""


def outer_bridge(number: int) -> str:
    """Return the name of the bridge of a port, and of its interface."""
    return f"perftrend{number}"


def port_name(number: int) -> str:
    """Return the name of the tunnel of a port."""
    return f"tunnel{number}"


def ports(bridge: str, tunnel: str, count: int) -> list[str]:
    """Return the arguments of ``ovs-vsctl`` that add so many tunnels to the bridge that forwards.

    There they have the numbers that the ports have in a test without tunnels.
    """
    words = []
    for number, identifier in enumerate(frames.TUNNEL_IDS[:count]):
        name = port_name(number)
        words += ["--", "add-port", bridge, name, "--", "set", "interface", name]
        words += [f"type={tunnel}", f"ofport_request={number + 1}"]
        words += [f"options:remote_ip={_address(number, 2)}", f"options:key={identifier}"]
    return words


def addresses(links: Sequence[Link]) -> Iterator[Sequence[str]]:
    """Generate the commands that give the bridges their addresses."""
    for number in range(len(links)):
        bridge = outer_bridge(number)
        yield ["ip", "address", "add", f"{_address(number, 1)}/24", "dev", bridge]
        yield ["ip", "link", "set", bridge, "up"]


def neighbours(links: Sequence[Link]) -> Iterator[Sequence[str]]:
    """Generate the commands of ``ovs-appctl`` that set the other ends, so that the switch looks for none."""
    yield ["tnl/neigh/aging", str(_LONGEST_AGE_S)]
    for number, link in enumerate(links):
        yield ["tnl/neigh/set", outer_bridge(number), _address(number, 2), link.next_hop]


def rules(options: Mapping[str, str]) -> Sequence[str]:
    """Return the rules of the bridge of a port: it forwards what is in the tunnel, and nothing else.

    Linux also sends frames through the interface of the bridge.
    """
    match = f"udp,udp_dst={frames.TUNNEL_PORTS[options['tunnel']]}"
    has_tag, strip, tag = "", "", ""
    if (vlan := options.get("vlan", "0")) != "0":
        has_tag, strip, tag = f"dl_vlan={vlan},", "strip_vlan,", f"mod_vlan_vid:{vlan},"
    return (
        f"{match},{has_tag}in_port=1,actions={strip}LOCAL",
        f"{match},in_port=LOCAL,actions={tag}output:1",
    )


def _address(number: int, host: int) -> str:
    """Return an address in the network of a port's tunnel: that of the device is 1, of the other end 2."""
    return str(IPv4Address(frames.TUNNEL_NETWORKS[number] + host))
