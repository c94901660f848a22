"""Archived builds: the interface of their sources, and which of their files to read.

A source lists builds, lists their files, and opens them. It is lazy: a build costs one entry of a listing
until its files are requested, and a file costs nothing until it is opened. Builds that the store already has
are skipped at almost no cost.

Of the files of a build, the most complete valid one is read:

===========================================  =================================================
files                                        content
===========================================  =================================================
``output.xml``, ``.gz``, ``.zip``;           everything
``output.json``, ``.gz``;
``output.zip``, ``robot-plugin.zip``
``tests/…/*.info.json``, ``.gz``             the result of one test each
``output_info.xml`` or ``.json``, ``.gz``    the same tests as ``output.xml``, with fewer log
                                             messages
``perftest.json``                            a per-patch test
===========================================  =================================================

A weaker file is used if no stronger one is valid. The outputs of a per-patch test or a bisection, recognized
by ``asked.json``, are those of its rounds: they are not a run.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import Enum
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from perftrend.clients.http_service import UnavailableError
from perftrend.errors import ArchiveError, ServiceError

MOST_RESULTS = 50_000
"""Maximum number of result files of one build."""


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


class ContentKind(Enum):
    """The content of a file."""

    OUTPUT = "the output"
    RESULT = "the result files of its tests"
    WEAK = "the weaker output"
    PATCH = "the report of a per-patch test"
    REQUEST = "the request of a per-patch test or a bisection"


_FORMS = {
    ContentKind.OUTPUT: re.compile(
        r"(?:.*/)?(?:output\.(?:xml|json)(?:\.gz|\.zip)?|(?:output|robot-plugin)\.zip)"
    ),
    ContentKind.RESULT: re.compile(r"(?:.*/)?tests/.*\.info\.json(?:\.gz)?"),
    ContentKind.WEAK: re.compile(r"(?:.*/)?output_info\.(?:xml|json)(?:\.gz|\.zip)?"),
    ContentKind.PATCH: re.compile(r"(?:.*/)?perftest\.json"),
    ContentKind.REQUEST: re.compile(r"(?:.*/)?asked\.json"),
}
_ORDER = (".xml.gz", ".xml", ".json.gz", ".json", ".zip")
_FIRST = (ContentKind.PATCH, ContentKind.REQUEST, ContentKind.OUTPUT)
OUTPUTS = (ContentKind.OUTPUT, ContentKind.WEAK)
WEAKER = (ContentKind.RESULT, ContentKind.WEAK)
_SHA256 = ".sha256"


@dataclass(frozen=True, slots=True)
class OutputFiles:
    """Files that together contain the results of a build."""

    kind: ContentKind
    files: tuple[ArchivedFile, ...]


def kind_of(name: str) -> ContentKind | None:
    """Return the kind of a file by its name; None if it is not needed."""
    return next((kind for kind, form in _FORMS.items() if form.fullmatch(name)), None)


def rank_files(files: Iterable[ArchivedFile]) -> list[ArchivedFile]:
    """Return the files that are needed, best first, each with its checksum's file if there is one."""
    found = list(files)
    checksums = {file.name: file.location for file in found if file.name.endswith(_SHA256)}
    return [
        replace(file, checksum_location=checksums.get(file.name + _SHA256, ""))
        for file in sorted(found, key=lambda file: rank(file.name))
        if kind_of(file.name)
    ]


def require_one_run(ordered: Sequence[ArchivedFile]) -> None:
    """Reject the outputs of several runs, since the first one may belong to another run.

    Outputs in deeper folders are parts from which the output was merged. Those of rounds are not read.

    :raises ArchiveError: if outputs are in several folders of the same depth as the first one.
    """
    if any(kind_of(file.name) in {ContentKind.PATCH, ContentKind.REQUEST} for file in ordered):
        return
    outputs = [file.name for file in ordered if kind_of(file.name) is ContentKind.OUTPUT]
    for name in outputs[1:]:
        if name.count("/") == outputs[0].count("/") and _folder(name) != _folder(outputs[0]):
            raise ArchiveError(
                f"contains several outputs, {outputs[0]} and {name}; which one to read is not known"
            )


def attempts(files: Iterable[ArchivedFile]) -> Iterator[OutputFiles]:
    """Yield the files to try one after the other, and consume only as many files as necessary.

    A build with the report of a per-patch test is such a test, even if the report is not valid.
    """
    are_rounds = False
    results: list[ArchivedFile] = []
    weak: list[ArchivedFile] = []
    for file in files:
        kind = kind_of(file.name)
        if kind is ContentKind.PATCH:
            yield OutputFiles(kind, (file,))
            return
        if kind is ContentKind.REQUEST:
            are_rounds = True
        elif are_rounds:
            continue
        elif kind is ContentKind.OUTPUT:
            yield OutputFiles(kind, (file,))
        elif kind is ContentKind.WEAK:
            weak.append(file)
        elif kind is ContentKind.RESULT and len(results) <= MOST_RESULTS:
            results.append(file)
    if 0 < len(results) <= MOST_RESULTS:
        yield OutputFiles(ContentKind.RESULT, tuple(results))
    for file in weak:
        yield OutputFiles(ContentKind.WEAK, (file,))


def _folder(name: str) -> str:
    return name.rpartition("/")[0]


def rank(name: str) -> tuple[int, int, int, str]:
    """Return a sort key for names: outputs before other files, shallow before deep, compressed before plain.

    Files that mark the outputs as those of rounds come first.
    """
    form = next((number for number, ending in enumerate(_ORDER) if name.endswith(ending)), len(_ORDER))
    kind = kind_of(name)
    first = _FIRST.index(kind) if kind in _FIRST else len(_FIRST)
    return first, name.count("/"), form, name
