"""Outputs of all versions of Robot Framework, read as Robot Framework itself reads them."""

from __future__ import annotations

import gzip
import io
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree
from robot import api, result

from perftrend.archive import source
from perftrend.archive.output_xml import Outline
from perftrend.archive.reader import read_suites
from perftrend.archive.result_records import Heading, RecordedTest, SuiteRecord
from perftrend.errors import ArchiveError

OUTPUTS = Path(__file__).parents[2] / "data" / "outputs"
VERSIONS = ["rf3", "rf4", "rf5", "rf6", "rf7"]


class Collector(api.ResultVisitor):
    """What Robot Framework finds, in the form of ours."""

    def __init__(self) -> None:
        self.tests: list[RecordedTest] = []

    def visit_test(self, test: result.TestCase) -> None:
        suite = test.parent.full_name.partition(".")[2]
        around = [test.parent]
        while around[-1].parent:
            around.append(around[-1].parent)
        testbed = next((one.metadata["Testbed"] for one in around if "Testbed" in one.metadata), "")
        self.tests.append(RecordedTest(test.name, suite, list(test.tags), test.status, test.message, testbed))


def by_robot(path: Path) -> list[RecordedTest]:
    collector = Collector()
    api.ExecutionResult(path).visit(collector)
    return collector.tests


def read(source: Path | io.BytesIO) -> list[RecordedTest]:
    return recorded_in(source, Heading())


def recorded_in(source: Path | io.BytesIO, heading: Heading) -> list[RecordedTest]:
    record = SuiteRecord(heading)
    read_suites(source, record)
    return list(record.tests())


@pytest.mark.parametrize("version", VERSIONS)
def test_tests_are_those_that_robot_framework_finds(version: str) -> None:
    path = OUTPUTS / f"{version}.xml"

    assert by_robot(path) == read(path)


