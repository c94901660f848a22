"""Commands of a profile: words with placeholders, run with a log, a time-out, and no process left running.

``{name}``, as in ``{artifacts}/router.pyz``, is replaced by a value within a word; ``{name...}`` is a whole
word and is replaced by several, which are separated as in a shell, by spaces and quotes. ``{{`` and ``}}``
are the braces themselves. The words are never passed to a shell.

Commands get few variables: no token that the job has in its environment is among them. If they run code of
a change under review, they run in a sandbox. A command can be cancelled if its build is no longer needed.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import IO, Self

from perftrend.errors import BuildError, SettingsError, TestbedError, nearest
from perftrend.files import private_folder
from perftrend.sandbox import Confinement, Sandbox, create_scratch

LAST_LINES = 20
MOST_BYTES = 10_000_000
"""The most bytes that are read from the output of a command."""
_PASSED_ON = (
    *("PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LC_ALL", "TZ", "TMPDIR"),
    *("http_proxy", "https_proxy", "ftp_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"),
    *("SSL_CERT_FILE", "SSL_CERT_DIR"),
)
_FAULTS_OF_THE_MACHINE = {
    "No space left on device": "its disk is full; free some space",
    "a password is required": "sudo needs a password; allow the command without one (NOPASSWD)",
    "a terminal is required": "sudo needs a password; allow the command without one (NOPASSWD)",
    "Could not get lock": "another program installs packages; wait for it",
    "dpkg frontend lock": "another program installs packages; wait for it",
}
"""Messages of a command whose failure is not caused by the commit."""
_REPORT_EVERY_S = 60.0
_LOOK_EVERY_S = 0.25
"""The interval of the checks of the limits of a sandbox."""
_TAIL_BYTES = 20_000
_LONGEST_LINE = 300
_STEERING = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
"""Escape sequences of a terminal, such as colours."""
_GUARDED = """
exec 3<&0 </dev/null
( { read -r _ <&3 && exit; kill -KILL 0; } >/dev/null 2>&1 & )
exec 3<&-
exec "$@"
"""
"""Runs a command alongside a guard, a process of its group and not its child.

