"""A chain of devices: frames from one port of the generator pass all of them on their way to the other.

Drivers know one device between two ports of a generator. In a chain, each device has a driver of its own,
which sees the ports of its neighbours as those of the generator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from typing_extensions import override

from perftrend.errors import SettingsError, TestbedError
from perftrend.measure.interfaces import Counters, Device, Link, Node, Target, Wiring, vlan_option
from perftrend.measure.traffic import TUNNELS

_Answer = TypeVar("_Answer")


def hops(links: Sequence[Link]) -> dict[str, Sequence[Link]]:
    """Return the links of each device, from those of a chain in its order; empty if it has no inner link.

    In a link between two devices, ``generator`` is the one nearer to the first link.
    """
    if all(link.generator_node == "tg" for link in links):
        return {}
    found: dict[str, Sequence[Link]] = {}
    for towards_first, towards_last in pairwise(links):
        is_last = towards_last.generator_node == "tg"
        found[towards_first.device_node] = (towards_first, towards_last if is_last else _turned(towards_last))
    return found


def _turned(link: Link) -> Link:
    """Return a link between devices as the one that is nearer to the first link sees it."""
    return replace(
        link,
        generator=link.device,
        device=link.generator,
        generator_node=link.device_node,
        device_node=link.generator_node,
    )


class Hop(Wiring):
    """The wiring as one device of a chain sees it.

    :param wiring: the open wiring of the chain.
    :param node: the node of the device.
    """

    def __init__(self, wiring: Wiring, node: str) -> None:
        self._wiring = wiring
        self._node = node
        self.links: Sequence[Link] = wiring.hops[node]
        self.generator_ports: Sequence[str] = [f"packet:{link.generator.interface}" for link in self.links]
        self.device_ports: Sequence[str] = [f"packet:{link.device.interface}" for link in self.links]
        self.has_own_network = wiring.has_own_network
        self.is_remote = wiring.is_node_remote(node)

    @override
    def unusable(self) -> str:
        return self._wiring.unusable()

    @override
    def open(self) -> None:
        """Do nothing: the chain's wiring is opened as a whole."""

    @override
    def close(self) -> None:
        """Do nothing: the chain's wiring is closed as a whole."""

    @override
    def at_generator(self, command: Sequence[str]) -> list[str]:
        return self._wiring.at_generator(command)

    @override
    def at_device(self, command: Sequence[str]) -> list[str]:
        return self._wiring.at_node(self._node, command)

    @override
    def at_node(self, node: str, command: Sequence[str]) -> list[str]:
        return self._wiring.at_node(node, command)

    @override
    def forward_generator(self, target: Target) -> Target:
        return self._wiring.forward_generator(target)

    @override
    def forward_device(self, target: Target) -> Target:
        return self._wiring.forward_node(self._node, target)

    @override
    def forward_node(self, node: str, target: Target) -> Target:
        return self._wiring.forward_node(node, target)


class ChainedDevice(Device):
    """All devices of a chain as one: the same driver on each node, started with the same options.

    :param driver: the class of the driver.
    :param nodes: those of the devices, in the order of the chain.
    """

    def __init__(
        self, driver: Callable[[Wiring, Node], Device], wiring: Wiring, nodes: Mapping[str, Node]
    ) -> None:
        if missing := [name for name in nodes if name not in wiring.hops]:
            raise SettingsError(
                f"node {missing[0]} is not connected: the wiring makes no chain, and the testbed's "
                "file has no links for one"
            )
        self._devices = {name: driver(Hop(wiring, name), node) for name, node in nodes.items()}
        self._vlans = {name: vlan_option(wiring.hops[name]) for name in nodes}
        """The option ``vlan`` of each device whose links have VLANs."""
        self.reconfigurable = next(iter(self._devices.values())).reconfigurable
        self.version = self._join_versions()

    def _join_versions(self) -> str:
        """Return the version of all devices, or each of them if they differ."""
        versions = {name: device.version for name, device in self._devices.items()}
        if len(set(versions.values())) == 1:
            return next(iter(versions.values()))
        return ", ".join(f"{name}: {version}" for name, version in versions.items())

    @override
    def unusable(self) -> str:
        return self._first_reason(lambda device, _: device.unusable())

    @override
    def check(self, options: Mapping[str, str]) -> None:
        for name, device in self._devices.items():
            device.check({**options, **self._vlans[name]})

    @override
    def lacks(self, options: Mapping[str, str]) -> str:
        if options.get("tunnel", TUNNELS[0]) != TUNNELS[0]:
            return f"a chain does not support tunnel={options['tunnel']}: the first one would end it"
        return self._first_reason(lambda device, vlan: device.lacks({**options, **vlan}))

    def _first_reason(self, reason: Callable[[Device, Mapping[str, str]], str]) -> str:
        """Return the first reason that a device has, with the name of its node; empty if none has one."""
        for name, device in self._devices.items():
            if found := reason(device, self._vlans[name]):
                return f"{name}: {found}"
        return ""

    @override
    def start(self, options: Mapping[str, str]) -> None:
        self.stop()
        try:
            self._of_each(lambda device, vlan: device.start({**options, **vlan}))
        except BaseException:
            self.stop()
            raise
        self.version = self._join_versions()

    @override
    def reconfigure(self, before: Mapping[str, str], after: Mapping[str, str]) -> None:
        self._of_each(lambda device, vlan: device.reconfigure({**before, **vlan}, {**after, **vlan}))

    @override
    def verify_running(self) -> None:
        self._of_each(lambda device, _: device.verify_running())

    @override
    def stop(self) -> None:
        failure: BaseException | None = None
        for device in reversed(self._devices.values()):
            try:
                device.stop()
            except BaseException as error:  # noqa: BLE001 - raised once the other devices are stopped
                failure = failure or error
        if failure:
            raise failure

    @override
    def busy_processes(self) -> Sequence[int]:
        return [process for device in self._devices.values() for process in device.busy_processes()]

    @override
    def counters(self) -> Counters:
        return self._of_each(lambda device, _: device.counters())

    @override
    def begin_trial(self) -> None:
        self._of_each(lambda device, _: device.begin_trial())

    @override
    def trial_counters(self) -> Counters:
        found = self._of_each(lambda device, _: device.trial_counters())
        return {name: counters for name, counters in found.items() if counters}

    @override
    def cycles_per_packet(self, before: Counters, after: Counters) -> Mapping[str, float]:
        return {
            f"{name}-{part}": spent
            for name, device in self._devices.items()
            for part, spent in device.cycles_per_packet(before[name], after[name]).items()
        }

    def _of_each(self, request: Callable[[Device, Mapping[str, str]], _Answer]) -> dict[str, _Answer]:
        """Return what each device answers, by its node. :raises TestbedError: with the name of the node."""
        answers = {}
        for name, device in self._devices.items():
            try:
                answers[name] = request(device, self._vlans[name])
            except TestbedError as error:
                raise TestbedError(f"{name}: {error}") from None
        return answers
