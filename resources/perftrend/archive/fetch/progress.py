"""Progress of fetching for users: the builds so far, by status."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import replace
from typing import TextIO

from perftrend.archive.fetch.ingest import IngestResult, IngestStatus
from perftrend.archive.reader import Unknown
from perftrend.progress import ProgressLine

_MEGA = 1e6


class Tally:
    """The statuses of all builds so far."""

    def __init__(self) -> None:
        self.counts: Counter[IngestStatus] = Counter()
        self.transferred = 0
        self.results = 0
        self.unknown: dict[str, Unknown] = {}
        """Unknown parts of outputs, by their form."""
        self._builds: dict[tuple[IngestStatus, str], list[int]] = defaultdict(list)
        self._begun = time.monotonic()

    def add(self, result: IngestResult) -> None:
        """Count a build."""
        self.counts[result.fate] += 1
        self.transferred += result.transferred
        self.results += result.results
        job, _, number = result.name.rpartition("/")
        self._builds[result.fate, job].append(int(number))
        for form, one in result.unknown.items():
            known = self.unknown.get(form, replace(one, count=0))
            self.unknown[form] = replace(known, count=known.count + one.count)

    def __str__(self) -> str:
        """Return one line: ``12 new, 88 known, 1 broken; 3600 results, 45.2 MB in 20 s (2.3 MB/s)``."""
        counted = ", ".join(f"{self.counts[fate]} {fate}" for fate in IngestStatus if self.counts[fate])
        elapsed_s = max(time.monotonic() - self._begun, 1e-3)
        megabytes = self.transferred / _MEGA
        speed = f"{megabytes:.1f} MB in {elapsed_s:.0f} s ({megabytes / elapsed_s:.1f} MB/s)"
        return f"{counted or 'no build yet'}; {self.results} results, {speed}"

    def names(self, fate: IngestStatus) -> str:
        """Return the builds with a status as text: ``nightly/1..17, nightly/19``."""
        named = sorted((job, numbers) for (one, job), numbers in self._builds.items() if one is fate)
        return ", ".join(f"{job}/{part}" for job, numbers in named for part in _ranges(numbers))


class FetchProgress(ProgressLine):
    """Shows a tally while it grows; a context manager."""

    def __init__(self, tally: Tally, output: TextIO) -> None:
        super().__init__(output, guard_errors=True)
        self._tally = tally

    def show_tally(self) -> None:
        """Show the current tally."""
        self.show(f"  {self._tally}")


def _ranges(numbers: Iterable[int]) -> list[str]:
    """Return numbers as text, with consecutive ones as ``a..b``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number <= runs[-1][-1] + 1:
            runs[-1][-1] = number
        else:
            runs.append([number, number])
    return [str(first) if first == last else f"{first}..{last}" for first, last in runs]
