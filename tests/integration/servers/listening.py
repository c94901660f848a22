"""The listener as a process of its own, which tests start, stop and kill."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import requests
import yaml

from perftrend.store import Store
from perftrend.store.requests import RequestState
from tests.integration.servers.environment import inherited
from tests.integration.servers.gerrit import Server, User

CHECKOUT = Path(__file__).resolve().parents[3]


def of_gerrit(server: Server, robot: User) -> dict[str, Any]:
    """Return the settings of a Gerrit, for one who reads, listens and answers there."""
    return {
        "url": server.url, "user": robot.name, "token": robot.password, "ssh_port": server.ssh_port,
        "ssh_key": str(robot.key), "known_hosts": str(server.known_hosts), "notify": "none", "attempts": 1,
        "groups": ["Registered Users"],
    }  # fmt: skip


def until(condition: Callable[[], object], limit_s: float = 300, *, every_s: float = 0.05) -> None:
    """Wait for processes; the limit only ends a test that would hang.

    :param every_s: how often to look, which takes time from who measures packets.
    """
    end = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < end
        time.sleep(every_s)


class Listener:
    """A listener with a folder of its own; its jobs run here unless ``settings`` are changed."""

    def __init__(self, folder: Path, server: Server, robot: User, project: str) -> None:
        self.folder = folder
        self.settings: dict[str, Any] = {
            "gerrit": of_gerrit(server, robot),
            "listener": {
                "runner": "local", "address": "127.0.0.1:0", "projects": [project], "poll_s": 3600,
                # What earlier tests wrote on the same server is nobody's request here.
                "lookback_s": 1,
            },
        }  # fmt: skip
        self.process: subprocess.Popen[str] | None = None
        self.said: list[str] = []
        self._reader = threading.Thread()

    def __enter__(self) -> Self:
        self.folder.mkdir(exist_ok=True)
        return self

    def __exit__(self, *_: object) -> None:
        if self.lives():
            self.end()

    def command(self) -> list[str]:
        """Return what starts it."""
        return [sys.executable, "-P", "-m", "perftrend.cli.listener", "--settings", "settings.yaml"]

    def _written(self) -> list[str]:
        """Write down what it is; return what starts it."""
        (self.folder / "settings.yaml").write_text(yaml.safe_dump(self.settings))
        return self.command()

    def environment(self) -> dict[str, str]:
        return {
            **inherited(),
            "PYTHONPATH": f"{CHECKOUT}{os.pathsep}{CHECKOUT / 'resources'}",
            "NETRC": "/dev/null",
        }

    def once(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self._written(), "--once"], cwd=self.folder, env=self.environment(), text=True, timeout=600,
            capture_output=True, check=False,
        )  # fmt: skip

    def start(self) -> None:
        """Start it and wait until it serves its health."""
        self.said = []
        self.process = subprocess.Popen(
            self._written(), cwd=self.folder, env=self.environment(), text=True, stderr=subprocess.PIPE
        )
        self._reader = threading.Thread(target=self._read, args=(self.process, self.said), daemon=True)
        self._reader.start()
        until(lambda: any("health at" in line for line in self.said) or not self.lives())

    def _read(self, process: subprocess.Popen[str], said: list[str]) -> None:
        assert process.stderr
        with process.stderr as lines:
            said += lines

    def lives(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def health(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.page("healthz").content)
        return found

    def page(self, name: str) -> requests.Response:
        address = next(line for line in self.said if "health at" in line).split("health at ")[1].strip()
        return requests.get(address.replace("healthz", name), timeout=60)

    def is_connected(self) -> bool:
        return bool(self.health()["connected"])

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        assert self.process
        self.process.send_signal(number)
        code = self.process.wait(300)
        # Jobs that outlive a killed one hold what it speaks into.
        if number is not signal.SIGKILL:
            self._reader.join()
        return code

    def consoles(self) -> list[str]:
        """Return what the jobs said, in no order."""
        return sorted(
            file.read_text().strip() for file in self.folder.glob("archives/requests/*/console.log")
        )

    def states(self) -> list[str]:
        with Store.open(self.settings.get("store", self.folder / "perftrend.sqlite")) as store:
            return [each.state.value for each in store.requests.in_states(*RequestState)]

    def has_served(self, requests: int = 1) -> bool:
        """Tell whether so many requests have come to their ends, whatever these are."""
        states = self.states()
        return len(states) == requests and not {"seen", "claimed", "waiting", "running"} & set(states)
