"""How a node is reached; the integration tests show it on real machines."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from perftrend.errors import SettingsError, TestbedError
from perftrend.measure.transport import SshConnection, connection
from perftrend.measure.wiring import Loopback


def test_options_say_how_a_node_is_reached(tmp_path: Path) -> None:
    options = {"host": "dut", "user": "perf", "port": "2222", "jump": "gate", "root": "sudo"}
    connection = SshConnection("dut", options, str(tmp_path / "my config"))
    with pytest.raises(TestbedError, match="node dut is not connected"):
        connection.command(["ls"])
    connection._folder = str(tmp_path)

    words = connection.command(["cat", "a b"])

    assert {("-o", "Port=2222"), ("-J", "gate"), ("-F", str(tmp_path / "my config"))} <= set(pairwise(words))
    assert ["--", "perf@dut", "sudo -n -- cat 'a b'"] == words[-3:]


def test_lost_connection_is_not_replaced_by_another_one(tmp_path: Path) -> None:
    """Not even by ssh itself, which connects if there is nothing to share."""
    connection = SshConnection("dut", {"host": "dut", "user": "perf"}, "")
    connection._folder = str(tmp_path)
    with subprocess.Popen(["true"], text=True) as connection._master:
        connection._master.wait()

        for use in (lambda: connection.command(["ls"]), lambda: connection.forward(4501)):
            with pytest.raises(TestbedError, match=r"^the connection to perf@dut is lost$"):
                use()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({}, "node dut has no option host"),
        ({"host": "dut", "root": "sud"}, "root='sud'; did you mean 'sudo'"),
        ({"host": "-oProxyCommand=reboot"}, "begins with a hyphen"),
        ({"host": "dut", "jump": "-v"}, "begins with a hyphen"),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        SshConnection("dut", options, "")


@pytest.mark.parametrize("host", ["2001:db8::1", "gate:2222", "lab/dut", "dut x"])
def test_address_that_scp_would_misread_is_refused(host: str) -> None:
    with pytest.raises(SettingsError, match="node dut: scp would misread the address 'perf@"):
        SshConnection("dut", {"host": host, "user": "perf"}, "").ssh()


def test_node_that_ssh_does_not_reach_has_no_address() -> None:
    with pytest.raises(SettingsError, match="node dut is not reached by ssh; choose a testbed with"):
        Loopback().ssh("dut")


def test_node_may_be_this_machine_or_a_namespace_of_any() -> None:
    here = connection("tg", {"transport": "local"}, "")
    inside = connection("tg", {"transport": "local", "netns": "lab", "root": "sudo"}, "")

    assert ["ls", "a b"] == here.command(["ls", "a b"])
    assert ["sudo", "-n", "--", "nsenter", "--net=/run/netns/lab", "--", "ls"] == inside.command(["ls"])
    assert (4501, "/run/api.sock") == (here.forward(4501), inside.forward("/run/api.sock"))
    with pytest.raises(TestbedError, match=r"node tg: TCP port 4501 cannot be reached.* netns"):
        inside.forward(4501)
    with pytest.raises(SettingsError, match="node tg is this machine, which is not reached by ssh"):
        here.ssh()


def test_namespace_is_on_the_machine_of_the_node(tmp_path: Path) -> None:
    found = SshConnection("dut", {"host": "dut", "netns": "lab"}, "")
    found._folder = str(tmp_path)

    assert "nsenter --net=/run/netns/lab -- ls" == found.command(["ls"])[-1]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"transport": "ssl"}, "node tg: transport='ssl'; did you mean 'ssh'"),
        ({"transport": "local", "host": "tg"}, "transport=local is this machine, which has no host"),
        ({"transport": "local", "netns": "../../proc/1/ns"}, "netns='../../proc/1/ns' is not a name"),
        ({"transport": "local", "netns": "-x"}, "is not a name"),
        ({"transport": "local", "root": "su"}, "root='su'"),
    ],
)
def test_options_of_a_transport_that_cannot_be_used_are_refused(options: dict[str, str], reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        connection("tg", options, "")
