"""A program in the background, on this machine as the node."""

from __future__ import annotations

import os
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from perftrend.errors import TestbedError
from perftrend.measure.program import Program, replace_earlier

ROOT = Path(__file__).parents[3]
LINE = re.compile(r"(.*)\n")
JOB = """
import sys
from perftrend.measure.program import Program
started = Program(list, sys.argv[1], sys.argv[2:])
print(started.pid, flush=True)
sys.stdin.read()
"""


def here(command: Sequence[str]) -> list[str]:
    return list(command)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> Iterator[str]:
    """Give a name that no other test uses."""
    unique = f"test-{os.getpid()}-{request.node.name[:60]}"
    yield unique
    file_of(unique).unlink(missing_ok=True)


def file_of(name: str) -> Path:
    """Return the file with the process ID of a program."""
    network = "".join(re.findall(r"\d", os.readlink("/proc/self/ns/net")))  # noqa: PTH115 - not a path
    return Path(f"/tmp/perftrend-{os.getuid()}/{name}-{network}.pid")  # noqa: S108 - see the script


def wait_for_end(pid: int) -> bool:
    """Return whether a process ends within a minute."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 60)[0])
    finally:
        os.close(descriptor)


def test_interactive_program_answers(name: str) -> None:
    with Program(here, name, ["cat"], is_interactive=True) as program:
        program.write("first\nsecond\n")

        assert "first" == program.read_until(LINE, 60)[1]
        assert "second" == program.read_until(LINE, 60)[1]
        assert program.is_running
    assert not program.is_running
    assert wait_for_end(program.pid)


def test_closed_program_ends_with_its_children(name: str) -> None:
    script = "sleep 600 & echo $!; wait"

    program = Program(here, name, ["sh", "-c", script])
    child = int(program.read_until(LINE, 60)[1])
    program.close()
    program.close()

    assert wait_for_end(program.pid)
    assert wait_for_end(child)


def test_program_that_ignores_a_signal_ends_too(name: str) -> None:
    script = "trap '' TERM; echo ready; while :; do sleep 1; done"

    program = Program(here, name, ["sh", "-c", script])
    program.read_until(LINE, 60)
    program.close()

    assert wait_for_end(program.pid)


def test_failing_program_is_reported_with_its_last_line(name: str) -> None:
    with Program(here, name, ["sh", "-c", "echo begin; echo no memory >&2; exit 3"]) as program:
        with pytest.raises(TestbedError, match=f"{name} has ended: no memory"):
            program.read_until(re.compile("ready"), 60)
        with pytest.raises(TestbedError, match="has ended: no memory"):
            program.check()
    assert "begin\nno memory\n" == program.last_lines()


def test_program_has_ended_once_its_output_is_said_to_have_ended(name: str) -> None:
    script = "echo no memory; exec >&- 2>&-; sleep 0.3; exit 3"
    with Program(here, name, ["sh", "-c", script], is_interactive=True) as program:
        with pytest.raises(TestbedError, match="has ended: no memory"):
            program.read_until(re.compile("ready"), 60)
        with pytest.raises(TestbedError, match="has ended: no memory"):
            program.check()


def test_missing_program_is_reported(name: str) -> None:
    with (
        Program(here, name, ["/nonexistent/device"]) as program,
        pytest.raises(TestbedError, match="/nonexistent/device"),
    ):
        program.read_until(re.compile("ready"), 60)
    with pytest.raises(TestbedError, match="cannot start /nonexistent/ssh"):
        Program(lambda command: ["/nonexistent/ssh", *command], name, ["true"])


def test_silent_program_is_not_waited_for_forever(name: str) -> None:
    with (
        Program(here, name, ["sleep", "600"]) as program,
        pytest.raises(TestbedError, match=f"{name} did not respond within 0.05 s"),
    ):
        program.read_until(re.compile("ready"), 0.05)


def test_next_start_ends_what_an_earlier_job_left(name: str) -> None:
    """A lost connection leaves the shell waiting: its input stays open."""
    left = Program(here, name, ["sleep", "600"])

    with Program(here, name, ["sleep", "600"]) as program:
        assert wait_for_end(left.pid)
        assert program.is_running
        assert program.pid != left.pid
    left.close()


def test_program_that_an_earlier_job_left_days_ago_is_ended(name: str) -> None:
    """Files are removed after a day, but not those of programs that still run."""
    left = Program(here, name, ["sleep", "600"])
    ended = file_of(f"{name}-ended")
    ended.write_text("999999999 1\n")
    for file in (file_of(name), ended):
        os.utime(file, times=(0, 0))

    with Program(here, f"{name}-other", ["true"]), Program(here, name, ["sleep", "600"]):
        assert wait_for_end(left.pid)
    left.close()
    file_of(f"{name}-other").unlink()

    assert not ended.exists()


def test_other_process_with_the_number_of_an_earlier_one_is_spared(name: str) -> None:
    with Program(here, name, ["true"]) as earlier:
        wait_for_end(earlier.pid)
    with subprocess.Popen(["sleep", "600"]) as innocent:
        assert file_of(name).exists()
        file_of(name).write_text(f"{innocent.pid} 12345\n")
        with Program(here, name, ["sleep", "600"]):
            pass

        assert innocent.poll() is None
        innocent.kill()


def test_command_ends_what_an_earlier_one_left(name: str) -> None:
    command = replace_earlier(name, ["sh", "-c", "echo $$; exec sleep 600"])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert f"{first.pid}\n" == first.stdout.readline()
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as second:
            assert second.stdout is not None
            assert f"{second.pid}\n" == second.stdout.readline()
            assert first.wait()
            second.kill()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_program_ends_with_the_job(name: str, number: signal.Signals) -> None:
    job = subprocess.Popen(
        [sys.executable, "-c", JOB, name, "sh", "-c", "sleep 600 & wait"],
        env={**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'resources'}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert job.stdout is not None
    pid = int(job.stdout.readline())

    job.send_signal(number)
    job.communicate()

    assert wait_for_end(pid)
