"""A child process that responds in lines of JSON and ends with the process that started it."""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from typing import IO, Any

from perftrend import errors
from perftrend.measure.remote_command import lost_connection
from perftrend.sandbox import child_of, wait_for_end

_STOP_S = 2.0


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
        _ends(self._process, _STOP_S)
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
            if not _ends(self._process, _STOP_S):
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
