"""Programs in the background, here or on a node of the testbed, and what messages say of them.

A node may be another machine. A shell there starts the program, and ends it when its own standard input
ends: when this object is closed, when the job has ended however it did, and when the connection is lost. If
the node does not notice that, the next start finds the program by a file with its process ID, and ends it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import selectors
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, Self

from perftrend import errors
from perftrend.errors import TestbedError
from perftrend.sandbox import child_of, wait_for_end

LOST = "the connection to {host} is lost"
_SSH_FAILED = 255
"""The exit code if ssh has failed (ssh(1)), and if a signal has ended the command on the other machine."""

_STOP_S = 10.0
_LONGEST_OUTPUT = 1 << 20
"""Characters of output that are retained; a program may write for weeks."""
_LONGEST_MESSAGE = 300

# Fields of /proc/PID/stat after the name of the program, which may contain spaces; see proc_pid_stat(5).
_PROCESSES = """
# A zombie has ended, even if its parent does not know yet.
started() { sed -n 's/.*) \\([^ZX]\\)/\\1/p' "/proc/$1/stat" 2>/dev/null | cut -d ' ' -f 20; }
is_running() { [ -n "$1" ] && [ -n "$2" ] && [ "$(started "$1")" = "$2" ]; }
end() {
    kill -- "-$1" 2>/dev/null || kill "$1" 2>/dev/null
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
        is_running "$1" "$2" || return 0
        sleep 0.2
    done
    kill -KILL -- "-$1" 2>/dev/null || kill -KILL "$1" 2>/dev/null
    for _ in 1 2 3 4 5; do
        is_running "$1" "$2" || return 0
        sleep 0.2
    done
    echo "process $1 of an earlier job does not end; end it by hand" >&2
    exit 1
}
# Root of a user namespace is an ordinary user outside of it.
read -r inside outside _ </proc/self/uid_map
folder=/tmp/perftrend-$(($(id -u) - inside + outside))
mkdir -p -m 700 "$folder" && [ -O "$folder" ] && [ ! -L "$folder" ] || {
    echo "$folder is not a folder of this user; remove it" >&2
    exit 1
}
# A network namespace is a node of its own.
network=$(readlink /proc/self/ns/net | tr -dc 0-9)
end_earlier() {
    if { read -r old begun <"$1"; } 2>/dev/null && is_running "$old" "$begun"; then end "$old" "$begun"; fi
}
"""
_SCRIPT = (
    _PROCESSES
    + """
mode=$1 file=$folder/$2-$network.pid
shift 2
# Each namespace that existed has left a file. That of a program that still runs is needed to find it.
find "$folder" -maxdepth 1 -name '*.pid' -mtime +1 | while read -r path; do
    read -r old begun <"$path" && [ -e "/proc/$old" ] && is_running "$old" "$begun" || rm -f "$path"
done 2>/dev/null
end_earlier "$file"
begin='
    echo "$$ $(sed "s/.*) //" /proc/$$/stat | cut -d " " -f 20)" >"$1" || {
        echo "$1 cannot be written; free space on the disk of the node" >&2
        exit 1
    }
    [ "$2" = unannounced ] || echo "process $$"
    shift 2
    exec "$@"'
[ "$mode" = background ] || exec sh -c "$begin" sh "$file" "$mode" "$@"
exec 3<&0
setsid sh -c "$begin" sh "$file" "$mode" "$@" </dev/null 3<&- &
child=$!
begun=$(started "$child")
(
    cat <&3 >/dev/null
    end "$child" "$begun"
) >/dev/null 2>&1 &
watcher=$!
exec 3<&-
wait "$child"
code=$?
kill "$watcher" 2>/dev/null
exit "$code"
"""
)
_END_ALL = (
    _PROCESSES
    + """
