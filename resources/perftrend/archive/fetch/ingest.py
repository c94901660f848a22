"""Ingestion of builds from their source into the store: several at a time, independently of each other.

Builds that the store has already are recognized by their listing, and need not be fetched again. An error
of one build does not stop the others: it is reported at the end, with the build's name. Only repeated
failures of the server end the job, because the remaining builds would fail as well. A tally counts the
builds by status.
"""

from __future__ import annotations

import logging
import re
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TextIO

from perftrend.archive.fetch.builds import (
    ArchivedBuild,
    BuildSource,
    ContentKind,
    MissingError,
    OutputFiles,
    attempts,
)
from perftrend.archive.fetch.download import Fetcher
from perftrend.archive.fetch.run_ingest import Claim, IngestedRun, ReadableFile, Readers
from perftrend.archive.reader import Unknown
from perftrend.console import ProgressLine
from perftrend.errors import ArchiveError, ServiceError, StoreError, UnstorableError
from perftrend.store import Store

LOG = logging.getLogger(__name__)

FAILURES_IN_A_ROW = 8
_PLACE = re.compile(r'File "[^"]*?([^"/]*)", line (\d+)')
_AHEAD = 2
"""Builds per worker that are listed in advance, including the one in progress."""

_MEGA = 1e6


class KnownBuilds:
    """Distinguishes builds that were read from builds that are new or have changed since.

    :param opened: opens the store while it is used.
    """

    def __init__(self, opened: Callable[[], AbstractContextManager[Store]]) -> None:
        self._opened = opened
        self._read: dict[str, dict[str, str]] = {}
        self._learned: dict[str, str] = {}

    def has(self, build: ArchivedBuild) -> bool:
        """Whether a build was read, in the version that its source lists now.

        If one of the two versions is unknown, they are assumed to be the same.
        """
        if build.job not in self._read:
            with self._opened() as store:
                self._read[build.job] = store.archives.versions(build.job)
        read = self._read[build.job].get(build.location)
        if read == "" and build.version:
            self._learned[build.location] = build.version
        return read is not None and (not read or not build.version or read == build.version)

    def note_versions(self) -> None:
        """Store the versions that the store did not know."""
        if self._learned:
            with self._opened() as store:
                store.archives.note_versions(self._learned)
            self._learned = {}


class IngestStatus(StrEnum):
    """The status of a build."""

    NEW = "new"
    KNOWN = "known"
    IN_PROGRESS = "in progress"
    """A per-patch test whose current state is in the store; it is read again after it has changed."""
    MISSING = "missing"
    """The source has the build, but no output of it."""
    BROKEN = "broken"
    """None of its outputs can be used."""
    FAILED = "failed"
    """The source did not provide it, or the store did not accept it."""


@dataclass(frozen=True, slots=True)
class IngestResult:
    """The status of a build, and the reason."""

    name: str
    fate: IngestStatus
    note: str = ""
    """Why it is missing, broken or failed; for a new one, which stronger file was not valid."""
    transferred: int = 0
    """Bytes that were transferred for it."""
    results: int = 0
    unknown: Mapping[str, Unknown] = field(default_factory=dict, hash=False)
    """Unknown parts of its output, by their form."""


class BuildIngester:
    """Ingests builds of one source into a store."""

    def __init__(self, source: BuildSource, fetcher: Fetcher, readers: Readers) -> None:
        self._source = source
        self._fetcher = fetcher
        self._readers = readers

    def ingest(self, build: ArchivedBuild, claim: Claim) -> IngestResult:
        """Fetch, read and store one build, from the first of its files that are valid."""
        with self._fetcher.pin_files():
            return self._ingest(build, claim)

    def _ingest(self, build: ArchivedBuild, claim: Claim) -> IngestResult:
        transferred = 0
        refused: list[str] = []
        try:
            for attempt in attempts(self._source.files(build)):
                with _record_failure(refused, attempt.files[0].name):
                    files, bytes_ = self._fetch(attempt)
                    transferred += bytes_
                    entered = self._readers.enter(claim, files, attempt.kind)
                    fate = _fate(entered)
                    note = _weaker(attempt, refused)
                    return IngestResult(build.name, fate, note, transferred, entered.results, entered.unknown)
        except ArchiveError as error:
            refused.append(str(error))
        except (ServiceError, StoreError) as error:
            return IngestResult(build.name, IngestStatus.FAILED, str(error), transferred)
        if refused:
            return IngestResult(build.name, IngestStatus.BROKEN, "; ".join(refused), transferred)
        return IngestResult(build.name, IngestStatus.MISSING, f"{build.location} has no output", transferred)

    def _fetch(self, attempt: OutputFiles) -> tuple[list[ReadableFile], int]:
        fetched = [self._fetcher.fetch(file) for file in attempt.files]
        return [ReadableFile(one.path, one.name) for one in fetched], sum(one.transferred for one in fetched)


def in_parallel(
    ingester: BuildIngester,
    claims: Iterable[tuple[ArchivedBuild, Claim]],
    workers: int,
    stop: threading.Event,
) -> Iterator[IngestResult]:
    """Ingest builds, up to ``workers`` at a time; yield their statuses as they end.

    :param claims: consumed only as far as the workers need builds next.
    :param stop: set if the caller leaves early: workers end at their next step.
    :raises ServiceError: if :data:`FAILURES_IN_A_ROW` builds failed in a row.
    """
    pending: set[Future[IngestResult]] = set()
    failures = 0
    with ThreadPoolExecutor(workers) as pool:
        try:
            for build, claim in claims:
                pending.add(pool.submit(ingester.ingest, build, claim))
                if len(pending) < workers * _AHEAD:
                    continue
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                for future in done:
                    result = future.result()
                    failures = failures + 1 if result.fate is IngestStatus.FAILED else 0
                    yield result
                if failures >= FAILURES_IN_A_ROW:
                    raise ServiceError(
                        f"{failures} builds in a row failed, the rest was not tried; the last: {result.note}"
                    )
            while pending:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                yield from (future.result() for future in done)
        except BaseException:
            stop.set()
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def _record_failure(refused: list[str], name: str) -> Generator[None, None, None]:
    """Record why an attempt failed, so that the next one is made; errors that affect all attempts are raised.

    Any other error while a file is read is a defect of perftrend, but affects only this build.
    """
    try:
        yield
    except MissingError:
        pass
    except (ArchiveError, UnstorableError) as error:
        refused.append(str(error))
    except (ServiceError, StoreError):
        raise
    except Exception as error:
        LOG.debug("%s cannot be read", name, exc_info=error)
        # An error of another process has its location only in the text of its cause.
        elsewhere = _PLACE.findall(str(error.__cause__ or ""))
        places = elsewhere or _PLACE.findall("".join(traceback.format_tb(error.__traceback__)))
        where = " ({}, line {})".format(*places[-1]) if places else ""
        message = (
            f"{name}: cannot be read: {type(error).__name__}: {error}{where}; this is a defect of perftrend"
        )
        refused.append(message)


def _fate(entered: IngestedRun) -> IngestStatus:
    if not entered.ended:
        return IngestStatus.IN_PROGRESS
    return IngestStatus.NEW if entered.added else IngestStatus.KNOWN


def _weaker(attempt: OutputFiles, refused: list[str]) -> str:
    if refused:
        return f"read from {attempt.files[0].name} instead: {'; '.join(refused)}"
    if attempt.kind is ContentKind.WEAK:
        return f"read from {attempt.files[0].name}, since no stronger output exists"
    return ""


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
