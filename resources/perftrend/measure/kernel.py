"""The Linux kernel as the device: it forwards between two veth pairs and applies nftables rules.

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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from typing_extensions import override

from perftrend import errors
from perftrend.measure.embedded import frames
from perftrend.measure.interfaces import Counters, Device, DeviceAbilities, Node, Wiring, check_options
from perftrend.measure.wiring import run

_PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables", "ethtool": "ethtool"}
_NUMBERS = {"base_rules": range(10_001)}
_ABILITIES = DeviceAbilities("Linux", ("ip4", "l2"), acl_rules=("ip4",))
_QUEUE_FRAMES = 4096
_GATEWAYS = ("192.0.2.1", "192.0.2.2")
"""One neighbour per port represents all hosts behind it, so that flows add no neighbour entries."""


class KernelDevice(Device):
    """Linux forwarding.

    Options: ``forwarding`` (``ip4`` or ``l2``), ``acl_rules`` (0 to 10,000), and ``base_rules`` (0 to
    10,000), the number of rules added in every test, because without rules the kernel is faster than the
    generator.
    """

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
        return _ABILITIES.lacks(options)

    @override
    def start(self, options: Mapping[str, str]) -> None:
        self.check(options)
        if reason := self.unusable():
            raise errors.TestbedError(reason)
        self.stop()
        self._started = True
        try:
            self._queue_in_front()
            if options.get("forwarding") == "l2":
                self._bridge()
            else:
                self._route(sum(int(options.get(name, "0")) for name in ("acl_rules", "base_rules")))
            self._own_threads()
        except BaseException:
            self.stop()
            raise

    def _queue_in_front(self) -> None:
        for link in self._wiring.links:
            queue = ["root", "pfifo", "limit", str(_QUEUE_FRAMES)]
            command = ["tc", "qdisc", "replace", "dev", link.generator.interface, *queue]
            run(self._wiring.at_node(link.generator_node, command))

    def _bridge(self) -> None:
        self._run("ip", "link", "add", "br0", "type", "bridge", "mcast_snooping", "0")
        self._run("ip", "link", "set", "br0", "up")
        for interface in self._interfaces:
            self._run("ip", "link", "set", interface, "master", "br0")

    def _route(self, rules: int) -> None:
        # Only once lo is up, the namespace has a table of local addresses, without which no gateway is valid.
        self._run("ip", "link", "set", "lo", "up")
        self._write("/proc/sys/net/ipv4/ip_forward", "1")
        for port, link in enumerate(self._wiring.links):
            interface, mac = link.device.interface, link.next_hop
            for scope in (interface, "all"):
                self._write(f"/proc/sys/net/ipv4/conf/{scope}/rp_filter", "0")
            network = ".".join(str(byte) for byte in frames.NETWORKS[port].to_bytes(4, "big"))
            gateway = _GATEWAYS[port]
            self._run("ip", "neigh", "replace", gateway, "lladdr", mac, "dev", interface, "nud", "permanent")
            self._run("ip", "route", "replace", f"{network}/16", "via", gateway, "dev", interface, "onlink")
        lines = ["table ip perftrend {", "  chain forward {", "    type filter hook forward priority 0;"]
        lines += [
            f"    ip saddr 192.168.{number // 256}.{number % 256} udp dport {9000 + number} drop"
            for number in range(rules)
        ]
        command = self._wiring.at_device(["nft", "-f", "-"])
        run(command, text="\n".join([*lines, "  }", "}"]))

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
    def stop(self) -> None:
        if not self._started:
            return
        self._started = False
        # Each step is independent: objects that were never created cannot be removed.
        for command in (
            ["nft", "delete", "table", "ip", "perftrend"],
            ["ip", "link", "delete", "br0"],
            ["ip", "route", "flush", "proto", "boot"],
            ["ip", "neigh", "flush", "nud", "permanent"],
        ):
            with contextlib.suppress(errors.TestbedError):
                self._run(*command)

    @override
    def busy_processes(self) -> Sequence[int]:
        return list(_threads(self._interfaces))

    @override
    def counters(self) -> Counters:
        return {"nftables": self._run("nft", "list", "ruleset")[:10_000]}

    @property
    def _interfaces(self) -> list[str]:
        return [link.device.interface for link in self._wiring.links]

    def _write(self, path: str, value: str) -> None:
        self._run("sh", "-c", 'echo "$2" > "$1"', "sh", path, value)

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
