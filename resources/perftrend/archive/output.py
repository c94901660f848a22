"""Reads output.xml of Robot Framework 3 to 7 as a stream of tests.

Only the outline of the file goes through lxml, into a target that builds no tree, so memory does
not grow with the file. No entity is resolved and nothing is fetched: a file that declares a
document type is refused before the parser sees it.

Robot Framework writes the metadata of a suite at its end, after its tests, but a trace's key
needs the metadata ``Testbed``. So tests wait, as small records, until a suite around them told
its testbed or the file ended.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, TypeAlias

from lxml import etree

from perftrend.archive.outline import Outline
from perftrend.errors import ArchiveError

Source: TypeAlias = str | Path | BinaryIO

TESTBED = "Testbed"
"""The suite metadata that names the testbed."""

TEXT_LIMIT = 10_000_000
"""Characters that the text of one element may have."""

_GZIP_MAGIC = b"\x1f\x8b"
_TEXTS = {("test", "status"), ("test", "tag"), ("tags", "tag"), ("suite", "meta"), ("metadata", "item")}
"""Elements whose text is wanted, each with the element around it."""


@dataclass(slots=True)
class RecordedTest:
    """A test as Robot Framework recorded it."""

    name: str
    suite: str
    """Long name of its suite without the root suite; empty for a test of the root suite."""
    tags: list[str] = field(default_factory=list)
    status: str = ""
    message: str = ""
    testbed: str = ""
    """Metadata of the nearest suite that names one; empty until it is known."""


@dataclass(slots=True)
class Heading:
    """What an output says of the run as a whole; complete once all its tests were read."""

    generator: str = ""
    """``Robot 7.1 (Python 3.11.7 on linux)``."""
    metadata: dict[str, str] = field(default_factory=dict)
    """Metadata of all suites; the outer suite's counts where several name the same."""
    started: datetime | None = None
    """Robot Framework writes times without a zone; they are taken for UTC."""
    finished: datetime | None = None


@dataclass(slots=True)
class _Suite:
    name: str
    metadata: dict[str, str] = field(default_factory=dict)
    waiting: list[RecordedTest] = field(default_factory=list)


class _Target:
    """Takes the parser's events and keeps the tests whose end was seen in ``ready``."""

    def __init__(self, heading: Heading) -> None:
        self.ready: list[RecordedTest] = []
        self._heading = heading
        self._path: list[str] = []
        self._suites: list[_Suite] = []
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
            self._heading.generator = attributes.get("generator", "")
        elif tag == "suite" and parent in ("robot", "suite"):
            self._suites.append(_Suite(attributes.get("name", "")))
        elif tag == "test" and parent == "suite":
            suite = ".".join(suite.name for suite in self._suites[1:])
            self._test = RecordedTest(attributes.get("name", ""), suite)
        elif tag == "status" and parent == "test" and self._test:
            self._test.status = attributes.get("status", "")
        elif tag == "status" and parent == "suite" and len(self._suites) == 1:
            self._heading.started, self._heading.finished = _times(attributes)
        if (parent, tag) in _TEXTS:
            self._item = attributes.get("name", "")
            self._text, self._length = [], 0

    def data(self, text: str) -> None:
        if self._text is not None:
            self._text.append(text)
            self._length += len(text)
            if self._length > TEXT_LIMIT:
                raise ArchiveError(f"has a <{self._path[-1]}> of more than {TEXT_LIMIT} characters")

    def end(self, tag: str) -> None:
        self._path.pop()
        parent = self._path[-1] if self._path else ""
        if self._text is not None and (parent, tag) in _TEXTS:
            self._take(tag, "".join(self._text))
            self._text = None
        elif tag == "test" and parent == "suite" and self._test:
            self._suites[-1].waiting.append(self._test)
            self._test = None
        elif tag == "suite" and parent in ("robot", "suite"):
            self._end_suite()

    def comment(self, text: str) -> None:
        """Comments say nothing."""

    def close(self) -> None:
        """Let all tests go: no further metadata will come."""
        while self._suites:
            self._end_suite()

    def _take(self, tag: str, text: str) -> None:
        if tag in ("meta", "item"):
            self._suites[-1].metadata[self._item] = text
        elif self._test and tag == "tag":
            self._test.tags.append(text)
        elif self._test and tag == "status":
            self._test.message = text

    def _end_suite(self) -> None:
        suite = self._suites.pop()
        self._heading.metadata.update(suite.metadata)
        testbed = suite.metadata.get(TESTBED, "").strip()
        for test in suite.waiting:
            test.testbed = testbed
        if testbed or not self._suites:
            self.ready += suite.waiting
        else:
            self._suites[-1].waiting += suite.waiting


