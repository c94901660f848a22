"""Tests and suites as recorded by Robot Framework, independent of the file format.

Robot Framework writes the metadata of a suite, and whether its teardown failed, after its tests. Therefore
tests are held as small records until the end of the file. Their total size is limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from perftrend.archive.csit_messages import MetricValue
from perftrend.errors import ArchiveError

_OVERLAP_BYTES = 400
"""Bytes of a piece that are retained for the next one, since a line may extend over both."""

_HINTS = (b"ersion:", b"estbed:")
_LINE = re.compile(
    rb"""(?:[>"\n]|\\n)[ \t]*
    (?: (?P<what>VPP|DPDK|TRex)\ [Vv]ersion:\s*(?:DPDK\ )?(?P<version>v?\d[\w.~+-]*)
      | [Tt]estbed:\s*(?P<testbed>\w[\w.-]*) )
    (?=[\s<"\\])""",
    re.VERBOSE,
)
_ROLES = {"vpp": "device", "trex": "generator"}
"""Roles of programs; without VPP, DPDK is the device."""

TESTBED = "Testbed"
"""The suite metadata that names the testbed."""
EXPERIMENT = "Experiment"
"""The suite metadata that describes how the run differs from the nightly ones."""
ENVIRONMENT = "Environment"
"""The suite metadata with what the machines had besides the versions, as a JSON object of texts."""

TEXT_LIMIT = 1_000_000
"""Maximum characters of one text, such as the message of a test."""
ALL_TEXT_LIMIT = 30_000_000
"""Maximum characters of all tests of a file together."""
_RECORD = 500
"""Characters that a suite, a test or a tag counts in addition to its text, for its object in memory."""
SUITES_LIMIT = 100
"""Maximum nesting of suites."""

_TEARDOWN = re.compile(r"(?:\A|\n\nAlso )[Ss]uite teardown (?P<how>failed|skipped):\n(?P<why>.*)", re.DOTALL)


class LogLines:
    """Collects versions and the testbed from the log lines of set-ups. The first line with a value counts.

    Set-ups are skipped as text, so the lines are searched in the text, in XML and JSON alike: a line begins
    after a tag, a quote or a line break.
    """

    def __init__(self) -> None:
        self.testbed = ""
        self._versions: dict[str, str] = {}
        self._rest = b""

    @property
    def versions(self) -> dict[str, str]:
        """``{"vpp": …, "dpdk": …, "device": …, "generator": …}``, as far as they are known."""
        roles = {_ROLES[name]: version for name, version in self._versions.items() if name in _ROLES}
        if "dpdk" in self._versions:
            roles.setdefault("device", self._versions["dpdk"])
        return self._versions | roles

    def search(self, piece: bytes) -> None:
        """Search the next piece of a set-up."""
        text = self._rest + piece
        self._rest = text[-_OVERLAP_BYTES:]
        if any(hint in text for hint in _HINTS):
            for found in _LINE.finditer(text):
                if found["testbed"]:
                    self.testbed = self.testbed or found["testbed"].decode()
                else:
                    self._versions.setdefault(found["what"].decode().lower(), found["version"].decode())

    def end(self) -> None:
        """End a set-up: the next piece belongs to another one."""
        self._rest = b""

    def field(self, name: str, value: str) -> None:
        """Search a suite's metadata, such as ``VPP version`` and its value."""
        self.end()
        self.search(f"\n{name}: {value}\n".encode())
        self.end()


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
    """Metadata of the nearest suite that contains it; empty if none does."""
    readings: dict[str, MetricValue] | None = None
    """Measured values by metric, if the file contains them separately from the message."""
    unknown: list[str] = field(default_factory=list)
    """Parts of the file about the measurement that are not understood."""


@dataclass(slots=True)
class Suite:
    """A suite as it was recorded."""

    name: str = ""
    metadata: dict[str, str] = field(default_factory=dict)
    message: str = ""
    """Non-empty if its set-up or its teardown failed."""
    tests: list[RecordedTest] = field(default_factory=list)
    suites: list[Suite] = field(default_factory=list)


@dataclass(slots=True)
class Heading:
    """Data of an output about the run as a whole; complete after all its tests were read."""

    generator: str = ""
    """``Robot 7.1 (Python 3.11.7 on linux)``."""
    metadata: dict[str, str] = field(default_factory=dict)
    """Metadata of all suites; those of outer suites override those of inner ones."""
    started: datetime | None = None
    """Robot Framework writes times without a time zone; they are interpreted as UTC."""
    finished: datetime | None = None
    lines: LogLines = field(default_factory=LogLines)
    """Values from log lines of set-ups, and from metadata of the same names."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions that the file contains separately from messages."""

    def ran(self, started: datetime | None, finished: datetime | None) -> None:
        """Add the times of a suite or a test: the run lasts from the earliest start to the latest end."""
        if started:
            self.started = min(self.started or started, started)
        if finished:
            self.finished = max(self.finished or finished, finished)


class SuiteRecord:
    """The suites of one file that were read so far."""

    def __init__(self, heading: Heading) -> None:
        self.heading = heading
        self.root = Suite()
        """The parent of the file's root suite; not a suite of the file."""
        self._length = 0

    def charge(self, text: str, *, begun: int = 0) -> None:
        """Count the size of retained text: a name, or a text or a part of it.

        :param begun: characters of the same text that were counted before.
        :raises ArchiveError: if the text, or all texts together, exceed their limits.
        """
        if begun + len(text) > TEXT_LIMIT:
            raise ArchiveError(f"has a text of more than {TEXT_LIMIT} characters")
        self._length += len(text) if begun else len(text) + _RECORD
        if self._length > ALL_TEXT_LIMIT:
            raise ArchiveError(f"its tests hold more than {ALL_TEXT_LIMIT} characters; split the output")

    def tests(self) -> Iterator[RecordedTest]:
        """Yield all tests, completed by the data of their suites; complete the heading."""
        for root in self.root.suites:
            yield from self._tests(root, "", {}, combined=self._is_combined(root))

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
        # In output of rebot, the tests' messages include it already.
        if torn and self.heading.generator.startswith("Robot"):
            for test in tests:
                _tear_down(test, torn["how"], torn["why"])
        yield from tests

    def _is_combined(self, root: Suite) -> bool:
        """Whether rebot created the root suite to combine several outputs of the same suite."""
        names = {suite.name for suite in root.suites}
        return (
            self.heading.generator.startswith("Rebot")
            and len(names) == 1
            and len(root.suites) > 1
            and root.name == " & ".join(suite.name for suite in root.suites)
        )


def _tear_down(test: RecordedTest, how: str, why: str) -> None:
    """Apply the failed teardown of an outer suite to a test, as Robot Framework does on reading."""
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
    """Parse a time of any version; None for ``N/A``, which is written if the item never started."""
    try:
        # 20190410 18:59:27.085, until Robot Framework 6
        form = f"{text[:4]}-{text[4:6]}-{text[6:]}" if text[8:9] == " " else text
        found = datetime.fromisoformat(form)
    except ValueError:
        return None
    return found.astimezone(UTC) if found.tzinfo else found.replace(tzinfo=UTC)


def after(started: datetime | None, elapsed_s: str) -> datetime | None:
    """Return the end of an item from its start and its duration."""
    try:
        return started and started + timedelta(seconds=float(elapsed_s or 0))
    except (ValueError, OverflowError):
        return None
