"""The Linux kernel as the device: it forwards between veth pairs and applies nftables rules.

Over plain veth pairs the kernel would forward inside the sender's system call: it would never drop a frame,
but slow down the generator. Threaded NAPI moves the work to separate kernel threads, which are pinned to the
device's core. A queue in front of them drops the frames that they do not process in time, as the ring of a
real device does.
"""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import IPv4Address
from pathlib import Path

from typing_extensions import override

from perftrend import errors
from perftrend.measure.embedded import frames
from perftrend.measure.interfaces import (
    Counters,
    Device,
    DeviceAbilities,
    Link,
    Node,
    Wiring,
    added_routes,
    check_options,
)
from perftrend.measure.traffic import (
    ETHERNET_BYTES,
    FORWARDINGS,
    LONGEST,
    TUNNEL_BYTES,
    USUAL_LONGEST,
    mtu,
    parse_frame_bytes,
    parse_vlans,
    vlan_of_link,
)
from perftrend.measure.wiring import run

Command = Sequence[str]

_IP4_GATEWAYS, _IP6_GATEWAYS = "192.0.2.{}", "2001:2::{}"
"""One neighbour per port represents all hosts behind it, so that flows add no neighbour entries."""
_EXAMPLES = {
    "vlan": "link add link parent type vlan id 1",
    "vxlan": "link add type vxlan id 1 remote 192.0.2.1 dstport 4789",
    "geneve": "link add type geneve id 1 remote 192.0.2.1",
}
"""A command of ``ip`` that creates an interface of each kind."""
_SET = 'if [ -e "/proc/sys/$1" ]; then echo "$2" > "/proc/sys/$1"; fi'

_PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables", "ethtool": "ethtool"}
_NUMBERS = {"base_rules": range(10_001)}
_ABILITIES = DeviceAbilities(
    "Linux",
    FORWARDINGS,
    one_link=("ip4", "ip6", "l2xc"),
    acl_rules=FORWARDINGS,
    routes=("ip4", "ip6"),
    tunnel=("vxlan", "geneve"),
    vlan=True,
    vlan_per_link=FORWARDINGS,
    longest_frame=LONGEST,
)
"""The rules apply to routed frames only: a user may set ``acl_rules`` for tests of both kinds."""
_QUEUE_FRAMES = 4096
_ROUTES_S = 300.0
"""Enough for 2,000,000 routes, of which each takes about 50 microseconds."""


def commands(options: Mapping[str, str], links: Sequence[Link]) -> Iterator[Command]:
    """Generate the commands for the options of a test, to be run in the network of the device."""
    ends = _ends(options, links)
    # Only once lo is up, the namespace has a table of local addresses, without which no gateway is valid.
    yield ["ip", "link", "set", "lo", "up"]
    if vlans := parse_vlans(options):
        for number, (end, link) in enumerate(zip(ends, links, strict=True)):
            kind = ["type", "vlan", "id", str(vlan_of_link(vlans, number))]
            yield ["ip", "link", "add", "link", link.device.interface, "name", end, *kind]
            yield ["ip", "link", "set", end, "arp", "off", "up"]
    if (tunnel := options.get("tunnel", "none")) != "none":
        yield from _end_tunnels(tunnel, ends, links)
        if (frame_bytes := parse_frame_bytes(options)) > USUAL_LONGEST:
            for port in range(len(ends)):
                # Linux does not derive it from the interface below.
                inner = str(mtu(frame_bytes) - ETHERNET_BYTES - TUNNEL_BYTES)
                yield ["ip", "link", "set", f"tunnel{port}", "mtu", inner]
        ends = [f"tunnel{port}" for port in range(len(ends))]
    forwarding = options.get("forwarding", "ip4")
    if forwarding in {"l2", "l2xc"}:
        yield from _bridge(ends, is_learning=forwarding == "l2")
    else:
        yield from _route(ends, links, is_ip6=forwarding == "ip6")


def _ends(options: Mapping[str, str], links: Sequence[Link]) -> Sequence[str]:
    """Return the interfaces that receive the traffic, without its tag."""
    has_tag = bool(parse_vlans(options))
    return [f"vlan{port}" if has_tag else link.device.interface for port, link in enumerate(links)]


def missing_interface(options: Mapping[str, str]) -> str:
    """Return the kind of interface that a test needs and this kernel lacks; empty if it has all."""
    needed = ["vlan"] if parse_vlans(options) else []
    if (tunnel := options.get("tunnel", "none")) != "none":
        needed.append(tunnel)
    return next((kind for kind in needed if not _has_interfaces(kind)), "")


def _has_interfaces(kind: str) -> bool:
    try:
        # The loopback interface cannot have a VLAN, on any kernel.
        run(["unshare", "--net", "ip", "-batch", "-"], f"link add parent type veth\n{_EXAMPLES[kind]}\n")
    except errors.TestbedError:
        return False
    return True


