"""Commands that ``ssh`` runs on another machine, in messages: where they run, and why they failed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

LOST = "the connection to {host} is lost"
_SSH_FAILED = 255
"""The exit code if ssh has failed (ssh(1)), and if a signal has ended the command on the other machine."""


def describe(command: Sequence[str]) -> str:
    """Return a command as a person would write it: by ssh, the machine and what runs there."""
    host = _host(command)
    return f"{host}: {command[-1]}" if host else " ".join(command)


def lost_connection(command: Sequence[str], exit_code: int | None) -> str:
    """Return the message that the connection to another machine is lost; empty if the command ended."""
    host = _host(command)
    if not host or exit_code != _SSH_FAILED:
        return ""
    # The ssh that holds the connection removes its socket when it ends.
    is_connected = Path(command[command.index("-S") + 1]).exists()
    return "" if is_connected else LOST.format(host=host)


def _host(command: Sequence[str]) -> str:
    """Return the machine that a command is run on by ssh, such as ``perf@dut``; empty if it is this one."""
    is_remote = command[0] == "ssh" and [*command[-3:-2]] == ["--"]
    return command[-2] if is_remote else ""
