"""What a source of archived outputs is: it lists builds, lists their files, and opens them.

A source is lazy: a build costs one entry of a listing until its files are asked for, and a file
costs nothing until it is opened. So what the store already has is passed over for next to nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from perftrend.clients.web.refusals import UnavailableError
from perftrend.errors import ArchiveError, ServiceError


class InterruptedTransferError(UnavailableError):
    """A transfer that broke off; it may go on where it stopped."""


class MissingError(ServiceError):
    """The server answers, and has no such file."""


class UnpackingError(ArchiveError):
    """A packed file that is refused: damaged, hostile or too large."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which builds are asked for."""

    job: str = "*"
    """Shell pattern of the job's name."""
    since: datetime | None = None
    """Builds before this moment are not wanted."""
    first: int = 0
    last: int | None = None
    """The build numbers, both included; None: no end."""

    def job_fits(self, name: str) -> bool:
        """Whether builds of this job are wanted."""
        return fnmatchcase(name, self.job)

    def number_fits(self, build: int) -> bool:
        """Whether a build of this number is wanted."""
        return self.first <= build and (self.last is None or build <= self.last)

    def time_fits(self, moment: datetime | None) -> bool:
        """Whether a build of this moment is wanted; one whose moment nobody knows is."""
        return self.since is None or moment is None or moment >= self.since


@dataclass(frozen=True, slots=True)
class Version:
    """Which version of a file was seen: what tells that it is still the same."""

    etag: str = ""
    modified: str = ""
    """As the server writes it."""
    size: int | None = None

    @property
    def strong_etag(self) -> str:
        """The ETag if it promises the same bytes; empty if it is weak or missing."""
        return "" if self.etag.startswith("W/") else self.etag


ANY = Version()
"""No version in particular: nothing is known of the file yet."""


@dataclass(frozen=True, slots=True)
class Checksum:
    """What a file's bytes must give."""

    algorithm: str
    """``md5`` or ``sha256``."""
    hex: str


@dataclass(frozen=True, slots=True)
class ArchivedFile:
    """A file of a build, not fetched yet."""

    location: str
    """Where it lies: a URL, or a path. No other file has the same."""
    name: str
    """Relative to the build, with slashes."""
    version: Version = ANY
    modified: datetime | None = None
    checksum: Checksum | None = None
    checksum_location: str = ""
    """Where a file with the SHA-256 lies; empty if there is none."""
    path: Path | None = None
    """Set where the file lies on this machine and need not be fetched."""


@dataclass(frozen=True, slots=True)
class ArchivedBuild:
    """A build that a source knows."""

    job: str
    number: int
    location: str
    """Where a person finds it: a URL, or a path."""
    started: datetime | None = None
    finished: datetime | None = None
    """None where the source does not know; the output then does."""
    place: str = ""
    """What its source calls it."""
    files: tuple[ArchivedFile, ...] = field(default=(), repr=False)
    """Its files, where the listing of builds has told them."""
    version: str = ""
    """What changes if another execution takes its place; empty if the listing does not tell."""

    @property
    def name(self) -> str:
        """``job/number``: what a person calls it."""
        return f"{self.job}/{self.number}"


@dataclass(frozen=True, slots=True)
class Transfer:
    """An opened file, of which bytes are read in their order."""

    read: Callable[[int], bytes]
    """Returns at most so many bytes, and none at the end.

    :raises InterruptedTransferError: when the connection breaks or the end comes too early."""
    offset: int = 0
    """Where in the file the bytes begin: 0 if it could not be resumed."""
    version: Version = ANY
    checksum: Checksum | None = None
    unchanged: bool = False
    """The file is the version that is known already; there is nothing to read."""


class Source(Protocol):
    """A place that keeps archived outputs."""

    @property
    def workers(self) -> int | None:
        """How many files may be open at the same time; None: any number."""

    def builds(self, wanted: Wanted) -> Iterator[ArchivedBuild]:
        """Yield the wanted builds, those of one job from the newest to the oldest.

        :raises ServiceError: if the place does not answer.
        :raises ArchiveError: if it is none of this kind.
        """

    def files(self, build: ArchivedBuild) -> Iterator[ArchivedFile]:
        """Yield the files of a build that may hold results: outputs first, then result files."""

    def open(
        self, file: ArchivedFile, *, offset: int = 0, version: Version = ANY
    ) -> AbstractContextManager[Transfer]:
        """Open a file of a build.

        :param offset: from where on, if the file still is ``version``; otherwise from its begin.
        :param version: with offset 0, the version that is there already: it is not sent again.
        :raises InterruptedTransferError: if another attempt may succeed.
        :raises MissingError: if there is no such file.
        :raises ServiceError: if it cannot be had.
        """
