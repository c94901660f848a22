"""Finds builds and their outputs in a tree of folders: of a log server, a bucket, a disk or a tarball.

A build is a folder whose name is a number, and its job is the folder around it, such as
``ci/perftrend-trending-nightly-2n-clx/17/archives/output.xml.gz``. The tree may begin above the jobs,
at a job, or at a build.

The tree of a folder on this machine is defined here; the others have modules of their own.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Protocol

from typing_extensions import override

from perftrend.archive.fetch.builds import (
    ANY,
    ArchivedBuild,
    ArchivedFile,
    BuildFilter,
    ContentKind,
    MissingError,
    Transfer,
    Version,
    kind_of,
    rank_files,
)
from perftrend.clients.http_service import UnavailableError
from perftrend.errors import ArchiveError, ServiceError

DEEPEST_JOB = 6
"""Maximum number of folders between the root of the tree and a job."""
DEEPEST_OUTPUT = 4
"""Maximum number of folders between a build and an output."""
DEEPEST_RESULT = 16
MOST_FOLDERS = 1000
MOST_LISTINGS = 10_000
"""Maximum number of folders listed for builds, or for the results of one: a server may invent any number."""

_LONGEST_NAME = 255
_BUILD = re.compile(r"[0-9]{1,9}")
RESULTS = "tests"
"""The folder of a build with one result file per test."""


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder in a listing."""

    path: str
    """From the root of the tree, with slashes; empty for the root itself."""
    modified: datetime | None = None

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Listing:
    """The content of a folder."""

    folders: tuple[Folder, ...] = ()
    files: tuple[ArchivedFile, ...] = ()
    """Their names begin with the folder's path."""


class Tree(Protocol):
    """A tree of folders in a storage."""

    @property
    def path(self) -> tuple[str, ...]:
        """The names of the folders that lead to the root of the tree, the root included."""

    @property
    def workers(self) -> int | None:
        """Maximum number of files that may be open at the same time; None: no limit."""

    @property
    def files_date_builds(self) -> bool:
        """Whether the time of a build is that of its first output; otherwise that of its folder."""

    def list_folder(self, folder: str) -> Listing:
        """Return the content of a folder. :raises ServiceError: if it cannot be listed."""

    def location(self, folder: str) -> str:
        """Return the location of a folder for users."""

    def open(
        self, file: ArchivedFile, *, offset: int = 0, version: Version = ANY
    ) -> AbstractContextManager[Transfer]:
        """Open a file; see :meth:`Source.open`."""


class TreeSource:
    """The builds of a tree."""

    def __init__(self, tree: Tree) -> None:
        self._tree = tree

    @property
    def workers(self) -> int | None:
        """The limit of the tree."""
        return self._tree.workers

    def builds(self, wanted: BuildFilter) -> Iterator[ArchivedBuild]:
        """Yield the wanted builds; see :meth:`Source.builds`."""
        path = self._tree.path
        if len(path) > 1 and _is_build(path[-1]):
            yield from self._select_builds(path[-2], [Folder("")], wanted, number=path[-1])
        else:
            listings = _Listings(self._tree, self._tree.location(""))
            yield from self._below(Folder(""), path[-1] if path else "", wanted, 0, listings)

    def files(self, build: ArchivedBuild) -> Iterator[ArchivedFile]:
        """Yield the files that may hold results; see :meth:`Source.files`."""
        level = [build.place]
        results: list[str] = []
        listings = _Listings(self._tree, build.location)
        for _ in range(DEEPEST_OUTPUT + 1):
            found: list[ArchivedFile] = []
            below: list[str] = []
            for folder in level:
                listing = listings.of(folder)
                found += [_within(build, file) for file in listing.files]
                for one in listing.folders:
                    (results if one.name == RESULTS else below).append(one.path)
            yield from rank_files(found)
            if len(below) > MOST_FOLDERS:
                raise ArchiveError(
                    f"{build.location}: holds more than {MOST_FOLDERS} folders; is it a build?"
                )
            level = below
        for folder in results:
            yield from self._results(build, folder, 0, listings)

    def open(
        self, file: ArchivedFile, *, offset: int = 0, version: Version = ANY
    ) -> AbstractContextManager[Transfer]:
        """Open a file; see :meth:`Source.open`."""
        return self._tree.open(file, offset=offset, version=version)

    def _below(
        self, folder: Folder, job: str, wanted: BuildFilter, depth: int, listings: _Listings
    ) -> Iterator[ArchivedBuild]:
        listing = listings.of(folder.path)
        folders = listing.folders
        if not depth and any(kind_of(file.name) for file in listing.files):
            yield from self._around(wanted)
            return
        builds = [one for one in folders if _is_build(one.name)]
        if builds:
            if job and wanted.job_fits(job):
                yield from self._select_builds(job, builds, wanted)
            return
        if depth == DEEPEST_JOB:
            return
        # If some names match, the others are other jobs, and need not be listed.
        fitting = [one for one in folders if wanted.job_fits(one.name)] or folders
        for one in sorted(fitting, key=lambda one: one.name):
            yield from self._below(one, one.name, wanted, depth + 1, listings)

    def _around(self, wanted: BuildFilter) -> Iterator[ArchivedBuild]:
        """Yield the build that contains the root of the tree."""
        path = self._tree.path
        for depth in range(len(path) - 1, 0, -1):
            if _is_build(path[depth]):
                yield from self._select_builds(path[depth - 1], [Folder("")], wanted, number=path[depth])
                return
        raise ArchiveError(
            f"{self._tree.location('')}: contains an output outside a build's folder; move it to JOB/NUMBER/"
        )

    def _select_builds(
        self, job: str, folders: list[Folder], wanted: BuildFilter, *, number: str = ""
    ) -> Iterator[ArchivedBuild]:
        numbered = [(int(number or one.name), one) for one in folders]
        for build, one in sorted(numbered, key=lambda pair: -pair[0]):
            if not (wanted.job_fits(job) and wanted.number_fits(build)):
                continue
            found = ArchivedBuild(job, build, self._tree.location(one.path), place=one.path)
            modified = one.modified
            if self._tree.files_date_builds or number or (wanted.since and modified is None):
                modified = self._modification_time(found) or modified
            if wanted.time_fits(modified):
                yield replace(found, version=modified.isoformat() if modified else "")

    def _modification_time(self, build: ArchivedBuild) -> datetime | None:
        """Return when the build's first output was written: its folder may be older, or have no time."""
        try:
            return next((file.modified for file in self.files(build)), None)
        except UnavailableError:
            raise
        except (ArchiveError, ServiceError):
            # Its ingestion reports why it cannot be read; this must not hide all other builds.
            return None

    def _results(
        self, build: ArchivedBuild, folder: str, depth: int, listings: _Listings
    ) -> Iterator[ArchivedFile]:
        listing = listings.of(folder)
        for file in listing.files:
            if kind_of(file.name) is ContentKind.RESULT:
                yield _within(build, file)
        for one in listing.folders if depth < DEEPEST_RESULT else ():
            yield from self._results(build, one.path, depth + 1, listings)


