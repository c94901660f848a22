"""The parts of a testbed: wiring, a traffic generator and a device, each defined by a protocol.

Drivers are found by entry point, so that a team can add its own without changing this package:
``perftrend.wirings``, ``perftrend.traffic_generators`` and ``perftrend.devices`` name classes whose
``__init__`` has the parameters that the protocols describe. Devices validate their options, from a test or a
command line, by :func:`check_options`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Protocol, TypeVar

from perftrend.errors import SettingsError, TestbedError, nearest
from perftrend.measure.traffic import (
    FORWARDINGS,
    LONGEST,
    TUNNELS,
    USUAL_LONGEST,
    TrafficProfile,
    parse_frame_bytes,
    parse_vlans,
)
from perftrend.measurement import Trial

Counters = Mapping[str, Any]
"""Names and numbers, nested to any depth; written as JSON."""

Target = TypeVar("Target", int, str)
"""A TCP port, or the path of a UNIX socket."""

TEST_NUMBERS: Mapping[str, range] = MappingProxyType(
    {
        "acl_rules": range(10_001),
        "cores": range(1, 65),
        "frame_bytes": range(USUAL_LONGEST, LONGEST + 1),
        "receive_queues": range(1, 65),
        "routes": range(2_000_001),
    }
)
"""Options with an integer value that tests set for all devices, and the range of that value."""
TEST_WORDS: Mapping[str, Sequence[str]] = MappingProxyType({"forwarding": FORWARDINGS, "tunnel": TUNNELS})

_NUMBER = re.compile(r"[0-9]{1,9}")
"""Longer numbers are out of every range, and slow to parse."""


@dataclass(frozen=True, slots=True)
class Node:
    """A machine of the testbed, or the part of this machine that acts as one."""

    cpu: int | None = None
    """The core that the node's busy process is pinned to; None if it is not pinned."""
    options: Mapping[str, str] | None = None
    """Settings that a driver needs to reach it, such as an address and a user."""


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a node."""

    interface: str = ""
    """The name of its interface, in the network of the node."""
    mac: str = ""
    pci: str = ""
    """Its PCI address, if a driver in user space takes the port from the kernel."""
    ip: str = ""
    """Its address and the length of the network prefix, such as ``198.18.0.1/24``."""


@dataclass(frozen=True, slots=True)
class Link:
    """A cable between a port of the generator and one of the device.

    In a chain of devices, each device sees the port of its neighbour as the generator's.
    """

    generator: Port
    device: Port
    next_hop_mac: str = ""
    """Where the device sends the frames that it routes to this link; empty if to the generator's port."""
    generator_node: str = "tg"
    device_node: str = "dut"
    vlan: int = 0
    """The VLAN whose tag all frames on this link have; 0 if they have none, or that of a test."""

    @property
    def next_hop(self) -> str:
        """The MAC address that the device sends the frames to that it routes to this link."""
        return self.next_hop_mac or self.generator.mac


