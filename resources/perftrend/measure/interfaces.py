"""What a testbed is made of: wiring, a traffic generator and a device, each behind a protocol.

Drivers are found by entry point, so that a team adds its own without touching ours:
``perftrend.wirings``, ``perftrend.traffic_generators`` and ``perftrend.devices`` name classes that
take what the protocols' ``__init__`` say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from perftrend.model import Trial

Counters = Mapping[str, Any]
"""Names and numbers, nested at will; written as JSON."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the testbed, or the part of this machine that plays one."""

    cpu: int | None = None
    """The core that the node's busy process is pinned to; None: wherever it likes."""
    options: Mapping[str, str] | None = None
    """What a driver needs to reach it, such as an address and a user."""


class Wiring(Protocol):
    """What connects the generator's ports with the device's."""

    generator_ports: Sequence[str]
    device_ports: Sequence[str]

    def unusable(self) -> str:
        """Return why this machine cannot have such a wiring; empty when it can."""

    def open(self) -> None:
        """Connect the ports. :raises TestbedError: if that fails; nothing is left behind."""

    def close(self) -> None:
        """Take everything down again; allowed at any time and more than once."""

    def at_generator(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs ``command`` where the generator's ports are."""

    def at_device(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs ``command`` where the device's ports are."""


class TrafficGenerator(Protocol):
    """Sends frames at a rate and counts what comes back.

    ``__init__(wiring: Wiring, node: Node, options: Mapping[str, str])``.
    """

    version: str

    def open(self) -> None:
        """Get ready for traffic. :raises TestbedError: if that fails; nothing is left behind."""

    def close(self) -> None:
        """Give everything back; allowed at any time and more than once."""

    def use(self, frame: str, *, bridged: bool) -> None:
        """Choose the traffic: frame sizes, and whether the device bridges or routes."""

    def highest_pps(self) -> float:
        """Return the highest rate that it can keep with the traffic chosen; infinity: any link's."""

    def trial(self, rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        """Send for one trial. It may end early once its loss ratio is certain to exceed ``fail_above``.

        What was wrong with the trial is said in ``Trial.invalid``.
        """

    def busy_processes(self) -> Sequence[int]:
        """Return the processes on this machine that must have their cores to themselves."""

    def counters(self) -> Counters:
        """Return the generator's counters since it was opened."""


class Device(Protocol):
    """Forwards frames; the thing that is measured.

    ``__init__(wiring: Wiring, node: Node)``.
    """

    version: str

    def unusable(self) -> str:
        """Return why this user or machine cannot have such a device; empty when it can."""

    def check(self, options: Mapping[str, str]) -> None:
        """Refuse options that the device does not have. :raises SettingsError: naming the nearest."""

    def start(self, options: Mapping[str, str]) -> None:
        """Start it from nothing. :raises TestbedError: if that fails; nothing is left behind."""

    def stop(self) -> None:
        """Stop it; allowed at any time and more than once."""

    def busy_processes(self) -> Sequence[int]:
        """Return the processes on this machine that must have their cores to themselves."""

    def counters(self) -> Counters:
        """Return the device's counters since it was started."""
