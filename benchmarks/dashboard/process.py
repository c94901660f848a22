"""The real job as a process, and its use of memory."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

CHECKOUT = Path(__file__).resolve().parents[2]
SETTINGS = {
    # One client makes all requests.
    "requests_per_second": 1e6,
    "burst": 1_000_000,
    "maximum_connections": 10_000,
}
_SERVES = re.compile(r"dashboard at (http\S+)/$", re.MULTILINE)
_END_S = 60


@dataclass(frozen=True, slots=True)
class Serving:
    """A running dashboard."""

    url: str
    process_id: int
    start_s: float
    """From the start of the process until it printed its address."""

    def megabytes(self, what: str = "VmHWM") -> int:
        """Return its memory: the peak, or with ``VmRSS`` the current use."""
        status = Path(f"/proc/{self.process_id}/status").read_text()
        found = re.search(rf"^{what}:\s+(\d+) kB$", status, re.MULTILINE)
        return int(found[1]) // 1000 if found else 0

    def cpu_s(self) -> float:
        """Return the CPU time that it has used, in seconds."""
        fields = Path(f"/proc/{self.process_id}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serve(folder: Path, place: str, **settings: object) -> Iterator[Serving]:
    """Serve a store until the context ends.

    :param settings: further settings of the dashboard.
    """
    (folder / "settings.yaml").write_text(yaml.safe_dump({"dashboard": SETTINGS | settings}))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PERFTREND_")}
    log = folder / "dashboard.log"
    begin = time.perf_counter()
    with log.open("w") as written:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "perftrend.cli.dashboard", "--settings", "settings.yaml",
             "--store", place, "--address", "127.0.0.1:0"],
            cwd=folder, env={**environment, "PYTHONPATH": f"{CHECKOUT}:{CHECKOUT / 'resources'}"},
            stdout=subprocess.DEVNULL, stderr=written,
        )  # fmt: skip
        try:
            yield Serving(_url(process, log), process.pid, time.perf_counter() - begin)
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                # With all processors busy a clustering ends late; the measurements count anyway.
                process.kill()
                process.wait()


def _url(process: subprocess.Popen[bytes], log: Path) -> str:
    while process.poll() is None:
        if found := _SERVES.search(log.read_text()):
            return found[1]
        time.sleep(0.05)
    raise RuntimeError(f"the dashboard does not serve: {log.read_text()}")
