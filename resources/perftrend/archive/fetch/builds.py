"""The interface of sources of archived outputs: they list builds, list their files, and open them.

A source is lazy: a build costs one entry of a listing until its files are requested, and a file costs nothing
until it is opened. Builds that the store already has are skipped at almost no cost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from perftrend.clients.http_service import UnavailableError
from perftrend.errors import ArchiveError, ServiceError


class InterruptedTransferError(UnavailableError):
    """A transfer broke off; it may be resumed."""


class MissingError(ServiceError):
    """The server does not have the file."""


class UnpackingError(ArchiveError):
    """A compressed file is refused: damaged, malicious or too large."""


@dataclass(frozen=True, slots=True)
class BuildFilter:
    """The builds to list."""

    job: str = "*"
    """Shell pattern of the job's name."""
    since: datetime | None = None
    """Earlier builds are not wanted."""
    first: int = 0
    last: int | None = None
    """The build numbers, both included; None: no limit."""

    def job_fits(self, name: str) -> bool:
        """Whether builds of this job are wanted."""
        return fnmatchcase(name, self.job)

    def number_fits(self, build: int) -> bool:
        """Whether a build of this number is wanted."""
        return self.first <= build and (self.last is None or build <= self.last)

    def time_fits(self, moment: datetime | None) -> bool:
        """Whether a build of this time is wanted; one whose time is not known is."""
        return self.since is None or moment is None or moment >= self.since


@dataclass(frozen=True, slots=True)
class Version:
    """The version of a file, by which a change is detected."""

    etag: str = ""
    modified: str = ""
    """As written by the server."""
    size: int | None = None

    @property
    def strong_etag(self) -> str:
        """The ETag if it guarantees identical bytes; empty if it is weak or missing."""
        return "" if self.etag.startswith("W/") else self.etag


ANY = Version()
"""No particular version: nothing is known of the file yet."""


@dataclass(frozen=True, slots=True)
class Checksum:
    """The expected digest of a file."""

    algorithm: str
    """``md5`` or ``sha256``."""
    hex: str


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file of a build, not fetched yet."""

    location: str
    """URL or path, which is unique."""
    name: str
    """Relative to the build, with slashes."""
    version: Version = ANY
    modified: datetime | None = None
    checksum: Checksum | None = None
    checksum_location: str = ""
    """Location of a file with the SHA-256; empty if there is none."""
    path: Path | None = None
    """Set if the file is on this machine and need not be fetched."""


@dataclass(frozen=True, slots=True)
class ArchivedBuild:
    """A build in a source."""

    job: str
    number: int
    location: str
    """URL or path for users."""
    started: datetime | None = None
    finished: datetime | None = None
    """None if the source does not know it; it is then read from the output."""
    place: str = ""
    """The source's own identifier of the build."""
    files: tuple[ArchivedFile, ...] = field(default=(), repr=False)
    """Its files, if the listing of builds contains them."""
    version: str = ""
    """Changes if another execution replaces the build; empty if the listing does not contain it."""

    @property
    def name(self) -> str:
        """``job/number``, for messages."""
        return f"{self.job}/{self.number}"


@dataclass(frozen=True, slots=True)
class Transfer:
    """An opened file, whose bytes are read sequentially."""

    read: Callable[[int], bytes]
    """Returns at most the given number of bytes; empty at the end.

    :raises InterruptedTransferError: if the connection breaks or ends too early."""
    offset: int = 0
    """Offset of the bytes in the file: 0 if it could not be resumed."""
    version: Version = ANY
    checksum: Checksum | None = None
    unchanged: bool = False
    """The file is the known version; there is nothing to read."""


class BuildSource(Protocol):
    """A storage of archived outputs."""

    @property
    def workers(self) -> int | None:
        """Maximum number of files that may be open at the same time; None: no limit."""

    def builds(self, wanted: BuildFilter) -> Iterator[ArchivedBuild]:
        """Yield the wanted builds, those of one job from the newest to the oldest.

        :raises ServiceError: if the source does not respond.
        :raises ArchiveError: if it is not of this kind.
        """

    def files(self, build: ArchivedBuild) -> Iterator[ArchivedFile]:
        """Yield the files of a build that may contain results: outputs first, then result files."""

    def open(
        self, file: ArchivedFile, *, offset: int = 0, version: Version = ANY
    ) -> AbstractContextManager[Transfer]:
        """Open a file of a build.

        :param offset: where to resume, if the file still is ``version``; otherwise it begins at 0.
        :param version: with offset 0, the version that is available already: it is not sent again.
        :raises InterruptedTransferError: if another attempt may succeed.
        :raises MissingError: if the file does not exist.
        :raises ServiceError: if it cannot be opened.
        """
