"""What Robot Framework recorded: tests in suites, whatever form the file has that tells of them.

Robot Framework writes the metadata of a suite, and whether its teardown failed, behind its tests.
So tests wait, as small records, until the file ended. What they may hold together is limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from perftrend.archive.foreign import Reading
from perftrend.archive.loglines import LogLines
from perftrend.errors import ArchiveError

TESTBED = "Testbed"
"""The suite metadata that names the testbed."""
EXPERIMENT = "Experiment"
"""The suite metadata that says how the run differs from the nightly ones."""

TEXT_LIMIT = 1_000_000
"""Characters that one text may have, such as the message of a test."""
ALL_TEXT_LIMIT = 30_000_000
"""Characters that all tests of a file may have together."""
_RECORD = 500
"""Characters that a suite, a test or a tag counts beside its text: what an object takes."""
SUITES_LIMIT = 100
"""Suites within each other."""

_TEARDOWN = re.compile(r"(?:\A|\n\nAlso )[Ss]uite teardown (?P<how>failed|skipped):\n(?P<why>.*)", re.DOTALL)


@dataclass(slots=True)
class RecordedTest:
    """A test as it was recorded."""

    name: str
    suite: str
    """Long name of its suite without the root suite; empty for a test of the root suite."""
    tags: list[str] = field(default_factory=list)
    status: str = ""
    message: str = ""
    testbed: str = ""
    """Metadata of the nearest suite that names one; empty where none does."""
    readings: dict[str, Reading] | None = None
    """What was measured, by metric, where the file tells it apart from the message."""
    unknown: list[str] = field(default_factory=list)
    """What the file tells of the measurement that is not understood."""


@dataclass(slots=True)
class Suite:
    """A suite as it was recorded."""

    name: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    message: str = ""
    """Says that its set-up or its teardown failed."""
    tests: list[RecordedTest] = field(default_factory=list)
    suites: list[Suite] = field(default_factory=list)


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
    lines: LogLines = field(default_factory=LogLines)
    """What log lines of set-ups told, and metadata of the same names."""
    versions: dict[str, str] = field(default_factory=dict)
    """What the file tells of versions apart from any message."""

    def ran(self, started: datetime | None, finished: datetime | None) -> None:
        """Take the times of a suite or a test: the run lasts from the first to the last of all."""
        if started:
            self.started = min(self.started or started, started)
        if finished:
            self.finished = max(self.finished or finished, finished)


class Record:
    """The suites of one file, as far as they were read."""

    def __init__(self, heading: Heading) -> None:
        self.heading = heading
        self.root = Suite()
        """Not a suite of the file, but what holds its root suite."""
        self._length = 0

    def charge(self, text: str, *, begun: int = 0) -> None:
        """Count what is kept: a name, or a text or a part of it.

        :param begun: characters of the same text that were counted before.
        :raises ArchiveError: if the text, or all of them, are larger than in any output.
        """
        if begun + len(text) > TEXT_LIMIT:
            raise ArchiveError(f"has a text of more than {TEXT_LIMIT} characters")
        self._length += len(text) if begun else len(text) + _RECORD
        if self._length > ALL_TEXT_LIMIT:
            raise ArchiveError(f"its tests hold more than {ALL_TEXT_LIMIT} characters; split the output")

    def tests(self) -> Iterator[RecordedTest]:
        """Yield all tests with what their suites tell of them; complete the heading."""
        for root in self.root.suites:
            yield from self._tests(root, "", {}, combined=self._combined(root))

    def _tests(
        self, suite: Suite, path: str, outer: Mapping[str, str], *, combined: bool = False
    ) -> Iterator[RecordedTest]:
        own = {name: text for name, value in suite.metadata.items() if (text := value.strip())}
        metadata = {**outer, **own}
        for name, value in suite.metadata.items():
            self.heading.lines.field(name, value)
        tests: list[RecordedTest] = []
        for inner in suite.suites:
            place = "" if combined else f"{path}.{inner.name}".removeprefix(".")
            tests += self._tests(inner, place, metadata)
        for test in suite.tests:
            test.suite, test.testbed = path, metadata.get(TESTBED, "")
            tests.append(test)
        self.heading.metadata.update(suite.metadata)
        torn = _TEARDOWN.search(suite.message)
        # What rebot wrote has it in the tests' messages already.
        if torn and self.heading.generator.startswith("Robot"):
            for test in tests:
                _tear_down(test, torn["how"], torn["why"])
        yield from tests

    def _combined(self, root: Suite) -> bool:
        """Whether rebot made the root suite to hold several outputs of one and the same suite."""
        names = {suite.name for suite in root.suites}
        return (
            self.heading.generator.startswith("Rebot")
            and len(names) == 1
            and len(root.suites) > 1
            and root.name == " & ".join(suite.name for suite in root.suites)
        )


def _tear_down(test: RecordedTest, how: str, why: str) -> None:
    """Do what Robot Framework does when it reads that the teardown of a suite around failed."""
    if how == "failed":
        if test.status != "SKIP":
            test.status = "FAIL"
        test.message += "\n\nAlso parent" if test.message else "Parent"
        test.message += f" suite teardown failed:\n{why}"
    else:
        test.status = "SKIP"
        earlier = f"\n\nEarlier message:\n{test.message}" if test.message else ""
        test.message = f"Skipped in parent suite teardown:\n{why}{earlier}"


def moment(text: str) -> datetime | None:
    """Read a time of any version; None for ``N/A``, which stands for what never started."""
    try:
        # 20190410 18:59:27.085, until Robot Framework 6
        form = f"{text[:4]}-{text[4:6]}-{text[6:]}" if text[8:9] == " " else text
        found = datetime.fromisoformat(form)
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def after(started: datetime | None, elapsed_s: str) -> datetime | None:
    """Return when something ended that started then and took so long."""
    try:
        return started and started + timedelta(seconds=float(elapsed_s or 0))
    except (ValueError, OverflowError):
        return None
