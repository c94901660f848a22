"""As far as no privilege is needed; the rest is shown on real namespaces by the integration tests."""

from __future__ import annotations

import ipaddress
from pathlib import Path

import pytest

from perftrend.errors import SettingsError, TestbedError
from perftrend.measure.interfaces import Link, Node, Port
from perftrend.measure.wiring import Loopback, Namespace, NoWiring, VethPairs, run


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give an empty folder that is all of PATH."""
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def refusing(folder: Path, name: str) -> None:
    (folder / name).write_text("#!/bin/sh\necho 'unshare failed: Operation not permitted' >&2\nexit 1\n")
    (folder / name).chmod(0o755)


def test_veth_pairs_need_the_program_ip(programs: Path) -> None:
    assert "the program ip is missing (Debian: apt-get install iproute2)" == VethPairs().unusable()


def test_veth_pairs_say_why_namespaces_are_refused(programs: Path) -> None:
    """By a double of the program that makes them, which refuses as the kernel would."""
    refusing(programs, "ip")
    refusing(programs, "unshare")

    assert "no network namespace: unshare failed: Operation not permitted" == VethPairs().unusable()


def test_veth_pairs_say_that_the_program_for_namespaces_is_missing(programs: Path) -> None:
    refusing(programs, "ip")

    assert "unshare" in VethPairs().unusable()


def test_wiring_that_cannot_be_opened_leaves_nothing(programs: Path) -> None:
    refusing(programs, "unshare")
    wiring = VethPairs()

    with pytest.raises(TestbedError, match="Operation not permitted"):
        wiring.open()
    assert {} == wiring._namespaces
    wiring.close()


def test_namespace_says_why_it_was_refused(programs: Path) -> None:
    refusing(programs, "unshare")

    with pytest.raises(TestbedError, match="Operation not permitted"):
        Namespace(user=True)


def test_command_gives_what_it_printed_and_reads_what_it_is_given() -> None:
    assert "a\nb" == run(["cat"], text="a\nb")


@pytest.mark.parametrize(
    ("command", "told"),
    [
        (["cat", "/no/such/file"], "cat /no/such/file: .*No such file"),
        (["false"], "false: exit code 1"),
        (["/no/such/program"], "/no/such/program: .*No such file"),
    ],
)
def test_command_that_fails_is_told_with_what_it_said(command: list[str], told: str) -> None:
    with pytest.raises(TestbedError, match=told):
        run(command)


def test_command_takes_every_word_literally() -> None:
    assert "$(reboot);*\n" == run(["echo", "$(reboot);*"])


def test_command_that_hangs_is_ended() -> None:
    with pytest.raises(TestbedError, match=r"^sleep 60: timed out after 0\.05 s$"):
        run(["sleep", "60"], timeout_s=0.05)


def test_loopback_ports_belong_together() -> None:
    wiring = Loopback()

    for generator, device in zip(wiring.generator_ports, wiring.device_ports, strict=True):
        kind, address, own, peer = generator.split(":")
        assert f"{kind}:{address}:{peer}:{own}" == device
        assert ipaddress.ip_address(address).is_loopback


@pytest.mark.parametrize("wiring", [VethPairs, Loopback])
def test_number_of_links_is_an_option(wiring: type[VethPairs | Loopback]) -> None:
    assert [1, 2, 3, 4] == [len(wiring(link_count=count).device_ports) for count in "1234"]
    with pytest.raises(SettingsError, match="wiring option link_count='5': write a number from 1 to 4"):
        wiring(link_count="5")


def test_chain_has_two_links_to_the_generator() -> None:
    nodes = {name: Node() for name in ("tg", "dut", "dut2")}

    with pytest.raises(SettingsError, match="a chain of devices has two ends"):
        VethPairs(nodes, link_count="4")


def test_two_loopback_testbeds_do_not_meet() -> None:
    assert 5 == len({tuple(Loopback().generator_ports) for _ in range(5)})


def test_loopback_runs_commands_as_they_are() -> None:
    assert ["a", "b c"] == Loopback().at_generator(["a", "b c"]) == Loopback().at_device(["a", "b c"])


def test_no_wiring_has_no_ports() -> None:
    assert ((), ()) == (NoWiring().generator_ports, NoWiring().device_ports)


@pytest.mark.parametrize("wiring", [VethPairs, Loopback])
def test_links_that_would_have_no_effect_are_refused(wiring: type[VethPairs | Loopback]) -> None:
    with pytest.raises(SettingsError, match="makes its links itself; omit links"):
        wiring(None, [Link(Port(), Port(), vlan=7)])


def test_loopback_carries_no_long_frames_and_simulated_links_carry_all() -> None:
    assert "frames of 9000 bytes (the wiring loopback carries up to 1518)" == Loopback().lacks(9000)
    assert "" == NoWiring().lacks(9000)
    assert "" == VethPairs().lacks(9000)
