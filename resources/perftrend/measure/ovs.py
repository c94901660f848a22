"""Open vSwitch as the device, with its datapath in user space.

A ``pmd`` thread of the switch polls the ports on the device's core: AF_XDP sockets of the interfaces, or DPDK
ports if the testbed's file gives PCI addresses. Ports of the type ``system`` are not used: the main thread
serves them between its other work, so single bursts are lost at any load.

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
from collections.abc import Iterator, Mapping, Sequence
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
    Port,
    Wiring,
    check_options,
)
from perftrend.measure.program import Program
from perftrend.measure.traffic import DEFAULT_FLOWS
from perftrend.measure.wiring import run

_NUMBERS = {"base_rules": range(10_001)}
_WORDS = {"emc": ("yes", "no")}
_ABILITIES = DeviceAbilities("Open vSwitch", ("ip4", "l2"), acl_rules=("ip4", "l2"))
_MISSING = "the program ovs-vswitchd is missing (Debian: apt-get install openvswitch-switch)"
_BRIDGE = "perftrend"
_START_S = 30.0
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
_BAD_LINE = re.compile(r"ovs-ofctl: -:(\d+): (.+)")
_REFUSED_RULE = re.compile(r"Error (OFP\w+) for: OFPT_FLOW_MOD .*?: [A-Z_]+ (.+)")


class OvsDevice(Device):
    """Open vSwitch.

    Options: ``forwarding`` (``ip4`` or ``l2``), ``acl_rules`` (0 to 10,000), ``base_rules`` (0 to 10,000; the
    number of rules added in every test), ``emc`` (``no`` turns the exact-match cache off), and ``flows`` (a
    file of further OpenFlow rules on the machine of the job).
    """

    def __init__(self, wiring: Wiring, node: Node) -> None:
        self.version = "Open vSwitch"
        self._wiring = wiring
        self._node = node
        self._program: Program | None = None
        self._folder = ""
        self._threads: Sequence[int] = ()

    @override
    def unusable(self) -> str:
        ports = len(self._wiring.links)
        if ports == 0 or ports % 2:
            return "Open vSwitch as the device needs a wiring with an even number of links, such as veth"
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
        return _ABILITIES.lacks(options)

    @override
    def start(self, options: Mapping[str, str]) -> None:
        self.check(options)
        if reason := self.unusable():
            raise errors.TestbedError(reason)
        self.stop()
        ports = [link.device for link in self._wiring.links]
        core = "" if self._node.cpu is None or self._wiring.is_remote else str(self._node.cpu)
        setup = configuration(ports, cpu=self._node.cpu, has_emc=options.get("emc") != "no")
        command = ["sh", "-c", _SCRIPT, "sh", _MISSING, core, *setup]
        self._program = Program(self._wiring.at_device, "ovs", command)
        try:
            ready = self._program.read_until(_READY, _START_S)
            self._folder = ready[1]
            self._check_ports(ports)
            self._run(
                "ovs-ofctl",
                "add-flows",
                self._bridge,
                "-",
                text="\n".join(rules(self._wiring.links, options)),
            )
            if path := options.get("flows"):
                self._add_flows(path)
            self._threads = [int(name) for name in self._run("ls", f"/proc/{ready[2]}/task").split()]
            # ovs-vswitchd (Open vSwitch) 3.1.0
            self.version = f"Open vSwitch {self._appctl('version').split()[3]}"
        except BaseException:
            self.stop()
            raise

    def _add_flows(self, path: str) -> None:
        """Add the rules of a file: all or, with a SettingsError, none."""
        command = ["ovs-ofctl", "--bundle", "add-flows", self._bridge, "-"]
        try:
            run(self._wiring.at_device(command), read_flows(path))
        except errors.TestbedError as error:
            if problem := parse_flow_error(str(error)):
                raise errors.SettingsError(f"device option flows={path!r}, {problem}") from None
            raise

    def _check_ports(self, ports: Sequence[Port]) -> None:
        """Raise a TestbedError unless the switch polls all ports: it starts without those that fail."""
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
        for name in _names(ports):
            if name not in polled:
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
            "rules": parse_rules(self._run("ovs-ofctl", "dump-aggregate", self._bridge)),
            "performance": self._appctl("dpif-netdev/pmd-perf-show")[:_LONGEST_TEXT],
        }

    @property
    def _bridge(self) -> str:
        return f"unix:{self._folder}/{_BRIDGE}.mgmt"

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


def configuration(ports: Sequence[Port], *, cpu: int | None, has_emc: bool) -> list[str]:
    """Return the arguments of ``ovs-vsctl`` that create the bridge with its ports.

    :param cpu: the core of the thread that forwards; None if the switch may choose one.
    """
    settings = [f"max-idle={_IDLE_MS}"]
    if cpu is not None:
        settings.append(f"pmd-cpu-mask={1 << cpu:#x}")
    if not has_emc:
        settings.append("emc-insert-inv-prob=0")
    if any(port.pci for port in ports):
        settings.append("dpdk-init=true")
    words = ["set", "Open_vSwitch", ".", *(f"other_config:{setting}" for setting in settings)]
    words += [
        "--",
        "add-br",
        _BRIDGE,
        "--",
        "set",
        "bridge",
        _BRIDGE,
        "datapath_type=netdev",
        "fail-mode=secure",
    ]
    for number, (name, port) in enumerate(zip(_names(ports), ports, strict=True), start=1):
        kind = ["type=dpdk", f"options:dpdk-devargs={port.pci}"] if port.pci else ["type=afxdp"]
        words += ["--", "add-port", _BRIDGE, name, "--", "set", "interface", name]
        words += [f"ofport_request={number}", "options:n_rxq=1", *kind]
    return words


def _names(ports: Sequence[Port]) -> list[str]:
    # The kernel has no interface for a port of DPDK, so the testbed's file need not name one.
    return [port.interface or f"dpdk{number}" for number, port in enumerate(ports)]


def rules(links: Sequence[Link], options: Mapping[str, str]) -> Iterator[str]:
    """Generate the OpenFlow rules for the options of a test, in the syntax of ``ovs-ofctl``."""
    for number in range(sum(int(options.get(name, "0")) for name in ("acl_rules", "base_rules"))):
        yield _acl_rule(number)
    if options.get("forwarding") == "l2":
        yield "priority=1,actions=NORMAL"
        return
    for number in range(len(links)):
        other = number ^ 1
        yield (
            f"priority=1,ip,in_port={number + 1},actions=mod_dl_src:{links[other].device.mac},"
            f"mod_dl_dst:{links[other].next_hop},dec_ttl,output:{other + 1}"
        )


def _acl_rule(number: int) -> str:
    """Return a rule that drops no frame of the traffic, but gives the flow of one host a mask of its own.

    The hosts of both networks take turns. A rule compares a port with 1025 by its highest and its lowest
    bit, which frames of port 1024 fail, and by further bits, which only this rule has.
    """
    index, side = divmod(number, 2)
    host = frames.NETWORKS[side] + 2 + index % DEFAULT_FLOWS
    own_bits = index + 1
    mask = 0x0401 | own_bits % 512 << 1 | own_bits // 512 << 11
    address = ".".join(str(byte) for byte in host.to_bytes(4, "big"))
    return f"priority=2,udp,nw_src={address},udp_src=1025/{mask:#06x},actions=drop"


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
