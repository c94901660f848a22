"""The output in a zip, such as Jenkins creates of a folder: ``…/robot/report/*zip*/robot-plugin.zip``."""

from __future__ import annotations

import stat
import struct
import zipfile
import zlib
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, BinaryIO

from perftrend.archive.fetch import names, output_files
from perftrend.archive.fetch.builds import UnpackingError

MAGIC = b"PK\x03\x04"
_EMPTY_MAGIC = b"PK\x05\x06"
MAXIMUM_DIRECTORY_BYTES = 16 * 1024 * 1024
"""The directory of a zip is held in memory: this size corresponds to some 150,000 members."""

_END = struct.Struct("<4s4H2LH")
_END_64_LOCATOR = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_LONGEST_COMMENT = 0xFFFF
_IN_RECORD_64 = 0xFFFFFFFF
"""Marks a size that is in the record of a large zip."""
_IS_ENCRYPTED = 0x1
_FAULTS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    struct.error,
    ValueError,
)
"""Errors of zipfile for data that is damaged, encrypted or compressed by an unsupported method."""


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
        except _FAULTS as error:
            raise UnpackingError(f"{self.name}: the zip is damaged: {error}") from error


def is_zip(begun: bytes) -> bool:
    """Whether a file with this beginning is a zip."""
    return begun in (MAGIC, _EMPTY_MAGIC)


@contextmanager
def output(file: BinaryIO, name: str) -> Generator[ZipMember, None, None]:
    """Open the best output in a zip, after a check of all its members.

    :param name: name of the zip for messages.
    :raises UnpackingError: if it is damaged, contains no output, or contains members that an archive of a
        build never has: then none of it is trusted.
    """
    _check_directory(file, name)
    try:
        packed = zipfile.ZipFile(file)
    except _FAULTS as error:
        raise UnpackingError(f"{name}: the zip is damaged: {error}") from error
    with packed:
        for info in packed.infolist():
            _check(info, name)
        found = [
            one for one in packed.infolist() if output_files.kind_of(one.filename) in output_files.OUTPUTS
        ]
        if not found:
            raise UnpackingError(f"{name}: the zip contains no output.xml or output.json")
        best = min(found, key=lambda one: output_files.rank(one.filename))
        try:
            stream = packed.open(best)
        except _FAULTS as error:
            raise UnpackingError(f"{name}: the zip is damaged: {error}") from error
        with stream:
            yield ZipMember(f"{name}!{best.filename}", best.compress_size, stream)


def _check(info: zipfile.ZipInfo, name: str) -> None:
    fault = names.wrong(info.orig_filename)
    kind = stat.S_IFMT(info.external_attr >> 16)
    if info.flag_bits & _IS_ENCRYPTED:
        fault = "is encrypted"
    elif kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        fault = "is a link or a device"
    if fault:
        raise UnpackingError(
            f"{name}: member {names.format_name(info.orig_filename)} {fault}; the zip is refused"
        )


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
