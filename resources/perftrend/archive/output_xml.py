"""Reads output.xml of Robot Framework 2 to 7 as a stream.

The measurement of a test is in its message, its tags and its suites' metadata. Keywords and control
structures, with their arguments and log messages, make up more than 99 % of a file and are never used, so
they are skipped as text, and only the rest, the outline, is parsed by lxml. The parser's target builds no
tree, so memory use does not grow with the file.

Skipping is exact: in XML, a ``<`` outside comments and CDATA sections begins markup, so the end of an
element can be found by tags alone. The elements that Robot Framework 3 to 7 writes into the bodies of tests
and suites are skipped; they nest, and their end tags must match.

Only the predefined entities are resolved and nothing is fetched: a file that declares a document type,
which could define others, is refused before the parser reads it.
"""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator
from datetime import datetime

import numpy as np
from lxml import etree

from perftrend.archive import source
from perftrend.archive.result_records import (
    SUITES_LIMIT,
    Heading,
    LogLines,
    RecordedTest,
    Suite,
    SuiteRecord,
    after,
    moment,
)
from perftrend.archive.source import ByteStream, TextCheck
from perftrend.errors import ArchiveError

__all__ = ["Heading", "RecordedTest", "read_suites"]

_TEXTS = {
    ("test", "status"),
    ("test", "tag"),
    ("tags", "tag"),
    ("suite", "status"),
    ("suite", "meta"),
    ("metadata", "item"),
}
"""Elements whose text is read, each with its parent element."""

NESTING_LIMIT = 2_000
"""Robot Framework itself allows at most 140 nested keywords."""
MARKUP_LIMIT_BYTES = 1 << 20
"""Longer markup is treated as damage: it would have to be held in memory."""

_SKIPPED = rb"kw|for|while|if|try|group"
_MARKUP = re.compile(
    # Every branch begins with the same character outside any group, so that the search can jump from one to
    # the next. The most frequent come first; each matches separately if the text ends within it.
    rb"</(?P<end>%b)(?:\s*>|(?P<cut_end>(?=\s*\Z)))" % _SKIPPED
    + rb"|<(?P<start>%b)(?=[\s/>])" % _SKIPPED
    + rb"(?:(?:[^<>\"']++|\"[^<\"]*+\"|'[^<']*+')*+>|(?P<cut_start>))"
    + rb"|<(?=[!?])(?:!--.*?-->|!\[CDATA\[.*?\]\]>|\?.*?\?>|(?P<doctype>!DOCTYPE)|(?P<cut>))",
    re.DOTALL,
)
_CUT = ("cut", "cut_start", "cut_end")
_TAG = re.compile(rb"""<(?:[^<>"']++|"[^<"]*+"|'[^<']*+')*+>""")
_SET_UP = re.compile(rb"""\stype=["'](?:setup|SETUP)["']""")
_SLASH = ord("/")
_LINE_BREAK = ord("\n")
_BEGUN_AT_END = re.compile(rb"<[^<>\s]{0,8}\Z")


class _Target:
    """Receives the parser's events and enters suites and tests into a record."""

    def __init__(self, record: SuiteRecord) -> None:
        self._record = record
        self._path: list[str] = []
        self._suites: list[Suite] = [record.root]
        self._test: RecordedTest | None = None
        self._item = ""
        self._text: list[str] | None = None
        self._length = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        parent = self._path[-1] if self._path else ""
        if not parent and tag != "robot":
            raise ArchiveError(f"begins with <{tag}>, not with <robot>: is it an output of Robot Framework?")
        self._path.append(tag)
        if tag == "robot":
            self._record.heading.generator = attributes.get("generator", "")
        elif tag == "suite" and parent in ("robot", "suite"):
            self._start_suite(attributes.get("name", ""))
        elif tag == "test" and parent == "suite":
            self._test = RecordedTest(attributes.get("name", ""), "")
            self._record.charge(self._test.name)
        elif tag == "status" and parent == "test" and self._test:
            self._test.status = attributes.get("status", "")
            self._record.heading.ran(*_times(attributes))
        elif tag == "status" and parent == "suite":
            self._record.heading.ran(*_times(attributes))
        if (parent, tag) in _TEXTS:
            self._item = attributes.get("name", "")
            self._text, self._length = [], 0

    def data(self, text: str) -> None:
        if self._text is not None:
            self._record.charge(text, begun=self._length)
            self._text.append(text)
            self._length += len(text)

    def end(self, tag: str) -> None:
        self._path.pop()
        parent = self._path[-1] if self._path else ""
        if self._text is not None and (parent, tag) in _TEXTS:
            self._store_text(tag, parent, "".join(self._text))
            self._text = None
        elif tag == "test" and parent == "suite" and self._test:
            self._suites[-1].tests.append(self._test)
            self._test = None
        elif tag == "suite" and parent in ("robot", "suite"):
            self._suites.pop()

    def comment(self, text: str) -> None:
        """Ignore comments."""

    def close(self) -> None:
        """Do nothing at the end."""

    def _start_suite(self, name: str) -> None:
        if len(self._suites) > SUITES_LIMIT:
            raise ArchiveError(f"suites are nested more than {SUITES_LIMIT} deep")
        self._record.charge(name)
        suite = Suite(name)
        self._suites[-1].suites.append(suite)
        self._suites.append(suite)

    def _store_text(self, tag: str, parent: str, text: str) -> None:
        if tag in ("meta", "item"):
            self._suites[-1].metadata[self._item] = text
        elif tag == "status" and parent == "suite":
            self._suites[-1].message = text
        elif self._test and tag == "tag":
            self._test.tags.append(text)
        elif self._test and tag == "status":
            self._test.message = text


