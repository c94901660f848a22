"""How a node is reached; the integration tests show it on real machines."""

from __future__ import annotations

import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from perftrend.errors import SettingsError, TestbedError
from perftrend.measure.ssh import _Connection


def test_options_say_how_a_node_is_reached(tmp_path: Path) -> None:
    options = {"host": "dut", "user": "perf", "port": "2222", "jump": "gate", "root": "sudo"}
    connection = _Connection("dut", options, "my config")
    with pytest.raises(TestbedError, match="node dut is not connected"):
        connection.command(["ls"])
    connection._folder = str(tmp_path)

    words = connection.command(["cat", "a b"])

    assert {("-p", "2222"), ("-J", "gate"), ("-F", "my config")} <= set(pairwise(words))
    assert ["--", "perf@dut", "sudo -n -- cat 'a b'"] == words[-3:]


def test_lost_connection_is_not_replaced_by_another_one(tmp_path: Path) -> None:
    """Not even by ssh itself, which connects if there is nothing to share."""
    connection = _Connection("dut", {"host": "dut", "user": "perf"}, "")
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
        _Connection("dut", options, "")