for file in "$folder"/*-"$network".pid; do
    end_earlier "$file"
done
"""
)
_FIRST_LINE = re.compile(r"process (\d+)\n")

_WORKER_STOP_S = 2.0


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


def replace_earlier(name: str, command: Sequence[str]) -> list[str]:
    """Return the command for a node that runs another one there, and first ends what an earlier job left.

    :param name: identifies the program on the node; only one program of a name runs there at a time.
    """
    return ["sh", "-c", _SCRIPT, "sh", "unannounced", name, *command]


def end_all_command(at_node: Callable[[Sequence[str]], list[str]]) -> tuple[list[str], str]:
    """Return the command that ends all programs of jobs on a node, and the standard input of the command.

    Jobs share a node only if they cannot use it at the same time, so that these programs are left over.
    """
    return at_node(["sh"]), _END_ALL


class Program:
    """A program that runs on a node until it is closed.

    :param at_node: returns the command that runs another one on the node, such as ``Wiring.at_device``.
    :param name: identifies the program on the node; only one program of a name runs there at a time.
    :param command: an argument list.
    :param is_interactive: whether the program reads commands from its standard input, and ends with it. It
        has to end its own children.
    :raises TestbedError: if it cannot be started, with what it wrote last.
    """

    def __init__(
        self,
        at_node: Callable[[Sequence[str]], list[str]],
        name: str,
        command: Sequence[str],
        *,
        is_interactive: bool = False,
        start_s: float = 30.0,
    ) -> None:
        self._name = name
        self._output = ""
        self._has_ended = False
        self._change = threading.Condition()
        mode = "interactive" if is_interactive else "background"
        started = self._command = at_node(["sh", "-c", _SCRIPT, "sh", mode, name, *command])
        try:
            self._process = subprocess.Popen(
                started, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                # A signal of the terminal ends the job, which then closes this in order.
                process_group=0,
            )  # fmt: skip
        except OSError as error:
            raise TestbedError(f"{name}: cannot start {started[0]} ({error.strerror})") from None
        assert self._process.stdout is not None  # noqa: S101 - opened as a pipe above
        self._reader = threading.Thread(target=self._read, args=[self._process.stdout], daemon=True)
        self._reader.start()
        try:
            self.pid = int(self.read_until(_FIRST_LINE, start_s)[1])
            """Its process ID on the node."""
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self._process.poll() is None

    def check(self) -> None:
        """Raise a TestbedError with what the program wrote last, if it has ended."""
        if not self.is_running:
            self._reader.join(_STOP_S)
            raise self._failure("has ended")

    def write(self, text: str) -> None:
        """Write to the standard input of an interactive program. :raises TestbedError: if it has ended."""
        assert self._process.stdin is not None  # noqa: S101 - opened as a pipe above
        try:
            self._process.stdin.write(text.encode())
            self._process.stdin.flush()
        except OSError:
            self._process.wait()
            self.check()

    def read_until(self, pattern: re.Pattern[str], timeout_s: float) -> re.Match[str]:
        """Wait for output, and remove it from what is read next.

        :returns: the first match of the pattern; the text before it is in ``match.string``.
        :raises TestbedError: if the program ends before, or does not write this in time.
        """
        deadline = time.monotonic() + timeout_s
        with self._change:
            while not (found := pattern.search(self._output)):
                if self._has_ended:
                    raise self._failure("has ended")
                left_s = deadline - time.monotonic()
                if left_s <= 0 or not self._change.wait(left_s):
                    raise self._failure(f"did not respond within {timeout_s:g} s")
            self._output = self._output[found.end() :]
        return found

    def last_lines(self) -> str:
        """Return what the program wrote since the last match of :meth:`read_until`, at most 1 MB of it."""
        with self._change:
            return self._output

    def close(self) -> None:
        """End the program, and all that it has started unless it is interactive; may be called repeatedly.

        The end of its input ends it in order. If that takes longer than 10 s, its connection is cut.
        """
        assert self._process.stdin is not None  # noqa: S101 - opened as a pipe above
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_STOP_S)

    def _read(self, pipe: IO[bytes]) -> None:
        with pipe:
            while data := pipe.read1(65536):  # type: ignore[attr-defined] # a buffered pipe has it
                with self._change:
                    self._output = (self._output + data.decode(errors="replace"))[-_LONGEST_OUTPUT:]
                    self._change.notify_all()
        # The end of the output comes shortly before the end of the process; is_running has to agree.
        self._process.wait()
        with self._change:
            self._has_ended = True
            self._change.notify_all()

    def _failure(self, what: str) -> TestbedError:
        if reason := lost_connection(self._command, self._process.poll()):
            return TestbedError(f"{self._name}: {reason}")
        lines = [line.strip() for line in self._output.splitlines() if line.strip()]
        return TestbedError(f"{self._name} {what}{': ' + lines[-1][:_LONGEST_MESSAGE] if lines else ''}")


def dies_with_parent(command: Sequence[str]) -> list[str]:
    """Return a command that the kernel kills when the process that starts it ends, however it ends."""
    return ["setpriv", "--pdeathsig", "KILL", "--", *command]


def python_module(module: str, arguments: Sequence[str]) -> list[str]:
    """Return the command that runs a module in the current Python interpreter.

    A file of the current folder, which may be a checkout of any product, must not stand in for the module.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


class WorkerProcess:
    """A process that writes ``{"ready": …}`` once it is ready, and then one line for each request.

    :param name: name of the process in messages.
    :param command: an argument list.
    :param is_confined: whether the command starts the worker in a sandbox, as its only child.
    :raises TestbedError: if it does not become ready; with the last line of its error output.
    """

    def __init__(
        self, name: str, command: Sequence[str], *, ready_s: float = 20.0, is_confined: bool = False
    ) -> None:
        self._name = name
        self._command = command
        self._is_confined = is_confined
        self.pid = 0
        self._unanswered: list[float] = []
        """Deadlines of responses that have not been read."""
        # A file, not a pipe: a worker with much output must never block because its output is not read.
        self._errors: IO[str] = tempfile.TemporaryFile("w+", errors="replace")  # noqa: SIM115 - closed in close()
        try:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                text=True,
                bufsize=1,
            )
        except OSError as error:
            self._errors.close()
            raise errors.TestbedError(f"{name}: cannot start {command[0]} ({error.strerror})") from None
        try:
            ready = self.read(ready_s)
            # In a sandbox, processes have other numbers, and what they write is not to be trusted.
            self.pid = child_of(self._process.pid) if is_confined else int(ready["ready"])
        except BaseException:
            self.close()
            raise

    def request(self, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        """Send a request and return the response.

        An exception may interrupt this, such as the timeout of a test. The next request then waits for the
        response, and discards it.

        :raises TestbedError: if the worker has ended or does not respond in time.
        """
        while self._unanswered:
            self.read(max(self._unanswered[0] - time.monotonic(), 0.0))
            del self._unanswered[0]
        assert self._process.stdin is not None  # noqa: S101 - opened as a pipe above
        # Before it is sent: an interruption between makes the next request fail, not read another response.
        self._unanswered.append(time.monotonic() + timeout_s)
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._end() from None
        answer = self.read(timeout_s)
        del self._unanswered[0]
        return answer

    def check(self) -> None:
        """Raise a TestbedError with the last line of its error output, if it has ended."""
        if self._process.poll() is not None:
            raise self._end()

    def read(self, timeout_s: float) -> dict[str, Any]:
        """Return the next line that the worker writes.

        :raises TestbedError: if the worker has ended, if the line is not valid JSON, or if the worker does
            not respond in time; then it is killed.
        """
        assert self._process.stdout is not None  # noqa: S101 - opened as a pipe above
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(timeout_s):
                # A late line would be mistaken for the response to the next request.
                self._process.kill()
                self._process.wait()
                raise self._failure(f"did not respond within {timeout_s:g} s")
        line = self._process.stdout.readline()
        if not line:
            raise self._end()
        try:
            answer: dict[str, Any] = json.loads(line)
        except ValueError:
            raise self._failure(f"wrote {line.strip()!r}, which is not a valid response") from None
        return answer

    def _end(self) -> errors.TestbedError:
        # The end of its output comes shortly before its own.
        _ends(self._process, _WORKER_STOP_S)
        if reason := lost_connection(self._command, self._process.poll()):
            return errors.TestbedError(f"{self._name}: {reason}")
        return self._failure("has ended")

    def _failure(self, what: str) -> errors.TestbedError:
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().splitlines() if line.strip()]
        return errors.TestbedError(f"{self._name} {what}{': ' + lines[-1] if lines else ''}")

    def close(self) -> None:
        """Terminate the worker, and kill it if it does not end; may be called more than once."""
        if self._process.poll() is None:
            self._process.terminate()
            if not _ends(self._process, _WORKER_STOP_S):
                self._process.kill()
            self._process.wait()
        if self._is_confined and self.pid:
            # The kernel ends it after the process that started it, and its ports are free only then.
            wait_for_end(self.pid)
        for stream in (self._process.stdin, self._process.stdout, self._errors):
            if stream is not None:
                # Data that an ended worker will never read can be discarded.
                try:
                    stream.close()
                except OSError:
                    continue


def _ends(process: subprocess.Popen[str], limit_s: float) -> bool:
    """Wait for the end of a process and return whether it came within the limit.

    A pidfd reports the end at once. ``Popen.wait`` polls, up to 50 ms late, and a run stops many devices.
    """
    try:
        watched = os.pidfd_open(process.pid)
    except OSError:
        # A kernel older than 5.3, or a container that forbids it.
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(limit_s)
        return process.poll() is not None
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(watched, selectors.EVENT_READ)
            return bool(selector.select(limit_s))
    finally:
        os.close(watched)