The guard reads from the given standard input, a pipe: at its end, when this process has ended in any way,
the guard kills the whole group; at a line, it ends only itself.
"""

_TOKEN = re.compile(r"(?P<brace>\{\{|\}\})|\{(?P<name>[a-z_][a-z0-9_]*)\}|(?P<lone>[{}])")
_SPLICE = re.compile(r"\{(?P<name>[a-z_][a-z0-9_]*)\.\.\.\}")
_PLACEHOLDER_NAME = re.compile(r"[a-z_][a-z0-9_]*")


class StoppedError(Exception):
    """Ends a build that was cancelled; it is not reported to users."""


class Stop:
    """Set by one thread, while another polls it, among other things, until it leaves ``with``."""

    def __init__(self) -> None:
        self._descriptor = os.eventfd(0, os.EFD_CLOEXEC)
        self._lock = threading.Lock()
        self._is_open, self._is_set = True, False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._is_open = False
            os.close(self._descriptor)

    def fileno(self) -> int:
        """Return a descriptor that can be read from when this is set."""
        return self._descriptor

    def check(self) -> None:
        """Return unless this is set. :raises StoppedError: if it is."""
        if self._is_set:
            raise StoppedError

    def set(self) -> None:
        """Stop the thread that polls this; allowed also when none does any longer."""
        with self._lock:
            self._is_set = True
            if self._is_open:
                os.eventfd_write(self._descriptor, 1)


@dataclass(frozen=True, slots=True)
class Steps:
    """Commands that belong together, such as the build commands.

    :param name: their name in messages: ``build``, ``install``, ….
    :param what: their subject in messages: ``commit 1234567890ab of router``.
    :param timeout_s: for all of them together.
    :param allows_background: whether processes that they leave in the background continue.
    :param stop: ends them when it is set.
    :param sandbox: where they run; None: they run with all rights of this process.
    """

    name: str
    what: str
    folder: Path
    environment: Mapping[str, str]
    log: Path
    timeout_s: float
    report: Callable[[str], None]
    allows_background: bool = False
    stop: Stop | None = None
    sandbox: Sandbox | None = None

    def run(self, commands: Iterable[Sequence[str]]) -> None:
        """Run them one after the other.

        :raises BuildError: if one fails or they time out.
        :raises TestbedError: if that is caused by this machine.
        :raises StoppedError: if ``stop`` was set.
        """
        end = time.monotonic() + self.timeout_s
        with self._scratch() as scratch:
            for command in commands:
                with self.log.open("ab") as log:
                    start = _log_command(command, log)
                    how = self._one(command, log, log, end, scratch)
                self._require_success(command, how, start)

    def output(self, command: Sequence[str]) -> bytes:
        """Run one command and return its output, which is also written to the log.

        :raises BuildError: if it fails or times out.
        :raises TestbedError: if that is caused by this machine.
        """
        with (
            self._scratch() as scratch,
            self.log.open("ab") as log,
            tempfile.TemporaryFile(dir=self.log.parent) as printed,
        ):
            start = _log_command(command, log)
            how = self._one(command, printed, log, time.monotonic() + self.timeout_s, scratch)
            printed.seek(0)
            shutil.copyfileobj(printed, log)
            log.flush()
            self._require_success(command, how, start)
            printed.seek(0)
            return printed.read(MOST_BYTES + 1)

    @contextmanager
    def _scratch(self) -> Iterator[Path | None]:
        """Provide the scratch folder of the sandbox, if there is one."""
        if self.sandbox is None:
            yield None
            return
        with private_folder(self.log.parent.parent / "scratch", f"{self.name}-") as scratch:
            create_scratch(scratch)
            yield scratch

    def _one(
        self, command: Sequence[str], output: IO[bytes], log: IO[bytes], end: float, scratch: Path | None
    ) -> str:
        """Run one command and return how it failed; empty if it did not."""
        self._require_program(command[0])
        if self.sandbox is None or scratch is None:
            return self._execute(command, output, log, end)
        with Confinement(self.sandbox, self.folder, scratch) as confinement:
            return self._execute(confinement.wrap(command), output, log, end, confinement)

    def _execute(
        self,
        command: Sequence[str],
        output: IO[bytes],
        log: IO[bytes],
        end: float,
        confinement: Confinement | None = None,
    ) -> str:
        ours, guards = _pipe()
        with ours:
            with guards:
                process = subprocess.Popen(
                    ["/bin/sh", "-c", _GUARDED, "sh", *command],
                    cwd=self.folder,
                    env=dict(self.environment),
                    stdin=guards,
                    stdout=output,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=[confinement.descriptor] if confinement else [],
                )
            has_ended = False
            try:
                if confinement:
                    confinement.begin(process.pid)
                how = self._wait(process.pid, end, confinement)
                has_ended = not how
            finally:
                if has_ended and self.allows_background:
                    with suppress(BrokenPipeError):  # the command has ended its own guard
                        ours.write(b"\n")
                else:
                    _end(process)
        code = process.wait()
        return how or (f"ended with {code}" if code else "")

    def _wait(self, pid: int, end: float, confinement: Confinement | None) -> str:
        """Wait for a process, which is not reaped; return why it is not waited for, empty if it has ended.

        :raises StoppedError: if ``stop`` was set.
        """
        descriptor = os.pidfd_open(pid)
        began = reported = time.monotonic()
        longest_s = _LOOK_EVERY_S if confinement else _REPORT_EVERY_S
        try:
            ended = select.poll()
            ended.register(descriptor, select.POLLIN)
            if self.stop:
                ended.register(self.stop, select.POLLIN)
            while (left := end - time.monotonic()) > 0:
                is_ready = ended.poll(1000 * min(left, longest_s))
                if self.stop:
                    self.stop.check()
                if is_ready:
                    return ""
                if confinement and (excess := confinement.exceeded()):
                    return f"{excess}, which is the limit"
                if time.monotonic() - reported >= _REPORT_EVERY_S:
                    reported = time.monotonic()
                    self.report(f"{self.what}: {self.name}, {(reported - began) / 60:.0f} min")
            has_ended = bool(select.select([descriptor], [], [], 0)[0])
            return "" if has_ended else f"exceeded the timeout of {self.timeout_s:g} s"
        finally:
            os.close(descriptor)

    def _require_program(self, program: str) -> None:
        if "/" in program:
            return
        found = shutil.which(program, path=self.environment.get("PATH"))
        if not found:
            raise TestbedError(
                f"{self.what}: the program {program} is missing on this machine; "
                f"install it, or correct the {self.name} command of the profile"
            )
        if self.sandbox and self.sandbox.hides(Path(found)):
            raise TestbedError(
                f"{self.what}: the program {found} is not visible in the sandbox; "
                f"add its folder to sandbox.readable in the profile"
            )

    def _require_success(self, command: Sequence[str], how: str, start: int) -> None:
        """Check how a command ended.

        :param how: it failed; empty if it did not.
        :param start: where its output begins in the log, which may contain that of earlier attempts.
        """
        if not how:
            return
        lines = last_lines(self.log, start)
        for words, meaning in _FAULTS_OF_THE_MACHINE.items():
            if any(words in line for line in lines):
                raise TestbedError(
                    f"{self.what}: {self.name} failed on this machine: {meaning}; see {self.log}"
                )
        shown = " ".join(shlex.join(command).split())
        shown = shown if len(shown) <= _LONGEST_LINE else f"{shown[:_LONGEST_LINE]}…"
        raise BuildError(
            f"{self.what}: {self.name} failed: {shown} {how}; see {self.log}",
            step=self.name,
            log=str(self.log),
            last_lines=lines,
        )


def environment(profile: Mapping[str, str], inherit: Iterable[str]) -> dict[str, str]:
    """Return the variables for commands: some of this process's, and those of the profile."""
    passed = {name: os.environ[name] for name in (*_PASSED_ON, *inherit) if name in os.environ}
    return {**passed, **profile}