def read_tests(source: Source, heading: Heading) -> Iterator[RecordedTest]:
    """Yield the tests of an output.xml, in their order where one testbed serves all.

    :param source: a path, or a file that was opened for reading bytes; gzipped or not.
    :param heading: filled while the tests are read.
    :raises ArchiveError: when the file cannot be read or is damaged, after the tests before the
        damage were yielded. The message names the file and the line.
    """
    target = _Target(heading)
    name = str(getattr(source, "name", source) if not isinstance(source, (str, Path)) else source)
    try:
        with _opened(source) as stream:
            yield from _parsed(stream, target)
    except (ArchiveError, OSError, EOFError, zlib.error, etree.XMLSyntaxError) as error:
        target.close()
        yield from target.ready
        raise ArchiveError(f"{name}: {_reason(error)}") from error


def _parsed(stream: io.BufferedIOBase, target: _Target) -> Iterator[RecordedTest]:
    parser = etree.XMLParser(
        target=target,  # type: ignore[arg-type]  # its stubs want bytes as well, which never come
        resolve_entities=False,
        no_network=True,
        encoding="utf-8",
    )
    empty = True
    for piece in Outline(stream):
        parser.feed(piece)
        empty = empty and not piece
        if target.ready:
            ready, target.ready = target.ready, []
            yield from ready
    if empty:
        raise ArchiveError("the file is empty")
    parser.close()
    yield from target.ready
    target.ready = []


@contextmanager
def _opened(source: Source) -> Generator[io.BufferedIOBase, None, None]:
    """Open a path, or take a file as it is; gzip is known by its first bytes, whatever the name."""
    if isinstance(source, (str, Path)):
        with Path(source).open("rb") as file, _opened(file) as stream:
            yield stream
        return
    buffered = io.BufferedReader(source)  # type: ignore[type-var]  # any file of bytes will do
    try:
        if buffered.peek(2)[:2] == _GZIP_MAGIC:
            with gzip.GzipFile(fileobj=buffered) as stream:
                yield stream
        else:
            yield buffered
    finally:
        buffered.detach()  # the file stays open: it is its owner's


def _reason(error: Exception) -> str:
    if isinstance(error, etree.XMLSyntaxError):
        line, column = error.position
        what = error.msg or "not XML"
        return f"line {line}, column {column}: {what.split(', line ')[0]}; was the file cut off or damaged?"
    if isinstance(error, (EOFError, zlib.error, gzip.BadGzipFile)):
        return f"the gzip data is cut off or damaged: {error}"
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error)


def _times(attributes: dict[str, str]) -> tuple[datetime | None, datetime | None]:
    """Read the times of a status, in the form of Robot Framework 7 or in the one before it."""
    if "start" in attributes:
        started = _moment(attributes["start"], "%Y-%m-%dT%H:%M:%S.%f")
        return started, started and started + timedelta(seconds=float(attributes.get("elapsed") or 0))
    older = "%Y%m%d %H:%M:%S.%f"
    return _moment(attributes.get("starttime", ""), older), _moment(attributes.get("endtime", ""), older)


def _moment(text: str, form: str) -> datetime | None:
    try:
        return datetime.strptime(text, form).replace(tzinfo=UTC)
    except ValueError:
        return None  # N/A, as Robot Framework writes for what never started
