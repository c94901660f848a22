"""Open vSwitch as the device, with its datapath in user space.

``pmd`` threads of the switch poll the ports on the device's cores: AF_XDP sockets of the interfaces, or DPDK
ports if the testbed's file gives PCI addresses. The main thread serves ports of the type ``system`` between
its other work, so single bursts are lost at any load.

The first frame of a flow is compared with all OpenFlow rules. The result is a cached flow, whose mask has
only the bits that the comparison needed. Later frames need one lookup per mask of the cached flows until one
matches, however many rules there are. Only rules that give the flows of the traffic different masks slow the
switch down, and only if the exact-match cache in front of these lookups is off.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from typing_extensions import override

from perftrend import errors, measurement
from perftrend.measure import ovs_network
from perftrend.measure.interfaces import (
    Counters,
    Device,
    DeviceAbilities,
    Node,
    Port,
    Wiring,
    added_routes,
    check_options,
)
from perftrend.measure.ovs_network import parse_flow_error, read_flows, route, rules
from perftrend.measure.program import Program
from perftrend.measure.traffic import (
    FORWARDINGS,
    LINK_COUNTS,
    LONGEST,
    NEEDED_LINKS,
    TUNNELS,
    USUAL_LONGEST,
    mtu,
    parse_frame_bytes,
)
from perftrend.measure.wiring import run

_NUMBERS = {"base_rules": range(10_001)}
_WORDS = {"emc": ("yes", "no"), "port_type": ("afxdp", "system")}
_ABILITIES = DeviceAbilities(
    "Open vSwitch",
    FORWARDINGS,
    one_link=("ip4", "ip6", "l2xc"),
    acl_rules=FORWARDINGS,
    routes=("ip4", "ip6"),
    tunnel=("vxlan", "geneve"),
    vlan=True,
    vlan_per_link=("ip4", "ip6", "l2xc"),
    cores=64,
    # A frame of AF_XDP has one page, of which the kernel and the switch use about a thousand bytes.
    longest_frame=3_000,
)
_MISSING = "the program ovs-vswitchd is missing (Debian: apt-get install openvswitch-switch)"
_BRIDGE = "perftrend"
_PAIR = 2
_START_S = 30.0
_ROUTES_S = 120.0
_IDLE_MS = 3_600_000
"""How long an unused flow is cached: longer than a test, so that only its first frames fill the cache."""
_LONGEST_TEXT = 4_000

# The switch removes its XDP programs from the interfaces only by the command "exit --cleanup", so it ignores
# the signal that ends all programs of the device. Only in "wait", the shell runs its traps at once.
_SCRIPT = """
missing=$1 cpu=$2
shift 2
command -v ovs-vswitchd >/dev/null || { echo "$missing"; exit 1; }
folder=/tmp/perftrend-$(id -u)/ovs-$(readlink /proc/self/ns/net | tr -dc 0-9)
rm -rf "$folder" && mkdir -p -m 700 "$folder" || exit 1
export OVS_RUNDIR="$folder" OVS_DBDIR="$folder" OVS_LOGDIR="$folder"
finish() {
    trap '' TERM
    ovs-appctl -T 3 -t "$folder/switch.ctl" exit --cleanup || kill -KILL "$switch"
    kill "$database" "$setup"
    wait
    rm -rf "$folder"
}
switch= database= setup=
trap 'finish >/dev/null 2>&1' EXIT
trap 'exit 1' TERM
ovsdb-tool create "$folder/conf.db" || exit 1
setpriv --pdeathsig KILL -- ovsdb-server "$folder/conf.db" --remote="punix:$folder/db.sock" \\
    --unixctl="$folder/db.ctl" --log-file="$folder/db.log" -vconsole:err &
