"""Stream of Gerrit events, by ``ssh … gerrit stream-events``: a JSON object on each line.

ssh is started with a list of arguments, checks the host key and never prompts. The length of lines is
limited, and lines that are not valid events are counted and skipped.

Source: ssh(1), ssh_config(5); Gerrit's documentation, "gerrit stream-events", sections Comment Added,
Patchset Created, Change Abandoned and Dropped Output.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from perftrend.clients.gerrit import validation
from perftrend.clients.gerrit.changes import Account, read_account
from perftrend.clients.http_service import UnavailableError, UnreachedError
from perftrend.errors import ServiceError, SettingsError

LONGEST_LINE = 1024**2
"""Bytes of an event: a comment has 16 KiB, but a commit message may be long."""
_PIECE = 64 * 1024
_RETAINED_ERROR_BYTES = 4096
_FAREWELL_S = 5.0
_UPDATES = ("patchset-created", "change-abandoned")
_COMMAND = (
    "gerrit",
    "stream-events",
    *(word for kind in ("comment-added", *_UPDATES) for word in ("-s", kind)),
)

_LASTING = (
    ("host key", "its host key is not trusted; check it, and add it to gerrit.known_hosts"),
    ("permission denied", "the login was refused; check gerrit.user and gerrit.ssh_key"),
    ("too many authentication", "the login was refused; set gerrit.ssh_key to the right key"),
    ("not permitted", "give the user the capability Stream Events: make it a member of Service Users"),
)
_UNREACHED = re.compile(
    r"connection refused|could not resolve|timed out|no route to host|network is unreachable", re.IGNORECASE
)


def ssh_command(
    host: str,
    port: int,
    user: str,
    *command: str,
    key: Path | None,
    known_hosts: Path | None,
    timeout_s: float,
) -> list[str]:
    """Return the command line of ssh.

    :param command: a command of Gerrit; by default the one that writes events.
    :raises SettingsError: if a file is missing, or has a name that ssh would interpret differently.
    """
    alive_s = max(1, round(timeout_s))
    options = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": "yes",
        "ConnectTimeout": str(alive_s),
        "ServerAliveInterval": str(alive_s),
        "ServerAliveCountMax": "2",
        "ClearAllForwardings": "yes",
        "ForwardAgent": "no",
        "PermitLocalCommand": "no",
        "ControlPath": "none",
        "LogLevel": "ERROR",
    }
    if known_hosts:
        options["UserKnownHostsFile"] = _quote_path("gerrit.known_hosts", known_hosts)
    if key:
        options |= {"IdentityFile": _quote_path("gerrit.ssh_key", key), "IdentitiesOnly": "yes"}
    words = [word for name, value in options.items() for word in ("-o", f"{name}={value}")]
    return ["ssh", "-T", "-x", "-p", str(port), "-l", user, *words, "--", host, *(command or _COMMAND)]


def check_ssh(command: Sequence[str], name: str) -> None:
    """Run a command of Gerrit that writes a line and ends.

    :param command: from :func:`ssh_command`.
    :param name: of the server, for messages.
    :raises ServiceError: if the connection cannot be made or is refused.
    """
    with EventStream(command, name) as stream:
        try:
            for _ in stream.events():
                pass
        except UnavailableError:
            # Its line is no event.
            if not stream.refused:
                raise


class EventStream:
    """A stream of events, until it is closed or breaks; use it as a context manager.

    :param command: a command that writes an event on each line.
    :param name: of the server, for messages.
    :raises ServiceError: if the program is missing.
    """

    def __init__(self, command: Sequence[str], name: str) -> None:
        self.name = name
        self.refused = 0
        """Number of skipped lines that are not valid events."""
        self.ignored = 0
        """Number of skipped events of other kinds."""
        self._errors = b""
        self._is_closed = False
        # The environment may contain settings with secrets, such as the token, that ssh does not need.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PERFTREND_")}
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                env=environment, bufsize=0, start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise ServiceError(
                f"{name}: {command[0]} cannot be started ({error.strerror}); install it"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
        try:
            self._process.wait(_FAREWELL_S)
        except subprocess.TimeoutExpired:
            self._signal(signal.SIGKILL)
            self._process.wait()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe:
                pipe.close()

    def close(self) -> None:
        """End the connection and :meth:`events`; may be called by another thread or a signal handler."""
        self._is_closed = True
        self._signal(signal.SIGTERM)

    def events(self, idle_s: float | None = None) -> Iterator[Event | None]:
        """Yield events as they arrive, until the stream is closed.

        :param idle_s: yield None after this time without an event, so that the caller can do other work;
            None: never.
        :raises UnavailableError: if the connection breaks or cannot be made; try again later.
        :raises ServiceError: if it is refused, and would be refused again.
        """
        quiet_since = time.monotonic()
        for line in self._lines(idle_s):
            event = self._read(line) if line else None
            if event is not None or (idle_s is not None and time.monotonic() - quiet_since >= idle_s):
                yield event
                quiet_since = time.monotonic()
        if not self._is_closed:
            raise self._explain_end()

    def _read(self, line: bytes) -> Event | None:
        try:
            event = read_event(line)
        except ValueError:
            self.refused += 1
            return None
        self.ignored += event is None
        return event

    def _lines(self, idle_s: float | None) -> Iterator[bytes]:
        """Yield complete lines except those that are too long, and an empty one if no more are available."""
        line, is_too_long = bytearray(), False
        for piece in self._pieces(idle_s):
            *ends, beginning = piece.split(b"\n")
            for end in ends:
                line += end
                if is_too_long or len(line) > LONGEST_LINE:
                    self.refused += 1
                elif line.strip():
                    yield bytes(line)
                line, is_too_long = bytearray(), False
            line += beginning
            if len(line) > LONGEST_LINE:
                line, is_too_long = bytearray(), True
            yield b""

    def _pieces(self, idle_s: float | None) -> Iterator[bytes]:
        """Yield output as it arrives, and an empty piece if there is none; standard error is retained."""
        with selectors.DefaultSelector() as selector:
            for pipe in (self._process.stdout, self._process.stderr):
                if pipe:
                    selector.register(pipe.fileno(), selectors.EVENT_READ, pipe is self._process.stdout)
            while selector.get_map():
                ready = selector.select(idle_s)
                if not ready:
                    yield b""
                for key, _ in ready:
                    piece = os.read(key.fd, _PIECE)
                    if not piece:
                        selector.unregister(key.fd)
                    elif not key.data:
                        self._errors = (self._errors + piece)[-_RETAINED_ERROR_BYTES:]
                    yield piece if key.data else b""

    def _explain_end(self) -> ServiceError:
        """Return the error for the end of the stream; it shows nothing that the server wrote."""
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_FAREWELL_S)
        errors = self._errors.decode("utf-8", "replace").lower()
        for words, hint in _LASTING:
            if words in errors:
                return ServiceError(f"{self.name}: {hint}")
        if found := _UNREACHED.search(errors):
            return UnreachedError(
                f"{self.name}: cannot be reached ({found[0]}); check gerrit.ssh_host and gerrit.ssh_port"
            )
        return UnavailableError(f"{self.name}: the stream of events broke off; connect again")

    def _signal(self, number: signal.Signals) -> None:
        # Programs that ssh started, such as a proxy, are in its process group. After ssh was waited for, its
        # process ID may be reused.
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)


def _quote_path(name: str, path: Path) -> str:
    """Return a path in the syntax of ssh: in quotes, without anything that ssh would expand."""
    if not path.is_file():
        raise SettingsError(f"{name} is {str(path)!r}; this file does not exist")
    text = str(path.absolute())
    if re.search(r'["\\$\x00-\x1f]', text):
        raise SettingsError(f"{name} is {text!r}; ssh cannot read a name with quotes, '$' or '\\' in it")
    return f'"{text.replace("%", "%%")}"'


@dataclass(frozen=True, slots=True)
class CommentAdded:
    """A review of a patch set."""

    project: str
    branch: str
    change: int
    change_id: str
    subject: str
    patch_set: int
    revision: str
    ref: str
    parents: tuple[str, ...]
    author: Account
    """Without the number, which events do not contain."""
    text: str
    """With Gerrit's heading. It may be incomplete: of a review with a message and a comment on the patch set,
    Gerrit 3.10 sends only the comment. The change's comments contain all of it."""
    written: datetime
    """UTC."""
    approvals: Mapping[str, int] = field(default_factory=dict, hash=False)
    """The author's votes by label, including those of this review."""


