"""DPDK testpmd as the device: it forwards between the ports of each pair and does not route.

The ports are PCI devices if the testbed's file names them, and otherwise interfaces of the kernel, which
testpmd uses through AF_PACKET sockets. testpmd reads commands from its standard input. It does so even if its
ports do not work, and would then lose every frame. Therefore, the ports are checked after each start.

Source: "Testpmd Application User Guide" of DPDK.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from typing_extensions import override

from perftrend import measurement
from perftrend.errors import SettingsError, TestbedError
from perftrend.measure.interfaces import Counters, Device, DeviceAbilities, Link, Node, Wiring, check_options
from perftrend.measure.program import Program
from perftrend.measure.traffic import LINK_COUNTS, LONGEST, NEEDED_LINKS, USUAL_LONGEST, parse_frame_bytes
from perftrend.measure.wiring import run

_PROGRAM = "dpdk-testpmd"
_START_S, _ANSWER_S = 60.0, 20.0
_NUMBERS = {
    "burst": range(1, 513),
    "descriptors": range(32, 32_769),
    "lookups": range(100_001),
    "mbufs": range(1025, 100_000_001),
    "memory_mb": range(1, 1_000_001),
}
_WORDS = {"forward_mode": ("io", "mac", "macswap")}
_MODES = {"ip4": "mac", "ip6": "mac", "l2": "io", "l2xc": "io"}
"""Routed frames get the addresses of the next hop; bridged frames stay as they are, with or without a tag."""
_ABILITIES = DeviceAbilities(
    "testpmd",
    tuple(_MODES),
    one_link=("ip4", "ip6", "l2xc"),
    vlan=True,
    cores=64,
    receive_queues=64,
    longest_frame=LONGEST,
)
_DESCRIPTOR_STEP = 32
"""Rings of AF_PACKET have blocks of this many slots; those of many network cards grow in the same steps."""
_SLOT_BYTES = 2048
"""A slot of such a ring holds a frame of 1,518 bytes and the kernel's header."""
_LONG_SLOT_BYTES = 9_216
"""The same for a frame of 9,000 bytes."""
_LONG_BUFFER_BYTES = _LONG_SLOT_BYTES + 128
"""With the headroom of a buffer. testpmd refuses slots that do not fit into one."""
_LONG_BUFFERS = 32_768
"""By default, testpmd would need 1.5 GB for buffers of this size; so many need about 310 MB."""
_TABLE_MB = 1
"""Memory for lookups: it fits into the cache, since other programs change the speed of the memory."""

# The prompt has no line end: the answer to an unknown command shows where the previous answers end.
_MARK = "perftrend"
_END = re.compile(r"Command not found\n")
_VERSION = re.compile(r"RTE Version: '([^']+)'")
_PORT = re.compile(r"Infos for port \d+.*?MAC address: (\S+).*?Link status: (\w+)", re.DOTALL)
_SECTION = re.compile(r"^.*tatistics for (port \d+|all ports).*$", re.MULTILINE)
_COUNTER = re.compile(r"([A-Za-z][\w-]*): *(\d+)")
# "busy" since DPDK 23.03
_CYCLES = re.compile(r"(?:total|busy) cycles=(\d+) / total \w+ packets=(\d+)")
_CYCLE_COUNTERS = ("total_cycles", "total_packets")
_FAILURE = re.compile(
    r"fail|fatal|invalid|cannot|unrecognized|unavailable$|not all|not enough|no probed|should be|link down",
    re.IGNORECASE,
)
_CAUSE = re.compile(r" +Cause: ")


