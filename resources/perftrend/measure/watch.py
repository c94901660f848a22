"""Whether somebody else used the cores while a trial ran.

The generator and the device each need a core to themselves. The kernel counts how long a process
was ready to run but had to wait for its core, and how long the machine itself was not given its
cores by its host: both mean that a trial measured something else than the device.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

WAITED_SHARE = 0.02
"""Above this share of a trial, waiting is no longer the odd timer tick."""
STOLEN_SHARE = 0.02
_LEAST_S = 0.05
"""What a process may wait in any trial: a few slices of the scheduler."""


class CoreWatch:
    """Watches processes that must not wait for their cores."""

    def __init__(self, processes: Sequence[int]) -> None:
        self._processes = processes
        self.foreign = ""
        """What was seen in the last watched block; empty when nothing was."""

    @contextmanager
    def watching(self) -> Iterator[CoreWatch]:
        """Watch while the block runs; :attr:`foreign` then says what was seen."""
        waited = {process: _waited_s(process) for process in self._processes}
        stolen = _stolen_s()
        begin = time.monotonic()
        self.foreign = ""
        yield self
        elapsed = time.monotonic() - begin
        for process, before in waited.items():
            share = (_waited_s(process) - before) / elapsed
            if share > WAITED_SHARE and share * elapsed > _LEAST_S * 0.2:
                self.foreign = f"another process used the cores for {share:.0%} of the trial"
        share = (_stolen_s() - stolen) / elapsed
        if share > STOLEN_SHARE and share * elapsed > _LEAST_S:
            self.foreign = f"the host withheld the cores for {share:.0%} of the trial"


def _waited_s(process: int) -> float:
    """Return how long a process has been ready but not running, by /proc/PID/schedstat."""
    try:
        return int(Path(f"/proc/{process}/schedstat").read_text().split()[1]) / 1e9
    except (OSError, IndexError):
        return 0.0  # Ended, or a kernel without this count: then there is nothing to see.


def _stolen_s() -> float:
    """Return the time that the host of a virtual machine has given to others, over all cores."""
    try:
        first = Path("/proc/stat").read_text().splitlines()[0].split()
        return int(first[8]) / os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError):
        return 0.0


def two_cores() -> tuple[int | None, int | None]:
    """Choose a core each for generator and device: different physical cores, where there are.

    :returns: two cores that this process may use; None and None where it has but one.
    """
    allowed = sorted(os.sched_getaffinity(0), reverse=True)
    physical: dict[str, int] = {}
    for core in allowed:
        physical.setdefault(_siblings(core), core)
    chosen = list(physical.values())
    chosen += [core for core in allowed if core not in chosen]
    return (chosen[1], chosen[0]) if len(chosen) > 1 else (None, None)


def _siblings(core: int) -> str:
    try:
        return Path(f"/sys/devices/system/cpu/cpu{core}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(core)