@dataclass(frozen=True, slots=True)
class EventsDropped:
    """Gerrit dropped events, because they were not read fast enough."""


@dataclass(frozen=True, slots=True)
class ChangeUpdated:
    """A change has a new patch set, or was abandoned."""

    project: str
    change: int


Event = CommentAdded | ChangeUpdated | EventsDropped


def read_event(line: bytes) -> Event | None:
    """Return the event of a line; None for other kinds of events.

    :raises ValueError: if the line is not a valid event.
    """
    try:
        found = validation.table(json.loads(line))
    except RecursionError:
        raise ValueError("too deep") from None
    kind = validation.some_text(found.get("type"))
    if kind == "dropped-output":
        return EventsDropped()
    if kind in _UPDATES:
        change = validation.table(found.get("change"))
        return ChangeUpdated(
            validation.some_text(change.get("project")), validation.whole(change.get("number"))
        )
    return _comment_added(found) if kind == "comment-added" else None


def _comment_added(found: Mapping[str, Any]) -> CommentAdded:
    change, patch_set = validation.table(found.get("change")), validation.table(found.get("patchSet"))
    return CommentAdded(
        project=validation.some_text(change.get("project")),
        branch=validation.some_text(change.get("branch")),
        change=validation.whole(change.get("number")),
        change_id=validation.some_text(change.get("id")),
        subject=validation.text(change.get("subject")),
        patch_set=validation.whole(patch_set.get("number")),
        revision=validation.revision(patch_set.get("revision")),
        ref=validation.ref(patch_set.get("ref")),
        parents=tuple(validation.revision(parent) for parent in validation.items(patch_set.get("parents"))),
        author=read_account(found.get("author")),
        text=validation.text(found.get("comment")),
        written=validation.seconds(found.get("eventCreatedOn")),
        approvals=dict(_approvals(found)),
    )


def _approvals(found: Mapping[str, Any]) -> Iterator[tuple[str, int]]:
    for each in validation.tables(found.get("approvals")):
        value = validation.text(each.get("value"))
        if not re.fullmatch(r"[-+]?[0-9]{1,9}", value):
            raise ValueError("no vote")
        yield validation.some_text(each.get("type")), int(value)
