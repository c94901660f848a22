"""Drivers of the embedded traffic generator and the embedded device."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from typing_extensions import override

import perftrend
from perftrend import errors
from perftrend.measure.embedded.frames import count_prepared_frames, device_mac, host_mac
from perftrend.measure.embedded.generator import Count
from perftrend.measure.interfaces import (
    Counters,
    Device,
    DeviceAbilities,
    Link,
    Node,
    TrafficGenerator,
    Wiring,
    check_options,
)
from perftrend.measure.program import WorkerProcess, dies_with_parent, python_module, replace_earlier
from perftrend.measure.traffic import FORWARDINGS, LONGEST, TrafficProfile
from perftrend.measure.wiring import run
from perftrend.measurement import GeneratorHealth, Trial
from perftrend.sandbox import confine_device

_ANSWER_S = 10.0
_MOST_BYTES = 64 << 20
"""For the frames of each direction as much memory is needed, and further blocks for messages."""
_SUPPORTS = "the embedded drivers support"
_FLOOD_PPS, _FLOOD_S = 1e8, 0.0005
"""50,000 frames at once, more than any generator can send in that time."""
_SUSTAINED_SHARE = 0.9
"""The generator sustains this fraction of the rate that it reaches in a flood."""
_NUMBERS = {"burst": range(1, 513)}
_WORDS = {"isolated": ("yes", "no")}
_ABILITIES = DeviceAbilities(
    "the embedded device",
    FORWARDINGS,
    one_link=("ip4", "ip6", "l2xc"),
    acl_rules=FORWARDINGS,
    longest_frame=LONGEST,
)
"""Bridged frames are not compared with access lists: a user may set ``acl_rules`` for tests of both kinds."""
_PASSED = ("acl_rules", "burst", "forwarding", "frame_bytes")
"""Options that are passed to the program; others select the program and its rights."""
_VERSION = re.compile(r"[0-9A-Za-z][0-9A-Za-z._+~-]{0,63}")


@functools.cache
def embedded_version() -> str:
    """Return the commit of this checkout, with ``-dirty`` if it has changes, or the package's version."""
    if perftrend.COMMAND != "./run":
        # An installed package may be below a checkout of something else.
        return perftrend.__version__
    command = [
        "git",
        "-C",
        str(Path(__file__).parent),
        "describe",
        "--always",
        "--dirty",
        "--abbrev=12",
        "--exclude=*",
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return perftrend.__version__
    return done.stdout.strip() or perftrend.__version__


class EmbeddedGenerator(TrafficGenerator):
    """The traffic generator of :mod:`perftrend.measure.embedded.generator`.

    Options: ``queueing: "yes"`` sends through the interface's queue, as the kernel's own traffic does.
    """

    def __init__(self, wiring: Wiring, node: Node, options: Mapping[str, str]) -> None:
        self.version = embedded_version()
        self._wiring = wiring
        self._node = node
        self._worker: WorkerProcess | None = None
        self._sent = self._received = self._refused = 0
        unknown = [name for name in options if name != "queueing"]
        if unknown:
            known = errors.nearest(unknown[0], ["queueing"])
            raise errors.SettingsError(f"the embedded generator has no option {unknown[0]!r}{known}")
        kind = "queued:" if options.get("queueing") == "yes" else "packet:"
        self._ports = [name.replace("packet:", kind) for name in wiring.generator_ports]

    @override
    def open(self) -> None:
        self._start("perftrend.measure.embedded.generator", self._ports)

    def _start(self, module: str, ports: Sequence[str]) -> None:
        macs = _device_macs(self._wiring.links)
        command = python_module(module, ["--ports", *ports, *macs, *_cpu(self._node)])
        self._worker = WorkerProcess(
            "traffic generator", self._wiring.at_generator(_started("generator", command, self._wiring))
        )

    @override
    def close(self) -> None:
        if self._worker:
            self._worker.close()
            self._worker = None

    @override
    def lacks(self, traffic: TrafficProfile) -> str:
        longest = max(traffic.frame.sizes)
        if count_prepared_frames(traffic) * longest > _MOST_BYTES:
            return f"flow_count={traffic.flow_count}: {_SUPPORTS} {_MOST_BYTES >> 20} MB of different frames"
        return ""

    @override
    def use(self, traffic: TrafficProfile) -> None:
        if reason := self.lacks(traffic):
            raise errors.SettingsError(reason)
        request = {"frame": traffic.frame.name, "options": traffic.options}
        self._require_worker().request(request, _ANSWER_S)

    @override
    def highest_pps(self) -> float:
        return _SUSTAINED_SHARE * self.count(_FLOOD_PPS, _FLOOD_S).sent_pps

    @override
    def trial(self, rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        count = self.count(rate_pps, duration_s, fail_above)
        elapsed_s = count.elapsed_s
        if count.unproven:
            # Late, not lost: the queues are deeper than assumed. Measure again without an early end.
            count = self.count(rate_pps, duration_s)
            elapsed_s += count.elapsed_s
        return Trial(
            rate_pps=rate_pps,
            duration_s=duration_s,
            elapsed_s=elapsed_s,
            sent=count.sent,
            received=count.received,
            invalid=_doubt(count),
            sending_s=count.sending_s,
            sent_each=tuple(count.sent_each),
            received_each=tuple(count.received_each),
            # It sends all frames, late ones too, which lowers the rate.
            unsent=0,
            unsent_each=(0,) * len(count.sent_each),
            generator_health=GeneratorHealth(
                load=count.load, core_share=count.core_share, queue_full=count.refused
            ),
        )

    def count(self, rate_pps: float, duration_s: float, fail_above: float | None = None) -> Count:
        """Run a trial and return all its counts, including the time spent sending."""
        request = {"rate_pps": rate_pps, "duration_s": duration_s, "fail_above": fail_above}
        # A generator on busy cores takes longer; the validity check of the trial reports that.
        count = Count(**self._require_worker().request(request, 10 * duration_s + 30))
        self._sent += count.sent
        self._received += count.received
        self._refused += count.refused
        return count

    def _require_worker(self) -> WorkerProcess:
        if self._worker is None:
            raise errors.TestbedError("the traffic generator is not started; open the testbed first")
        return self._worker

    @override
    def busy_processes(self) -> Sequence[int]:
        return [self._worker.pid] if self._worker else []

    @override
    def counters(self) -> Counters:
        return {"sent": self._sent, "received": self._received, "refused": self._refused}


def _doubt(count: Count) -> str:
    """Return why the counts of a trial are implausible; empty if they are plausible."""
    if count.received > count.sent:
        return f"received {count.received} of {count.sent} frames sent: frames leaked into the trial"
    return ""


class EmbeddedDevice(Device):
    """The user-space forwarder of :mod:`perftrend.measure.embedded.router`.

    Options: ``forwarding`` (``ip4``, ``ip6``, ``l2`` or ``l2xc``), ``acl_rules`` (0 to 10,000), ``burst``
    (frames processed at once, 1 to 512; larger is faster), ``program`` (path of a Python program that
    replaces the router and speaks its protocol), ``version`` (reported as the device's version), ``isolated``
    (``yes`` if the program runs in a sandbox).
    """

    def __init__(self, wiring: Wiring, node: Node) -> None:
        self.version = embedded_version()
        self._wiring = wiring
        self._node = node
        self._worker: WorkerProcess | None = None

    @override
    def unusable(self) -> str:
        return ""

    @override
    def check(self, options: Mapping[str, str]) -> None:
        check_options(options, numbers=_NUMBERS, words=_WORDS, texts=("program", "version"))
        program, version = options.get("program"), options.get("version")
        if program is not None and not os.path.isfile(program):  # noqa: PTH113 - Path raises on long names
            raise errors.SettingsError(f"device option program={program!r} is not a file; give its path")
        if version is not None and not _VERSION.fullmatch(version):
            raise errors.SettingsError(f"device option version={version!r}: write a commit or a short word")
        if options.get("isolated") == "yes" and not self._wiring.has_own_network:
            raise errors.SettingsError(
                "device option isolated=yes: on this testbed, the program could use the machine's network; "
                "choose a testbed with network namespaces, such as 1n-veth"
            )

    @override
    def lacks(self, options: Mapping[str, str]) -> str:
        return _ABILITIES.lacks(options, len(self._wiring.device_ports))

    @override
    def start(self, options: Mapping[str, str]) -> None:
        self.check(options)
        self.stop()
        arguments = ["--ports", *self._wiring.device_ports, *_cpu(self._node)]
        for name, value in options.items():
            if name in _PASSED:
                arguments += [f"--{name.replace('_', '-')}", value]
        arguments += _macs(self._wiring.links)
        command = python_module("perftrend.measure.embedded.router", arguments)
        if program := options.get("program"):
            command = [sys.executable, str(Path(program).resolve()), *arguments]
        self.version = options.get("version") or embedded_version()
        is_confined = program is not None and options.get("isolated") == "yes"
        if program and is_confined:
            command = confine_device(command, Path(program).resolve(), ["CAP_NET_RAW"])
        self._worker = WorkerProcess(
            "device",
            self._wiring.at_device(_started("device", command, self._wiring)),
            is_confined=is_confined,
        )

    @override
    def verify_running(self) -> None:
        if self._worker:
            self._worker.check()

    @override
    def stop(self) -> None:
        if self._worker:
            self._worker.close()
            self._worker = None

    @override
    def busy_processes(self) -> Sequence[int]:
        return [self._worker.pid] if self._worker else []

    @override
    def counters(self) -> Counters:
        if self._worker is None:
            return {}
        # Its process may be on another machine, and the program kill is not installed on every one.
        run(self._wiring.at_device(["sh", "-c", f"kill -s USR1 {self._worker.pid}"]))
        return self._worker.read(_ANSWER_S)


def _device_macs(links: Sequence[Link]) -> list[str]:
    """Return the generator's argument for MAC addresses of the device's ports other than the usual ones."""
    usual = [device_mac(number).hex(":") for number in range(len(links))]
    macs = [link.device.mac or mac for link, mac in zip(links, usual, strict=True)]
    return [] if macs == usual else ["--device-macs", *macs]


def _macs(links: Sequence[Link]) -> list[str]:
    """Return the arguments for the MAC addresses of other next hops than the embedded generator's hosts."""
    next_hops = [link.next_hop for link in links]
    if not all(next_hops) or next_hops == [host_mac(number).hex(":") for number in range(len(links))]:
        return []
    return ["--macs", *(link.device.mac for link in links), "--next-hops", *next_hops]


def _started(name: str, command: Sequence[str], wiring: Wiring) -> list[str]:
    """Return the command that starts a worker, which ends with this job."""
    ending = dies_with_parent(command)
    # Another machine may not notice that the connection was lost.
    return replace_earlier(f"embedded-{name}", ending) if wiring.is_remote else ending


def _cpu(node: Node) -> list[str]:
    return [] if node.cpu is None else ["--cpu", str(node.cpu)]