class TestpmdDevice(Device):
    """DPDK testpmd.

    Options: ``forwarding``, ``forward_mode`` (``io``, ``mac`` or ``macswap``; by default the one for
    ``forwarding``), ``cores`` (number of forwarding threads), ``receive_queues`` (of each port; by default
    one for each thread), ``descriptors`` (slots of each ring), ``burst``, ``mbufs`` (buffers of all ports
    together), ``memory_mb`` (ordinary memory instead of hugepages), and ``lookups`` (memory reads per frame).
    """

    # Otherwise pytest would collect a class of this name as tests.
    __test__ = False

    def __init__(self, wiring: Wiring, node: Node) -> None:
        self.version = _PROGRAM
        self._wiring = wiring
        self._node = node
        self._program: Program | None = None

    @override
    def unusable(self) -> str:
        links = self._wiring.links
        has_names = _uses_pci(links) or all(link.device.interface for link in links)
        if len(links) not in LINK_COUNTS or not has_names:
            return f"testpmd needs {NEEDED_LINKS}, with the interface or PCI address of the device's ports"
        if self._wiring.has_own_network:
            if os.geteuid() != 0:
                return "testpmd needs root: it locks its rings in memory"
            if not shutil.which(_PROGRAM):
                return f"the program {_PROGRAM} is missing (Debian: apt-get install dpdk-dev)"
        return ""

    @override
    def check(self, options: Mapping[str, str]) -> None:
        check_options(options, numbers=_NUMBERS, words=_WORDS)
        descriptors = options.get("descriptors", "0")
        if int(descriptors) % _DESCRIPTOR_STEP:
            raise SettingsError(
                f"device option descriptors={descriptors}: write a multiple of {_DESCRIPTOR_STEP}"
            )
        if int(options.get("lookups", "0")) and options.get("forward_mode", "io") != "io":
            raise SettingsError(
                f"device option forward_mode={options['forward_mode']}: with lookups, testpmd forwards "
                "frames unchanged; write io, or lookups=0"
            )

    @override
    def lacks(self, options: Mapping[str, str]) -> str:
        links = len(self._wiring.links)
        return _ABILITIES.lacks(options, links) or self._lacks_cores(int(options.get("cores", "1")))

    def _lacks_cores(self, cores: int) -> str:
        if self._node.cpu is None or self._wiring.is_remote:
            return ""
        available = os.sched_getaffinity(0)
        missing = [core for core in _cores(self._node.cpu, cores) if core not in available]
        return (
            f"testpmd does not support cores={cores}: this machine has no core {missing[0]}"
            if missing
            else ""
        )

    @override
    def start(self, options: Mapping[str, str]) -> None:
        self.check(options)
        if reason := self.lacks(options):
            raise SettingsError(reason)
        self.stop()
        self._check_interfaces()
        # Without a terminal, the output would be written in blocks.
        command = ["stdbuf", "-oL", _PROGRAM, *arguments(self._wiring.links, self._node.cpu, options)]
        self._program = Program(self._wiring.at_device, "testpmd", command, is_interactive=True)
        try:
            self._start_forwarding(self._program)
        except BaseException:
            self.stop()
            raise

    def _check_interfaces(self) -> None:
        """Raise an error if an interface cannot send: testpmd itself reports any AF_PACKET port as up."""
        for link in self._wiring.links:
            if (name := link.device.interface) and not link.device.pci:
                state = run(self._wiring.at_device(["ip", "-oneline", "link", "show", "dev", name]))
                if "LOWER_UP" not in state:
                    raise TestbedError(
                        f"interface {name} of the device has no carrier; is the generator's port up?"
                    )

    def _start_forwarding(self, program: Program) -> None:
        try:
            log = _request(program, timeout_s=_START_S)
        except TestbedError as error:
            raise TestbedError(describe_failure(program.last_lines()) or str(error)) from None
        if found := _VERSION.search(log):
            self.version = found[1]
        answer = _request(program, "set record-core-cycles on", "start", "show port info all")
        ports = _PORT.findall(answer)
        count = len(self._wiring.links)
        are_up = len(ports) == count and all(status == "up" for _, status in ports)
        if not are_up or f"nb forwarding ports={count}" not in answer:
            states = ", ".join(f"port {number} is {status}" for number, (_, status) in enumerate(ports))
            raise TestbedError(
                describe_failure(log + answer) or f"testpmd does not forward: {states or 'it has no ports'}"
            )
        for number, ((mac, _), link) in enumerate(
            zip(ports, _in_port_order(self._wiring.links), strict=True)
        ):
            if link.device.mac and mac.lower() != link.device.mac:
                raise TestbedError(
                    f"testpmd: port {number} has the MAC address {mac.lower()}, but the testbed's file has "
                    f"{link.device.mac}"
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

    @override
    def busy_processes(self) -> Sequence[int]:
        """Return the threads that forward; that of the command line waits."""
        if self._program is None:
            return []
        self._program.check()
        found = []
        for path in Path(f"/proc/{self._program.pid}/task").glob("*/comm"):
            # It may end in the meantime.
            with contextlib.suppress(OSError):
                if "worker" in path.read_text():
                    found.append(int(path.parent.name))
        return found

    @override
    def counters(self) -> Counters:
        if self._program is None:
            return {}
        return parse_counters(_request(self._program, "show port xstats all", "show fwd stats all"))

    @override
    def cycles_per_packet(self, before: Counters, after: Counters) -> Mapping[str, float]:
        """Return the cycles of the bursts with packets; 0 with lookups before DPDK 23.03."""
        spent, packets = (after.get(name, 0) - before.get(name, 0) for name in _CYCLE_COUNTERS)
        return measurement.cycles_per_packet(spent, packets)


def arguments(links: Sequence[Link], cpu: int | None, options: Mapping[str, str]) -> list[str]:
    """Return the arguments of testpmd.

    :param cpu: the core of the first forwarding thread; further threads use the next cores.
    :raises SettingsError: if the testbed's file lacks addresses that the options need.
    """
    ports = _in_port_order(links)
    return [
        *_dpdk_arguments(ports, cpu, options),
        "--",
        *_pairs(links, ports),
        *_testpmd_arguments(ports, options),
    ]


def _pairs(links: Sequence[Link], ports: Sequence[Link]) -> list[str]:
    """Return the arguments for the pairs of ports: by default, testpmd pairs them in their own order."""
    if len(links) == 1:
        return ["--port-topology=loop"]
    if len(links) == 2 or list(links) == list(ports):  # noqa: PLR2004
        return []
    return [f"--portlist={','.join(str(ports.index(link)) for link in links)}"]


def _dpdk_arguments(links: Sequence[Link], cpu: int | None, options: Mapping[str, str]) -> list[str]:
    """Return the arguments of the library: cores, memory and ports."""
    found = ["-v", "--no-telemetry"]
    cores = int(options.get("cores", "1"))
    if cpu is not None:
        # The thread of the command line shares a core: during a trial, it has nothing to do.
        lcores = [
            f"0@{cpu}",
            *(f"{number}@{core}" for number, core in enumerate(_cores(cpu, cores), start=1)),
        ]
        found.append(f"--lcores={','.join(lcores)}")
    if memory_mb := options.get("memory_mb"):
        found += ["--no-huge", "-m", memory_mb, "--no-shconf"]
    else:
        # A process that is killed would leave files of hugepages behind.
        found.append("--in-memory")
    if _uses_pci(links):
        return [*found, *(f"--allow={link.device.pci}" for link in links)]
    slots = options.get("descriptors", "4096")
    slot_bytes = _LONG_SLOT_BYTES if _has_long_frames(options) else _SLOT_BYTES
    ring = f"blocksz={_DESCRIPTOR_STEP * slot_bytes},framesz={slot_bytes},framecnt={slots}"
    return [
        *found,
        "--no-pci",
        *(
            f"--vdev=net_af_packet{number},iface={link.device.interface},qpairs={_queues(options)},{ring}"
            for number, link in enumerate(links)
        ),
    ]


def _cores(cpu: int, count: int) -> range:
    """Return the cores of the threads that forward."""
    return range(cpu, cpu + count)


def _queues(options: Mapping[str, str]) -> str:
    """Return the number of receive queues of each port, and of transmit queues."""
    return options.get("receive_queues") or options.get("cores", "1")


def _testpmd_arguments(links: Sequence[Link], options: Mapping[str, str]) -> list[str]:
    """Return the arguments of the program itself: forwarding, queues and buffers."""
    mode = options.get("forward_mode") or _MODES[options.get("forwarding", "ip4")]
    lookups = options.get("lookups", "0")
    queues = _queues(options)
    found = ["--interactive", f"--nb-cores={options.get('cores', '1')}", f"--rxq={queues}", f"--txq={queues}"]
    if int(lookups):
        found += ["--forward-mode=noisy", f"--noisy-lkup-memory={_TABLE_MB}"]
        found.append(f"--noisy-lkup-num-reads={lookups}")
    else:
        found.append(f"--forward-mode={mode}")
        if mode == "mac":
            found += _peers(links)
    if _uses_pci(links) and (descriptors := options.get("descriptors")):
        found += [f"--rxd={descriptors}", f"--txd={descriptors}"]
    if burst := options.get("burst"):
        found.append(f"--burst={burst}")
    mbufs = options.get("mbufs")
    if _has_long_frames(options):
        found.append(f"--mbuf-size={_LONG_BUFFER_BYTES}")
        mbufs = mbufs or str(_LONG_BUFFERS)
        if _uses_pci(links):
            # Ports on AF_PACKET sockets refuse it, but forward what fits into a slot.
            found.append(f"--max-pkt-len={parse_frame_bytes(options)}")
    if mbufs:
        found.append(f"--total-num-mbufs={mbufs}")
    return found


def _has_long_frames(options: Mapping[str, str]) -> bool:
    return parse_frame_bytes(options) > USUAL_LONGEST


def _peers(links: Sequence[Link]) -> list[str]:
    if not all(link.next_hop for link in links):
        raise SettingsError(
            "testpmd needs the MAC addresses of the generator's ports; add them to the testbed's links, or "
            "set the device option forward_mode to io or macswap"
        )
    return [f"--eth-peer={number},{link.next_hop}" for number, link in enumerate(links)]


def _uses_pci(links: Sequence[Link]) -> bool:
    return all(link.device.pci for link in links)


def _in_port_order(links: Sequence[Link]) -> Sequence[Link]:
    """Return the links in the order of testpmd's ports: that of the PCI addresses, not of its arguments."""
    if not _uses_pci(links):
        return links
    # The domain, the first part of the address, may be omitted.
    return sorted(links, key=lambda link: f"0000:{link.device.pci}"[-len("0000:00:00.0") :])


def _request(program: Program, *commands: str, timeout_s: float = _ANSWER_S) -> str:
    """Give commands to testpmd and return its answers, with all that it wrote before."""
    program.write("".join(f"{command}\n" for command in (*commands, _MARK)))
    end = program.read_until(_END, timeout_s)
    return end.string[: end.start()]


def describe_failure(output: str) -> str:
    """Return what testpmd wrote about a failure, in one line: the first message, and the cause of its end."""
    lines = [line for line in output.splitlines() if _FAILURE.search(line) or _CAUSE.match(line)]
    if not lines:
        return ""
    chosen = dict.fromkeys(_CAUSE.sub("", line).strip() for line in (lines[0], lines[-1]))
    reason = f"testpmd did not start: {'; '.join(chosen)}"
    if "hugepage" in reason:
        reason += "; reserve hugepages, or set the device option memory_mb"
    return reason


def parse_counters(answer: str) -> Counters:
    """Return the counters of each port by testpmd's names, and the cycles spent and frames forwarded by all.

    :param answer: to ``show port xstats all`` and ``show fwd stats all``.
    """
    _, *pieces = _SECTION.split(answer)
    ports: dict[str, dict[str, int]] = {}
    for port, text in zip(pieces[::2], pieces[1::2], strict=True):
        ports.setdefault(port, {}).update({name: int(value) for name, value in _COUNTER.findall(text)})
    ports.pop("all ports", None)
    spent = _CYCLES.search(answer)
    counted = dict(zip(_CYCLE_COUNTERS, map(int, spent.groups()), strict=True)) if spent else {}
    return {"ports": list(ports.values()), **counted}
