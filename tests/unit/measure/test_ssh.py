"""How a node is reached; the integration tests show it on real machines."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from perftrend.errors import SettingsError, TestbedError
from perftrend.measure import ssh
from perftrend.measure.ssh import _Connection, _InUseError, _lock_command, _NodeLock
from perftrend.measure.wiring import Loopback


def test_options_say_how_a_node_is_reached(tmp_path: Path) -> None:
    options = {"host": "dut", "user": "perf", "port": "2222", "jump": "gate", "root": "sudo"}
    connection = _Connection("dut", options, str(tmp_path / "my config"))
    with pytest.raises(TestbedError, match="node dut is not connected"):
        connection.command(["ls"])
    connection._folder = str(tmp_path)

    words = connection.command(["cat", "a b"])

    assert {("-o", "Port=2222"), ("-J", "gate"), ("-F", str(tmp_path / "my config"))} <= set(pairwise(words))
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


@pytest.mark.parametrize("host", ["2001:db8::1", "gate:2222", "lab/dut", "dut x"])
def test_address_that_scp_would_misread_is_refused(host: str) -> None:
    with pytest.raises(SettingsError, match="node dut: scp would misread the address 'perf@"):
        _Connection("dut", {"host": host, "user": "perf"}, "").ssh()


def test_node_that_ssh_does_not_reach_has_no_address() -> None:
    with pytest.raises(SettingsError, match="node dut is not reached by ssh; choose a testbed with"):
        Loopback().ssh("dut")


OWN = "1a"
"""The token of the job of a test."""
Hold = Callable[..., _NodeLock]


@pytest.fixture
def hold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hold]:
    """Hold locks of one name on this machine, in the shell that holds them on a node."""
    here = ssh._LOCK.replace("folder=/tmp/perftrend-locks", f"folder={tmp_path}")
    monkeypatch.setattr(ssh, "_LOCK", here)
    held = []

    def acquire(owner: str, token: str = OWN, *, is_acquired: bool = False) -> _NodeLock:
        held.append(_NodeLock(_lock_command("lab", owner, token, is_acquired=is_acquired)))
        return held[-1]

    yield acquire
    for each in held:
        each.close()


def make_old(file: Path) -> None:
    """Make the file that no heartbeat has reached for an hour."""
    old = time.time() - 3600
    os.utime(file, (old, old))


def test_another_job_is_refused_while_a_testbed_is_open_within_the_job(hold: Hold) -> None:
    job = hold("nightly")
    hold("its suites", is_acquired=True)
    with pytest.raises(_InUseError, match=r"^nightly$"):
        hold("another", "2b")
    job.verify()

    job.close()

    with pytest.raises(_InUseError, match=r"^nightly$"):
        hold("another", "2b")


def test_lock_is_free_when_the_job_and_its_testbeds_have_ended(hold: Hold) -> None:
    for each in [hold("nightly"), hold("its suites", is_acquired=True)]:
        each.close()

    hold("another", "2b").verify()


def test_only_the_token_of_the_last_job_shares_its_lock(hold: Hold) -> None:
    """Whatever was installed before may have been replaced since."""
    hold("nightly").close()
    hold("weekly", "2b").close()

    with pytest.raises(_InUseError, match=r"^weekly$"):
        hold("its suites", is_acquired=True)


def test_job_that_was_killed_holds_no_lock(hold: Hold) -> None:
    job = hold("nightly")
    job._process.kill()
    job._process.wait()

    with pytest.raises(TestbedError, match="lost, and other jobs may use the testbed; run the same command"):
        job.verify()
    hold("another", "2b")


def test_lock_of_a_dead_job_and_its_testbeds_is_taken_over(hold: Hold, tmp_path: Path) -> None:
    """Their shells wait for heartbeats, as the node has not noticed that the connections are cut."""
    job = hold("nightly")
    hold("its suites", is_acquired=True)
    make_old(tmp_path / "lab")

    hold("another", "2b").verify()

    with pytest.raises(TestbedError, match="is lost"):
        job.verify()
    with pytest.raises(_InUseError, match=r"^another$"):
        hold("its suites", is_acquired=True)


def test_holder_is_one_line_and_is_no_code(hold: Hold, tmp_path: Path) -> None:
    hold("$(reboot)\n`reboot`; %s \\\\n")

    assert " 1a $(reboot) `reboot`; %s \\\\n" in (tmp_path / "lab").read_text().splitlines()[0]
    with pytest.raises(_InUseError, match=r"^\$\(reboot\) `reboot`; %s"):
        hold("another", "2b")


def test_numbers_in_a_lock_of_others_end_no_process(hold: Hold, tmp_path: Path) -> None:
    """Every user of the node can write to the file."""
    hold("nightly")
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        (tmp_path / "lab").write_text(f"{bystander.pid} 1a nightly\n1 1a x\n-1 1a x\n* 1a x\n")
        make_old(tmp_path / "lab")

        with pytest.raises(_InUseError, match=r"^nightly$"):
            hold("another", "2b")

        assert bystander.poll() is None
    finally:
        bystander.kill()
        bystander.wait()
