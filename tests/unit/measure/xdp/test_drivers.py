"""The driver of the XDP generator: what it starts, and what it does where that is not possible."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from perftrend.errors import SettingsError, TestbedError
from perftrend.measure.embedded import drivers as embedded_drivers
from perftrend.measure.embedded.drivers import embedded_version
from perftrend.measure.interfaces import Link, Node, Port
from perftrend.measure.traffic import TrafficProfile
from perftrend.measure.wiring import Loopback, VethPairs
from perftrend.measure.xdp import generator
from perftrend.measure.xdp.generator import XdpGenerator

REFUSAL = "traffic generator has ended: the kernel refuses the BPF program (Operation not permitted)"


class Worker:
    """Stands in for the generator's process."""

    commands: ClassVar[list[list[str]]] = []
    is_refused = False

    def __init__(self, name: str, command: list[str], **_: Any) -> None:
        Worker.commands.append(command)
        if Worker.is_refused and "perftrend.measure.xdp.generator" in command:
            raise TestbedError(REFUSAL)

    def close(self) -> None:
        """Nothing runs."""


class UnconnectedPairs(VethPairs):
    """Stands in for veth pairs, which need privileges."""

    def at_generator(self, command: Any) -> list[str]:
        return list(command)

    def at_node(self, node: str, command: Any) -> list[str]:
        return list(command)


@pytest.fixture(autouse=True)
def executed(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """Return the commands that are executed at the device, whose ports are veth interfaces."""
    found: list[list[str]] = []

    def run(command: list[str]) -> str:
        found.append(command)
        return " veth " if command[0] == "ip" else ""

    monkeypatch.setattr(embedded_drivers, "WorkerProcess", Worker)
    monkeypatch.setattr(Worker, "commands", [])
    monkeypatch.setattr(Worker, "is_refused", False)
    monkeypatch.setattr(generator, "run", run)
    monkeypatch.setattr(shutil, "which", lambda program: f"/usr/sbin/{program}")
    return found


def test_process_gets_the_interfaces_once_the_device_accepts_xdp_frames(executed: list[list[str]]) -> None:
    generator = XdpGenerator(UnconnectedPairs(), Node(cpu=1), {})
    generator.open()

    [command] = Worker.commands
    changed = [words for words in executed if words[0] == "ethtool"]
    assert [["ethtool", "-K", name, "gro", "on"] for name in ("d0", "d1")] == changed
    assert ["perftrend.measure.xdp.generator", "--ports", "tg0", "tg1", "--cpu", "1"] == command[-6:]
    assert ("", f"{embedded_version()} xdp") == (generator.fallback, generator.version)


def test_refused_program_makes_it_the_embedded_generator(capsys: pytest.CaptureFixture[str]) -> None:
    Worker.is_refused = True
    generator = XdpGenerator(UnconnectedPairs(), Node(), {})
    generator.open()

    assert ["perftrend.measure.embedded.generator", "--ports", "packet:tg0", "packet:tg1"] == (
        Worker.commands[-1][-4:]
    )
    assert (REFUSAL, embedded_version()) == (generator.fallback, generator.version)
    [line] = capsys.readouterr().err.splitlines()
    assert REFUSAL in line


def test_wiring_without_interfaces_makes_it_the_embedded_generator() -> None:
    generator = XdpGenerator(Loopback(), Node(), {})
    generator.open()

    assert "it needs interfaces of Linux: the wirings veth or ssh" == generator.fallback
    assert "perftrend.measure.embedded.generator" in Worker.commands[-1]


def test_process_gets_other_addresses_of_the_devices_ports() -> None:
    wiring = UnconnectedPairs()
    first, second = wiring.links
    wiring.links = [replace(first, device=Port("d0", "68:05:ca:00:00:01")), second]
    XdpGenerator(wiring, Node(), {}).open()

    assert ["--device-macs", "68:05:ca:00:00:01", "02:00:00:00:0d:01"] == Worker.commands[-1][-3:]


def test_ports_of_network_cards_accept_xdp_frames_as_they_are(
    executed: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generator, "run", lambda command: executed.append(command) or "")
    XdpGenerator(UnconnectedPairs(), Node(), {}).open()

    assert {"ip"} == {words[0] for words in executed}


def test_port_that_a_driver_in_user_space_has_makes_it_the_embedded_generator() -> None:
    links = [Link(Port("tg0", pci="0000:3b:00.0"), Port("d0")), Link(Port("tg1"), Port("d1"))]
    wiring = UnconnectedPairs()
    wiring.links = links
    generator = XdpGenerator(wiring, Node(), {})
    generator.open()

    assert "it needs interfaces of Linux" in generator.fallback


def test_missing_program_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    generator = XdpGenerator(UnconnectedPairs(), Node(), {})
    generator.open()

    assert "apt-get install ethtool" in generator.fallback


def test_option_is_refused() -> None:
    with pytest.raises(SettingsError, match="generator xdp has no options, but the testbed sets 'queueing'"):
        XdpGenerator(UnconnectedPairs(), Node(), {"queueing": "yes"})


def test_number_of_flows_has_no_limit_unless_frames_are_sent_through_sockets() -> None:
    traffic = TrafficProfile.parse("78B", {"forwarding": "ip6", "flow_count": "1000000"})
    generator = XdpGenerator(UnconnectedPairs(), Node(), {})
    generator.open()
    without_limit = generator.lacks(traffic)
    Worker.is_refused = True
    generator.open()

    assert "" == without_limit
    assert "flow_count=1000000" in generator.lacks(traffic)


def test_frame_that_the_device_cannot_receive_is_lacking() -> None:
    generator = XdpGenerator(UnconnectedPairs(), Node(), {})

    assert "frames of 9000 bytes (the generator xdp sends up to 1518)" == generator.lacks(
        TrafficProfile.parse("9000B", {})
    )
