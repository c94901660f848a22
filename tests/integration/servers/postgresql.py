"""A real PostgreSQL server for the tests, with a cluster of its own that goes with it."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psycopg

from tests.integration.servers.java import LackingError, free_port

USER, PASSWORD = "perftrend", "sesame"
READY_S = 120
INSTALLED = Path("/usr/lib/postgresql")
"""Where Debian and Ubuntu put the programs, by version; they are on nobody's PATH there."""
SETTINGS = {
    "listen_addresses": "127.0.0.1",
    "shared_buffers": "32MB",
    # What is lost when the machine goes down is of no use to anybody.
    "fsync": "off",
    "logging_collector": "off",
}


class Server:
    """A server that tests start, stop and kill; its data stay until the end.

    :param user: its superuser.
    """

    def __init__(self, folder: Path, user: str = USER) -> None:
        self.folder = folder
        self.user = user
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._databases = 0

    def url(self, database: str = "postgres", *, user: str = "", password: str = PASSWORD) -> str:
        """Return the address of a database; by default for the superuser."""
        return f"postgresql://{user or self.user}:{password}@127.0.0.1:{self.port}/{database}"

    def database(self) -> str:
        """Make a database, and return its address."""
        self._databases += 1
        name = f"store{self._databases}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE DATABASE {name}")
        return self.url(name)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        told = [f"-c{name}={value}" for name, value in {**SETTINGS, "port": self.port}.items()]
        # Tests that are killed have no time to end it.
        dying = ["setpriv", "--pdeathsig", "INT"] if shutil.which("setpriv") else []
        with (self.folder / "log").open("ab") as log:
            self._process = self._popen(
                [*dying, program("postgres"), "-D", str(self.data), "-k", str(self.folder), *told],
                stdout=log,
            )
        self._wait()

    def stop(self, number: signal.Signals = signal.SIGINT) -> None:
        """Stop it; who is connected is cut off."""
        if self._process:
            self._process.send_signal(number)
            self._process.wait(READY_S)
            self._process = None

    def freeze(self) -> None:
        """Let it hang, with all its processes."""
        self._signal_all(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal_all(signal.SIGCONT)

    @property
    def data(self) -> Path:
        return self.folder / "data"

    def make(self) -> None:
        """Make the cluster."""
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        command = [
            program("initdb"), "-D", str(self.data), "-U", self.user, "--auth=scram-sha-256",
            f"--pwfile={password}", "--encoding=UTF8", "--locale=C", "--no-sync",
        ]  # fmt: skip
        with (self.folder / "log").open("ab") as log:
            code = self._popen(command, stdout=log).wait(READY_S)
        if code:
            raise RuntimeError(f"initdb ended with {code}:\n{(self.folder / 'log').read_text()}")

    def _signal_all(self, number: signal.Signals) -> None:
        assert self._process is not None
        os.kill(self._process.pid, number)
        # Those that serve a connection are its children. One that goes on may end before its own signal.
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        for process in map(int, children.split()):
            with suppress(ProcessLookupError):
                os.kill(process, number)

    def _popen(self, command: Sequence[str], **files: Any) -> subprocess.Popen[bytes]:
        other = nobody()
        as_other: dict[str, Any] = (
            {"user": other, "group": pwd.getpwnam(other).pw_gid, "extra_groups": []} if other else {}
        )
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, cwd=self.folder,
            start_new_session=True, **as_other, **files,
        )  # fmt: skip

    def _wait(self) -> None:
        end = time.monotonic() + READY_S
        while time.monotonic() < end and self._process and self._process.poll() is None:
            try:
                psycopg.connect(self.url(), connect_timeout=60).close()
            except psycopg.OperationalError:
                time.sleep(0.05)
            else:
                return
        raise RuntimeError(f"PostgreSQL does not answer:\n{(self.folder / 'log').read_text()}")


@contextmanager
def running(user: str = USER) -> Iterator[Server]:
    """Run a server until the context ends.

    :param user: its superuser.
    :raises LackingError: if PostgreSQL is not installed.
    """
    program("initdb")
    # Not in a folder of pytest's: those are for their owner only, and so would a socket's path be too long.
    with tempfile.TemporaryDirectory(prefix="postgresql-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        if other := nobody():
            shutil.chown(folder, other)
        server = Server(folder, user)
        server.make()
        try:
            server.start()
            yield server
        finally:
            # What it would write down first, nobody needs.
            server.stop(signal.SIGQUIT)


def nobody() -> str:
    """Return whom the server is to run as: it refuses to be root's. Empty: we are not root."""
    if os.geteuid():
        return ""
    known = {each.pw_name for each in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def program(name: str) -> str:
    """Return where a program of PostgreSQL is; of several versions the newest.

    :raises LackingError: if it is not installed.
    """
    versions = sorted(INSTALLED.glob("*/bin"), key=lambda folder: float(folder.parent.name), reverse=True)
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(map(str, versions)))
    if not found:
        raise LackingError("needs PostgreSQL's server")
    return found