def last_lines(log: Path, start: int = 0) -> tuple[str, ...]:
    """Return the last non-empty lines of a log, without escape sequences of a terminal.

    :param start: in bytes; what is before it is ignored.
    """
    with log.open("rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(start, file.tell() - _TAIL_BYTES))
        text = file.read().decode(errors="replace")
    plain = (_STEERING.sub("", line) for line in text.splitlines())
    lines = ("".join(sign for sign in line if sign.isprintable()).rstrip() for line in plain)
    return tuple(line[:_LONGEST_LINE] for line in lines if line)[-LAST_LINES:]


def _log_command(command: Sequence[str], log: IO[bytes]) -> int:
    """Write a command into a log, and return where its output begins, in bytes."""
    log.write(f"$ {shlex.join(command)}\n".encode(errors="replace"))
    log.flush()
    return log.tell()


def _pipe() -> tuple[IO[bytes], IO[bytes]]:
    """Return the ends of a pipe, this process's to write to and the guard's to read from."""
    read, write = os.pipe()
    return os.fdopen(write, "wb", buffering=0), os.fdopen(read, "rb", buffering=0)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kill a process and all processes in its group, and reap it.

    It is not reaped before, so that its number is still that of its group and of no other process.
    """
    # Those of another user, such as by sudo, cannot be ended.
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def is_placeholder_name(text: str) -> bool:
    """Return whether a text is a valid name of a placeholder."""
    return bool(_PLACEHOLDER_NAME.fullmatch(text))


def substitute(text: str, parameters: Mapping[str, str]) -> str:
    """Replace the parameters in a text and leave everything else unchanged, including other placeholders."""

    def value(token: re.Match[str]) -> str:
        return parameters.get(token["name"] or "", token[0])

    return _TOKEN.sub(value, text)


def splice(word: str, parameters: Mapping[str, str]) -> list[str] | None:
    """Return the words for ``{name...}``; None for a word that is not a known ``{name...}``.

    :raises SettingsError: if a quote in the value has no end.
    """
    found = _SPLICE.fullmatch(word)
    if not found or found["name"] not in parameters:
        return None
    try:
        return shlex.split(parameters[found["name"]])
    except ValueError as error:
        raise SettingsError(
            f"parameter {found['name']}: {error}; close the quote, or write \\ before it"
        ) from None


def check_placeholders(text: str, known: Iterable[str]) -> None:
    """Reject a text with an unknown placeholder, or with a brace that does not begin one.

    :raises ValueError: with the placeholder, and the nearest valid one.
    """
    known = list(known)
    if "\0" in text or text != text.encode(errors="ignore").decode():
        raise ValueError(f"{text!r} cannot be a word of a command")
    for token in _TOKEN.finditer(text):
        if token["lone"]:
            raise ValueError(f"{text!r} has a brace outside a placeholder; write {{{{ or }}}}")
        if token["name"] and token["name"] not in known:
            unknown = f"{token[0]} in {text!r} is not a placeholder here; write {{{{ and }}}} for braces"
            raise ValueError(f"{unknown}{nearest(token['name'], known)}")


def placeholders(text: str) -> set[str]:
    """Return the names of the placeholders in a checked text."""
    return {token["name"] for token in _TOKEN.finditer(text) if token["name"]}


def expand(text: str, values: Mapping[str, str]) -> str:
    """Return a checked text with its placeholders replaced by their values."""

    def value(token: re.Match[str]) -> str:
        return token["brace"][0] if token["brace"] else values[token["name"]]

    return _TOKEN.sub(value, text)


def expand_command(
    words: Sequence[str],
    values: Mapping[str, str],
    spliced: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[str]:
    """Return the argument list of checked words.

    :param spliced: words that are replaced by several.
    """
    expanded = (spliced[word] if word in spliced else [expand(word, values)] for word in words)
    return list(chain.from_iterable(expanded))