def cleanup(links: Sequence[Link]) -> Iterator[Command]:
    """Generate commands that remove all that those of :func:`commands` create; each may fail."""
    yield ["nft", "flush", "ruleset"]
    for port, link in enumerate(links):
        interface = link.device.interface
        if port % 2 == 0:
            yield ["ip", "link", "delete", f"br{port // 2}"]
        yield ["ip", "link", "delete", f"tunnel{port}"]
        yield ["ip", "link", "delete", f"vlan{port}"]
        yield ["ip", "address", "flush", "dev", interface]
        yield _sysctl(f"net/ipv6/conf/{interface}/disable_ipv6", "1")
    # IPv6 has lost its routes with the interfaces.
    yield ["ip", "route", "flush", "proto", "boot"]
    yield ["ip", "neigh", "flush", "nud", "permanent"]


def rules(options: Mapping[str, str]) -> str:
    """Return the rules of nftables: an access list that no frame of the traffic matches, and silence.

    Linux reports errors and its multicast groups to others by ICMP.
    """
    family, icmp = ("ip6", "icmpv6") if options.get("forwarding") == "ip6" else ("ip", "icmp")
    count = sum(int(options.get(name, "0")) for name in ("acl_rules", "base_rules"))
    lines = [f"table {family} perftrend {{", "  chain forward {", "    type filter hook forward priority 0;"]
    for number in range(count):
        host = f"fd00::{number:x}" if family == "ip6" else str(IPv4Address("192.168.0.0") + number)
        lines.append(f"    {family} saddr {host} udp dport {9000 + number} drop")
    lines += ["  }", "  chain output {", "    type filter hook output priority 0;"]
    return "\n".join([*lines, f"    meta l4proto {icmp} drop", "  }", "}"])


def _end_tunnels(tunnel: str, ends: Sequence[str], links: Sequence[Link]) -> Iterator[Command]:
    for port, end in enumerate(ends):
        network = IPv4Address(frames.TUNNEL_NETWORKS[port])
        own, peer = str(network + 1), str(network + 2)
        kind = ["type", tunnel, "id", str(frames.TUNNEL_IDS[port]), "remote", peer]
        kind += ["dstport", str(frames.TUNNEL_PORTS[tunnel])]
        yield _sysctl(f"net/ipv4/conf/{end}/rp_filter", "0")
        yield ["ip", "address", "add", f"{own}/24", "dev", end]
        yield _neighbour(peer, links[port], end)
        yield ["ip", "link", "add", f"tunnel{port}", *kind, *(["local", own] if tunnel == "vxlan" else [])]
        yield ["ip", "link", "set", f"tunnel{port}", "up"]


def _bridge(ends: Sequence[str], *, is_learning: bool) -> Iterator[Command]:
    """Bridge the ports of each pair; without learning, a bridge sends each frame on to the other port.

    A single port sends it back.
    """
    for port, end in enumerate(ends):
        bridge = f"br{port // 2}"
        if port % 2 == 0:
            yield ["ip", "link", "add", bridge, "type", "bridge", "mcast_snooping", "0"]
            yield ["ip", "link", "set", bridge, "up"]
        yield ["ip", "link", "set", end, "master", bridge]
        if not is_learning:
            yield ["bridge", "link", "set", "dev", end, "learning", "off"]
        if len(ends) == 1:
            yield ["bridge", "link", "set", "dev", end, "hairpin", "on"]


def _route(ends: Sequence[str], links: Sequence[Link], *, is_ip6: bool) -> Iterator[Command]:
    if is_ip6:
        networks = [str(network) for network in frames.IP6_NETWORKS]
        yield _sysctl("net/ipv6/conf/all/forwarding", "1")
    else:
        networks = [f"{IPv4Address(network)}/16" for network in frames.NETWORKS]
        # A router reports to hosts that send it what others behind the same port should get.
        yield _sysctl("net/ipv4/conf/all/send_redirects", "0")
        yield _sysctl("net/ipv4/ip_forward", "1")
        yield _sysctl("net/ipv4/conf/all/rp_filter", "0")
    for port, end in enumerate(ends):
        if is_ip6:
            # Without an address of the link, Linux does not look for routers or for others with its address.
            yield ["ip", "link", "set", end, "addrgenmode", "none"]
            yield _sysctl(f"net/ipv6/conf/{end}/disable_ipv6", "0")
        else:
            yield _sysctl(f"net/ipv4/conf/{end}/rp_filter", "0")
            yield _sysctl(f"net/ipv4/conf/{end}/send_redirects", "0")
        yield _neighbour(_gateway(port, is_ip6=is_ip6), links[port], end)
    for number in range(frames.count_networks(len(links))):
        yield ["ip", "route", "replace", networks[number], *_way(number, ends, is_ip6=is_ip6)]


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