database=$!
export OVS_DB="unix:$folder/db.sock"
ovs-vsctl --retry --timeout=10 --db="$OVS_DB" --no-wait init || exit 1
(
    trap '' TERM
    exec setpriv --pdeathsig KILL -- ${cpu:+taskset -c "$cpu"} ovs-vswitchd "$OVS_DB" \\
        --unixctl="$folder/switch.ctl" --log-file="$folder/switch.log" -vconsole:err --disable-system
) &
switch=$!
(ovs-vsctl --timeout=20 --db="$OVS_DB" -- "$@" && echo "ready $folder $switch") &
setup=$!
wait "$switch"
"""
_READY = re.compile(r"ready (\S+) (\d+)\n")
_THREAD = re.compile(r"pmd thread numa_id \d+ core_id (\d+):|(main) thread:")
_COUNT = re.compile(r"  ([^:]+): ([0-9.]+)(?: |$)")
_LOOKUPS = re.compile(r"lookups: hit:(\d+) missed:(\d+) lost:(\d+)\s+flows: (\d+)")
_RULES = re.compile(r"packet_count=(\d+) .*flow_count=(\d+)")
_POLLED = re.compile(r"port: (\S+) +queue-id:")


class OvsDevice(Device):
    """Open vSwitch.

    Options: those that tests set for all devices; ``base_rules`` (0 to 10,000; the number of rules added in
    every test), ``emc`` (``no`` turns the exact-match cache off), ``port_type`` (``afxdp`` or ``system``, for
    ports without PCI address), and ``flows`` (a file of further OpenFlow rules on the machine of the job).
    """

    reconfigurable = ("routes",)

    def __init__(self, wiring: Wiring, node: Node) -> None:
        self.version = "Open vSwitch"
        self._wiring = wiring
        self._node = node
        self._program: Program | None = None
        self._folder = ""
        self._threads: Sequence[int] = ()

    @override
    def unusable(self) -> str:
        if len(self._wiring.links) not in LINK_COUNTS:
            return f"Open vSwitch as the device needs {NEEDED_LINKS}"
        if self._wiring.is_remote:
            return ""
        if os.geteuid() != 0:
            return "Open vSwitch as the device needs root: it reads its interfaces by AF_XDP"
        return "" if shutil.which("ovs-vswitchd") else _MISSING

    @override
    def check(self, options: Mapping[str, str]) -> None:
        check_options(options, numbers=_NUMBERS, words=_WORDS, texts=("flows",))
        if path := options.get("flows"):
            read_flows(path)

    @override
    def lacks(self, options: Mapping[str, str]) -> str:
        kinds = {_kind(link.device, options) for link in self._wiring.links}
        abilities = _ABILITIES if "afxdp" in kinds else replace(_ABILITIES, longest_frame=LONGEST)
        if "system" in kinds:
            abilities = replace(abilities, cores=1)
        if kinds == {"dpdk"}:
            # An interface of a veth pair has only one queue.
            abilities = replace(abilities, receive_queues=64)
        cores = int(options.get("cores", "1"))
        return abilities.lacks(options, len(self._wiring.links)) or self._lacks_cores(cores)

    def _lacks_cores(self, cores: int) -> str:
        if self._node.cpu is None:
            return "" if cores == 1 else f"cores={cores}: the testbed's file has no cpu of the device"
        return "" if self._wiring.is_remote else _ABILITIES.lacks_cores(self._node.cpu, cores)

    @override
    def start(self, options: Mapping[str, str]) -> None:
        self.check(options)
        if reason := self.unusable():
            raise errors.TestbedError(reason)
        self.stop()
        ports = [link.device for link in self._wiring.links]
        core = "" if self._node.cpu is None or self._wiring.is_remote else str(self._node.cpu)
        tunnel = _tunnel(options)
        setup = configuration(ports, options, cpu=self._node.cpu)
        command = ["sh", "-c", _SCRIPT, "sh", _MISSING, core, *setup]
        self._program = Program(self._wiring.at_device, "ovs", command)
        try:
            ready = self._program.read_until(_READY, _START_S)
            self._folder = ready[1]
            self._check_ports(ports, options)
            self._add_rules(_BRIDGE, rules(self._wiring.links, options))
            if tunnel:
                self._end_tunnels(options)
            self._add_routes(added_routes({}, options), options)
            if path := options.get("flows"):
                self._add_flows(path)
            self._threads = [int(name) for name in self._run("ls", f"/proc/{ready[2]}/task").split()]
            # ovs-vswitchd (Open vSwitch) 3.1.0
            self.version = f"Open vSwitch {self._appctl('version').split()[3]}"
        except BaseException:
            self.stop()
            raise

    def _end_tunnels(self, options: Mapping[str, str]) -> None:
        for command in ovs_network.tunnel_addresses(self._wiring.links):
            self._run(*command)
        for command in ovs_network.tunnel_neighbours(self._wiring.links):
            self._appctl(*command)
        for number in range(len(self._wiring.links)):
            self._add_rules(ovs_network.outer_bridge(number), ovs_network.tunnel_rules(number, options))

    def _add_rules(self, bridge: str, lines: Iterable[str]) -> None:
        self._run("ovs-ofctl", "add-flows", self._socket(bridge), "-", text="\n".join(lines))

    @override
    def reconfigure(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        self._add_routes(added_routes(before, after), after)

    def _add_routes(self, numbers: range, options: Mapping[str, str]) -> None:
        if numbers:
            lines = (route(self._wiring.links, number, options) for number in numbers)
            command = ["ovs-ofctl", "add-flows", self._socket(_BRIDGE), "-"]
            run(self._wiring.at_device(command), "\n".join(lines), timeout_s=_ROUTES_S)

    def _add_flows(self, path: str) -> None:
        """Add the rules of a file: all or, with a SettingsError, none."""
        command = ["ovs-ofctl", "--bundle", "add-flows", self._socket(_BRIDGE), "-"]
        try:
            run(self._wiring.at_device(command), read_flows(path))
        except errors.TestbedError as error:
            if problem := parse_flow_error(str(error)):
                raise errors.SettingsError(f"device option flows={path!r}, {problem}") from None
            raise

    def _check_ports(self, ports: Sequence[Port], options: Mapping[str, str]) -> None:
        """Raise a TestbedError unless the switch serves all ports: it starts without those that fail."""
        listed = json.loads(self._vsctl("--format=json", "--columns=name,error,type", "list", "interface"))
        supported = self._vsctl("get", "Open_vSwitch", ".", "iface_types")
        for name, error, kind in listed["data"]:
            if kind not in {"internal", *re.findall(r"\w+", supported)}:
                raise errors.TestbedError(
                    f"Open vSwitch was built without ports of type {kind} "
                    "(Debian: openvswitch-switch has afxdp, openvswitch-switch-dpdk has dpdk)"
                )
            if isinstance(error, str):
                raise errors.TestbedError(f"Open vSwitch, port {name}: {error}")
        polled = _POLLED.findall(self._appctl("dpif-netdev/pmd-rxq-show"))
        for name, port in zip(_names(ports), ports, strict=True):
            # The main thread serves those of the type system.
            if name not in polled and _kind(port, options) != "system":
                raise errors.TestbedError(
                    f"Open vSwitch, port {name}: no thread polls it; does core {self._node.cpu} exist?"
                )

    @override
    def verify_running(self) -> None:
        if self._program:
            self._program.check()

    @override
    def stop(self) -> None:
        if self._program:
            self._program.close()
            self._program = None
            self._threads = ()

    @override
    def busy_processes(self) -> Sequence[int]:
        return self._threads

    @override
    def counters(self) -> Counters:
        if self._program is None:
            return {}
        return {
            "threads": parse_threads(self._appctl("dpif-netdev/pmd-stats-show")),
            "cache": parse_cache(self._appctl("dpctl/show")),
            "rules": parse_rules(self._run("ovs-ofctl", "dump-aggregate", self._socket(_BRIDGE))),
            "performance": self._appctl("dpif-netdev/pmd-perf-show")[:_LONGEST_TEXT],
        }

    @override
    def cycles_per_packet(self, before: Counters, after: Counters) -> Mapping[str, float]:
        """Return the cycles that all threads spent with packets, without those of polling in vain."""
        spent, packets = (
            sum(
                counts.get(name, 0) - before.get("threads", {}).get(thread, {}).get(name, 0)
                for thread, counts in after.get("threads", {}).items()
                if "processing cycles" in counts
            )
            for name in ("processing cycles", "packets received")
        )
        return measurement.cycles_per_packet(spent, packets)

    def _socket(self, bridge: str) -> str:
        return f"unix:{self._folder}/{bridge}.mgmt"

    def _vsctl(self, *command: str) -> str:
        return self._run("ovs-vsctl", "--timeout=10", f"--db=unix:{self._folder}/db.sock", *command)

    def _appctl(self, *command: str) -> str:
        return self._run("ovs-appctl", "-T", "10", "-t", f"{self._folder}/switch.ctl", *command)

    def _run(self, *command: str, text: str = "") -> str:
        """Run a command on the node. :raises TestbedError: with the last line that it or the switch wrote."""
        try:
            return run(self._wiring.at_device(command), text)
        except errors.TestbedError as error:
            if self._program:
                self._program.check()
            raise errors.TestbedError(f"Open vSwitch: {str(error).splitlines()[-1]}") from None


def _tunnel(options: Mapping[str, str]) -> str:
    """Return the kind of the tunnels; empty if there are none."""
    return options.get("tunnel", TUNNELS[0]).replace(TUNNELS[0], "")


def _kind(port: Port, options: Mapping[str, str]) -> str:
    """Return the type that a port has in the switch."""
    return "dpdk" if port.pci else options.get("port_type", "afxdp")


def configuration(ports: Sequence[Port], options: Mapping[str, str], *, cpu: int | None) -> list[str]:
    """Return the arguments of ``ovs-vsctl`` that create the bridge with its ports.

    :param options: those of the test; tunnels need further bridges.
    :param cpu: the first core of the threads that forward; None if the switch may choose one.
    """
    tunnel, cores = _tunnel(options), int(options.get("cores", "1"))
    settings = [f"max-idle={_IDLE_MS}"]
    if cpu is not None:
        settings.append(f"pmd-cpu-mask={(1 << cores) - 1 << cpu:#x}")
    if options.get("emc") == "no":
        settings.append("emc-insert-inv-prob=0")
    if any(port.pci for port in ports):
        settings.append("dpdk-init=true")
    words = ["set", "Open_vSwitch", ".", *(f"other_config:{setting}" for setting in settings)]
    words += _add_bridge(_BRIDGE)
    # If the test does not say more, as few as give each thread one.
    queues = max(-(-cores // len(ports)), int(options.get("receive_queues", "1")))
    for number, (name, port) in enumerate(zip(_names(ports), ports, strict=True)):
        bridge, own_number = _BRIDGE, number + 1
        if tunnel:
            bridge, own_number = ovs_network.outer_bridge(number), 1
            words += [*_add_bridge(bridge), f"other-config:hwaddr={port.mac}"]
        words += ["--", "add-port", bridge, name, "--", "set", "interface", name]
        words += [f"ofport_request={own_number}", f"options:n_rxq={queues}", f"type={_kind(port, options)}"]
        if port.pci:
            words.append(f"options:dpdk-devargs={port.pci}")
        if (frame_bytes := parse_frame_bytes(options)) > USUAL_LONGEST:
            words.append(f"mtu_request={mtu(frame_bytes)}")
    if tunnel:
        words += ovs_network.tunnel_ports(_BRIDGE, tunnel, len(ports))
    return [*words, *(_separate_pairs(ports, tunnel) if len(ports) > _PAIR else ())]


def _separate_pairs(ports: Sequence[Port], tunnel: str) -> Iterator[str]:
    """Generate the arguments by which bridging does not flood frames into another pair.

    Each pair has a VLAN that exists only in the bridge.
    """
    names = [ovs_network.tunnel_name(number) for number in range(len(ports))] if tunnel else _names(ports)
    for number, name in enumerate(names):
        yield from ("--", "set", "port", name, f"tag={number // _PAIR + 1}", "vlan_mode=dot1q-tunnel")


def _add_bridge(name: str) -> list[str]:
    settings = ["datapath_type=netdev", "fail-mode=secure"]
    return ["--", "add-br", name, "--", "set", "bridge", name, *settings]


def _names(ports: Sequence[Port]) -> list[str]:
    # The kernel has no interface for a port of DPDK, so the testbed's file need not name one.
    return [port.interface or f"dpdk{number}" for number, port in enumerate(ports)]


def parse_threads(text: str) -> dict[str, dict[str, float]]:
    """Parse the output of ``dpif-netdev/pmd-stats-show``: counters by the core of a thread, or ``main``."""
    threads: dict[str, dict[str, float]] = {}
    counts: dict[str, float] = {}
    for line in text.splitlines():
        if thread := _THREAD.fullmatch(line):
            counts = threads.setdefault(thread[1] or thread[2], {})
        elif count := _COUNT.match(line):
            counts[count[1].replace("avg. ", "").replace("avg ", "")] = float(count[2])
    return threads


def parse_cache(text: str) -> dict[str, int]:
    """Parse the output of ``dpctl/show``: lookups in the cached flows, and the number of these flows."""
    found = _LOOKUPS.search(text)
    names = ("hit", "missed", "lost", "flows")
    return dict(zip(names, map(int, found.groups()), strict=True)) if found else {}


def parse_rules(text: str) -> dict[str, int]:
    """Parse the output of ``ovs-ofctl dump-aggregate``: the number of rules, and of packets that matched."""
    found = _RULES.search(text)
    return {"packets": int(found[1]), "rules": int(found[2])} if found else {}
