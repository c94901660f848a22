"""FD.io VPP as the device.

VPP runs on the device's node as a program of the job, with a configuration and sockets of its own. Each start
is a new instance, and an installed service is not changed.

The counters of each node of the graph are read from VPP's command line, which alone has them.

Source of their formats: ``src/vlib/node_cli.c``, ``src/vlib/error.c`` and ``src/vnet/interface_format.c`` of
VPP.
"""

from __future__ import annotations

import contextlib
import importlib.util
import re
import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from typing_extensions import override

from perftrend import command_to_install
from perftrend.errors import TestbedError
from perftrend.measure.interfaces import Counters, Device, Node, Wiring, added_routes
from perftrend.measure.program import Program
from perftrend.measure.traffic import LINK_COUNTS, NEEDED_LINKS
from perftrend.measure.vpp.api import NoConnectionError, VppApi
from perftrend.measure.vpp.forwarding import add_routes, configure
from perftrend.measure.vpp.options import SHARED_MEMORY, VppOptions, lacks, startup_configuration
from perftrend.measure.wiring import run

_START_S = 60.0
"""Taking over network cards, and allocating hugepages, takes many seconds."""
_END_S = 2.0
"""How long a program that has failed may take to end, which gives the reason."""
_THREAD = re.compile(r"Thread \d+ (\S+)")
_NODE = re.compile(r"(\S+) +(\S.*?) +(\d+) +(\d+) +(\d+) +(\d\S*) +(\d\S*)")
"""Name, state, calls, vectors, suspends, clocks and vectors per call; the state may have spaces."""
_ERROR = re.compile(r" *(\d+) +(\S+) +(.*\S)")
_INTERFACE = re.compile(r"(\S+) +\d+ +\S+ +\S+(?: +(\S.*?) +(\d+))?")
_COUNTER = re.compile(r" +(\S.*?) +(\d+)")
Runtime = dict[str, dict[str, dict[str, float]]]
"""What each node of the graph has processed, by thread and node."""
_RARE = 0.01
"""A node with a smaller fraction of the packets of the busiest node is not on the path of the traffic."""


