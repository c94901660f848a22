"""Driver of the XDP traffic generator.

The process of the XDP traffic generator, with the protocol of the embedded one.

A trial is one system call: the kernel runs the program with one frame after the other, and the program sends
those that are due. Meanwhile a second thread of this process watches the counts in the memory that it shares
with the program, and ends the call by a signal when all frames are sent or too many are overdue.
"""

from __future__ import annotations

import shutil
import signal
import socket
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from perftrend import console, errors
from perftrend.measure.embedded.drivers import EmbeddedGenerator, embedded_version
from perftrend.measure.embedded.frames import FlowFields, build, frame_direction
from perftrend.measure.embedded.generator import (
    CATCH_UP_S,
    COUNT_EVERY_S,
    OWED_AT_MOST_S,
    OverdueFrames,
    Sender,
    SentFrames,
    parse_arguments,
    serve,
)
from perftrend.measure.embedded.ports import InterfaceCount, InterfaceCounters, receive_all
from perftrend.measure.interfaces import Node, Wiring
from perftrend.measure.traffic import CHECKSUM_BYTES, USUAL_LONGEST, FrameProfile, TrafficProfile
from perftrend.measure.wiring import run
from perftrend.measure.xdp.program import INSTRUCTIONS, LiveProgram

_MOST_PORTS = 4
_HEADER_BYTES = 128
_MOST_FRAMES = 24
_UNITS_PER_S = 1e9 * 2**20
"""Times in the program have 20 bits for fractions of a nanosecond."""
_PORT = np.dtype(
    [
        ("interface", "u4"),
        ("next", "u4"),
        ("host", "u4"),
        ("source", "u4"),
        ("left", "u8"),
        ("sent", "u8"),
        ("progress", "u8"),
        ("step", "u8"),
    ]
)
_FRAME = np.dtype(
    [
        ("header", "u1", _HEADER_BYTES),
        ("length", "u4"),
        ("ip_sum", "u4"),
        ("transport_sum", "u4"),
        ("unused", "u4"),
    ]
)
PACER = np.dtype(
    [
        ("period", "u8"),
        ("catch_up", "u8"),
        ("owed_at_most", "u8"),
        ("frames", "u4"),
        ("longest", "u4"),
        ("start", "u8"),
        ("end", "u8"),
        ("now", "u8"),
        ("due", "u8"),
        ("owed", "u8"),
        ("idle", "u8"),
        ("waits", "u8"),
        ("hosts", "u4"),
        ("sources", "u4"),
        ("header_bytes", "u4"),
        ("zero", "u4"),
        ("source_host", "u4"),
        ("destination_host", "u4"),
        ("source_port", "u4"),
        ("tunnel_port", "u4"),
        ("ip_checksum", "u4"),
        ("transport_checksum", "u4"),
        ("port", _PORT, _MOST_PORTS),
        ("frame", _FRAME, (_MOST_PORTS, _MOST_FRAMES)),
    ]
)
"""``struct pacer`` of ``pacer.bpf.c``, which explains the fields."""

_DONE = 2**64 - 1
"""The progress of a port without frames to send."""
_ALL_SENT = 2**63
"""The progress of a port with its last frame; steps are rounded down."""
_LOOK_AGAIN_S = 0.001
_DELIVERED_S = 1.0
"""Time in which a port hands over the frames in its queue, however busy the device is."""


