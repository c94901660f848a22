"""What a failed command on another machine is reported as; the integration tests show it by a real ssh."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from perftrend.errors import TestbedError
from perftrend.measure.program import Program, WorkerProcess, describe, lost_connection
from perftrend.measure.wiring import run

BY_SSH = ["ssh", "-S", "socket", "-o", "BatchMode=yes", "--", "perf@dut", "ip -- link"]
LOST = "the connection to perf@dut is lost"


def test_command_is_described_by_its_machine() -> None:
    assert "perf@dut: ip -- link" == describe(BY_SSH)
    assert "ip -- link" == describe(["ip", "--", "link"])


def test_connection_is_lost_if_ssh_has_failed() -> None:
    assert LOST == lost_connection(BY_SSH, 255)
    assert ["", "", "", ""] == [
        lost_connection(BY_SSH, 1),
        lost_connection(BY_SSH, None),
        lost_connection(["ip", "--", "dut", "link"], 255),
        lost_connection(["ssh", "-O", "forward", "--", "perf@dut"], 255),
    ]


def test_connection_that_exists_is_not_lost(tmp_path: Path) -> None:
    """A signal has ended the command on the other machine, which is the same exit code."""
    (tmp_path / "socket").touch()

    assert "" == lost_connection(["ssh", "-S", str(tmp_path / "socket"), *BY_SSH[3:]], 255)


@pytest.fixture
def losing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make ``ssh`` a program that runs nothing and ends as with a lost connection."""
    program = tmp_path / "ssh"
    program.write_text("#!/bin/sh\necho 'client_loop: send disconnect: Broken pipe' >&2\nexit 255\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")


def by_ssh(command: Sequence[str]) -> list[str]:
    return [*BY_SSH[:-1], " ".join(command)]


@pytest.mark.parametrize(("name", "start"), [
    ("", lambda: run(BY_SSH)),
    ("device: ", lambda: Program(by_ssh, "device", ["sleep", "600"])),
    ("device: ", lambda: WorkerProcess("device", BY_SSH)),
])  # fmt: skip
def test_lost_connection_is_not_an_ended_program(
    losing: None, name: str, start: Callable[[], object]
) -> None:
    with pytest.raises(TestbedError) as caught:
        start()
    assert name + LOST == str(caught.value)