class _Listings:
    """The listings of a tree, at most :data:`MOST_LISTINGS`.

    :param place: name of the first folder for messages.
    """

    def __init__(self, tree: Tree, place: str) -> None:
        self._tree = tree
        self._place = place
        self._left = MOST_LISTINGS

    def of(self, folder: str) -> Listing:
        """Return the content of a folder.

        :raises ArchiveError: if too many were listed.
        :raises ServiceError: if it cannot be listed.
        """
        if not self._left:
            raise ArchiveError(
                f"{self._place}: holds more than {MOST_LISTINGS} folders; name one nearer to the builds"
            )
        self._left -= 1
        return self._tree.list_folder(folder)


def segment_is_sound(name: str) -> bool:
    """Whether an external name is valid for a folder or a file: not a path, and printable."""
    return (
        bool(name)
        and name not in (".", "..")
        and "/" not in name
        and name.isprintable()
        and len(name) <= _LONGEST_NAME
    )


def _is_build(name: str) -> bool:
    return _BUILD.fullmatch(name) is not None


def _within(build: ArchivedBuild, file: ArchivedFile) -> ArchivedFile:
    return replace(file, name=file.name.removeprefix(build.place).lstrip("/"))


class Disk:
    """The tree of folders below a path on this machine.

    Files are read in place; symbolic links are not followed.
    """

    workers = None
    files_date_builds = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder.resolve()

    @property
    def path(self) -> tuple[str, ...]:
        """The parts of the absolute path."""
        return self._folder.parts[1:]

    def location(self, folder: str) -> str:
        """Return the folder's path."""
        return str(self._folder / folder)

    def list_folder(self, folder: str) -> Listing:
        """List a folder."""
        begin = f"{folder}/" if folder else ""
        folders, files = [], []
        try:
            with os.scandir(self._folder / folder) as entries:
                for entry in sorted(entries, key=lambda entry: entry.name):
                    if not segment_is_sound(entry.name):
                        continue
                    modified = datetime.fromtimestamp(entry.stat(follow_symlinks=False).st_mtime, UTC)
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(Folder(begin + entry.name, modified))
                    elif entry.is_file(follow_symlinks=False):
                        path = Path(entry.path)
                        files.append(
                            ArchivedFile(entry.path, begin + entry.name, modified=modified, path=path)
                        )
        except OSError as error:
            raise ServiceError(f"{self.location(folder)}: {error.strerror}") from error
        return Listing(tuple(folders), tuple(files))

    @contextmanager
    def open(
        self, file: ArchivedFile, *, offset: int = 0, version: Version = ANY
    ) -> Generator[Transfer, None, None]:
        """Open a file, such as a checksum file."""
        del version
        try:
            with Path(file.location).open("rb") as stream:
                stream.seek(offset)
                yield Transfer(stream.read, offset, Version(size=os.fstat(stream.fileno()).st_size))
        except FileNotFoundError as error:
            raise MissingError(f"{file.location}: the file does not exist") from error


class OneFile(Disk):
    """The folder of a single file, whose other files are not listed."""

    def __init__(self, file: Path) -> None:
        super().__init__(file.resolve().parent)
        self._name = file.name

    @override
    def list_folder(self, folder: str) -> Listing:
        """List the file."""
        return Listing(
            files=tuple(file for file in super().list_folder(folder).files if file.name == self._name)
        )
