"""Files are read plain or gzipped, and a decompression bomb is distinguished from a log."""

from __future__ import annotations

import gzip
import io
from pathlib import Path

import pytest

from perftrend.archive import source
from perftrend.archive.source import TextCheck, open_stream
from perftrend.errors import ArchiveError


def read(content: bytes, size: int = 1000) -> bytes:
    pieces = []
    with open_stream(io.BytesIO(content)) as stream:
        while piece := stream.read1(size):
            pieces.append(piece)
    return b"".join(pieces)


@pytest.mark.parametrize(
    "content",
    [
        b"plain" * 1000,
        gzip.compress(b"plain" * 1000, mtime=0),
        gzip.compress(b"plain", mtime=0) + gzip.compress(b"plain" * 999, mtime=0),
        b"".join(gzip.compress(part, mtime=0) for part in (b"plain", b"", b"plain" * 999)) + b"\0" * 512,
    ],
    ids=["plain", "gzip", "members", "padded"],
)
@pytest.mark.parametrize("size", [1, 1000, 1 << 18])
def test_text_is_the_same_however_it_is_packed(content: bytes, size: int) -> None:
    assert b"plain" * 1000 == read(content, size)


def test_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "SWELLING_FREE_BYTES", 1_000_000)

    assert b" " * 900_000 == read(gzip.compress(b" " * 900_000, mtime=0))
    with pytest.raises(ArchiveError, match="swells to over 800 times"):
        read(gzip.compress(b" " * 9_000_000, mtime=0))


def test_path_and_open_file_are_named(tmp_path: Path) -> None:
    path = tmp_path / "output.xml"
    path.write_bytes(b"x")

    with path.open("rb") as file:
        assert {str(path)} == {source.name_of(path), source.name_of(str(path)), source.name_of(file)}


@pytest.mark.parametrize(
    ("chunks", "sound"),
    [
        (["é€😀".encode()], [(9, "")]),
        (["😀".encode()[:2], "😀".encode()[2:]], [(2, ""), (2, "")]),
        ([b"ab\xff"], [(2, "what follows is not UTF-8")]),
        ([b"ab\0c"], [(2, "a NUL character follows")]),
        ([b"a\0\xff"], [(1, "a NUL character follows")]),
        ([b"a\xff\0"], [(1, "what follows is not UTF-8")]),
        ([b"\xe2", b"a"], [(1, ""), (0, "what follows is not UTF-8")]),
    ],
)
def test_text_is_checked_over_chunks(chunks: list[bytes], sound: list[tuple[int, str]]) -> None:
    check = TextCheck()

    assert sound == [check.sound(chunk) for chunk in chunks]
