"""The lock on a node; the integration tests show it on real machines."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perftrend.errors import TestbedError
from perftrend.measure import ssh
from perftrend.measure.ssh import _InUseError, _lock_command, _NodeLock

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