class KernelDevice(Device):
    """Linux forwarding.

    Options: those that tests set for all devices, except ``cores``, and ``base_rules`` (0 to
    10,000), the number of rules added in every test, because without rules the kernel is faster than the
    generator. Rules apply to routed frames only.
    """

    reconfigurable = ("routes",)

    def __init__(self, wiring: Wiring, node: Node) -> None:
        self.version = f"linux {platform.release()}"
        self._wiring = wiring
        self._node = node
        self._started = False

    @override
    def unusable(self) -> str:
        if os.geteuid() != 0:
            return "the kernel as the device needs root: its threads are pinned to a core"
        for program, package in _PROGRAMS.items():
            if not shutil.which(program):
                return f"the program {program} is missing (Debian: apt-get install {package})"
        # Elsewhere, its cleaning up would delete bridges and routes of this machine.
        if not self._wiring.has_own_network:
            return "the kernel as the device needs the wiring veth"
        return ""

    @override
    def check(self, options: Mapping[str, str]) -> None:
        check_options(options, numbers=_NUMBERS)

    @override
    def lacks(self, options: Mapping[str, str]) -> str:
        if reason := _ABILITIES.lacks(options, len(self._wiring.links)):
            return reason
        missing = missing_interface(options)
        return f"this kernel has no interfaces of the kind {missing}" if missing else ""

    @override
    def start(self, options: Mapping[str, str]) -> None:
        self.check(options)
        if reason := self.unusable():
            raise errors.TestbedError(reason)
        self.stop()
        self._started = True
        try:
            self._queue_in_front()
            # First: Linux sends frames of its own as soon as an interface has IPv6.
            run(self._wiring.at_device(["nft", "-f", "-"]), text=rules(options))
            for command in commands(options, self._wiring.links):
                self._run(*command)
            self._add_routes(added_routes({}, options), options)
            self._own_threads()
        except BaseException:
            self.stop()
            raise

    def _queue_in_front(self) -> None:
        for link in self._wiring.links:
            queue = ["root", "pfifo", "limit", str(_QUEUE_FRAMES)]
            command = ["tc", "qdisc", "replace", "dev", link.generator.interface, *queue]
            run(self._wiring.at_node(link.generator_node, command))

    def _add_routes(self, numbers: range, options: Mapping[str, str]) -> None:
        """Add routes to single hosts, of which the first are those of the traffic."""
        if numbers:
            command = self._wiring.at_device(["ip", "-batch", "-"])
            run(command, text=routes(numbers, options, self._wiring.links), timeout_s=_ROUTES_S)

    def _own_threads(self) -> None:
        for link in self._wiring.links:
            peer, interface = link.generator.interface, link.device.interface
            # A veth interface uses NAPI if GRO is on, and then only for frames that GRO may merge: those of a
            # peer that could not merge them itself (veth_skb_is_eligible_for_gro).
            self._run("ethtool", "-K", interface, "gro", "on")
            run(self._wiring.at_node(link.generator_node, ["ethtool", "-K", peer, "tso", "off"]))
            # /sys shows the namespace that mounted it, so it is mounted again for this write.
            # Only /sys is made private: in a chroot the root is not a mount point, so it cannot be.
            script = (
                "mount --make-private /sys && mount -t sysfs sysfs /sys && "
                'echo 1 > "/sys/class/net/$1/threaded"'
            )
            self._run("unshare", "--mount", "--propagation=unchanged", "sh", "-c", script, "sh", interface)
        if self._node.cpu is not None:
            for thread in self.busy_processes():
                os.sched_setaffinity(thread, {self._node.cpu})

    @override
    def reconfigure(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        self._add_routes(added_routes(before, after), after)

    @override
    def stop(self) -> None:
        if not self._started:
            return
        self._started = False
        # Each step is independent: objects that were never created cannot be removed.
        for command in cleanup(self._wiring.links):
            with contextlib.suppress(errors.TestbedError):
                run(self._wiring.at_device(command), timeout_s=_ROUTES_S)

    @override
    def busy_processes(self) -> Sequence[int]:
        return list(_threads(self._interfaces))

    @override
    def counters(self) -> Counters:
        return {"nftables": self._run("nft", "list", "ruleset")[:10_000]}

    @property
    def _interfaces(self) -> list[str]:
        return [link.device.interface for link in self._wiring.links]

    def _run(self, *command: str) -> str:
        return run(self._wiring.at_device(command))


def _threads(interfaces: Sequence[str]) -> Iterator[int]:
    """Find the kernel threads ``napi/INTERFACE-NUMBER``."""
    names = tuple(f"napi/{interface}-" for interface in interfaces)
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text().startswith(names):
                yield int(path.parent.name)
        except OSError:
            continue  # It ended in the meantime.
