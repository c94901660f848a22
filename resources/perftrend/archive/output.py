"""Reads output.xml of Robot Framework 2 to 7 as a stream.

Only the outline of the file is parsed by lxml, with a target that builds no tree, so memory use does not grow
with the file. Only the predefined entities are resolved and nothing is fetched: a file that declares a
document type, which could define others, is refused before the parser reads it.
"""

from __future__ import annotations

from datetime import datetime

from lxml import etree

from perftrend.archive.result_records import (
    SUITES_LIMIT,
    Heading,
    RecordedTest,
    Suite,
    SuiteRecord,
    after,
    moment,
)
from perftrend.archive.source import ByteStream
from perftrend.archive.xml_skip import Outline
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
