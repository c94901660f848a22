"""Outputs that are damaged, hostile or large."""

from __future__ import annotations

import gzip
import io
import multiprocessing
import resource
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from perftrend.archive import Output, Unknown, read_output
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
        (b"{}", "neither an output of Robot Framework nor"),
        (b"<html><body/></html>", "<html>"),
        (RF7[: len(RF7) // 2], "cut off"),
        (RF7[:-4], "cut off"),
        (RF7 + b"<more/>", "line 95"),
        (BOMB, "line 2: a document type is declared"),
        (EXTERNAL, "line 1: a document type is declared"),
        (b"<robot><suite>&a;</suite></robot>", "line 1"),
        (b'<robot><suite name="\xff"/></robot>', "line 1: what follows is not UTF-8"),
        (RF7.decode().encode("utf-16"), "line 1: what follows is not UTF-8"),
        (b"<robot>" + b"<suite>" * 100_000, "suites are nested more than 100 deep"),
        (b"<robot>" + b"<x>" * 100_000, "line 1"),
        (b"<robot><suite><test><status>" + b"x" * 11_000_000, "more than 1000000 characters"),
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


JSON = b'{"generator":"Robot 7.5","suite":{"name":"R","tests":[{"name":"t","status":"PASS","message":'


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (JSON[:-20], "is not valid JSON: parse error: premature EOF"),
        (JSON + b"NaN}]}}", "is not valid JSON: lexical error"),
        (JSON + b"Infinity}]}}", "is not valid JSON: lexical error"),
        (JSON + b"1e999}]}}", "is not valid JSON: parse error: numeric (floating point) overflow"),
        (JSON + b"9" * 5000 + b"}]}}", "is not valid JSON: parse error: integer overflow"),
        (JSON + b'""}]}} {}', "is not valid JSON: parse error: trailing garbage"),
        (JSON + b'"\xff"}]}}', "what follows is not UTF-8"),
        (JSON + b'"' + b"x" * 2_000_000 + b'"}]}}', "more than 1000000 characters"),
        (b"[" * 100_000, "nested more than 10000 deep"),
        (b'{"a":' * 1_000, "nested more than 50 deep"),
        (b'{"suite":' + b'{"suites":[' * 1_000, "suites are nested more than 100 deep"),
        (b'{"suite":{"tests":[' + b"{}," * 100_000, "hold more than 30000000 characters"),
        (b"[1]", "neither an output of Robot Framework nor"),
        (gzip.compress(JSON, mtime=0)[:-12], "gzip data is cut off or damaged"),
    ],
)
def test_damaged_json_is_told_in_one_line(content: bytes, reason: str) -> None:
    _, told = before_damage(content)

    assert told.startswith("output.xml: ")
    assert reason in told
    assert "\n" not in told


def test_tests_before_the_damage_of_json_are_given() -> None:
    results, _ = before_damage(JSON + b'"NDR_LOWER: 1.0 pps"},{"name":"u"')

    assert [(1.0,)] == [result.samples for result in results]


def test_folder_without_results_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")

    with pytest.raises(ArchiveError, match="without a JSON file of a test"):
        list(read_output(tmp_path))


def test_links_of_a_folder_are_not_followed(tmp_path: Path) -> None:
    (tmp_path / "outside.json").write_text('{"test_id": "a.b"}')
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "link.json").symlink_to(tmp_path / "outside.json")

    with pytest.raises(ArchiveError, match="without a JSON file of a test"):
        list(read_output(folder))