class XdpGenerator(EmbeddedGenerator):
    """The traffic generator of :mod:`perftrend.measure.xdp.generator`.

    It needs interfaces of Linux, root and a kernel with XDP live frames (Linux 5.18). Without them, it is the
    embedded generator, and :attr:`fallback` has the reason. It has no options.
    """

    def __init__(self, wiring: Wiring, node: Node, options: Mapping[str, str]) -> None:
        if options:
            raise errors.SettingsError(
                f"the generator xdp has no options, but the testbed sets {next(iter(options))!r}"
            )
        super().__init__(wiring, node, {})
        self.fallback = ""
        """Why frames are sent through sockets instead; empty if they are not."""

    @override
    def open(self) -> None:
        try:
            links = self._wiring.links
            interfaces = [link.generator.interface for link in links if not link.generator.pci]
            if not interfaces or not all(interfaces) or len(interfaces) < len(links):
                raise errors.TestbedError("it needs interfaces of Linux: the wirings veth or ssh")
            self._enable_napi()
            self._start("perftrend.measure.xdp.generator", interfaces)
            self.fallback = ""
            self.version = f"{embedded_version()} xdp"
        except errors.TestbedError as error:
            self.fallback = str(error)
            self.version = embedded_version()
            console.warn(
                f"the generator xdp cannot be used here ({self.fallback}); sending through sockets instead"
            )
            super().open()

    @override
    def lacks(self, traffic: TrafficProfile) -> str:
        if self.fallback:
            return super().lacks(traffic)
        # The kernel sends what fits into a page, and the device's port accepts no more with its usual MTU.
        if (longest := max(traffic.frame.sizes)) > USUAL_LONGEST:
            return f"frames of {longest} bytes (the generator xdp sends up to {USUAL_LONGEST})"
        # The program makes the flows, so that their number is of no importance.
        return super().lacks(replace(traffic, flow_count=1))

    def _enable_napi(self) -> None:
        """Make veth ports of the device accept XDP frames. :raises TestbedError: if they cannot."""
        for link in self._wiring.links:
            interface = link.device.interface
            if link.device.pci or not interface:
                continue  # The kernel has no interface for it.
            port = self._wiring.at_node(
                link.device_node, ["ip", "-details", "link", "show", "dev", interface]
            )
            if " veth " not in run(port):
                continue
            if not self._wiring.is_remote and not shutil.which("ethtool"):
                raise errors.TestbedError("the program ethtool is missing (Debian: apt-get install ethtool)")
            run(self._wiring.at_node(link.device_node, ["ethtool", "-K", interface, "gro", "on"]))


