"""The embedded device: a process that forwards frames between two ports.

The drivers in :mod:`perftrend.measure.embedded.drivers` start it. To start it by hand::

    python -m perftrend.measure.embedded.router --ports packet:d0 packet:d1 --acl-rules 20
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import sys
import time
from collections.abc import Sequence

import numpy as np

from perftrend.measure.embedded import topology
from perftrend.measure.embedded.forwarding import Bridge, Burst, Forwarding, Ip4Router
from perftrend.measure.embedded.port import DevicePort
from perftrend.measure.embedded.ports import device_port

_IDLE_SPIN_S = 0.002
"""Duration of busy polling after the last frame, as in a data plane; then the process waits."""
_WAIT_MS = 10
"""Longest delay until a signal is handled: Python resumes an interrupted wait."""


class Path:
    """One direction: frames that arrive at one port and leave through the other."""

    def __init__(self, source: DevicePort, target: DevicePort, forwarding: Forwarding) -> None:
        self._source = source
        self._target = target
        self._forwarding = forwarding
        self._burst = Burst(source)
        self._messages = target.messages_from(source)
        self.received = self.sent = self.refused = self.not_forwarded = 0

    def move(self, burst_size: int) -> int:
        """Forward at most one burst and return the number of frames received."""
        start, count = self._source.receive(burst_size)
        if not count:
            return 0
        rows = slice(start, start + count)
        self._messages.frame_lengths[rows] = self._source.lengths(start, count)
        forwarded = self._forwarding.forward(self._burst, rows)
        for first, last in _runs(forwarded):
            self.refused += self._target.send(self._messages, start + first, last - first)
            self.sent += last - first
        self._source.release(start, count)
        self.received += count
        self.not_forwarded += count - int(np.count_nonzero(forwarded))
        return count


def _runs(mask: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> list[tuple[int, int]]:
    """Return the begin and the end of each run of true values."""
    if mask.all():
        return [(0, len(mask))]
    edges = np.flatnonzero(np.diff(np.concatenate(([False], mask, [False])).astype(np.int8)))
    return [(int(first), int(last)) for first, last in edges.reshape(-1, 2)]


def _paths(ports: Sequence[DevicePort], forwarding: str, acl_rules: int) -> list[Path]:
    stations: dict[int, int] = {}
    paths = []
    for number, source in enumerate(ports):
        other = 1 - number
        behaviour: Forwarding = (
            Bridge(stations, number)
            if forwarding == "l2"
            else Ip4Router(
                topology.NETWORKS[other], topology.host_mac(other) + topology.device_mac(other), acl_rules
            )
        )
        paths.append(Path(source, ports[other], behaviour))
    return paths


def _forward_until_stopped(ports: Sequence[DevicePort], paths: Sequence[Path], burst_size: int) -> None:
    waiting = select.poll()
    for port in ports:
        for member in port.sockets:
            waiting.register(member, select.POLLIN)
    stopped = counters_requested = False

    def stop(*_: object) -> None:
        nonlocal stopped
        stopped = True

    def request_counters(*_: object) -> None:
        nonlocal counters_requested
        counters_requested = True

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGUSR1, request_counters)
    print(json.dumps({"ready": os.getpid()}), flush=True)  # noqa: T201 - the protocol with the driver
    last_frame = time.monotonic()
    while not stopped:
        if sum([path.move(burst_size) for path in paths]):
            last_frame = time.monotonic()
        elif time.monotonic() - last_frame > _IDLE_SPIN_S:
            waiting.poll(_WAIT_MS)
        if counters_requested:
            counters_requested = False
            print(json.dumps(_counters(ports, paths)), flush=True)  # noqa: T201 - the protocol with the driver


def _counters(ports: Sequence[DevicePort], paths: Sequence[Path]) -> dict[str, list[dict[str, int]]]:
    return {
        "ports": [
            {
                "received": path.received,
                "sent": path.sent,
                "refused": path.refused,
                "not_forwarded": path.not_forwarded,
                "dropped": port.count_dropped(),
            }
            for path, port in zip(paths, ports, strict=True)
        ]
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Forward frames until SIGTERM; on SIGUSR1, print the counters as a line of JSON."""
    parser = argparse.ArgumentParser(description="forward frames between two ports")
    parser.add_argument("--ports", nargs=2, required=True)
    parser.add_argument("--cpu", type=int)
    parser.add_argument("--forwarding", choices=("ip4", "l2"), default="ip4")
    parser.add_argument("--acl-rules", type=int, default=0)
    parser.add_argument("--burst", type=int, default=4)
    options = parser.parse_args(argv)
    if options.cpu is not None:
        os.sched_setaffinity(0, {options.cpu})
    ports = [device_port(name) for name in options.ports]
    paths = _paths(ports, options.forwarding, options.acl_rules)
    _forward_until_stopped(ports, paths, options.burst)
    for port in ports:
        port.close()
    return 0


if __name__ == "__main__":
    sys.exit(main())