def test_what_is_not_understood_is_counted_and_named() -> None:
    tests = "".join(
        f'<test name="{name}"><tag>{tag}</tag><status status="{status}">{message}</status></test>'
        for name, tag, status, message in [
            ("a", "MRR", "PASS", "Rate of 17 apples"),
            ("b", "MRR", "PASS", "Rate of 2.5e6 apples"),
            ("c", "MRR", "FAIL", "no carrier"),
            ("d", "smoke", "PASS", "hello"),
            ("e", "NDR", "PASS", "NDR_LOWER: 5 zps"),
            ("f", "MRR", "PASS", ""),
            ("g", "NDR", "PASS", "NDR_LOWER: 1.0 pps"),
        ]
    )
    output = Output(
        io.BytesIO(f'<robot><suite name="R"><suite name="S">{tests}</suite></suite></robot>'.encode())
    )
    list(output)

    assert {
        "Rate of # apples": Unknown(2, "S.a"),
        "no performance test": Unknown(1, "S.d"),
        "NDR_LOWER: # zps": Unknown(1, "S.e"),
        "no message": Unknown(1, "S.f"),
    } == output.unknown


def test_forms_that_are_not_understood_are_limited() -> None:
    tests = "".join(
        f'<test name="t"><tag>MRR</tag><status status="PASS">{"x" * number}</status></test>'
        for number in range(1, 60)
    ) + "".join(
        f'<test name="t"><tag>MRR</tag><status status="PASS">{"y" * number}</status></test>'
        for number in range(1, 60)
    )
    output = Output(io.BytesIO(f'<robot><suite name="R">{tests}</suite></robot>'.encode()))
    list(output)

    assert 101 == len(output.unknown)
    assert 18 == output.unknown["others"].count


PROCESSES = multiprocessing.get_context("forkserver")
# Each process has read nothing yet, and need not import anything.
PROCESSES.set_forkserver_preload([__name__])


def measured(path: Path) -> tuple[int, int]:
    """Return the number of results, -1 if the file was refused, and by how many kB memory grew."""
    receiver, sender = PROCESSES.Pipe(duplex=False)
    process = PROCESSES.Process(target=count_and_measure, args=(path, sender))
    process.start()
    sender.close()
    found, grown = receiver.recv()
    process.join()
    return found, grown


def count_and_measure(path: Path, sender: Connection) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        found = sum(1 for _ in read_output(path))
    except ArchiveError:
        found = -1
    sender.send((found, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before))


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

    found, grown = measured(path)

    assert 1 == found
    assert grown < 12_000


START = b'<robot><suite name="R"><test name="t'


@pytest.mark.parametrize(
    ("before", "repeated", "after", "found"),
    [
        (START, b"x", b'"/></suite></robot>', -1),
        (START + b'"', b' a=">"', b"/></suite></robot>", -1),
        (START + b'"><status status="PASS">', b"x", b"</status></test></suite></robot>", -1),
        (START + b'">', b"<tag>t</tag>", b"</test></suite></robot>", -1),
        (START + b'"><doc>&amp;', b"&gt;", b"</doc></test></suite></robot>", 0),
        (START + b'"><doc>&', b"a", b"</doc></test></suite></robot>", -1),
        (START + b'"/>', b'<test name="t"/>', b"</suite></robot>", -1),
        (b"<robot><", b"x", b"/></robot>", -1),
        (JSON, b"1", b"}]}}", -1),
        (JSON + b'"', b"x", b'"}]}}', -1),
        (JSON + b'"NDR_LOWER: 1.0 pps","body":[{"message":"', b'\\"]', b'"}]}]}}', 1),
        (b'{"a":[', b'{"body":[]},', b"1]}", -1),
        (b'{"a":1', b',"b":1', b"}", -1),
    ],
    ids=[
        "attribute", "attributes", "text", "tags", "text that nobody needs", "entity", "tests", "name",
        "number", "string", "message", "bodies", "keys",
    ],
)  # fmt: skip
def test_whatever_is_large_is_read_or_refused_in_little_memory(
    tmp_path: Path, before: bytes, repeated: bytes, after: bytes, found: int, *, thorough: bool
) -> None:
    path = tmp_path / "output"
    much = 60_000_000 if thorough else 30_000_000
    path.write_bytes(before + repeated * (much // len(repeated)) + after)

    of, grown = measured(path)
    path.unlink()

    assert found == of
    assert grown < much / 1200