class XdpSender(Sender):
    """The BPF program that sends whatever is due.

    :param interfaces: the generator's ports.
    :param device_macs: the addresses of the device's ports, as for :func:`frame_direction`.
    :raises OSError: if the kernel or the user's rights do not allow BPF.
    :raises TestbedError: if frames sent in this way do not reach the device's ports.
    """

    def __init__(self, interfaces: Sequence[str], device_macs: Sequence[bytes] = ()) -> None:
        self._interfaces = interfaces
        self._device_macs = device_macs
        self._counters = [InterfaceCounters(interface) for interface in interfaces]
        self._first = [counters.read().received for counters in self._counters]
        self._sockets = [receive_all(interface) for interface in interfaces]
        self._program = LiveProgram(INSTRUCTIONS.read_bytes(), PACER.itemsize)
        self._pacer: NDArray[np.void] = np.frombuffer(self._program.variable, PACER)
        for port, interface in enumerate(interfaces):
            self._pacer["port"]["interface"][0, port] = socket.if_nametoindex(interface)
        # A signal whose only effect is that it interrupts the system call.
        signal.signal(signal.SIGUSR1, lambda *_: None)
        self._probe()

    def _probe(self) -> None:
        """Send a frame into each port, as evidence that the kernel supports all that is needed."""
        self.use(TrafficProfile(FrameProfile.parse("64B")))
        self.send(len(self._interfaces), 1e6, None)

    @override
    def use(self, traffic: TrafficProfile) -> None:
        self._traffic = traffic
        fields = FlowFields.of(traffic)
        for port in range(len(self._interfaces)):
            self._prepare(port, replace(traffic, flow_count=1), fields)
        for name, value in {
            "frames": len(traffic.frame.sizes),
            "longest": max(traffic.frame.sizes) - CHECKSUM_BYTES,
            "hosts": traffic.hosts,
            "sources": traffic.ports,
            "header_bytes": traffic.header_bytes,
            "zero": 0xFFFF if traffic.protocol == "udp" else 0,
            "source_host": fields.hosts[0],
            "destination_host": fields.hosts[1],
            "source_port": fields.transport,
            "tunnel_port": fields.tunnel_port or 0,
            "ip_checksum": fields.ip_checksum or 0,
            "transport_checksum": fields.transport_checksum or 0,
        }.items():
            self._pacer[name] = value
        for name in ("next", "host", "source"):
            self._pacer["port"][name] = 0

    def _prepare(self, port: int, first_flow: TrafficProfile, fields: FlowFields) -> None:
        """Write a frame of each size."""
        count = len(first_flow.frame.sizes)
        frames, lengths = build(first_flow, frame_direction(port, first_flow, self._device_macs), count)
        prepared = self._pacer["frame"][0, port, :count]
        prepared["header"][:, : first_flow.header_bytes] = frames[:, : first_flow.header_bytes]
        prepared["length"] = lengths
        for name, offset in (("ip_sum", fields.ip_checksum), ("transport_sum", fields.transport_checksum)):
            if offset is not None:
                # A checksum is the complement of the sum.
                prepared[name] = 0xFFFF - frames[:, offset] * np.uint32(256) - frames[:, offset + 1]

    @override
    def send(self, planned: int, rate_pps: float, overdue: OverdueFrames | None) -> SentFrames:
        period_s = 1 / rate_pps
        self._pacer["period"] = _fixed_point(period_s)
        self._pacer["catch_up"] = _fixed_point(max(period_s, CATCH_UP_S))
        self._pacer["owed_at_most"] = _fixed_point(OWED_AT_MOST_S)
        for name in ("start", "end", "now", "due", "owed", "idle", "waits"):
            self._pacer[name] = 0
        self._plan(planned)
        before = self._count()
        self._run(overdue)
        sending_s = (int(self._pacer["end"][0]) - int(self._pacer["start"][0])) / 1e9
        idle_s = int(self._pacer["idle"][0]) / _UNITS_PER_S
        sent = self._sent()
        return SentFrames(
            each=sent,
            refused=self._wait_for_delivery(sum(sent), before),
            # Each frame occupies a period.
            sending_s=sending_s + period_s,
            load=1 - idle_s / sending_s if sending_s else 0.0,
        )

    def _plan(self, planned: int) -> None:
        """Begin a trial: give each port its part of the frames."""
        ports = self._pacer["port"][0]
        ports["sent"] = 0
        ports["progress"] = _DONE
        for port, count in enumerate(self._traffic.split(planned, len(self._interfaces))):
            ports["left"][port] = count
            if count:
                ports["progress"][port] = 0
                ports["step"][port] = _ALL_SENT // count

    def _run(self, overdue: OverdueFrames | None) -> None:
        ended = threading.Event()
        watcher = threading.Thread(target=self._interrupt_at_end, args=(overdue, ended))
        watcher.start()
        try:
            self._program.run(bytes(int(self._pacer["longest"][0])))
        finally:
            ended.set()
            watcher.join()

    def _interrupt_at_end(self, overdue: OverdueFrames | None, ended: threading.Event) -> None:
        """End the system call of the main thread when all frames are sent, or too many are overdue."""
        while (left := self._count_left()) and not ended.is_set():
            left_s = left * int(self._pacer["period"][0]) / _UNITS_PER_S
            if overdue and overdue.look(time.perf_counter(), sum(self._sent())):
                break
            time.sleep(min(max(left_s, _LOOK_AGAIN_S), COUNT_EVERY_S))
        # Again and again: a signal that arrives before the call begins does not end it.
        while not ended.is_set():
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
            ended.wait(_LOOK_AGAIN_S)

    def _sent(self) -> list[int]:
        sent: list[int] = self._pacer["port"]["sent"][0, : len(self._interfaces)].tolist()
        return sent

    def _count_left(self) -> int:
        return int(self._pacer["port"]["left"].sum())

    def _wait_for_delivery(self, sent: int, before: InterfaceCount) -> int:
        """Wait until the ports have handed over all frames, and return the number that they refused.

        :raises TestbedError: if frames neither arrive nor are refused, which is no loss of the device.
        """
        deadline = time.perf_counter() + _DELIVERED_S
        while True:
            now = self._count()
            refused = now.refused - before.refused
            delivered = now.sent - before.sent
            if delivered + refused >= sent:
                return refused
            if time.perf_counter() > deadline:
                raise errors.TestbedError(
                    f"interfaces {' and '.join(self._interfaces)}: only {delivered} of {sent} XDP frames"
                    " reached the device's ports; are these up, with NAPI (ethtool -K INTERFACE gro on)?"
                )
            time.sleep(_LOOK_AGAIN_S)

    def _count(self) -> InterfaceCount:
        counts = [counters.read() for counters in self._counters]
        return InterfaceCount(*map(sum, zip(*counts, strict=True)))

    @override
    def count_received(self) -> list[int]:
        return [
            counters.read().received - first
            for counters, first in zip(self._counters, self._first, strict=True)
        ]

    @override
    def close(self) -> None:
        for counters in self._counters:
            counters.close()
        for each in self._sockets:
            each.close()
        self._program.close()


def _fixed_point(seconds: float) -> int:
    """Return a time in the unit of the program."""
    return round(seconds * _UNITS_PER_S)


def main(argv: Sequence[str] | None = None) -> int:
    """Send by the BPF program, or end with the reason why that is not possible."""
    ports, device_macs = parse_arguments(argv)
    try:
        sender = XdpSender(ports, device_macs)
    except OSError as error:
        sys.exit(f"the kernel refuses the BPF program ({error.strerror})")
    except errors.TestbedError as error:
        sys.exit(str(error))
    serve(sender)
    return 0


if __name__ == "__main__":
    sys.exit(main())
