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
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from typing_extensions import override

from perftrend import errors
from perftrend.measure.interfaces import (
    Counters,
    Device,
    DeviceAbilities,
    Node,
    Wiring,
    added_routes,
    check_options,
)
from perftrend.measure.kernel_network import cleanup, commands, missing_interface, routes, rules
from perftrend.measure.traffic import FORWARDINGS, LONGEST
from perftrend.measure.wiring import run

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
