"""Download of a file from its source into the cache: resumable, verified, limited in size and time."""

from __future__ import annotations

import re
import time
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from perftrend.archive.fetch.builds import (
    ArchivedFile,
    BuildSource,
    Checksum,
    InterruptedTransferError,
    MissingError,
    Transfer,
    UnpackingError,
    Version,
)
from perftrend.archive.fetch.cache import CachedObject, FileCache, Partial, PartialFile
from perftrend.archive.fetch.web import RateLimiter
from perftrend.clients.http_service import exponential_backoff, retrier
from perftrend.errors import ServiceError

CHUNK_BYTES = 1 << 17
_PROGRESS_BYTES = 4096
"""An attempt makes progress if it gets at least this much further than the ones before."""
_SHA256 = re.compile(r"\\?([0-9a-fA-F]{64})\b")
_CHECKSUM_FILE_BYTES = 1024
_HTML = re.compile(rb"\s*(?:<!--.*?-->\s*)*<(?:!doctype\s+html|html|head|body)\b", re.IGNORECASE | re.DOTALL)
_BEGINNING_BYTES = 4096
_ATTEMPTS_AT_CHECKSUM = 2


@dataclass(frozen=True, slots=True)
class DownloadLimits:
    """Limits of a download."""

    maximum_bytes: int = 2 * 1024**3
    """Its size, compressed or decompressed."""
    deadline_s: float = 7200.0
    """For all its attempts together."""
    slowest_bytes_per_s: float = 1000.0
    """If the rate is lower than this over ``patience_s``, the download fails."""
    patience_s: float = 60.0
    attempts: int = 5
    """In a row, without progress."""
    first_pause_s: float = 0.5


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file that is available on this machine."""

    path: Path
    name: str
    """Its location, for messages."""
    transferred: int
    """Bytes that were transferred; 0 if it was available already."""


class Fetcher:
    """Fetches files of a source into a cache; several threads may share it."""

    def __init__(
        self, source: BuildSource, cache: FileCache, pace: RateLimiter, limits: DownloadLimits
    ) -> None:
        self._source = source
        self._cache = cache
        self._pace = pace
        self._limits = limits

    def pin_files(self) -> AbstractContextManager[None]:
        """Prevent the removal of files from the cache that are fetched within this context."""
        return self._cache.pin_files()

    def fetch(self, file: ArchivedFile) -> LocalFile:
        """Return a file: from the cache if the source still has the same version.

        :raises MissingError: if the source does not have it.
        :raises UnpackingError: if it is empty, too large, or an HTML page.
        :raises ServiceError: if it cannot be fetched, or its size or its checksum is wrong.
        """
        if file.path is not None:
            return LocalFile(file.path, file.location, 0)
        download = _Download(self._source, file, self._pace, self._limits)
        with self._cache.partial(file.location) as partial:
            entry = self._cache.recover(partial, file.location)
            renewed = self._revalidate(entry, download, partial) if entry else download.complete(partial)
            if renewed:
                path = self._cache.store(partial, renewed)
            elif entry:
                path = self._cache.object(entry.sha256)
        return LocalFile(path, file.location, download.transferred)

    def _revalidate(self, entry: CachedObject, download: _Download, partial: Partial) -> CachedObject | None:
        """Return the entry of a new version; None if the cached one is to be used."""
        version = entry.version
        if not (version.etag or version.modified):
            return None  # a change cannot be detected, and archived files do not change
        listed = download.file.version
        if listed.size is not None and listed == version:
            return None
        try:
            return download.complete(partial, unless=version)
        except (MissingError, InterruptedTransferError):
            return None  # it is gone or unavailable: the cached version is still valid


class _Download:
    """The attempts to download one file."""

    def __init__(
        self, source: BuildSource, file: ArchivedFile, pace: RateLimiter, limits: DownloadLimits
    ) -> None:
        self.file = file
        self.transferred = 0
        self._source = source
        self._pace = pace
        self._limits = limits
        self._end = time.monotonic() + limits.deadline_s
        self._in_vain = 0
        self._reached = 0
        self._wrong = 0

    def complete(self, partial: Partial, unless: Version | None = None) -> CachedObject | None:
        """Fetch the rest of the partial file; None if the source still has the version ``unless``."""
        limits = self._limits
        usual = retrier(limits.attempts, exponential_backoff(limits.first_pause_s), sleep=self._pace.sleep)
        in_a_row = usual.copy(stop=lambda _: self._in_vain >= limits.attempts)
        return in_a_row(self._attempt, partial, unless or Version())

    def _attempt(self, partial: Partial, unless: Version) -> CachedObject | None:
        self._in_vain += 1
        begun = partial.read_origin(self.file.location)
        offset = partial.size if begun else 0
        if not (begun and offset and begun.version.size == offset):
            known = begun.version if begun and offset else unless
            with self._source.open(self.file, offset=offset, version=known) as transfer:
                if transfer.unchanged:
                    return None
                if not offset or transfer.offset != offset:
                    begun = PartialFile(
                        self.file.location, transfer.version, transfer.checksum or self._read_checksum()
                    )
                    partial.begin(begun)
                self._pour(transfer, partial)
        assert begun is not None  # noqa: S101 - for the type checker: without one, it was begun
        return self._verify(partial, begun)

    def _pour(self, transfer: Transfer, partial: Partial) -> None:
        marked_s, marked_bytes = time.monotonic(), partial.size
        while chunk := transfer.read(CHUNK_BYTES):
            self._pace.sleep(0)
            partial.append(chunk)
            self.transferred += len(chunk)
            size, now = partial.size, time.monotonic()
            # A server that restarts each time, and stops at the same position, makes no progress.
            if size >= self._reached + _PROGRESS_BYTES:
                self._reached, self._in_vain = size, 0
            if size > self._limits.maximum_bytes:
                partial.drop()
                raise UnpackingError(self._message(f"is larger than {self._limits.maximum_bytes} bytes"))
            if now > self._end:
                raise ServiceError(self._message(f"did not arrive within {self._limits.deadline_s:.0f} s"))
            if now - marked_s > self._limits.patience_s:
                if size - marked_bytes < self._limits.slowest_bytes_per_s * (now - marked_s):
                    raise ServiceError(
                        self._message(
                            f"arrives at less than {self._limits.slowest_bytes_per_s:.0f} bytes a second"
                        )
                    )
                marked_s, marked_bytes = now, size

    def _verify(self, partial: Partial, begun: PartialFile) -> CachedObject:
        """Return the entry of a file after checks of its size, its checksum and its content."""
        size, expected = partial.size, begun.version.size
        if expected is None:
            expected = self.file.version.size
        if expected is not None and size < expected:
            raise InterruptedTransferError(self._message(f"ended after {size} of {expected} bytes"))
        sha256 = partial.digest("sha256")
        given = begun.checksum
        wrong = ""
        if expected is not None and size > expected:
            wrong = f"has {size} bytes instead of {expected}"
        elif given and given.hex != (
            sha256 if given.algorithm == "sha256" else partial.digest(given.algorithm)
        ):
            wrong = f"has another {given.algorithm} than the server reports"
        if wrong:
            partial.drop()
            self._wrong += 1
            again = InterruptedTransferError if self._wrong < _ATTEMPTS_AT_CHECKSUM else ServiceError
            raise again(self._message(f"{wrong}; was it damaged on its way?"))
        if not size or _HTML.match(partial.read_head(_BEGINNING_BYTES)):
            partial.drop()
            what = "is a page of HTML; is a login needed?" if size else "is empty"
            raise UnpackingError(self._message(what))
        return CachedObject(self.file.location, replace(begun.version, size=size), sha256)

    def _read_checksum(self) -> Checksum | None:
        """Return the checksum of the source, if necessary from a separate file."""
        if self.file.checksum or not self.file.checksum_location:
            return self.file.checksum
        checksum_file = ArchivedFile(self.file.checksum_location, f"{self.file.name}.sha256")
        with self._source.open(checksum_file) as transfer:
            text = b""
            while len(text) < _CHECKSUM_FILE_BYTES and (chunk := transfer.read(_CHECKSUM_FILE_BYTES)):
                text += chunk
        found = _SHA256.match(text.decode("ascii", "replace").strip())
        return Checksum("sha256", found[1].lower()) if found else None

    def _message(self, what: str) -> str:
        return f"{self.file.location}: {what}"
