"""Whatever an archive contains, it is stored or reported, and the next one is ingested."""

from __future__ import annotations

import gzip
import random
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from perftrend.archive.fetch import BuildIngester, Claim, IngestResult, IngestStatus, Readers
from perftrend.archive.fetch.builds import ArchivedBuild
from perftrend.archive.fetch.cache import FileCache
from perftrend.archive.fetch.download import DownloadLimits, Fetcher
from perftrend.archive.fetch.tree import Disk, TreeSource
from perftrend.archive.fetch.web import RateLimiter
from perftrend.store import Store

OUTPUTS = Path(__file__).parents[3] / "data" / "outputs"
SEEDS = sorted(path for path in OUTPUTS.rglob("*") if path.is_file())
ABSURD = [
    b"1e308", b"-1e308", b"1e400", b"NaN", b"Infinity", b"-0.0", b"5e-324", b"9" * 400, b"", b"null", b"[]",
    b"true", b'"', b"\x00", b"&#0;", b"\xff\xfe", b"\xed\xa0\x80", "\u202e".encode(), b"<a>" * 50,
    b"0001-01-01", b"99999-12-31T00:00:00", b"Mpps", b"x" * 2000,
]  # fmt: skip
_NUMBER = re.compile(rb"\d+(?:\.\d+)?")


def mutated(seed: bytes, chance: random.Random) -> bytes:
    """Return what is left of a file after some mishaps."""
    content = bytearray(seed)
    for _ in range(chance.randint(1, 4)):
        at, other = chance.randrange(len(content)), chance.randrange(len(content))
        part = slice(min(at, other), min(max(at, other), min(at, other) + chance.choice([1, 10, 1000])))
        match chance.randrange(7):
            case 0:
                content[at] = chance.randrange(256)
            case 1:
                del content[part]
            case 2:
                content[at:at] = content[part]
            case 3:
                content[part] = chance.choice(ABSURD)
            case 4:
                numbers = list(_NUMBER.finditer(bytes(content)))
                if numbers:
                    number = chance.choice(numbers)
                    content[number.start() : number.end()] = chance.choice(ABSURD)
            case 5:
                content[part] = bytes(chance.randrange(256) for _ in range(part.stop - part.start))
            case 6:
                content[at:at] = chance.choice(SEEDS).read_bytes()
        content = content or bytearray(b" ")
    return bytes(content)


@pytest.fixture
def take(tmp_path: Path) -> Callable[[bytes, int], IngestResult]:
    """Return what takes one output into a store."""
    place = str(tmp_path / "store.sqlite")
    Store.open(place).close()
    source = TreeSource(Disk(tmp_path))
    pace = RateLimiter(1e6)
    fetcher = Fetcher(source, FileCache(tmp_path / "cache", 10**9), pace, DownloadLimits())
    taker = BuildIngester(source, fetcher, Readers(place, 0, 10**8))

    def taken(content: bytes, number: int) -> IngestResult:
        folder = tmp_path / "nightly" / str(number)
        folder.mkdir(parents=True)
        name = "output.xml" if content.lstrip()[:1] == b"<" else "output.json"
        (folder / name).write_bytes(content)
        build = ArchivedBuild("nightly", number, str(folder), place=f"nightly/{number}")
        return taker.ingest(build, Claim("nightly", number, str(folder), likely_testbed="2n-clx"))

    return taken


def test_no_archive_stops_the_others(take: Callable[[bytes, int], IngestResult], *, thorough: bool) -> None:
    chance = random.Random(20)  # noqa: S311 - mishaps, not secrets
    fates = set()
    for number in range(10_000 if thorough else 300):
        content = mutated(chance.choice(SEEDS).read_bytes(), chance)
        if chance.random() < 0.1:
            content = gzip.compress(content)[: chance.choice([None, -5])]
        taken = take(content, number)

        assert taken.fate in (IngestStatus.NEW, IngestStatus.BROKEN), (number, taken)
        assert "defect of perftrend" not in taken.note, (number, taken.note)
        fates.add(taken.fate)
    assert {IngestStatus.NEW, IngestStatus.BROKEN} == fates
    assert IngestStatus.NEW is take((OUTPUTS / "rf7.xml").read_bytes(), 99_999).fate
