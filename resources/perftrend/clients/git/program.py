"""The git program: argument lists, a controlled environment, timeouts.

A user's configuration (hooks, signatures in logs, line ends) must not change the content of a commit.
Therefore local commands read neither the user's nor the system's configuration. Commands that contact a
server read both, since these contain proxies, certificates and credential helpers. Settings that could
interfere are overridden on the command line, which takes precedence over both.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from perftrend.clients.git.addresses import Address, without_password
from perftrend.errors import ServiceError

_LOCAL_S = 120.0
_SETTINGS = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "fetch.recurseSubmodules=false",
    "fetch.fsckObjects=false",
    "gc.autoDetach=false",
    "gc.pruneExpire=never",
    "maintenance.autoDetach=false",
)
_RETAINED_VARIABLES = re.compile(
    r"GIT_(SSH|SSH_COMMAND|SSH_VARIANT|ASKPASS|PROXY_.*|SSL_.*|HTTP_.*|CONFIG_.*)"
)
"""Variables of git that a server may need; others, such as GIT_DIR inside a hook, would mislead git."""
_LONGEST_WORDS = 300
_NOT_FOUND = 127


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a command."""

    code: int
    output: str
    words: str
    """Its standard error, in one line and without passwords."""


class Git:
    """The git program in one repository.

    :param folder: the repository: its worktree, or the repository itself if it is bare.
    :param timeout_s: the time that a local command may take, unless it says otherwise.
    """

    def __init__(self, folder: Path, *, timeout_s: float = _LOCAL_S) -> None:
        self._folder = folder
        self._timeout_s = timeout_s

    def try_(self, *arguments: str, text: str = "", timeout_s: float | None = None) -> Done:
        """Run a local command, and return its result.

        :raises ServiceError: if it takes too long, or git is not installed.
        """
        # The user of this job named the repository, so they trust it.
        own = _options([*_SETTINGS, "safe.directory=*"])
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        try:
            return self._run([*own, *arguments], _local_environment(), text=text, timeout_s=timeout_s)
        except subprocess.TimeoutExpired:
            raise ServiceError(
                f"git {arguments[0]} in {self._folder} took longer than {timeout_s:g} s"
            ) from None

    def run(self, *arguments: str, text: str = "", timeout_s: float | None = None) -> str:
        """Run a local command, and return its output.

        :raises ServiceError: if it fails.
        """
        done = self.try_(*arguments, text=text, timeout_s=timeout_s)
        if done.code:
            raise ServiceError(f"git {arguments[0]} in {self._folder} failed: {done.words}")
        return done.output

    def run_remote(self, address: Address | str, arguments: Iterable[str], *, timeout_s: float) -> None:
        """Run a command that contacts a server; it ends with this process, however that ends.

        :param address: of the server, for messages and for its password; or the name of a remote.
        :raises ServiceError: if it fails or takes too long.
        """
        environment = _remote_environment(address.configuration if isinstance(address, Address) else ())
        command = [*_options(_SETTINGS), *arguments]
        remote = address.url if isinstance(address, Address) else address
        try:
            done = self._run(command, environment, timeout_s=timeout_s)
        except subprocess.TimeoutExpired:
            raise ServiceError(
                f"{without_password(remote)} did not send its commits within {timeout_s:g} s"
            ) from None
        if done.code:
            raise ServiceError(
                f"cannot fetch from {without_password(remote)}: {done.words}; "
                "check the address, the network and the permissions of this user"
            )

    def _run(
        self,
        arguments: Iterable[str],
        environment: Mapping[str, str],
        *,
        text: str = "",
        timeout_s: float,
    ) -> Done:
        try:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", "git", "-C", str(self._folder), *arguments],
                env=environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                errors="replace",
                # Away from the terminal, so that ssh cannot prompt for a password.
                start_new_session=True,
            )
        except FileNotFoundError:
            raise ServiceError(
                "the program setpriv is missing (Debian: apt-get install util-linux)"
            ) from None
        with process:
            try:
                output, words = process.communicate(text, timeout=timeout_s)
            except BaseException:
                with suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
                raise
        if process.returncode == _NOT_FOUND:
            raise ServiceError("the program git is missing (Debian: apt-get install git)")
        return Done(process.returncode, output, _one_line(words))


def _options(settings: Iterable[str]) -> list[str]:
    return [word for setting in settings for word in ("-c", setting)]


def _plain_environment() -> dict[str, str]:
    environment = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GIT_", "LC_", "LANGUAGE", "PERFTREND_"))
        or _RETAINED_VARIABLES.fullmatch(name)
    }
    return {
        **environment,
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_NO_REPLACE_OBJECTS": "1",
    }


def _local_environment() -> dict[str, str]:
    plain = {name: value for name, value in _plain_environment().items() if not name.startswith("GIT_CONFIG")}
    return {**plain, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}


def _remote_environment(configuration: Iterable[tuple[str, str]]) -> dict[str, str]:
    found = {**_plain_environment(), "GIT_ALLOW_PROTOCOL": "file:git:http:https:ssh"}
    for key, value in configuration:
        count = found.get("GIT_CONFIG_COUNT", "")
        number = int(count) if count.isdecimal() else 0
        found[f"GIT_CONFIG_KEY_{number}"] = key
        found[f"GIT_CONFIG_VALUE_{number}"] = value
        found["GIT_CONFIG_COUNT"] = str(number + 1)
    return found


def _one_line(words: str) -> str:
    """Return the lines that contain errors, or all lines if there are none, in one line."""
    lines = [line.strip() for line in words.splitlines() if line.strip()]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:", "ssh:", "remote:"))] or lines
    return without_password(" / ".join(fatal))[:_LONGEST_WORDS] or "no error message"
