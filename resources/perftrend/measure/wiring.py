"""Connections of generator and device on one machine: veth pairs in namespaces, or loopback.

Namespaces have no names. Each is held open by a process that waits for the end of its standard input, so that
namespaces and links are removed when this process ends, even by ``kill -9``.
"""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from itertools import pairwise

from typing_extensions import override

from perftrend import errors
from perftrend.measure.chain import hops
from perftrend.measure.embedded import frames
from perftrend.measure.interfaces import Link, Node, Port, Wiring
from perftrend.measure.program import describe, lost_connection
from perftrend.measure.traffic import LINK_COUNTS, USUAL_LONGEST, mtu

COMMAND_S = 20.0
"""How long a command may take by default."""


class Namespace:
    """A network namespace that exists while this object is open.

    :param user: whether it is in a user namespace, in which this user is root; only root can do without one.
    :param user_namespace_of: another namespace whose user namespace this one shares.
    """

    def __init__(self, *, user: bool, user_namespace_of: Namespace | None = None) -> None:
        self.pid: int
        self._own_user = user
        command = ["unshare", "--net"]
        if self._own_user:
            if user_namespace_of is None:
                command = ["unshare", "--user", "--map-root-user", "--net"]
            else:
                command = [
                    "nsenter",
                    "-t",
                    str(user_namespace_of.pid),
                    "--user",
                    "--preserve-credentials",
                    "--",
                    *command,
                ]
        try:
            self._holder = subprocess.Popen(
                [*command, "--", "sh", "-c", "echo $$ && exec cat"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        except OSError as error:
            raise errors.TestbedError(f"no network namespace: {error.filename}: {error.strerror}") from None
        assert self._holder.stdout is not None  # noqa: S101 - opened as a pipe above
        line = self._holder.stdout.readline()
        if not line:
            _, error_output = self._holder.communicate()
            raise errors.TestbedError(f"no network namespace: {error_output.strip() or 'refused'}")
        self.pid = int(line)

    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs ``command`` in this namespace."""
        user = ["--user", "--preserve-credentials"] if self._own_user else []
        return ["nsenter", "-t", str(self.pid), *user, "--net", "--", *command]

    def run(self, *command: str) -> str:
        """Run a command in this namespace. :raises TestbedError: with its output, if it failed."""
        return run(self.command(command))

    def close(self) -> None:
        """Release the namespace; the kernel removes it when its last process has ended."""
        self._holder.communicate()


def run(command: Sequence[str], text: str = "", *, timeout_s: float = COMMAND_S) -> str:
    """Run a command to its end and return its output.

    :param text: the standard input of the command.
    :raises TestbedError: if it failed, or took longer than ``timeout_s``.
    """
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=timeout_s, check=False
        )
    except OSError as error:
        raise errors.TestbedError(f"{command[0]}: {error}") from None
    except subprocess.TimeoutExpired:
        raise errors.TestbedError(f"{describe(command)}: timed out after {timeout_s:g} s") from None
    if reason := lost_connection(command, done.returncode):
        raise errors.TestbedError(reason)
    if done.returncode:
        message = done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}"
        raise errors.TestbedError(f"{describe(command)}: {message}")
    return done.stdout


class VethPairs(Wiring):
    """Namespaces connected by veth pairs: ``tg0``-``d0``, ``tg1``-``d1`` and so on.

    In a chain, each device has a namespace: ``tg0``-``d0``, ``d1``-``d2``, ``d3``-``tg1`` with two devices.

    :param user_namespace: ``yes`` to use a user namespace even if root starts it; other users always use one.
    :param link_count: the number of veth pairs between generator and device: 1 to 4.
    """

    has_own_network = True

    def __init__(
        self,
        nodes: Mapping[str, Node] | None = None,
        links: Sequence[Link] = (),
        *,
        user_namespace: str = "no",
        link_count: str = "2",
    ) -> None:
        _refuse(links)
        self._user = user_namespace == "yes" or os.geteuid() != 0
        devices = [name for name in nodes or {} if name != "tg"] or ["dut"]
        self._nodes = ["tg", *devices]
        self._chain = _chain(devices) if len(devices) > 1 else _links(_count(link_count))
        if len(devices) > 1 and link_count != "2":
            raise errors.SettingsError(
                f"wiring option link_count={link_count!r}: a chain of devices has two ends; omit it"
            )
        self.links: Sequence[Link] = [link for link in self._chain if link.generator_node == "tg"]
        self.hops: Mapping[str, Sequence[Link]] = hops(self._chain)
        self.generator_ports: Sequence[str] = [f"packet:{link.generator.interface}" for link in self.links]
        self.device_ports: Sequence[str] = [f"packet:{link.device.interface}" for link in self.links]
        self._namespaces: dict[str, Namespace] = {}
        self._frame_bytes = USUAL_LONGEST

    @override
    def unusable(self) -> str:
        if not shutil.which("ip"):
            return "the program ip is missing (Debian: apt-get install iproute2)"
        try:
            Namespace(user=self._user).close()
        except errors.TestbedError as error:
            return str(error)
        return ""

    @override
    def open(self) -> None:
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        for node in self._nodes:
            first = self._namespaces.get("tg")
            self._namespaces[node] = namespace = Namespace(user=self._user, user_namespace_of=first)
            # No interface may send frames of its own: every frame that is counted was sent by a trial.
            _set(namespace, "net/ipv6/conf/default/disable_ipv6", "1")
        for link in self._chain:
            connect(link, self._namespaces)
        for node in self._nodes[1:]:
            # A new namespace may inherit forwarding; each frame would then be forwarded twice, by a
            # user-space device and by the kernel.
            _set(self._namespaces[node], "net/ipv4/ip_forward", "0")
        self._frame_bytes = USUAL_LONGEST

    @override
    def carry(self, frame_bytes: int) -> None:
        if frame_bytes == self._frame_bytes:
            return
        for link in self._chain:
            ends = ((link.generator_node, link.generator), (link.device_node, link.device))
            for node, port in ends:
                self._namespaces[node].run(
                    "ip", "link", "set", "dev", port.interface, "mtu", str(mtu(frame_bytes))
                )
        self._frame_bytes = frame_bytes

    @override
    def close(self) -> None:
        while self._namespaces:
            self._namespaces.popitem()[1].close()

    @override
    def at_generator(self, command: Sequence[str]) -> list[str]:
        return self.at_node("tg", command)

    @override
    def at_device(self, command: Sequence[str]) -> list[str]:
        return self.at_node("dut", command)

    @override
    def at_node(self, node: str, command: Sequence[str]) -> list[str]:
        return self._namespaces[node].command(command)


def connect(link: Link, namespaces: Mapping[str, Namespace]) -> None:
    """Make a link of a veth pair between the namespaces of its nodes."""
    near, far = namespaces[link.generator_node], namespaces[link.device_node]
    near.run(
        "ip", "link", "add", link.generator.interface, "address", link.generator.mac, "type", "veth",
        "peer", "name", link.device.interface, "address", link.device.mac, "netns", str(far.pid),
    )  # fmt: skip
    near.run("ip", "link", "set", link.generator.interface, "arp", "off", "up")
    far.run("ip", "link", "set", link.device.interface, "arp", "off", "up")


def _refuse(links: Sequence[Link]) -> None:
    """Raise a SettingsError if the testbed's file has links, of which nothing would be used."""
    if links:
        raise errors.SettingsError("this wiring makes its links itself; omit links from the testbed's file")


def _count(link_count: str) -> int:
    """Return the value of the wiring option ``link_count``."""
    if link_count not in map(str, LINK_COUNTS):
        raise errors.SettingsError(f"wiring option link_count={link_count!r}: write a number from 1 to 4")
    return int(link_count)


def _links(count: int) -> list[Link]:
    """Return the links between the generator and a device."""
    return [
        Link(
            Port(f"tg{number}", _text(frames.generator_mac(number))),
            Port(f"d{number}", _text(frames.device_mac(number))),
            _text(frames.host_mac(number)),
        )
        for number in range(count)
    ]


def _chain(devices: Sequence[str]) -> list[Link]:
    """Return the links between the generator and the devices, in the order of the chain."""
    last = 2 * len(devices) - 1
    # The generator knows the addresses of the first and the last port.
    numbers = {0: 0, last: 1, **{port: port + 1 for port in range(1, last)}}
    ports = [Port(f"d{port}", _text(frames.device_mac(numbers[port]))) for port in range(last + 1)]
    ends = [Port(f"tg{number}", _text(frames.generator_mac(number))) for number in range(2)]
    hosts = [_text(frames.host_mac(number)) for number in range(2)]
    inner = [
        Link(ports[2 * place + 1], ports[2 * place + 2], "", near, far)
        for place, (near, far) in enumerate(pairwise(devices))
    ]
    return [
        Link(ends[0], ports[0], hosts[0], "tg", devices[0]),
        *inner,
        Link(ends[1], ports[last], hosts[1], "tg", devices[-1]),
    ]


def _set(namespace: Namespace, name: str, value: str) -> None:
    """Set a kernel parameter if the kernel has it."""
    namespace.run("sh", "-c", '[ ! -e "/proc/sys/$1" ] || echo "$2" > "/proc/sys/$1"', "sh", name, value)


def _text(mac: bytes) -> str:
    return mac.hex(":")


class Loopback(Wiring):
    """UDP on the loopback interface, at a random address, which avoids conflicts.

    :param link_count: the number of ports of generator and device: 1 to 4.
    """

    def __init__(
        self, nodes: Mapping[str, Node] | None = None, links: Sequence[Link] = (), *, link_count: str = "2"
    ) -> None:
        del nodes  # they are this machine
        _refuse(links)
        # All of 127.0.0.0/8 is this machine: a random address avoids ports that are in use.
        address = (
            f"127.{secrets.randbelow(250) + 2}.{secrets.randbelow(250) + 2}.{secrets.randbelow(250) + 2}"
        )
        ports = [(30_000 + number, 20_000 + number) for number in range(0, 1000 * _count(link_count), 1000)]
        self.generator_ports: Sequence[str] = [f"udp:{address}:{own}:{peer}" for own, peer in ports]
        self.device_ports: Sequence[str] = [f"udp:{address}:{own}:{peer}" for peer, own in ports]

    @override
    def unusable(self) -> str:
        return ""

    @override
    def lacks(self, frame_bytes: int) -> str:
        # The buffer of a socket has room for a dozen frames of 9,000 bytes: single bursts would be lost.
        return f"frames of {frame_bytes} bytes (the wiring loopback carries up to {USUAL_LONGEST})"

    def open(self) -> None:
        """Do nothing: there is nothing to connect."""

    def close(self) -> None:
        """Do nothing: there is nothing to remove."""

    @override
    def at_generator(self, command: Sequence[str]) -> list[str]:
        return list(command)

    @override
    def at_device(self, command: Sequence[str]) -> list[str]:
        return list(command)


class NoWiring(Loopback):
    """No wiring, for drivers that reach their nodes themselves or simulate them."""

    def __init__(self, nodes: Mapping[str, Node] | None = None, links: Sequence[Link] = ()) -> None:
        super().__init__(nodes)
        self.links = links
        self.generator_ports = self.device_ports = ()

    @override
    def lacks(self, frame_bytes: int) -> str:
        return ""
