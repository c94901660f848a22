"""Reads output.json of Robot Framework 7, and JSON files with the result of one test, as a stream.

The keys of a file determine which of them it is. Before Robot Framework 7.2, an output.json consisted of the
root suite itself.
"""

from __future__ import annotations

from typing import Any

from perftrend.archive import resultmodel
from perftrend.archive.cursor import Cursor
from perftrend.archive.jsontext import JsonOutline
from perftrend.archive.result_records import SUITES_LIMIT, RecordedTest, Suite, SuiteRecord, after, moment
from perftrend.archive.source import ByteStream
from perftrend.errors import ArchiveError


class NoResultError(ArchiveError):
    """A JSON file with other content, which may be in the same folder as the results of tests."""


_PASSED_OVER = ("body", "setup", "teardown", "telemetry", "statistics", "errors")


def read_suites(stream: ByteStream, record: SuiteRecord, *, name: str = "") -> None:
    """Enter all suites and tests of a JSON file into a record, up to damage.

    :param name: the file's name, which is the name of the test if a result contains none.
    :raises ArchiveError: if the file is damaged, or neither an output nor the result of a test.
    :raises OSError, EOFError, zlib.error: as the stream does.
    """
    cursor = Cursor(JsonOutline(stream, record.heading.lines), record.charge)
    fields: dict[str, Any] = {}
    reader = _JsonReader(cursor, record)
    root = Suite()
    record.root.suites.append(root)
    for key in cursor.members():
        if key == "suite":
            reader.suite(root)
        elif key in ("tests", "suites"):
            reader.field(key, root, depth=1)
        elif key in _PASSED_OVER:
            cursor.skip()
        else:
            fields[key] = cursor.value()
    if resultmodel.is_result(fields):
        test = resultmodel.test_of(fields, record.heading, name)
        root.suites.append(Suite(test.suite, tests=[test]))
    elif root.name or root.tests or root.suites:
        record.heading.generator = str(fields.get("generator", "Robot"))
        _complete(root, fields)
    else:
        raise NoResultError("is neither an output of Robot Framework nor the result of a test")


class _JsonReader:
    """Reads suites and tests from a cursor that is positioned before them."""

    def __init__(self, cursor: Cursor, record: SuiteRecord) -> None:
        self._cursor = cursor
        self._record = record

    def suite(self, suite: Suite, depth: int = 1) -> None:
        """Fill a suite from the next object."""
        if depth > SUITES_LIMIT:
            raise ArchiveError(f"suites are nested more than {SUITES_LIMIT} deep")
        self._record.charge("")
        fields: dict[str, Any] = {}
        for key in self._cursor.members():
            if key in ("name", "message", "metadata", "start_time", "elapsed_time"):
                fields[key] = self._cursor.value()
                _complete(suite, fields)
            else:
                self.field(key, suite, depth)
        started = moment(str(fields.get("start_time", "")))
        self._record.heading.ran(started, after(started, str(fields.get("elapsed_time", ""))))

    def field(self, key: str, suite: Suite, depth: int) -> None:
        """Read the suites or the tests of a suite."""
        if key == "suites":
            for _ in self._cursor.items():
                inner = Suite()
                suite.suites.append(inner)
                self.suite(inner, depth + 1)
        elif key == "tests":
            for _ in self._cursor.items():
                self._test(suite)
        else:
            self._cursor.skip()

    def _test(self, suite: Suite) -> None:
        self._record.charge("")
        test = RecordedTest("", "")
        started, elapsed_s = None, ""
        for key in self._cursor.members():
            if key == "name":
                test.name = self._cursor.text()
            elif key == "status":
                test.status = self._cursor.text()
            elif key == "message":
                test.message = self._cursor.text()
            elif key == "tags":
                test.tags = [self._cursor.text() for _ in self._cursor.items()]
            elif key == "start_time":
                started = moment(self._cursor.text())
            elif key == "elapsed_time":
                elapsed_s = self._cursor.text()
            else:
                self._cursor.skip()
        suite.tests.append(test)
        self._record.heading.ran(started, after(started, elapsed_s))


def _complete(suite: Suite, fields: dict[str, Any]) -> None:
    """Copy an object's fields about the suite itself."""
    suite.name = str(fields.get("name", suite.name))
    suite.message = str(fields.get("message", suite.message))
    metadata = fields.get("metadata")
    if isinstance(metadata, dict):
        suite.metadata = {name: str(value) for name, value in metadata.items()}
