"""What a person who waits is told: a line that changes on a terminal, a line a minute in a log."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from types import TracebackType
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.text import Text

from perftrend.archive.fetch.taking import Fate, Taken
from perftrend.archive.reading import Unknown

_LOG_EVERY_S = 60.0
_MEGA = 1e6


class Tally:
    """What became of all builds so far."""

    def __init__(self) -> None:
        self.counts: Counter[Fate] = Counter()
        self.transferred = 0
        self.results = 0
        self.unknown: dict[str, Unknown] = {}
        """What was not understood, by its form."""
        self._builds: dict[tuple[Fate, str], list[int]] = defaultdict(list)
        self._begun = time.monotonic()

    def add(self, taken: Taken) -> None:
        """Count a build."""
        self.counts[taken.fate] += 1
        self.transferred += taken.transferred
        self.results += taken.results
        job, _, number = taken.name.rpartition("/")
        self._builds[taken.fate, job].append(int(number))
        for form, one in taken.unknown.items():
            known = self.unknown.get(form, replace(one, count=0))
            self.unknown[form] = replace(known, count=known.count + one.count)

    def __str__(self) -> str:
        """Write one line: ``12 new, 88 known, 1 broken; 3600 results, 45.2 MB in 20 s (2.3 MB/s)``."""
        counted = ", ".join(f"{self.counts[fate]} {fate}" for fate in Fate if self.counts[fate])
        elapsed_s = max(time.monotonic() - self._begun, 1e-3)
        megabytes = self.transferred / _MEGA
        speed = f"{megabytes:.1f} MB in {elapsed_s:.0f} s ({megabytes / elapsed_s:.1f} MB/s)"
        return f"{counted or 'no build yet'}; {self.results} results, {speed}"

    def names(self, fate: Fate) -> str:
        """Write the builds of one fate: ``nightly/1..17, nightly/19``."""
        named = sorted((job, numbers) for (one, job), numbers in self._builds.items() if one is fate)
        return ", ".join(f"{job}/{part}" for job, numbers in named for part in _ranges(numbers))


class Progress:
    """Shows a tally while it grows, from entering to leaving."""

    def __init__(self, tally: Tally, output: TextIO) -> None:
        self._tally = tally
        self._output = output
        self._live: Live | None = None
        self._logged = time.monotonic()

    def __enter__(self) -> Progress:
        if self._output.isatty():
            console = Console(file=self._output)
            self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False)
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def clear(self) -> None:
        """Make room on the terminal for a line of somebody else."""
        if self._live is not None:
            self._live.update(Text(""), refresh=True)

    def tell(self) -> None:
        """Show the tally as it is now."""
        line = f"  {self._tally}"
        if self._live is not None:
            self._live.update(Text(line, no_wrap=True, overflow="ellipsis"), refresh=True)
        elif time.monotonic() - self._logged >= _LOG_EVERY_S:
            self._logged = time.monotonic()
            self._output.write(f"{line}\n")
            self._output.flush()


def _ranges(numbers: Iterable[int]) -> list[str]:
    """Write numbers with runs of neighbours as ``a..b``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number <= runs[-1][-1] + 1:
            runs[-1][-1] = number
        else:
            runs.append([number, number])
    return [str(first) if first == last else f"{first}..{last}" for first, last in runs]
