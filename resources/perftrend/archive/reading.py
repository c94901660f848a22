"""Reads an archived output.xml: its results, and what it says of the run as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from perftrend.archive import results
from perftrend.archive.output import TESTBED, Heading, Source, read_tests
from perftrend.model import Result


def read_output(source: Source, *, testbed: str = "") -> Iterator[Result]:
    """Yield the results of an output.xml in constant memory, however large the file is.

    :param source: a path, or a file that was opened for reading bytes; gzipped or not.
    :param testbed: the testbed, where the suites' metadata name none (a file that was cut off has
        lost them: Robot Framework writes them at a suite's end).
    :raises ArchiveError: when the file cannot be read or is damaged, after all results before the
        damage were yielded: the caller decides whether they count. One line, which names the file
        and the place in it.
    """
    return iter(Output(source, testbed=testbed))


@dataclass(slots=True)
class Output:
    """An output.xml: iterate over it for its results, then ask what it says of the run.

    The attributes are complete once all results were read; arguments are those of
    :func:`read_output`.
    """

    source: Source
    testbed: str = ""
    versions: dict[str, str] = field(default_factory=dict, init=False)
    """What was measured and by what, as the tests' messages say."""
    simulated: bool = field(default=False, init=False)
    """Whether any test was simulated."""
    heading: Heading = field(default_factory=Heading, init=False)

    def __iter__(self) -> Iterator[Result]:
        """Yield the results; see :func:`read_output`."""
        for test in read_tests(self.source, self.heading):
            for result in results.of_test(test, testbed=self.testbed):
                self.versions |= result.details.get("versions", {})
                self.simulated |= result.details.get("simulated", False)
                yield result
        self.testbed = self.heading.metadata.get(TESTBED, "").strip() or self.testbed

    @property
    def started(self) -> datetime | None:
        """When the root suite started: the clock of the machine that ran it, taken for UTC."""
        return self.heading.started

    @property
    def finished(self) -> datetime | None:
        """When the root suite finished, in the same way."""
        return self.heading.finished
