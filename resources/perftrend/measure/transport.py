"""The ways to run commands on a node: by OpenSSH on another machine, or on this one.

The program ``ssh`` is used, so that its configuration, jump hosts, agents, certificates and known hosts
apply. One connection to each node is opened, and all commands share it, which makes them quick to start.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import cast

from typing_extensions import override

from perftrend import errors
from perftrend.measure.interfaces import Target
from perftrend.measure.program import LOST, dies_with_parent
from perftrend.measure.wiring import run

_REACH = ("host", "user", "port", "jump")
"""The options of a node on another machine; drivers have others."""
_TRANSPORTS = ("ssh", "local")
_ROOT: Mapping[str, Sequence[str]] = {"": (), "sudo": ("sudo", "-n", "--")}
_CONNECT_S = 30.0
_NETNS = re.compile(r"[\w.][\w.-]*")
_STOP_S = 5.0
_LOOK_EVERY_S = 0.05
_FORWARD_ATTEMPTS = 3
_ALWAYS = (
    # Nobody is there to answer, and a machine with another key is another machine.
    *("-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=yes", "-o", "LogLevel=ERROR"),
    # A connection that is lost is noticed within 12 s: it does not answer two requests in intervals of 4 s.
    *("-o", "ConnectTimeout=10", "-o", "ServerAliveInterval=4", "-o", "ServerAliveCountMax=2"),
)
_SHARED = (
    # If the server allows no more sessions of the connection, the command needs one of its own. That must not
    # take long, because ssh also tries it if the connection is lost before the command has begun.
    *("-o", "ControlMaster=no", "-o", "ConnectTimeout=3"),
)


def connection(name: str, options: Mapping[str, str], config: str) -> Connection:
    """Return the connection to a node.

    :param options: ``transport`` is ``ssh`` (the default) or ``local``. With ``ssh``, ``host`` is needed, and
        there may be ``user``, ``port`` and ``jump`` (a jump host). With both, there may be ``netns``, the
        name of a network namespace that has the node's ports, and ``root: sudo`` if the user becomes root
        by ``sudo``, which must not prompt for a password.
    :param config: a file to use instead of ``~/.ssh/config``; empty if none.
    :raises SettingsError: for an invalid option.
    """
    transport = options.get("transport", "ssh")
    if transport not in _TRANSPORTS:
        raise errors.SettingsError(
            f"node {name}: transport={transport!r}{errors.nearest(transport, _TRANSPORTS)}"
        )
    return SshConnection(name, options, config) if transport == "ssh" else LocalConnection(name, options)


class Connection(ABC):
    """What leads to a node."""

    is_remote = False
    """Whether the node is another machine."""

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        root, netns = options.get("root", ""), options.get("netns", "")
        if root not in _ROOT:
            raise errors.SettingsError(f"node {name}: root={root!r}{errors.nearest(root, ['sudo'])}")
        if netns and not _NETNS.fullmatch(netns):
            raise errors.SettingsError(f"node {name}: netns={netns!r} is not a name; ip netns lists them")
        self._name = name
        self._has_own_network = bool(netns)
        inside = ["nsenter", f"--net=/run/netns/{netns}", "--"] if netns else []
        self._prefix = [*_ROOT[root], *inside]

    @abstractmethod
    def open(self) -> None:
        """Open the connection, unless it is open."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection; may be called at any time and more than once."""

    @abstractmethod
    def command(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs ``command`` on the node."""

    @abstractmethod
    def forward(self, target: Target) -> Target:
        """Return the port or socket of this machine that leads to one of the node."""

    def _check_target(self, target: Target) -> None:
        if self._has_own_network and isinstance(target, int):
            raise errors.TestbedError(
                f"node {self._name}: TCP port {target} cannot be reached, because the option netns leads to "
                "another network"
            )

    def ssh(self) -> tuple[Sequence[str], str]:
        """Return the options of ``ssh`` and ``scp``, and the address."""
        raise errors.SettingsError(
            f"node {self._name} is this machine, which is not reached by ssh; choose another profile"
        )


class LocalConnection(Connection):
    """A node that is this machine, or a network namespace of it."""

    def __init__(self, name: str, options: Mapping[str, str]) -> None:
        super().__init__(name, options)
        if superfluous := [option for option in _REACH if option in options]:
            raise errors.SettingsError(
                f"node {name}: transport=local is this machine, which has no {superfluous[0]}; "
                "omit one of them"
            )

    @override
    def open(self) -> None:
        """Do nothing: there is nothing to connect."""

    @override
    def close(self) -> None:
        """Do nothing: nothing is connected."""

    @override
    def command(self, command: Sequence[str]) -> list[str]:
        return [*self._prefix, *command]

    @override
    def forward(self, target: Target) -> Target:
        self._check_target(target)
        return target


class SshConnection(Connection):
    """A connection to a node on another machine, which all commands there share."""

    is_remote = True

    def __init__(self, name: str, options: Mapping[str, str], config: str) -> None:
        host = options.get("host", "")
        if not host:
            raise errors.SettingsError(f"node {name} has no option host, which the wiring ssh needs")
        for option in _REACH:
            if options.get(option, "").startswith("-"):
                raise errors.SettingsError(f"node {name}: {option}={options[option]!r} begins with a hyphen")
        super().__init__(name, options)
        user, port, jump = (options.get(option, "") for option in ("user", "port", "jump"))
        self._address = f"{user}@{host}" if user else host
        self._target = ["--", self._address]
        self._options = [
            # Commands of a profile run in other folders.
            *(("-F", str(Path(config).absolute())) if config else ()), *_ALWAYS,
            *(("-o", f"Port={port}") if port else ()), *(("-J", jump) if jump else ()),
        ]  # fmt: skip
        self._folder: str | None = None
        self._master: subprocess.Popen[str] | None = None

    @override
    def open(self) -> None:
        """Open the connection, unless it is open."""
        if self._folder is not None:
            return
        # A socket's path must be short, and TMPDIR may be long.
        self._folder = tempfile.mkdtemp(prefix="perftrend-ssh-", dir="/tmp")
        command = ["ssh", "-M", "-N", "-S", self._socket, *self._options, *self._target]
        self._master = subprocess.Popen(
            dies_with_parent(command),
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
            process_group=0,
        )  # fmt: skip
        deadline = time.monotonic() + _CONNECT_S
        while not os.path.exists(self._socket):  # noqa: PTH110 - a socket is no file to read
            if self._master.poll() is not None:
                raise errors.TestbedError(f"node {self._name}: {self._last_words()}")
            if time.monotonic() >= deadline:
                raise errors.TestbedError(f"node {self._name}: no connection within {_CONNECT_S:g} s")
            time.sleep(_LOOK_EVERY_S)

    @property
    def _socket(self) -> str:
        if self._folder is None:
            raise errors.TestbedError(f"node {self._name} is not connected; open the testbed first")
        return f"{self._folder}/s"

    def _last_words(self) -> str:
        assert self._master is not None  # noqa: S101 - the only caller has started it
        _, output = self._master.communicate()
        lines = output.strip().splitlines() or [f"ssh ended with {self._master.returncode}"]
        self._master = None
        return lines[-1].strip()

    @override
    def command(self, command: Sequence[str]) -> list[str]:
        self._check()
        words = shlex.join([*self._prefix, *command])
        return ["ssh", "-S", self._socket, *_SHARED, *self._options, *self._target, words]

    def _check(self) -> None:
        """Raise a TestbedError if the connection is lost: ssh would make another one, unnoticed."""
        if self._master and self._master.poll() is not None:
            raise errors.TestbedError(LOST.format(host=self._target[-1]))

    @override
    def ssh(self) -> tuple[Sequence[str], str]:
        """Return the options of ``ssh`` and ``scp``, and the address."""
        # scp takes what is before a colon for the address, and everything for a file after a slash.
        if re.search(r"[\s:/]", self._address):
            raise errors.SettingsError(
                f"node {self._name}: scp would misread the address {self._address!r}; "
                "give the machine a name in ~/.ssh/config"
            )
        return self._options, self._address

    @override
    def forward(self, target: Target) -> Target:
        self._check()
        self._check_target(target)
        for attempt in range(_FORWARD_ATTEMPTS):
            if isinstance(target, str):
                local: int | str = f"{self._folder}/{attempt}-{abs(hash(target))}"
                where = f"{local}:{target}"
            else:
                local = _free_port()
                where = f"127.0.0.1:{local}:127.0.0.1:{target}"
            command = ["ssh", "-S", self._socket, "-O", "forward", "-L", where, *self._options, *self._target]
            try:
                run(command)
            except errors.TestbedError:
                if attempt == _FORWARD_ATTEMPTS - 1:
                    raise
            else:
                break
        return cast("Target", local)

    @override
    def close(self) -> None:
        if self._master and self._master.poll() is None:
            self._master.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._master.wait(_STOP_S)
            self._master.kill()
        if self._master:
            self._master.communicate()
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._master = self._folder = None


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
