"""A tar file on this machine, compressed or not, that contains builds, as a tree of folders.

Its members are listed once, and then read one after the other: a compressed tar can only be read forward, so
a second reader would repeatedly restart it from the beginning.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import threading
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, cast

from typing_extensions import override

from perftrend.archive.fetch import unpack
from perftrend.archive.fetch.builds import (
    ANY,
    ArchivedFile,
    InterruptedTransferError,
    Transfer,
    UnpackingError,
    Version,
)
from perftrend.archive.fetch.tree import Folder, Listing
from perftrend.archive.fetch.unpack import SWELLING_FREE_BYTES, SWELLING_LIMIT
from perftrend.errors import ArchiveError

MOST_MEMBERS = 1_000_000
_LONGEST_HEADER = 1 << 20
"""Longer headers would exhaust memory."""
_FAULTS = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError, ValueError)


class Tarball:
    """The folders in a tar.

    :param report: called for each member that is refused.
    :raises ArchiveError: if it cannot be read.
    """

    workers = 1
    files_date_builds = True

    def __init__(self, file: Path, report: Callable[[str], None]) -> None:
        self._file = file.resolve()
        self._turn = threading.Lock()
        self._folders: dict[str, dict[str, None]] = {"": {}}
        self._files: dict[str, list[ArchivedFile]] = {}
        self._members: dict[str, tuple[int, int]] = {}
        self._stream = self._open_stream()
        self._list(report)

    @property
    def path(self) -> tuple[str, ...]:
        """Empty: the folders around a tar do not describe its content."""
        return ()

    def location(self, folder: str) -> str:
        """Return ``tar!folder``."""
        return f"{self._file}!{folder}"

    def list_folder(self, folder: str) -> Listing:
        """Return the content of a folder."""
        return Listing(
            tuple(Folder(path) for path in self._folders.get(folder, ())), tuple(self._files.get(folder, ()))
        )

    @contextmanager
    def open(
        self, file: ArchivedFile, *, offset: int = 0, version: Version = ANY
    ) -> Generator[Transfer, None, None]:
        """Read a member; other readers wait meanwhile."""
        del offset
        start, size = self._members[file.location]
        with self._turn:
            if version == file.version:
                yield Transfer(lambda _: b"", 0, version, unchanged=True)
                return
            left = size

            def read(amount: int) -> bytes:
                nonlocal left
                try:
                    chunk = self._stream.read(min(amount, left))
                except _FAULTS as error:
                    raise InterruptedTransferError(f"{file.location}: {error}") from error
                left -= len(chunk)
                return chunk

            self._stream.seek(start)
            yield Transfer(read, 0, file.version)

    def _open_stream(self) -> _TarStream:
        raw = self._file.open("rb")
        begun = raw.read(6)
        raw.seek(0)
        opened = _decompress(raw, begun)
        return _TarStream(opened, raw, str(self._file), 0 if opened is raw else self._file.stat().st_size)

    def _list(self, report: Callable[[str], None]) -> None:
        count = 0
        try:
            with tarfile.open(fileobj=cast("BinaryIO", self._stream), mode="r:", errorlevel=2) as tar:
                while (member := tar.next()) is not None:
                    tar.members.clear()  # type: ignore[attr-defined]  # the list would grow with the tar
                    count += 1
                    if count > MOST_MEMBERS:
                        raise UnpackingError(
                            f"{self._file}: holds more than {MOST_MEMBERS} members; split it"
                        )
                    if not member.isdir():
                        self._add_member(member, report)
        except _FAULTS as error:
            raise ArchiveError(f"{self._file}: is damaged, or not a tar: {error}") from error

    def _add_member(self, member: tarfile.TarInfo, report: Callable[[str], None]) -> None:
        name = member.name.removeprefix("./")
        fault = unpack.find_name_fault(member.name)
        if not member.isreg() or member.issparse():
            fault = "is a link, a device or sparse"
        if fault:
            report(f"{self._file}: member {unpack.format_name(member.name)} {fault}; it is skipped")
            return
        folder = name.rpartition("/")[0]
        location = self.location(name)
        version = Version(etag=f'"{member.offset_data}-{member.mtime}"', size=member.size)
        modified = _moment(member.mtime)
        self._members[location] = (member.offset_data, member.size)
        self._files.setdefault(folder, []).append(ArchivedFile(location, name, version, modified))
        while folder:
            above = folder.rpartition("/")[0]
            self._folders.setdefault(folder, {})
            self._folders.setdefault(above, {})[folder] = None
            folder = above


class _TarStream(io.RawIOBase):
    """The decompressed tar; it refuses reads that would exhaust memory, and excessive expansion."""

    def __init__(self, stream: BinaryIO, raw: BinaryIO, name: str, packed_bytes: int) -> None:
        self._stream = stream
        self._raw = raw
        self._name = name
        self._limit = max(SWELLING_FREE_BYTES, SWELLING_LIMIT * packed_bytes) if packed_bytes else None

    @override
    def read(self, size: int = -1) -> bytes:
        if not 0 <= size <= _LONGEST_HEADER:
            raise UnpackingError(f"{self._name}: has a header of {size} bytes; refused")
        chunk = self._stream.read(size)
        if self._limit is not None and self._stream.tell() > self._limit:
            raise UnpackingError(f"{self._name}: swells to over {SWELLING_LIMIT} times its size; refused")
        return chunk

    @override
    def seek(self, offset: int, whence: int = 0) -> int:
        if self._limit is not None and not whence and offset > self._limit:
            raise UnpackingError(f"{self._name}: swells to over {SWELLING_LIMIT} times its size; refused")
        return self._stream.seek(offset, whence)

    @override
    def tell(self) -> int:
        return self._stream.tell()

    @override
    def close(self) -> None:
        if not self.closed:
            self._stream.close()
            self._raw.close()
        super().close()


def _decompress(raw: BinaryIO, begun: bytes) -> BinaryIO:
    if begun.startswith(b"\x1f\x8b"):
        return cast("BinaryIO", gzip.GzipFile(fileobj=raw))
    if begun.startswith(b"BZh"):
        return cast("BinaryIO", bz2.BZ2File(raw))
    if begun.startswith(b"\xfd7zXZ"):
        return cast("BinaryIO", lzma.LZMAFile(raw))
    return raw


def _moment(mtime: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(mtime, UTC)
    except (ValueError, OverflowError, OSError):
        return None
