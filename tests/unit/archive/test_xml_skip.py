"""Keywords are skipped as text, exactly as an XML parser would skip them."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from perftrend.archive import source
from perftrend.archive.output_xml import Outline
from perftrend.errors import ArchiveError

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