class VppDevice(Device):
    """FD.io VPP, by af_packet or by DPDK if the ports have PCI addresses.

    Options: see :class:`~perftrend.measure.vpp.options.VppOptions`.
    """

    reconfigurable = ("routes",)

    def __init__(self, wiring: Wiring, node: Node) -> None:
        self.version = ""
        self._wiring = wiring
        self._node = node
        self._program: Program | None = None
        self._api: VppApi | None = None
        self._folder = ""
        self._runtime: Runtime = {}
        """What the nodes have processed since the counters were last read."""
        self._trial_runtime: Runtime = {}
        """The same since the trial began."""
        self._errors_before: Sequence[Mapping[str, Any]] = ()

    @override
    def unusable(self) -> str:
        if importlib.util.find_spec("vpp_papi") is None:
            return f"the Python package vpp-papi is missing: {command_to_install('vpp', 'vpp-papi')}"
        if len(self._wiring.links) not in LINK_COUNTS:
            return f"VPP as the device needs {NEEDED_LINKS}"
        return ""

    @override
    def check(self, options: Mapping[str, str]) -> None:
        VppOptions.parse(options, self._node.cpu)

    @override
    def lacks(self, options: Mapping[str, str]) -> str:
        return lacks(options, len(self._wiring.links))

    @override
    def start(self, options: Mapping[str, str]) -> None:
        parsed = VppOptions.parse(options, self._node.cpu)
        if reason := self.unusable():
            raise TestbedError(reason)
        self.stop()
        try:
            self._start(parsed)
        except BaseException:
            self.stop()
            raise

    def _start(self, options: VppOptions) -> None:
        definitions = self._read_definitions(options.api_dir)
        folder = self._folder = options.runtime_dir
        # The socket of an instance that was killed would be found before that of the new one exists.
        self._remove_files()
        arguments = startup_configuration(options, [link.device for link in self._wiring.links])
        name = PurePosixPath(folder).name
        self._program = Program(self._wiring.at_device, name, [options.program, *arguments])
        api = self._api = self._connect(self._program, options.api_socket, definitions)
        answers = api.call("control_ping")["vpe_pid"]
        if answers != self._program.pid:
            raise TestbedError(
                f"vpp: process {answers} answers at {options.api_socket}, not the one that was started "
                f"({self._program.pid}); end it, or choose another runtime_dir"
            )
        self.version = f"vpp {api.call('show_version')['version']}"
        configure(api, self._wiring.links, options)
        api.command("clear runtime")
        self._runtime = {}

    def _read_definitions(self, folder: str) -> str:
        """Return the definitions of all messages, which differ between builds."""
        command = ["find", "-L", folder, "-name", "*.api.json", "-exec", "cat", "{}", "+"]
        try:
            found = run(self._wiring.at_device(command))
        except TestbedError as error:
            raise TestbedError(f"{error}; is VPP installed on the device's node?") from None
        if not found:
            raise TestbedError(f"vpp: no *.api.json files below {folder} on the device's node; see api_dir")
        return found

    def _connect(self, program: Program, socket: str, definitions: str) -> VppApi:
        deadline = time.monotonic() + _START_S
        test = ["sh", "-c", 'if [ -S "$1" ]; then echo yes; fi', "sh", socket]
        local = ""
        while True:
            program.check()
            reason = f"did not create {socket}"
            if local or run(self._wiring.at_device(test)):
                local = local or self._wiring.forward_device(socket)
                try:
                    return VppApi(local, definitions, self._check_program)
                except NoConnectionError as error:
                    reason = f"does not answer at {socket} ({error})"
            if time.monotonic() > deadline:
                lines = program.last_lines().strip().splitlines()
                last = f": {lines[-1].strip()[:300]}" if lines else ""
                raise TestbedError(f"vpp {reason} within {_START_S:g} s{last}")
            time.sleep(0.1)

    def _check_program(self) -> None:
        """Raise a TestbedError with what VPP printed last if it has ended, or ends now."""
        deadline = time.monotonic() + _END_S
        while self._program and time.monotonic() < deadline:
            self._program.check()
            time.sleep(0.05)

    @override
    def reconfigure(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        if self._api is None:
            raise TestbedError("vpp is not running")
        options = VppOptions.parse(after, self._node.cpu)
        add_routes(self._api, self._wiring.links, options, added_routes(before, after))

    @override
    def verify_running(self) -> None:
        if self._program:
            self._program.check()

    @override
    def stop(self) -> None:
        api, program = self._api, self._program
        self._api = self._program = None
        try:
            if api:
                api.close()
        finally:
            if program:
                program.close()
                # The node may not be reachable any more.
                with contextlib.suppress(TestbedError):
                    self._remove_files()

    def _remove_files(self) -> None:
        """Remove what an instance leaves: its sockets, and its files of shared memory."""
        script = f'rm -f "$1"/*.sock /dev/shm/{SHARED_MEMORY}-*; rmdir "$1" 2>/dev/null || true'
        run(self._wiring.at_device(["sh", "-c", script, "sh", self._folder]))

    @override
    def busy_processes(self) -> Sequence[int]:
        """Return VPP's workers, which are threads, or its main thread if it has no others."""
        if self._program is None:
            return []
        workers = []
        for name in Path(f"/proc/{self._program.pid}/task").glob("[0-9]*/comm"):
            try:
                if name.read_text().startswith("vpp_wk_"):
                    workers.append(int(name.parent.name))
            except OSError:
                continue  # It ended in the meantime.
        return sorted(workers) or [self._program.pid]

    @override
    def counters(self) -> Counters:
        """Return the counters since the device was started; those of ``runtime`` since they were last read.

        The clocks per packet of a node are an average, which would otherwise include other trials.
        """
        if self._api is None:
            return {}
        self._read_runtime(self._api)
        found = {
            "runtime": self._runtime,
            "errors": parse_errors(self._api.command("show errors")),
            "interfaces": parse_interfaces(self._api.command("show interface")),
        }
        self._runtime = {}
        return found

    def _read_runtime(self, api: VppApi) -> None:
        """Add what the nodes have processed since they were last read: averages cannot be subtracted."""
        found = parse_runtime(api.command("show runtime"))
        api.command("clear runtime")
        self._runtime = add_runtimes(self._runtime, found)
        self._trial_runtime = add_runtimes(self._trial_runtime, found)

    @override
    def begin_trial(self) -> None:
        if self._api is None:
            return
        self._read_runtime(self._api)
        self._trial_runtime = {}
        self._errors_before = parse_errors(self._api.command("show errors"))

    @override
    def trial_counters(self) -> Counters:
        """Return the clocks of each node in the trial, and the errors that were counted in it."""
        if self._api is None:
            return {}
        self._read_runtime(self._api)
        errors = parse_errors(self._api.command("show errors"))
        return {"runtime": self._trial_runtime, "errors": subtract_errors(errors, self._errors_before)}

    @override
    def cycles_per_packet(self, before: Counters, after: Counters) -> Mapping[str, float]:
        """Return the clocks of each node; reading the counters before has cleared them."""
        return clocks_per_packet(after.get("runtime", {}))


def parse_runtime(text: str) -> Runtime:
    """Parse ``show runtime``: what each node of the graph has processed, by thread.

    Nodes without packets are omitted: processes of VPP itself, and input nodes that found nothing.
    """
    thread = "vpp_main"
    found: Runtime = {}
    for line in text.splitlines():
        if named := _THREAD.match(line):
            thread = named[1]
        elif (row := _NODE.fullmatch(line.rstrip())) and int(row[4]):
            found.setdefault(thread, {})[row[1]] = {
                "calls": int(row[3]),
                "packets": int(row[4]),
                "clocks_per_packet": float(row[6]),
                "packets_per_call": float(row[7]),
            }
    return found


def add_runtimes(first: Runtime, second: Runtime) -> Runtime:
    """Return what the nodes have processed in two periods together.

    :param first: the result of :func:`parse_runtime`, or of this function, as ``second``.
    """
    found = {thread: dict(nodes) for thread, nodes in first.items()}
    for thread, nodes in second.items():
        own = found.setdefault(thread, {})
        own |= {name: _add_nodes(own[name], node) if name in own else node for name, node in nodes.items()}
    return found


def _add_nodes(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    calls, packets = (first[name] + second[name] for name in ("calls", "packets"))
    clocks = sum(node["packets"] * node["clocks_per_packet"] for node in (first, second))
    return {
        "calls": calls,
        "packets": packets,
        "clocks_per_packet": clocks / packets,
        "packets_per_call": packets / calls if calls else 0.0,
    }


def clocks_per_packet(runtime: Mapping[str, Mapping[str, Mapping[str, float]]]) -> dict[str, float]:
    """Return the clocks per packet of the nodes that the traffic passes: the mean over all threads' packets.

    Nodes with few packets, such as those of ARP, are omitted. They are not on the path of the traffic, and
    differ from run to run.

    :param runtime: the result of :func:`parse_runtime`.
    """
    packets: dict[str, float] = {}
    clocks: dict[str, float] = {}
    for nodes in runtime.values():
        for name, node in nodes.items():
            packets[name] = packets.get(name, 0) + node["packets"]
            clocks[name] = clocks.get(name, 0) + node["packets"] * node["clocks_per_packet"]
    least = _RARE * max(packets.values(), default=0)
    return {name: clocks[name] / count for name, count in packets.items() if count >= least}


def parse_errors(text: str) -> list[dict[str, Any]]:
    """Parse ``show errors``: a count for each node and reason, the sum over all threads."""
    has_severity = "Severity" in text
    counts: dict[tuple[str, str], int] = {}
    for line in text.splitlines():
        if row := _ERROR.fullmatch(line.rstrip()):
            reason = row[3].rpartition(" ")[0].rstrip() if has_severity else row[3]
            counts[row[2], reason] = counts.get((row[2], reason), 0) + int(row[1])
    return [{"node": node, "reason": reason, "count": count} for (node, reason), count in counts.items()]


def subtract_errors(
    after: Sequence[Mapping[str, Any]], before: Sequence[Mapping[str, Any]]
) -> list[dict[str, Any]]:
    """Return the errors that were counted between two results of :func:`parse_errors`."""
    counts = {(error["node"], error["reason"]): error["count"] for error in before}
    new = [
        {**error, "count": error["count"] - counts.get((error["node"], error["reason"]), 0)}
        for error in after
    ]
    return [error for error in new if error["count"]]


def parse_interfaces(text: str) -> dict[str, dict[str, int]]:
    """Parse ``show interface``: the counters of each interface that are not zero."""
    found: dict[str, dict[str, int]] = {}
    counters: dict[str, int] = {}
    for line in text.splitlines():
        if row := _INTERFACE.fullmatch(line.rstrip()):
            counters = found.setdefault(row[1], {})
            if row[2]:
                counters[row[2]] = int(row[3])
        elif row := _COUNTER.fullmatch(line.rstrip()):
            counters[row[1]] = int(row[2])
    return found
