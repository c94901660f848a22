"""Reads compressed files that may be malicious: zip, tar and gzip as streams, and a tar as a tree of folders.

Nothing is written to disk under a name from an archive. Names outside the archive, links, devices, encrypted
members, nested archives, and data that expands more than logs do are refused, with the name in the message.
Memory use does not grow with the content.

The members of a tar are listed once, and then read one after the other: a compressed tar can only be read
forward, so a second reader would repeatedly restart it from the beginning.
"""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import re
import stat
import struct
import tarfile
import threading
import zipfile
import zlib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, BinaryIO, cast

from typing_extensions import override

from perftrend.archive import source
from perftrend.archive.fetch.builds import (
    ANY,
    OUTPUTS,
    ArchivedFile,
    InterruptedTransferError,
    Transfer,
    UnpackingError,
    Version,
    kind_of,
    rank,
)
from perftrend.archive.fetch.tree import Folder, Listing
from perftrend.errors import ArchiveError

SWELLING_LIMIT = source.SWELLING_LIMIT
SWELLING_FREE_BYTES = source.SWELLING_FREE_BYTES

_MAGIC = {b"PK\x03\x04": "a zip", b"\x1f\x8b": "a gzip", b"BZh": "a bzip2", b"\xfd7zXZ": "an xz"}
_TAR_MAGIC_AT = 257
_BLOCK_BYTES = 512

ZIP_MAGIC = b"PK\x03\x04"
_EMPTY_ZIP_MAGIC = b"PK\x05\x06"
MAXIMUM_DIRECTORY_BYTES = 16 * 1024 * 1024
"""The directory of a zip is held in memory: this size corresponds to some 150,000 members."""

_END = struct.Struct("<4s4H2LH")
_END_64_LOCATOR = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LONGEST_COMMENT = 0xFFFF
_IN_RECORD_64 = 0xFFFFFFFF
"""Marks a size that is in the record of a large zip."""
_IS_ENCRYPTED = 0x1
_ZIP_FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    struct.error,
    ValueError,
)
"""Errors of zipfile for data that is damaged, encrypted or compressed by an unsupported method."""

_DRIVE = re.compile(r"[A-Za-z]:")
_LONGEST_NAME = 1024

MOST_MEMBERS = 1_000_000
_LONGEST_HEADER = 1 << 20
"""Longer headers would exhaust memory."""
_FAULTS = (tarfile.TarError, EOFError, zlib.error, lzma.LZMAError, OSError, ValueError)


class BoundedStream(io.RawIOBase):
    """A stream that raises an error if it exceeds its maximum size.

    :param read: returns some bytes, about as many as requested; empty at the end.
    :param name: name of the stream for messages.
    :param packed_bytes: its compressed size; None if that does not matter.
    :param begun: bytes that precede those that are read.
    """

    def __init__(
        self,
        read: Callable[[int], bytes],
        name: str,
        maximum_bytes: int,
        packed_bytes: int | None = None,
        begun: bytes = b"",
    ) -> None:
        self.name = name
        self._read = read
        self._maximum_bytes = maximum_bytes
        self._packed_bytes = packed_bytes
        self._begun = begun
        self._given = 0

    @override
    def readable(self) -> bool:
        return True

    @override
    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # as io calls it
        chunk = self._begun or self._read(len(buffer))
        chunk, self._begun = chunk[: len(buffer)], chunk[len(buffer) :]
        buffer[: len(chunk)] = chunk
        self._given += len(chunk)
        if self._given > self._maximum_bytes:
            raise UnpackingError(f"{self.name}: unpacks to more than {self._maximum_bytes} bytes; refused")
        if self._packed_bytes is not None and self._given > max(
            SWELLING_FREE_BYTES, SWELLING_LIMIT * self._packed_bytes
        ):
            raise UnpackingError(f"{self.name}: swells to over {SWELLING_LIMIT} times its size; refused")
        return len(chunk)


def stream(path: Path, name: str, maximum_bytes: int) -> BinaryIO:
    """Return an output, decompressed if necessary, as a stream; the file is open while it is read.

    :param name: name of the file for messages.
    :param maximum_bytes: maximum decompressed size.
    :raises UnpackingError: by the stream, if it is refused.
    :raises OSError: by the stream, if it cannot be read.
    """
    chunks = _chunks(path, name, maximum_bytes)
    return cast("BinaryIO", BoundedStream(lambda _: next(chunks, b""), name, maximum_bytes))


def _chunks(path: Path, name: str, maximum_bytes: int) -> Iterator[bytes]:
    with path.open("rb") as file:
        packed_as_zip = is_zip(file.read(len(ZIP_MAGIC)))
        file.seek(0)
        if packed_as_zip:
            with open_zipped_output(file, name) as member:
                unzipped = BoundedStream(member.read, member.name, maximum_bytes, member.packed_bytes)
                yield from _text(cast("BinaryIO", unzipped), member.name)
        else:
            yield from _text(file, name)


def detect_archive(begun: bytes) -> str:
    """Return the kind of an archive by its first bytes; empty if it is not an archive."""
    if begun[_TAR_MAGIC_AT:].startswith(b"ustar"):
        return "a tar"
    return next((kind for magic, kind in _MAGIC.items() if begun.startswith(magic)), "")


