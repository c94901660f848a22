"""The Linux kernel as the device: it forwards between its interfaces and applies nftables rules.

Threaded NAPI moves the work to kernel threads, which are pinned to the device's core. Over plain veth pairs
the kernel would otherwise forward inside the sender's system call: it would never drop a frame, but slow down
the generator. There, a queue in front of the threads drops the frames that they do not process in time, as
the ring of a real device does.

A program waits on the node. When it ends, with the job or with the connection, it removes what was created
and restores the parameters of the kernel.
"""

from __future__ import annotations

import contextlib
import os
import platform
import re
import shlex
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from typing_extensions import override

from perftrend import errors
from perftrend.measure import kernel_network
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
from perftrend.measure.kernel_network import Command
from perftrend.measure.program import Program
from perftrend.measure.traffic import FORWARDINGS, LINK_COUNTS, LONGEST, NEEDED_LINKS
from perftrend.measure.wiring import run

_PROGRAMS = {"ip": "iproute2", "tc": "iproute2", "nft": "nftables", "ethtool": "ethtool"}
_NEEDS_ROOT = "the kernel as the device needs root: it changes the network of its machine"
_MISSING = "the program {program} is missing (Debian: apt-get install {package})"
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
_START_S = 30.0
_ROUTES_S = 300.0
"""Enough for 2,000,000 routes, of which each takes about 50 microseconds."""
_MAC = re.compile(r" link/ether ([0-9a-f:]{17}) ")

_CHECK = """
[ "$(id -u)" = 0 ] || { echo "$1"; exit 1; }
echo "$2" | while read -r program missing; do
    command -v "$program" >/dev/null || { echo "$missing"; exit 1; }
done || exit 1
shift 2
exec "$@"
"""
# /sys shows the namespace that mounted it, so it is mounted again for the ports of this one. Only /sys is
# made private: in a chroot the root is not a mount point, so it cannot be.
_IN_OWN_SYS = (
    "unshare", "--mount", "--propagation=unchanged", "sh", "-c",
    'mount --make-private /sys && mount -t sysfs sysfs /sys && exec "$@"', "sh",
)  # fmt: skip
# Only in "wait", the shell runs its traps at once. Threads are created when a port gets threaded.
_SCRIPT = """
undo=$1 cpu=$2 interfaces=$3
shift 3
is_threaded() { echo "/sys/class/net/$1/threaded"; }
list_values() {
    for file in "$@"; do
        [ ! -e "$file" ] || echo "$file $(cat "$file")"
    done
}
finish() {
    trap '' TERM
    sh -c "$undo"
    echo "$values" | while read -r file value; do echo "$value" >"$file"; done
}
sh -c "$undo" >/dev/null 2>&1
threaded=$(for interface in $interfaces; do is_threaded "$interface"; done)
values=$(list_values "$@" $threaded)
trap 'finish >/dev/null 2>&1' EXIT
trap 'exit 1' TERM
for interface in $interfaces; do
    # A veth interface uses NAPI only if GRO is on.
    case $(ip -details link show dev "$interface") in
    *" veth "*) ethtool -K "$interface" gro on || exit 1 ;;
    esac
    echo 1 >"$(is_threaded "$interface")" || {
        echo "interface $interface has no threaded NAPI; Linux has it from 5.12 on"
        exit 1
    }
    # Linux before 5.17 cuts the names.
    thread=$(printf %.15s "napi/$interface-")
    for comm in /proc/[0-9]*/comm; do
        { read -r name <"$comm"; } 2>/dev/null || continue
        case $name in
        "$thread"*)
            process=${comm#/proc/}
            [ -z "$cpu" ] || taskset -p -c "$cpu" "${process%/comm}" >/dev/null 2>&1 || {
                echo "the threads of interface $interface cannot use core $cpu; does it exist?"
                exit 1
            } ;;
        esac
    done
done
echo ready
sleep infinity &
wait
"""
_TRY = 'try() { error=$("$@" 2>&1) || { echo "$*: $error" >&2; exit 1; }; }\n'
_READY = re.compile(r"ready\n")


