"""Packed outputs are read as streams; hostile ones are refused by name."""

from __future__ import annotations

import bz2
import gzip
import io
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftrend.archive.fetch import unpack
from perftrend.archive.fetch.builds import UnpackingError

TEXT = b"<robot>" + b"x" * 1000 + b"</robot>"
LIMIT = 10_000_000


def zipped(**members: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    return file.getvalue()


def member(info: zipfile.ZipInfo, content: bytes = TEXT) -> bytes:
    """Return a zip with a good output and one more member."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as packed:
        packed.writestr("output.xml", TEXT)
        packed.writestr(info, content)
    return file.getvalue()


def link() -> zipfile.ZipInfo:
    info = zipfile.ZipInfo("link")
    info.create_system = 3
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info


def encrypted() -> bytes:
    content = bytearray(zipped(**{"output.xml": TEXT}))
    for magic, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(magic) + flags] |= 1
    return bytes(content)


def tarred() -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as packed:
        info = tarfile.TarInfo("output.xml")
        info.size = len(TEXT)
        packed.addfile(info, io.BytesIO(TEXT))
    return file.getvalue()


def read(content: bytes, folder: Path, limit: int = LIMIT) -> bytes:
    path = folder / "packed"
    path.write_bytes(content)
    with io.BufferedReader(unpack.stream(path, "here/output", limit)) as stream:  # type: ignore[type-var]
        return stream.read()


@pytest.mark.parametrize(
    "content",
    [
        TEXT,
        gzip.compress(TEXT, mtime=0),
        gzip.compress(TEXT[:500], mtime=0) + gzip.compress(TEXT[500:], mtime=0),
        zipped(**{"robot-plugin/output.xml": TEXT, "robot-plugin/log.html": b"<html>"}),
        zipped(
            **{"output.xml.gz": gzip.compress(TEXT, mtime=0), "deep/output.xml": b"<other/>", "a/b/": b""}
        ),
    ],
    ids=["plain", "gzip", "two gzip members", "zip of a folder", "gzip in a zip"],
)
def test_output_is_read_however_it_is_packed(content: bytes, tmp_path: Path) -> None:
    assert TEXT == read(content, tmp_path)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (member(zipfile.ZipInfo("../output.xml")), r"here/output: member '../output.xml' leads out"),
        (member(zipfile.ZipInfo("a/../../b")), "leads out of the archive"),
        (member(zipfile.ZipInfo("..\\b")), "leads out of the archive"),
        (member(zipfile.ZipInfo("/etc/passwd")), "'/etc/passwd' is absolute"),
        (member(zipfile.ZipInfo("C:\\b")), "is absolute"),
        (member(zipfile.ZipInfo("a\x1b[2J")), "is not a valid name"),
        (member(link(), b"/etc/passwd"), "'link' is a link or a device"),
        (encrypted(), "'output.xml' is encrypted"),
        (zipped(**{"log.html": b""}), "contains no output.xml"),
        (zipped(**{"output.zip": zipped(**{"output.xml": TEXT})}), "contains a zip archive instead"),
        (zipped(**{"output.xml": tarred()}), "contains a tar archive"),
        (gzip.compress(gzip.compress(TEXT, mtime=0), mtime=0), "contains a gzip archive"),
        (bz2.compress(TEXT), "contains a bzip2 archive"),
        (zipped(**{"output.xml": TEXT})[:-30], "the zip is cut off"),
        (zipped(**{"output.xml": TEXT}).replace(b"PK\x01\x02", b"PK\x01\x03"), "the zip is damaged"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_hostile_archive_is_refused_by_name(content: bytes, reason: str, tmp_path: Path) -> None:
    with pytest.raises(UnpackingError, match=reason):
        read(content, tmp_path)


def test_damaged_member_of_a_zip_is_told(tmp_path: Path) -> None:
    content = bytearray(zipped(**{"output.xml": TEXT * 100}))
    content[60] ^= 0xFF

    with pytest.raises(UnpackingError, match=r"here/output!output\.xml: the zip is damaged"):
        read(bytes(content), tmp_path)


@pytest.mark.parametrize(
    "pack", [gzip.compress, lambda text: zipped(**{"output.xml": text})], ids=["gzip", "zip"]
)
def test_nothing_unpacks_to_more_than_it_may(pack: Callable[[bytes], bytes], tmp_path: Path) -> None:
    with pytest.raises(UnpackingError, match="unpacks to more than 50000 bytes"):
        read(pack(TEXT * 100), tmp_path, limit=50_000)


def test_zip_bomb_is_stopped_long_before_its_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unpack, "SWELLING_FREE_BYTES", 1_000_000)
    bomb = zipped(**{"output.xml": b"\0" * 50_000_000})

    with pytest.raises(UnpackingError, match=r"here/output!output\.xml: swells to over 800 times its size"):
        read(bomb, tmp_path, limit=10**9)


@pytest.mark.parametrize("is_64", [False, True])
def test_zip_with_an_enormous_directory_is_refused_before_it_is_read(is_64: bool, tmp_path: Path) -> None:
    size = unpack.MAXIMUM_DIRECTORY_BYTES + 1
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, 0xFFFFFFFF if is_64 else size, 0, 0)
    end_64 = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, size, 0)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, 4, 1)

    with pytest.raises(UnpackingError, match="lists more members than an archive of a build has"):
        read(b"PK\x03\x04" + (end_64 + locator if is_64 else b"") + end, tmp_path)


@pytest.mark.parametrize("pointed", [4, 10**9])
def test_record_of_a_zip_cannot_be_hidden_behind_another(pointed: int, tmp_path: Path) -> None:
    """Zipfile reads the record before the locator, which points to a harmless one or to nothing."""
    harmless, enormous = (
        struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 1, 1, size, 0)
        for size in (46, unpack.MAXIMUM_DIRECTORY_BYTES + 1)
    )
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, pointed, 1)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 1, 1, 46, 0, 0)

    with pytest.raises(UnpackingError, match="lists more members than an archive of a build has"):
        read(b"PK\x03\x04" + harmless + enormous + locator + end, tmp_path)


@given(st.text(max_size=30))
def test_name_that_is_right_stays_below_any_folder(name: str) -> None:
    if not unpack.find_name_fault(name):
        assert Path("/here").joinpath(name).resolve().is_relative_to("/here")
