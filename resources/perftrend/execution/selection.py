"""Selection of the tests of a run: by tag expressions, before anything is started."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from pathlib import Path

from robot.api import TestSuite
from robot.errors import DataError

from perftrend.archive import of_test
from perftrend.archive.output_xml import RecordedTest
from perftrend.errors import UsageError
from perftrend.measure.specification import Specification
from perftrend.model import TraceKey
from perftrend.settings import NO_SOAK, Settings

SUITES = (Path(__file__).parents[1] / "suites").resolve()
"""The performance suites: ``tests/suites`` in a checkout, to which a link in the package points."""


def select(
    suites: Path, expressions: Sequence[str], *, testbed: str, tags: Sequence[str]
) -> frozenset[TraceKey]:
    """Return the traces that a run of the chosen tests will have a result for.

    :param suites: a suite file or a folder.
    :param expressions: tag expressions of Robot Framework; a test that matches any of them is run.
    :param tags: set on every test of the run.
    :raises UsageError: if there are no suites, or no test matches; the message suggests the nearest tag.
    """
    try:
        suite = TestSuite.from_file_system(suites)
    except DataError as error:
        raise UsageError(
            f"suites {suites}: {' '.join(error.message.split())}; see the setting suites"
        ) from None
    known = {tag for test in suite.all_tests for tag in test.tags}
    for test in suite.all_tests:
        test.tags.add(tags)  # before the tests are chosen, as Robot Framework does
    suite.filter(included_tags=expressions)
    keys = frozenset(_keys(suite, testbed))
    if not keys:
        raise UsageError(_no_match_message(expressions, known))
    return keys


def tags_of(spec: Specification, settings: Settings) -> list[str]:
    """Return the tags of every test of a run: they determine its traces, even if it fails."""
    return [spec.test_tag, *settings.search.test_tags]


def _keys(suite: TestSuite, testbed: str) -> Iterator[TraceKey]:
    for test in suite.all_tests:
        recorded = RecordedTest(
            name=test.name,
            suite=test.parent.full_name.removeprefix(suite.full_name).removeprefix("."),
            tags=list(test.tags),
            testbed=testbed,
        )
        yield from (result.key for result in of_test(recorded))


def _no_match_message(expressions: Sequence[str], known: set[str]) -> str:
    expressions = [expression.removesuffix(NO_SOAK) for expression in expressions]
    requested = " ".join(expressions)
    lowered = {tag.lower(): tag for tag in known}
    words = [
        word
        for expression in expressions
        for word in expression.replace("AND", " ").replace("OR", " ").replace("NOT", " ").split()
    ]
    strangers = [word for word in words if word.lower() not in lowered]
    nearest = [
        f"did you mean {lowered[close]!r} for {word!r}?"
        for word in strangers
        for close in difflib.get_close_matches(word.lower(), lowered, n=1)
    ]
    hint = nearest[0] if nearest else f"tags are {', '.join(sorted(known, key=str.lower))}"
    return f"no test matches the tags {requested!r}; {hint}"
