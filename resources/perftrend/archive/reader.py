"""Reads archived outputs of any format: their results, and data about the run as a whole."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import Field, StringConstraints, TypeAdapter, ValidationError

from perftrend.archive import output_json, output_xml, results
from perftrend.archive.output_json import NoResultError
from perftrend.archive.result_records import (
    ENVIRONMENT,
    EXPERIMENT,
    TESTBED,
    Heading,
    RecordedTest,
    SuiteRecord,
)
from perftrend.archive.source import CHUNK_BYTES, ByteStream, Source, name_of, open_stream, reason
from perftrend.errors import ArchiveError
from perftrend.model import Result, TraceKey

Sources: TypeAlias = Source | list[Source] | tuple[Source, ...]
"""An output, a folder with one JSON file per test, or several files that make up one run."""

FORMS_LIMIT = 100
"""Maximum number of unknown forms that are counted separately; further ones count as others."""
OTHERS = "others"
NO_RESULT = "a file without a test's result"

_FILES = (".json", ".json.gz")
_Part: TypeAlias = Annotated[str, StringConstraints(max_length=200)]
_ENVIRONMENT: TypeAdapter[dict[str, str]] = TypeAdapter(Annotated[dict[_Part, _Part], Field(max_length=500)])


@dataclass(frozen=True, slots=True)
class Unknown:
    """A form that was not understood."""

    count: int
    example: str
    """The first test or file that contains it."""


def read_output(source: Sources, *, testbed: str = "") -> Iterator[Result]:
    """Yield the results of an output in limited memory, however large its files are.

    :param source: an output.xml or output.json, a JSON file with the result of one test, a folder with
        such files, or several of them. A file is a path, or was opened for reading bytes; gzipped or not.
    :param testbed: the testbed, if the suites' metadata do not name one (a truncated file lacks them: Robot
        Framework writes them at a suite's end).
    :raises ArchiveError: if a file cannot be read or is damaged, after all results before the damage, and
        those of the other files, were yielded: the caller decides whether they count. The message is one
        line with the file and the position in it.
    """
    return iter(Output(source, testbed=testbed))


@dataclass(slots=True)
class Output:
    """An archived output: iterate over it for its results, then read its attributes.

    The attributes are complete after all results were read; arguments are those of
    :func:`read_output`.
    """

    source: Sources
    testbed: str = ""
    versions: dict[str, str] = field(default_factory=dict, init=False)
    """Versions from metadata, log lines of set-ups and tests' messages."""
    simulated: bool = field(default=False, init=False)
    """Whether any test was simulated."""
    heading: Heading = field(default_factory=Heading, init=False)
    unknown: dict[str, Unknown] = field(default_factory=dict, init=False)
    """What was not understood, by its form."""
    unsupported: set[TraceKey] = field(default_factory=set, init=False)
    """The traces of tests that were skipped because the testbed cannot run them."""

    def __iter__(self) -> Iterator[Result]:
        """Yield the results; see :func:`read_output`."""
        damages: list[ArchiveError] = []
        files = list(self._files())
        for file in files:
            record = SuiteRecord(self.heading)
            try:
                read_suites(file, record)
            except NoResultError as error:
                if len(files) == 1:
                    raise _prefix_error(file, error) from None
                self._count(NO_RESULT, name_of(file))
            except (ArchiveError, OSError, EOFError, zlib.error) as error:
                damages.append(_prefix_error(file, error))
            for test in record.tests():
                yield from self._results(test)
        self.versions = self.heading.versions | self.heading.lines.versions | self.versions
        self.testbed = self._testbed
        if damages:
            others = f" (and {len(damages) - 1} more files)" if len(damages) > 1 else ""
            raise ArchiveError(f"{damages[0]}{others}") from damages[0]

    @property
    def started(self) -> datetime | None:
        """When the first suite started, by the clock of the machine that ran it, interpreted as UTC."""
        return self.heading.started

    @property
    def finished(self) -> datetime | None:
        """When the last suite finished, in the same way."""
        return self.heading.finished

    @property
    def experiment(self) -> str:
        """How the run differs from the nightly ones; empty if it does not, or the output lacks this data."""
        return self.heading.metadata.get(EXPERIMENT, "").strip()

    @property
    def environment(self) -> Mapping[str, str]:
        """What the machines had besides the versions; empty if the output lacks this data."""
        return _read_environment(self.heading.metadata.get(ENVIRONMENT, ""))

    @property
    def _testbed(self) -> str:
        """The testbed of the run: from metadata, from the argument, or from a log line, in this order."""
        return self.heading.metadata.get(TESTBED, "").strip() or self.testbed or self.heading.lines.testbed

    def _files(self) -> Iterator[Source]:
        if isinstance(self.source, (list, tuple)):
            yield from self.source
        elif isinstance(self.source, (str, Path)) and Path(self.source).is_dir():
            yield from _within(Path(self.source))
        else:
            yield self.source

    def _results(self, test: RecordedTest) -> Iterator[Result]:
        found = results.interpret(test, testbed=self.testbed or self.heading.lines.testbed)
        for form in found.unknown:
            self._count(form, f"{test.suite}.{test.name}".removeprefix("."))
        self.unsupported |= found.unsupported
        for result in found.results:
            self.versions |= result.details.get("versions", {})
            self.simulated |= result.details.get("simulated", False)
            yield result

    def _count(self, form: str, example: str) -> None:
        if form not in self.unknown and len(self.unknown) >= FORMS_LIMIT:
            form = OTHERS
        known = self.unknown.setdefault(form, Unknown(0, example))
        self.unknown[form] = replace(known, count=known.count + 1)


def _read_environment(text: str) -> Mapping[str, str]:
    """Return the environment in the metadata of a suite; what is not an object of texts is ignored."""
    try:
        return _ENVIRONMENT.validate_json(text) if text else {}
    except ValidationError:
        return {}


def _within(folder: Path) -> list[Path]:
    """Return the JSON files of a folder; links are not followed, since they may lead anywhere.

    :raises ArchiveError: if there are none.
    """
    files = sorted(
        file
        for file in folder.rglob("*")
        if file.name.endswith(_FILES) and file.is_file() and not file.is_symlink()
    )
    if not files:
        raise ArchiveError(f"{folder}: Is a directory without a JSON file of a test; name the output itself")
    return files


def read_suites(source: Source, record: SuiteRecord) -> None:
    """Enter the content of one file into a record, up to damage.

    :raises ArchiveError: if it is damaged, or is neither an output nor the result of a test.
    :raises OSError, EOFError, zlib.error: if it cannot be read, or its gzip data is damaged.
    """
    with open_stream(source) as stream:
        begun = stream.read1(CHUNK_BYTES)
        if not begun:
            raise ArchiveError("the file is empty")
        if begun.lstrip().startswith((b"{", b"[")):
            output_json.read_suites(_ResumedStream(begun, stream), record, name=Path(name_of(source)).name)
        else:
            output_xml.read_suites(_ResumedStream(begun, stream), record)


class _ResumedStream:
    """A stream whose first piece has been read already."""

    def __init__(self, begun: bytes, stream: ByteStream) -> None:
        self._begun = begun
        self._stream = stream

    def read1(self, size: int, /) -> bytes:
        begun, self._begun = self._begun, b""
        return begun or self._stream.read1(size)


def _prefix_error(source: Source, error: Exception) -> ArchiveError:
    name, message = name_of(source), " ".join(reason(error).split())
    return ArchiveError(message if message.startswith(f"{name}: ") else f"{name}: {message}")