class KernelDevice(Device):
    """Linux forwarding.

    Options: those that tests set for all devices, except ``cores``, and ``base_rules`` (0 to
    10,000), the number of rules added in every test, because without rules the kernel is faster than the
    generator. Rules apply to routed frames only.
    """

    reconfigurable = ("routes",)

    def __init__(self, wiring: Wiring, node: Node) -> None:
        self.version = "linux" if wiring.is_remote else f"linux {platform.release()}"
        self._wiring = wiring
        self._node = node
        self._program: Program | None = None
        """What removes everything again when it ends."""

    @override
    def unusable(self) -> str:
        links = self._wiring.links
        if len(links) not in LINK_COUNTS or not all(self._interfaces):
            return f"the kernel as the device needs {NEEDED_LINKS}, with the interface of the device's ports"
        if self._wiring.is_remote:
            return ""
        if os.geteuid() != 0:
            return _NEEDS_ROOT
        missing = (_missing(program) for program in _PROGRAMS if not shutil.which(program))
        return next(missing, "")

    @override
    def check(self, options: Mapping[str, str]) -> None:
        check_options(options, numbers=_NUMBERS)

    @override
    def lacks(self, options: Mapping[str, str]) -> str:
        if reason := _ABILITIES.lacks(options, len(self._wiring.links)):
            return reason
        missing = [kind for kind in kernel_network.needed_interfaces(options) if not self._has(kind)]
        return f"this kernel has no interfaces of the kind {missing[0]}" if missing else ""

    def _has(self, kind: str) -> bool:
        """Return whether the kernel has interfaces of this kind."""
        # The loopback interface cannot have a VLAN, on any kernel.
        example = f"link add parent type veth\n{kernel_network.EXAMPLES[kind]}\n"
        command = ["unshare", "--net", "ip", "-batch", "-"]
        try:
            run(self._wiring.at_device(command) if self._wiring.is_remote else command, example)
        except errors.TestbedError:
            return False
        return True

    @override
    def start(self, options: Mapping[str, str]) -> None:
        self.check(options)
        if reason := self.unusable():
            raise errors.TestbedError(reason)
        self.stop()
        links = self._wiring.links
        try:
            for link in links:
                self._check_port(link)
            self._program = Program(self._wiring.at_device, "kernel", self._guard())
            self._program.read_until(_READY, _START_S)
            for link in links:
                self._prepare_peer(link)
            # First: Linux sends frames of its own as soon as an interface has IPv6.
            run(self._wiring.at_device(["nft", "-f", "-"]), text=kernel_network.rules(options, links))
            run(self._wiring.at_device(["sh"]), text=_script(kernel_network.commands(options, links)))
            self._add_routes(added_routes({}, options), options)
            self.version = f"linux {self._run('uname', '-r').strip()}"
        except BaseException:
            self.stop()
            raise

    def _check_port(self, link: Link) -> None:
        """Raise a TestbedError if the device's port cannot receive what the generator sends."""
        interface, node = link.device.interface, link.device_node
        state = self._run("ip", "-oneline", "link", "show", "dev", interface)
        if "LOWER_UP" not in state:
            raise errors.TestbedError(
                f"interface {interface} of node {node} is down, or has no carrier; is the generator's port "
                "up?"
            )
        mac = _MAC.search(state)
        if link.device.mac and mac and mac[1] != link.device.mac:
            raise errors.TestbedError(
                f"interface {interface} of node {node} has the MAC address {mac[1]}, but the testbed's file "
                f"has {link.device.mac}"
            )

    def _prepare_peer(self, link: Link) -> None:
        """Let frames of the generator wait for the kernel's threads, if the link is a veth pair."""
        peer = link.generator.interface
        if not peer or link.generator.pci:
            return

        def at_peer(*command: str) -> str:
            return run(self._wiring.at_node(link.generator_node, command))

        if " veth " in at_peer("ip", "-details", "link", "show", "dev", peer):
            # NAPI is only used for frames that GRO may merge: those of a peer that could not merge them
            # itself (veth_skb_is_eligible_for_gro).
            at_peer("ethtool", "-K", peer, "tso", "off")
            at_peer("tc", "qdisc", "replace", "dev", peer, "root", "pfifo", "limit", str(_QUEUE_FRAMES))

    def _guard(self) -> list[str]:
        links = self._wiring.links
        programs = "\n".join(f"{program} {_missing(program)}" for program in _PROGRAMS)
        undo = "\n".join(map(shlex.join, kernel_network.cleanup(links)))
        cpu = "" if self._node.cpu is None else str(self._node.cpu)
        files = [f"/proc/sys/{name}" for name in kernel_network.parameters(links)]
        check = ["sh", "-c", _CHECK, "sh", _NEEDS_ROOT, programs]
        return [
            *check,
            *_IN_OWN_SYS,
            "sh",
            "-c",
            _SCRIPT,
            "sh",
            undo,
            cpu,
            " ".join(self._interfaces),
            *files,
        ]

    def _add_routes(self, numbers: range, options: Mapping[str, str]) -> None:
        """Add routes to single hosts, of which the first are those of the traffic."""
        if numbers:
            command = self._wiring.at_device(["ip", "-batch", "-"])
            added = kernel_network.routes(numbers, options, self._wiring.links)
            run(command, text=added, timeout_s=_ROUTES_S)

    @override
    def reconfigure(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        self._add_routes(added_routes(before, after), after)

    @override
    def verify_running(self) -> None:
        if self._program:
            self._program.check()

    @override
    def stop(self) -> None:
        if not self._program:
            return
        try:
            # The program has no time for a million routes. Each step is independent: objects that were never
            # created cannot be removed.
            undo = "\n".join(map(shlex.join, kernel_network.cleanup(self._wiring.links)))
            with contextlib.suppress(errors.TestbedError):
                run(self._wiring.at_device(["sh", "-c", undo]), timeout_s=_ROUTES_S)
        finally:
            self._program.close()
            self._program = None

    @override
    def busy_processes(self) -> Sequence[int]:
        return [] if self._wiring.is_remote else list(_threads(self._interfaces))

    @override
    def counters(self) -> Counters:
        return {"nftables": self._run("nft", "list", "ruleset")[:10_000]}

    @property
    def _interfaces(self) -> list[str]:
        return [link.device.interface for link in self._wiring.links]

    def _run(self, *command: str) -> str:
        return run(self._wiring.at_device(command))


def _script(commands: Iterable[Command]) -> str:
    """Return a script that runs commands until one fails, whose error names it."""
    return _TRY + "".join(f"try {shlex.join(words)}\n" for words in commands)


def _missing(program: str) -> str:
    return _MISSING.format(program=program, package=_PROGRAMS[program])


def _threads(interfaces: Sequence[str]) -> Iterator[int]:
    """Find the kernel threads ``napi/INTERFACE-NUMBER``."""
    names = tuple(f"napi/{interface}-" for interface in interfaces)
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text().startswith(names):
                yield int(path.parent.name)
        except OSError:
            continue  # It ended in the meantime.