def _text(packed: BinaryIO, name: str) -> Iterator[bytes]:
    """Decompress one level of gzip."""
    with source.open_stream(packed) as opened:
        begun = b""
        while len(begun) < _BLOCK_BYTES and (chunk := opened.read1(source.CHUNK_BYTES)):
            begun += chunk
        if kind := detect_archive(begun):
            raise UnpackingError(f"{name}: contains {kind} archive instead of an output; refused")
        yield begun
        while chunk := opened.read1(source.CHUNK_BYTES):
            yield chunk


@dataclass(frozen=True, slots=True)
class ZipMember:
    """An opened file in a zip."""

    name: str
    """``zip!member``."""
    packed_bytes: int
    stream: IO[bytes]

    def read(self, amount: int) -> bytes:
        """Return at most ``amount`` bytes. :raises UnpackingError: if the data is damaged."""
        try:
            return self.stream.read(amount)
        except _ZIP_FAULTS as error:
            raise UnpackingError(f"{self.name}: the zip is damaged: {error}") from error


def is_zip(begun: bytes) -> bool:
    """Whether a file with this beginning is a zip."""
    return begun in (ZIP_MAGIC, _EMPTY_ZIP_MAGIC)


@contextmanager
def open_zipped_output(file: BinaryIO, name: str) -> Generator[ZipMember, None, None]:
    """Open the best output in a zip, after a check of all its members.

    Jenkins creates such a zip of a folder: ``…/robot/report/*zip*/robot-plugin.zip``.

    :param name: name of the zip for messages.
    :raises UnpackingError: if it is damaged, contains no output, or contains members that an archive of a
        build never has: then none of it is trusted.
    """
    _check_directory(file, name)
    try:
        packed = zipfile.ZipFile(file)
    except _ZIP_FAULTS as error:
        raise UnpackingError(f"{name}: the zip is damaged: {error}") from error
    with packed:
        for info in packed.infolist():
            _check_member(info, name)
        found = [one for one in packed.infolist() if kind_of(one.filename) in OUTPUTS]
        if not found:
            raise UnpackingError(f"{name}: the zip contains no output.xml or output.json")
        best = min(found, key=lambda one: rank(one.filename))
        try:
            stream = packed.open(best)
        except _ZIP_FAULTS as error:
            raise UnpackingError(f"{name}: the zip is damaged: {error}") from error
        with stream:
            yield ZipMember(f"{name}!{best.filename}", best.compress_size, stream)


def _check_member(info: zipfile.ZipInfo, name: str) -> None:
    fault = find_name_fault(info.orig_filename)
    kind = stat.S_IFMT(info.external_attr >> 16)
    if info.flag_bits & _IS_ENCRYPTED:
        fault = "is encrypted"
    elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        fault = "is a link or a device"
    if fault:
        raise UnpackingError(f"{name}: member {format_name(info.orig_filename)} {fault}; the zip is refused")


def _check_directory(file: BinaryIO, name: str) -> None:
    """Raise UnpackingError for a directory that would exhaust memory, before it is read.

    Source: APPNOTE.TXT of PKWARE, sections 4.3.14 to 4.3.16.
    """
    size = file.seek(0, 2)
    tail_at = max(0, size - _END.size - _LONGEST_COMMENT - _END_64_LOCATOR.size)
    file.seek(tail_at)
    tail = file.read()
    end_at = tail.rfind(b"PK\x05\x06")
    if end_at < 0 or len(tail) - end_at < _END.size:
        raise UnpackingError(f"{name}: the zip is cut off")
    directory_size = _END.unpack_from(tail, end_at)[5]
    directories = [directory_size] if directory_size < _IN_RECORD_64 else []
    locator_at = end_at - _END_64_LOCATOR.size
    if locator_at >= 0 and tail[locator_at:].startswith(b"PK\x06\x07"):
        # zipfile reads the record that precedes the locator, wherever the locator points to.
        pointed = _END_64_LOCATOR.unpack_from(tail, locator_at)[2]
        for place in {pointed, tail_at + locator_at - _END_64.size}:
            file.seek(max(0, min(size, place)))
            record = file.read(_END_64.size)
            if len(record) == _END_64.size and record.startswith(b"PK\x06\x06"):
                directories.append(_END_64.unpack(record)[8])
    file.seek(0)
    if max(directories, default=size) > MAXIMUM_DIRECTORY_BYTES:
        raise UnpackingError(f"{name}: the zip lists more members than an archive of a build has; refused")


def find_name_fault(name: str) -> str:
    """Return what is wrong with the name of a member; empty if it is valid."""
    path = name.replace("\\", "/")
    if path.startswith("/") or _DRIVE.match(path):
        return "is absolute"
    if ".." in path.split("/"):
        return "leads out of the archive"
    if not path or not path.isprintable() or len(path) > _LONGEST_NAME:
        return "is not a valid name"
    return ""


def format_name(name: str) -> str:
    """Return a name in a form for messages."""
    return repr(name[:100])


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
        fault = find_name_fault(member.name)
        if not member.isreg() or member.issparse():
            fault = "is a link, a device or sparse"
        if fault:
            report(f"{self._file}: member {format_name(member.name)} {fault}; it is skipped")
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