class Wiring(Protocol):
    """The connection between the generator's ports and the device's.

    ``__init__(nodes: Mapping[str, Node], links: Sequence[Link], **options: str)``, with the nodes ``tg``,
    ``dut`` and, in a chain, ``dut2`` and ``dut3``, and the links of the testbed's file in the order of the
    chain. In a link between two devices, the ``generator`` is the one nearer to the first link.
    """

    generator_ports: Sequence[str]
    """The generator's ports, in the form that the embedded drivers use."""
    device_ports: Sequence[str]
    links: Sequence[Link] = ()
    """Those of the generator: one, or pairs. In a chain, they lead to the first and to the last device."""
    hops: Mapping[str, Sequence[Link]] = MappingProxyType({})
    """The links of each device of a chain, by its node, in the order of the chain; empty without a chain."""
    has_own_network: bool = False
    """Whether programs at the device's ports can use no other network."""
    is_remote: bool = False
    """Whether ports are on other machines."""

    def unusable(self) -> str:
        """Return why this machine does not support the wiring; empty if it does."""

    def open(self) -> None:
        """Connect the ports. :raises TestbedError: if that fails; nothing is left behind."""

    def close(self) -> None:
        """Remove all connections; may be called at any time and more than once."""

    def lacks(self, frame_bytes: int) -> str:  # noqa: ARG002 - for the wirings
        """Return why the connections cannot carry frames of this length; empty if they can.

        The test is then skipped, and has no result. It is called for frames of more than 1,518 bytes only.
        """
        return ""

    def carry(self, frame_bytes: int) -> None:
        """Set the connections up for frames of up to this length; called before each start of the device."""
        del frame_bytes  # not all wirings have such a limit

    def at_generator(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs ``command`` where the generator's ports are."""

    def at_device(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs ``command`` where the device's ports are."""

    def at_node(self, node: str, command: Sequence[str]) -> list[str]:
        """Return the command that runs ``command`` on a node."""
        return self.at_generator(command) if node == "tg" else self.at_device(command)

    def is_node_remote(self, node: str) -> bool:  # noqa: ARG002 - for wirings with nodes of both kinds
        """Return whether a node is another machine."""
        return self.is_remote

    def forward_generator(self, target: Target) -> Target:
        """Return the port or socket of this machine that leads to one of the generator's node.

        :raises TestbedError: if there is no way to it.
        """
        return target

    def forward_device(self, target: Target) -> Target:
        """Return the port or socket of this machine that leads to one of the device's node."""
        return target

    def forward_node(self, node: str, target: Target) -> Target:
        """Return the port or socket of this machine that leads to one of a node."""
        return self.forward_generator(target) if node == "tg" else self.forward_device(target)

    def ssh(self, node: str) -> tuple[Sequence[str], str]:
        """Return the options of ``ssh`` and ``scp`` for a node, and its address.

        :raises SettingsError: if it is not reached by ssh, or if ``scp`` would misread the address.
        """
        raise SettingsError(
            f"node {node} is not reached by ssh; choose a testbed with the wiring ssh, or another profile"
        )

    def lock(self, name: str, owner: str, wait_s: float, token: str = "") -> str:
        """Reserve the nodes for this job until the wiring is closed, if other machines can use them, too.

        The wiring may be open or not.

        :param owner: name of this job, for messages of others.
        :param token: what this has returned to the process of the job that has reserved them; the caller then
            shares the lock. Empty: acquire it.
        :returns: the token of the lock, which cannot be guessed; empty if no lock is needed.
        :raises TestbedError: if another job still uses them after ``wait_s``, or if the job of the token has
            lost the lock to another one.
        """
        del name, owner, wait_s  # wirings on this machine need no lock of their own
        return token

    def end_left_overs(self) -> None:
        """End what earlier jobs have left on the nodes; called once the wiring is open and locked.

        The job or the connection that started it may be long gone, and a testbed's file may have another
        driver since.
        """
        return  # Programs on this machine have ended with their job.

    def verify_lock(self) -> None:
        """Raise a TestbedError if the lock that this wiring has acquired may have been lost since."""
        return


class TrafficGenerator(Protocol):
    """A generator that sends frames at a rate and counts those that return.

    ``__init__(wiring: Wiring, node: Node, options: Mapping[str, str])``.
    """

    version: str
    measures_latency: bool = False
    """Whether its trials have a latency. Drivers that can measure it have the option ``latency``: its value
    ``yes`` in the testbed's file also gives all tests the tag ``LATENCY``."""

    def open(self) -> None:
        """Prepare to send traffic. :raises TestbedError: if that fails; nothing is left behind."""

    def close(self) -> None:
        """Release all resources; may be called at any time and more than once."""

    def lacks(self, traffic: TrafficProfile) -> str:  # noqa: ARG002 - for the drivers
        """Return why the generator cannot send such traffic; empty if it can.

        The test is then skipped, and has no result.
        """
        return ""

    def use(self, traffic: TrafficProfile) -> None:
        """Select the traffic."""

    def highest_pps(self) -> float:
        """Return the highest rate that it sustains with the selected traffic; infinity if it has no limit."""

    def trial(self, rate_pps: float, duration_s: float, fail_above: float | None) -> Trial:
        """Run one trial, which may end early once its loss ratio is certain to exceed ``fail_above``.

        ``Trial.invalid`` contains the reason if the trial is not valid.
        """

    def busy_processes(self) -> Sequence[int]:
        """Return the processes on this machine that need exclusive use of their cores."""

    def counters(self) -> Counters:
        """Return the generator's counters since it was opened."""


class Device(Protocol):
    """The device under test, which forwards frames.

    ``__init__(wiring: Wiring, node: Node)``.
    """

    version: str
    reconfigurable: Collection[str] = ()
    """Options with an integer value that :meth:`reconfigure` can increase."""

    def unusable(self) -> str:
        """Return why this user or machine cannot run the device; empty if they can."""

    def check(self, options: Mapping[str, str]) -> None:
        """Validate the options. :raises SettingsError: for an unknown option or value, naming the nearest."""

    def lacks(self, options: Mapping[str, str]) -> str:  # noqa: ARG002 - for the drivers
        """Return why the device cannot do what a test requires by valid options; empty if it can.

        The test is then skipped, and has no result.
        """
        return ""

    def start(self, options: Mapping[str, str]) -> None:
        """Start a new instance of the device. :raises TestbedError: if that fails; nothing is left behind."""

    def reconfigure(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        """Increase options of the running device, which goes on to forward.

        It is called in a thread of its own, while traffic runs.

        :param before: the options that the device runs with.
        :param after: all options with their new values; valid, and different in :attr:`reconfigurable` only.
        :raises TestbedError: if that fails.
        """
        changed = [name for name in after if after[name] != before.get(name)]
        raise TestbedError(f"this device cannot change {' and '.join(changed)} while it runs")

    def verify_running(self) -> None:
        """Raise a TestbedError if the device has ended since its start: it would lose every frame."""

    def stop(self) -> None:
        """Stop the device; may be called at any time and more than once."""

    def busy_processes(self) -> Sequence[int]:
        """Return the processes on this machine that need exclusive use of their cores."""

    def counters(self) -> Counters:
        """Return the device's counters since it was started."""

    def begin_trial(self) -> None:
        """Begin to count for :meth:`trial_counters`; no traffic runs yet."""
        return

    def trial_counters(self) -> Counters:
        """Return what the device has counted in the trial that has ended; empty if it counts no trials."""
        return {}

    def cycles_per_packet(self, before: Counters, after: Counters) -> Mapping[str, float]:  # noqa: ARG002 - for the drivers
        """Return the CPU cycles per packet of each part of the device between two readings of its counters.

        :param before: what :meth:`counters` returned, without a reading in between.
        :param after: what it returned then.
        :returns: by node of the graph, or as ``total``; empty if the device does not count cycles.
        """
        return {}


@dataclass(frozen=True, slots=True)
class DeviceAbilities:
    """What a device supports of the options that tests set for all devices."""

    name: str
    """Of the device, in messages."""
    forwarding: Collection[str]
    """Values of the option ``forwarding``."""
    one_link: Collection[str] = ()
    """Those of them that it can do by a link without another one, as with one link or three."""
    acl_rules: Collection[str] = ()
    """Those of them that access lists apply to."""
    routes: Collection[str] = ()
    """Those of them that have a table of routes."""
    tunnel: Collection[str] = ()
    vlan: bool = False
    vlan_per_link: Collection[str] = ()
    """Values of ``forwarding`` with which it can also forward from one VLAN to another."""
    cores: int = 1
    """The most cores that can forward."""
    receive_queues: int = 1
    """The most receive queues that each port can have."""
    longest_frame: int = USUAL_LONGEST
    """In bytes, including the checksum."""

    def lacks(self, options: Mapping[str, str], links: int = 2) -> str:
        """Return why the device cannot run a test with these valid options; empty if it can.

        :param links: the number of its links.
        """
        forwarding = options.get("forwarding", FORWARDINGS[0])
        if links % 2 and forwarding in self.forwarding and forwarding not in self.one_link:
            number = "one link" if links == 1 else f"{links} links"
            return f"{self.name} does not support forwarding={forwarding} with {number}"
        supported = {
            "forwarding": forwarding in self.forwarding,
            "acl_rules": forwarding in self.acl_rules or options.get("acl_rules", "0") == "0",
            "routes": forwarding in self.routes or options.get("routes", "0") == "0",
            "tunnel": options.get("tunnel", TUNNELS[0]) in {TUNNELS[0], *self.tunnel},
            "vlan": self._supports_vlans(parse_vlans(options), forwarding),
            "cores": int(options.get("cores", "1")) <= self.cores,
            "receive_queues": int(options.get("receive_queues", "1")) <= self.receive_queues,
        }
        missing = [f"{name}={options[name]}" for name, is_supported in supported.items() if not is_supported]
        if not missing:
            return _lacks_queues(options, links) or self._lacks_length(parse_frame_bytes(options))
        way = "" if missing[0].startswith("forwarding") else f" for forwarding={forwarding}"
        return f"{self.name} does not support {' and '.join(missing)}{way}"

    def lacks_cores(self, first: int, count: int) -> str:
        """Return why this machine does not have the cores that are to forward; empty if it has them."""
        available = os.sched_getaffinity(0)
        missing = [core for core in range(first, first + count) if core not in available]
        if not missing:
            return ""
        return f"{self.name} does not support cores={count}: this machine has no core {missing[0]}"

    def _lacks_length(self, frame_bytes: int) -> str:
        if frame_bytes <= self.longest_frame:
            return ""
        return f"frames of {frame_bytes} bytes ({self.name} forwards up to {self.longest_frame})"

    def _supports_vlans(self, vlans: Sequence[int], forwarding: str) -> bool:
        is_one = len(set(vlans)) == 1
        return not vlans or (self.vlan and (is_one or forwarding in self.vlan_per_link))


def _lacks_queues(options: Mapping[str, str], links: int) -> str:
    """Return why the receive queues of a test are too few; empty if each core has one."""
    cores, queues = (int(options.get(name, "1")) for name in ("cores", "receive_queues"))
    if "receive_queues" not in options or cores <= queues * links:
        return ""
    return f"cores={cores} with receive_queues={queues}: {cores - queues * links} cores would have no queue"


def vlan_option(links: Sequence[Link]) -> dict[str, str]:
    """Return the option ``vlan`` of all tests on links that have VLANs; empty if they have none.

    It is a number if all links have the same VLAN, so that a device need not support different ones.
    """
    vlans = [str(link.vlan) for link in links if link.vlan]
    if not vlans:
        return {}
    return {"vlan": vlans[0] if len(set(vlans)) == 1 else ",".join(vlans)}


def added_routes(before: Mapping[str, str], after: Mapping[str, str]) -> range:
    """Return the numbers of the routes that a device gets if its options change."""
    return range(int(before.get("routes", "0")), int(after.get("routes", "0")))


def check_options(
    options: Mapping[str, str],
    *,
    numbers: Mapping[str, range] = MappingProxyType({}),
    words: Mapping[str, Sequence[str]] = MappingProxyType({}),
    texts: Sequence[str] = (),
) -> None:
    """Validate the names and the values of device options, including those that tests set for all devices.

    :param numbers: further options with an integer value, and the range of that value.
    :param words: further options with a fixed set of values.
    :param texts: options with any text as their value, which the device itself checks.
    :raises SettingsError: naming the option, and the nearest valid name or value.
    """
    numbers, words = {**TEST_NUMBERS, **numbers}, {**TEST_WORDS, **words}
    for name, value in options.items():
        if name in words:
            if value not in words[name]:
                raise SettingsError(f"device option {name}={value!r}{nearest(value, words[name])}")
        elif name in numbers:
            span = numbers[name]
            if not _NUMBER.fullmatch(value) or int(value) not in span:
                raise SettingsError(
                    f"device option {name}={value!r}: write a number from {span.start} to {span.stop - 1}"
                )
        elif name == "vlan":
            parse_vlans(options)
        elif name not in texts:
            known = nearest(name, [*numbers, *words, *texts, "vlan"])
            raise SettingsError(f"the device has no option {name!r}{known}")