def test_output_of_the_installed_robot_framework_is_read(tmp_path: Path) -> None:
    """Every control structure, a failing set-up and messages that look like markup, really run."""
    source = """
*** Settings ***
Metadata    Testbed    1n-veth

*** Test Cases ***
Loops
    [Tags]    MRR    64B
    FOR    ${i}    IN RANGE    3
        IF    ${i} > 1    Log    <test name="no"></kw></kw>
        TRY
            Fail    <kw>
        EXCEPT
            WHILE    True    limit=2    on_limit=pass
                Log    ]]> --> <!-- <![CDATA[
            END
        END
    END
    GROUP    Named
        VAR    ${x}    1
        Log    </test>
    END
    Set Test Message    a < b & c
Fails
    [Tags]    NDRPDR
    [Setup]    Fail    no <carrier>
    Log    never
Skips
    Skip    not today
"""
    suite = api.TestSuite.from_string(source)
    suite.name = "Root"
    output = tmp_path / "output.xml"
    suite.run(
        output=str(output),
        log=None,
        report=None,
        loglevel="TRACE",
        stdout=io.StringIO(),
        stderr=io.StringIO(),
    )

    tests = read(output)

    assert by_robot(output) == tests
    assert [("Loops", "a < b & c"), ("Fails", "Setup failed:\nno <carrier>"), ("Skips", "not today")] == [
        (test.name, test.message) for test in tests
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_metadata_after_the_tests_reaches_them(version: str) -> None:
    assert {"2n-clx"} == {test.testbed for test in read(OUTPUTS / f"{version}.xml")}


def _suites(inner: str, outer: str) -> io.BytesIO:
    test = '<test name="t"><status status="PASS"/></test>'
    return io.BytesIO(
        f'<robot><suite name="R"><suite name="A">{test}{inner}</suite>'
        f'<suite name="B">{test}</suite>{outer}</suite></robot>'.encode()
    )


def test_nearest_suite_names_the_testbed() -> None:
    source = _suites('<meta name="Testbed">near</meta>', '<meta name="Testbed">far</meta>')

    assert [("A", "near"), ("B", "far")] == [(test.suite, test.testbed) for test in read(source)]


def test_testbed_that_nobody_names_is_empty() -> None:
    assert ["", ""] == [test.testbed for test in read(_suites("", ""))]


def test_heading_tells_of_the_run() -> None:
    heading = Heading()
    recorded_in(OUTPUTS / "rf7.xml", heading)

    assert "Robot 7.2 (Python 3.11.2 on linux)" == heading.generator
    assert {"Testbed": "2n-clx"} == heading.metadata
    assert datetime(2021, 10, 10, 18, 59, 26, tzinfo=UTC) == heading.started
    assert datetime(2021, 10, 10, 19, 0, 41, tzinfo=UTC) == heading.finished


def test_times_are_the_same_in_the_older_form() -> None:
    heading = Heading()
    recorded_in(OUTPUTS / "rf4.xml", heading)

    assert datetime(2021, 10, 10, 18, 59, 26, tzinfo=UTC) == heading.started
    assert datetime(2021, 10, 10, 19, 0, 41, tzinfo=UTC) == heading.finished


def test_time_that_is_not_available_is_none() -> None:
    heading = Heading()
    source = b'<robot><suite name="R"><status status="PASS" starttime="N/A" endtime="N/A"/></suite></robot>'
    recorded_in(io.BytesIO(source), heading)

    assert heading.started is None
    assert heading.finished is None


def test_gzip_is_known_by_its_content(tmp_path: Path) -> None:
    plain = OUTPUTS / "rf7.xml"
    packed = tmp_path / "output.xml"
    packed.write_bytes(gzip.compress(plain.read_bytes()))

    assert read(plain) == read(packed)


def test_open_file_is_read_and_left_open() -> None:
    plain = OUTPUTS / "rf7.xml"
    for content in (plain.read_bytes(), gzip.compress(plain.read_bytes())):
        file = io.BytesIO(content)

        assert read(plain) == read(file)
        assert not file.closed


SKIPPED = ["kw", "for", "while", "if", "try", "group"]
KEPT = ["test", "status", "k", "kwx", "forum", "tryst", "msg"]

texts = st.text(st.sampled_from("ab<>&\"'/\n é\u2028kw"), max_size=8)


@st.composite
def elements(draw: st.DrawFn, depth: int = 3) -> etree._Element:
    element = etree.Element(draw(st.sampled_from(SKIPPED + KEPT)))
    for name in draw(st.sets(st.sampled_from(["name", "kw", "x"]))):
        element.set(name, draw(texts))
    element.text = draw(texts)
    for _ in range(draw(st.integers(0, 3)) if depth else 0):
        child = draw(
            st.one_of(
                elements(depth - 1), st.just(etree.Comment("<kw></for>")), st.just(etree.PI("x", "<kw>"))
            )
        )
        child.tail = draw(texts)
        element.append(child)
    return element


def through(text: bytes) -> bytes:
    return b"".join(Outline(io.BytesIO(text)))


def flat(root: etree._Element) -> list[tuple[str, dict[str, str], int, str]]:
    """Name, attributes, line, and text without white space: line breaks stand for what was skipped."""
    return [
        (
            str(node.tag),
            dict(node.attrib),
            node.sourceline or 0,
            "".join("".join(node.xpath("text()")).split()),
        )
        for node in root.iter(etree.Element)
        if not any(ancestor.tag in SKIPPED for ancestor in [node, *node.iterancestors()])
    ]


@given(st.lists(elements(), max_size=4), st.sampled_from([1, 7, 64, 1 << 18]))
def test_outline_is_the_document_without_keywords(parts: list[etree._Element], chunk: int) -> None:
    root = etree.Element("robot")
    root.extend(parts)
    text = etree.tostring(root, encoding="utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "CHUNK_BYTES", chunk)

        assert flat(etree.fromstring(text)) == flat(etree.fromstring(through(text)))


@pytest.mark.parametrize("inner", ["<!-- </kw> -->", "<![CDATA[</kw>]]>", "<?x </kw>?>", "<kw a='/>'/>"])
def test_what_only_looks_like_an_end_does_not_end_a_keyword(inner: str) -> None:
    assert b"<robot><a/></robot>" == through(f"<robot><kw>{inner}</kw><a/></robot>".encode())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"<robot>\n<kw>\n<for>", "line 3: the file is cut off within <for>"),
        (b"<robot>\n<kw>\n</for>", "line 3: </for> has no start tag"),
        (b"<robot>\n<kw>\n\xff</kw>", "line 3: what follows is not UTF-8"),
        (b"<robot>\n<kw>\n\0</kw>", "line 3: a NUL character follows"),
        (b"<robot>\n" + b"<kw>" * 100_000, "line 2: keywords are nested more than 2000 deep"),
        (b"\n<!DOCTYPE robot>", "line 2: a document type is declared"),
        (b"<robot>\n<!--" + b"x" * (2 << 20), "line 2: markup does not end within a megabyte"),
    ],
)
def test_damage_is_told_with_its_line(text: bytes, reason: str) -> None:
    with pytest.raises(ArchiveError) as damage:
        through(text)

    assert str(damage.value).startswith(reason)


def test_what_stands_before_damage_is_passed_on() -> None:
    passed_on = []

    def read() -> None:
        for piece in Outline(io.BytesIO(b"<robot><a/><kw></kw><b/>\xff")):
            passed_on.append(piece)  # noqa: PERF402 - a list made at once would be lost

    with pytest.raises(ArchiveError):
        read()

    assert b"<robot><a/><b/>" == b"".join(passed_on)


def test_letter_between_two_chunks_is_no_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(source, "CHUNK_BYTES", 1)

    assert "<robot>é€😀</robot>".encode() == through("<robot>é€😀<kw>é€😀</kw></robot>".encode())
