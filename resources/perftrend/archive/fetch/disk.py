"""A folder on this machine. Its files are read in place; symbolic links are not followed."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from typing_extensions import override

from perftrend.archive.fetch.builds import ANY, ArchivedFile, MissingError, Transfer, Version
from perftrend.archive.fetch.tree import Folder, Listing, segment_is_sound
from perftrend.errors import ServiceError


class Disk:
    """The tree of folders below a path."""

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