def read_suites(stream: ByteStream, record: SuiteRecord) -> None:
    """Enter all suites and tests of an output.xml into a record, up to damage.

    :raises ArchiveError: if the file is damaged; the message contains the position.
    :raises OSError, EOFError, zlib.error: as the stream does.
    """
    parser = etree.XMLParser(
        target=_Target(record),  # type: ignore[arg-type]  # its stubs require bytes, too, which never occur
        # Without it, &amp; in an attribute would not be decoded. Other entities are refused: see Outline.
        resolve_entities="internal",  # type: ignore[arg-type]  # its stubs are older than this value
        no_network=True,
        encoding="utf-8",
    )
    try:
        for piece in Outline(stream, record.heading.lines):
            parser.feed(piece)
        parser.close()
    except etree.XMLSyntaxError as error:
        line, column = error.position
        what = (error.msg or "not XML").split(", line ")[0]
        raise ArchiveError(
            f"line {line}, column {column}: {what}; was the file cut off or damaged?"
        ) from error


def _times(attributes: dict[str, str]) -> tuple[datetime | None, datetime | None]:
    """Return start and end from a status, in the form of Robot Framework 7 or of earlier versions."""
    if "start" in attributes:
        started = moment(attributes["start"])
        return started, after(started, attributes.get("elapsed", ""))
    return moment(attributes.get("starttime", "")), moment(attributes.get("endtime", ""))


class Outline:
    """Reads XML in chunks and yields everything outside keywords.

    Line breaks are retained, so that the parser counts lines as they are in the file.

    :param lines: receives the text of set-ups.
    """

    def __init__(self, stream: ByteStream, lines: LogLines | None = None) -> None:
        self._stream = stream
        self._lines = lines or LogLines()
        self._open: list[bytes] = []
        self._in_set_up = False
        self._line = 1

    def __iter__(self) -> Iterator[bytes]:
        """Yield the outline in pieces; all pieces before damage are yielded before the error is raised.

        :raises ArchiveError: if the file is not UTF-8 or contains NUL, nests too deeply, declares a document
            type (which could define entities), or ends within a keyword. The message begins with the line.
        :raises OSError, EOFError, zlib.error: as the stream does.
        """
        check = TextCheck()
        rest = b""
        # read1: data that precedes damage of the stream must not be lost in a buffer.
        while chunk := self._stream.read1(source.CHUNK_BYTES):
            text = rest + chunk
            length, damage = check.sound(chunk)
            sound = len(rest) + length
            stop = yield from self._outside(text[:sound])
            if damage:
                raise self._damage(damage, text[stop:sound])
            rest = text[stop:]
            if len(rest) > MARKUP_LIMIT_BYTES:
                raise self._damage("markup does not end within a megabyte", b"")
        if self._open:
            raise self._damage(f"the file is cut off within <{self._open[-1].decode()}>", rest)
        yield self._pass_through(rest)

    def _outside(self, text: bytes) -> Generator[bytes, None, int]:
        """Yield the text outside keywords; return the start of markup that does not end in the text."""
        start = last = 0
        for found in _MARKUP.finditer(text):
            kind, last = found.lastgroup, found.end()
            if kind == "start" and text[found.end() - 2] != _SLASH:
                if not self._open:
                    yield self._pass_through(text[start : found.start()])
                    start = found.start()
                    self._in_set_up = _SET_UP.search(found[0]) is not None
                self._open.append(found["start"])
                if len(self._open) > NESTING_LIMIT:
                    before = text[start : found.start()]
                    raise self._damage(f"keywords are nested more than {NESTING_LIMIT} deep", before)
            elif kind == "end" and self._open:
                if self._open.pop() != found["end"]:
                    before = text[start : found.start()]
                    raise self._damage(f"{found[0].decode()} has no start tag", before)
                if not self._open:
                    yield self._skip(text, start, found.end())
                    start = found.end()
                    self._lines.end()
            elif kind == "doctype":
                before = text[start : found.start()]
                raise self._damage("a document type is declared, which Robot Framework never writes", before)
            elif kind in _CUT:
                stop = found.start()
                break
        else:
            stop = self._find_incomplete_tag(text, last)
        yield self._skip(text, start, stop) if self._open else self._pass_through(text[start:stop])
        return stop

    def _find_incomplete_tag(self, text: bytes, last: int) -> int:
        """Return the start of a tag that is cut off by the end of the text; else the end of the text."""
        if self._open:  # text that cannot be the beginning of a keyword's tag is skipped in parts
            begun = _BEGUN_AT_END.search(text, max(0, len(text) - 16))
            return begun.start() if begun else len(text)
        # The parser would hold a tag or a reference until it ends, however long it is. Neither contains its
        # own start character again.
        tag, reference = text.rfind(b"<", last), text.rfind(b"&", last)
        if tag >= 0 and not _TAG.match(text, tag):
            return tag
        return len(text) if reference < 0 or b";" in text[reference:] else reference

    def _pass_through(self, text: bytes) -> bytes:
        self._line += text.count(b"\n")
        return text

    def _skip(self, text: bytes, start: int, stop: int) -> bytes:
        if self._in_set_up:
            self._lines.search(text[start:stop])
        # bytes.count is several times slower if matches are frequent.
        lines = int(np.count_nonzero(np.frombuffer(text, np.uint8)[start:stop] == _LINE_BREAK))
        self._line += lines
        return b"\n" * lines

    def _damage(self, what: str, text_before: bytes) -> ArchiveError:
        line = self._line + text_before.count(b"\n")
        return ArchiveError(f"line {line}: {what}")
