"""What the real web servers of the tests have in common: they serve a folder of archived builds.

Below these paths the same folder is served in other ways:

===============  ==============================================================
``/slow/``       at some 200 kB a second
``/encoded/``    with ``Content-Encoding: gzip``, as log servers send packed logs
``/forbidden/``  to nobody
``/locked/``     to the user ``reader`` with the password ``sesame``
===============  ==============================================================

They answer one request after the other, and write a line for each into ``access.log``: status, request,
range, bytes of the body.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import requests

from tests.integration.servers.java import LackingError

READY_S = 60
USER, PASSWORD = "reader", "sesame"


@dataclass(frozen=True)
class Asked:
    """A request that was answered."""

    status: int
    path: str
    range: str
    """What was asked for; ``-``: everything."""
    sent: int
    """Bytes of the body."""


@dataclass(frozen=True)
class Server:
    """A server that answers."""

    url: str
    folder: Path
    process: subprocess.Popen[bytes]
    tells_sizes: bool
    """Whether its index pages tell how many bytes a file has, and not only how many thousands."""

    @property
    def served(self) -> Path:
        """What lies here is served."""
        return self.folder / "served"

    def archive(self, path: str, content: bytes, *, written_s: float = 1_700_000_000.0) -> None:
        """Put a file there, which is not so new that a server would not vouch for it."""
        file = self.served / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        os.utime(file, (written_s, written_s))

    def asked(self, path: str) -> list[Asked]:
        """Return the requests for a path, oldest first."""
        # When this is answered, all before it are in the log.
        requests.get(f"{self.url}/?", timeout=READY_S)
        told = [line.split(" ") for line in (self.folder / "access.log").read_text().splitlines()]
        each = [
            Asked(int(status), path, range_, 0 if sent == "-" else int(sent))
            for status, _, path, _, range_, sent in told
        ]
        return [one for one in each if one.path == path]

    def cut_connections(self) -> None:
        """Kill the processes that answer; the server starts others, as after a crash."""
        server = self.process.pid
        for child in Path(f"/proc/{server}/task/{server}/children").read_text().split():
            os.kill(int(child), signal.SIGKILL)


@contextmanager
def running(command: Sequence[str], url: str, folder: Path, *, tells_sizes: bool) -> Iterator[Server]:
    """Run a server until the context ends."""
    (folder / "served").mkdir()
    # Tests that are killed have no time to end it; so asked it ends those that answer, too.
    dying = ["setpriv", "--pdeathsig", "TERM"] if shutil.which("setpriv") else []
    process = subprocess.Popen([*dying, *command], stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        server = Server(url, folder, process, tells_sizes)
        wait_until_ready(server)
        yield server
    finally:
        process.terminate()
        process.wait(timeout=READY_S)


def wait_until_ready(server: Server) -> None:
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and server.process.poll() is None:
        try:
            if requests.get(f"{server.url}/", timeout=5).ok:
                return
        except requests.RequestException:
            time.sleep(0.05)
    tail = (server.folder / "error.log").read_text(errors="replace").splitlines()[-20:]
    code = server.process.returncode
    ended = f"ended with {code}" if code is not None else "does not answer"
    raise RuntimeError("\n".join([f"the server {ended}; its log ends:", *tail]))


def program(name: str) -> str:
    """Return where a server's program is.

    :raises LackingError: if it is not installed.
    """
    # Where only the administrator's shell looks.
    found = shutil.which(name, path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin")
    if not found:
        raise LackingError(f"needs {name}")
    return found
