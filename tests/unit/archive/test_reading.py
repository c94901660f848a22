"""Outputs that are damaged, hostile or large."""

from __future__ import annotations

import gzip
import io
import subprocess
import sys
from pathlib import Path

import pytest

from perftrend.archive import Output, read_output
from perftrend.errors import ArchiveError
from perftrend.model import Result

OUTPUTS = Path(__file__).parents[2] / "data" / "outputs"
RF7 = (OUTPUTS / "rf7.xml").read_bytes()
BOMB = b"""<?xml version="1.0"?>
<!DOCTYPE robot [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>
<robot><suite name="&b;"/></robot>"""
EXTERNAL = b"""<!DOCTYPE robot [<!ENTITY a SYSTEM "file:///etc/passwd">]><robot>&a;</robot>"""


def before_damage(content: bytes, **options: str) -> tuple[list[Result], str]:
    """Return what was read before the damage, and what was said of it."""
    file = io.BytesIO(content)
    file.name = "output.xml"
    results = []

    def read() -> None:
        for result in read_output(file, **options):
            results.append(result)  # noqa: PERF402 - a list made at once would be lost

    with pytest.raises(ArchiveError) as damage:
        read()
    return results, str(damage.value)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the file is empty"),
        (b"\n\n", "line 3"),
        (b"not XML", "line 1, column 1"),
        (b"{}", "line 1, column 1"),
        (b"<html><body/></html>", "<html>"),
        (RF7[: len(RF7) // 2], "cut off"),
        (RF7[:-4], "cut off"),
        (RF7 + b"<more/>", "line 95"),
        (BOMB, "line 2: a document type is declared"),
        (EXTERNAL, "line 1: a document type is declared"),
        (b"<robot><suite>&a;</suite></robot>", "line 1"),
        (b'<robot><suite name="\xff"/></robot>', "line 1: what follows is not UTF-8"),
        (RF7.decode().encode("utf-16"), "line 1: what follows is not UTF-8"),
        (b"<robot>" + b"<suite>" * 10_000, "line 1"),
        (b"<robot><suite><test><status>" + b"x" * 11_000_000, "more than 10000000 characters"),
        (gzip.compress(RF7, mtime=0)[:-12], "gzip data is cut off or damaged"),
        (gzip.compress(RF7, mtime=0)[:20] + b"\0" * 20, "gzip data is cut off or damaged"),
    ],
)
def test_damage_is_told_in_one_line_with_file_and_place(content: bytes, reason: str) -> None:
    _, told = before_damage(content)

    assert told.startswith("output.xml: ")
    assert reason in told
    assert "\n" not in told


@pytest.mark.parametrize("name", ["missing.xml", "."])
def test_file_that_cannot_be_opened_is_named(tmp_path: Path, name: str) -> None:
    with pytest.raises(ArchiveError, match=f"{tmp_path / name}: (No such file|Is a directory)"):
        list(read_output(tmp_path / name))


STORED = gzip.compress(RF7, compresslevel=0)
"""Gzipped without being made smaller, so that it can be cut where the text is known."""


@pytest.mark.parametrize("content", [RF7, STORED], ids=["plain", "gzip"])
def test_results_before_the_damage_are_given(content: bytes) -> None:
    """The file lost its metadata with its end, so the caller's testbed stands in."""
    cut = content[: content.index(b'<test id="s1-s1-t2"') + 100]

    results, _ = before_damage(cut, testbed="2n-clx")

    assert [next(read_output(io.BytesIO(RF7)))] == results


@pytest.mark.parametrize("version", ["rf3", "rf4", "rf5", "rf6", "rf7"])
def test_every_version_gives_the_same_results(version: str) -> None:
    expected = list(read_output(io.BytesIO(RF7)))[:3]

    results = list(read_output(OUTPUTS / f"{version}.xml"))

    assert ["mrr", "ndr", "pdr"] == [result.key["metric"] for result in results[:3]]
    assert repr(expected) == repr(results[:3])


def test_output_tells_what_the_messages_say_of_the_run() -> None:
    line = (
        'perftrend: {"schema":1,"kind":"mrr","testbed":"x","frame":"64B","frame_bytes":64,'
        '"started":"2026-01-02T00:00:00Z","finished":"2026-01-02T00:00:01Z","samples":[1],'
        '"versions":{"device":"abc"},"simulated":true}'
    )
    text = RF7.replace(b"Maximum Receive Rate trial results", line.replace('"', "&quot;").encode() + b"\nM")
    output = Output(io.BytesIO(text))
    list(output)

    assert {"device": "abc"} == output.versions
    assert output.simulated
    assert "2n-clx" == output.testbed
    assert output.started is not None


MEASURE = """
import resource, sys
from perftrend.archive import read_output
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
assert len(list(read_output(sys.argv[1]))) == 1
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    """60 MB of log, part of it in messages of the test itself, are read in less than 12 MB."""
    keyword = b'<kw name="Log"><msg>' + b"x" * 10_000 + b'</msg><status status="PASS"/></kw>\n'
    note = b'<msg time="" level="INFO">' + b"y" * 10_000 + b"</msg>\n"
    path = tmp_path / "output.xml"
    with path.open("wb") as file:
        file.write(b'<robot><suite name="R"><test name="t">')
        for _ in range(3_000):
            file.write(keyword + note)
        file.write(b'<tag>MRR</tag><status status="PASS">x</status></test></suite></robot>')

    grown = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], capture_output=True, text=True, check=True
    ).stdout

    assert int(grown) < 12_000
