"""Ingestion of builds from their source into the store: several at a time, independently of each other.

An error of one build does not stop the others: it is reported at the end, with the build's name. Only
repeated failures of the server end the job, because the remaining builds would fail as well.
"""

from __future__ import annotations

import logging
import re
import threading
import traceback
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from perftrend.archive.fetch import output_files
from perftrend.archive.fetch.builds import ArchivedBuild, BuildSource, MissingError
from perftrend.archive.fetch.download import Fetcher
from perftrend.archive.fetch.output_files import ContentKind, OutputFiles
from perftrend.archive.fetch.reader_pool import Readers
from perftrend.archive.fetch.run_ingest import Claim, IngestedRun, ReadableFile
from perftrend.archive.reader import Unknown
from perftrend.errors import ArchiveError, ServiceError, StoreError, UnstorableError

LOG = logging.getLogger(__name__)

FAILURES_IN_A_ROW = 8
_PLACE = re.compile(r'File "[^"]*?([^"/]*)", line (\d+)')
_AHEAD = 2
"""Builds per worker that are listed in advance, including the one in progress."""


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
            for attempt in output_files.attempts(self._source.files(build)):
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
