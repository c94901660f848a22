"""Selection of the tests of a run by tag expressions, and of the traces that an analysis watches.

The tests are selected before anything is started. The specification of an analysis chooses traces, with
thresholds and owners, by tags and by parameters.
"""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from perftrend import errors, watchlist
from perftrend.analysis.cycles import part_of
from perftrend.analysis.reference import ReferenceTrends, reference_trends
from perftrend.archive import of_test
from perftrend.archive.output_xml import RecordedTest
from perftrend.errors import UsageError
from perftrend.measure import specification
from perftrend.measure.specification import Specification
from perftrend.model import Result, Run, Series, TraceKey
from perftrend.settings import ON_REQUEST, Settings
from perftrend.watchlist import Watchlist, WatchlistEntry

if TYPE_CHECKING:  # a command of a profile is measured without suites and without a database
    from robot.api import TestSuite

    from perftrend.store.renames import Names

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
    from robot.api import TestSuite  # noqa: PLC0415 - see above
    from robot.errors import DataError  # noqa: PLC0415 - see above

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
    return [*spec.test_tags, *settings.search.test_tags]


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
    for word in reversed(ON_REQUEST):
        expressions = [expression.removesuffix(f"NOT{word}") for expression in expressions]
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


@dataclass(frozen=True, slots=True)
class CurrentWatchlist:
    """The watched traces, under their newest names."""

    series: tuple[Series, ...]
    entries: dict[TraceKey, WatchlistEntry]
    expected: frozenset[TraceKey] | None
    """The traces that the run should have; None if they follow from the job's previous run."""
    results: tuple[Result, ...]
    """The results of the run, watched or not."""
    notices: tuple[str, ...]
    """Notices about the specification for readers."""
    reference: ReferenceTrends
    """The trends of the reference build of the testbed."""
    cycles: tuple[Series, ...]
    """The cycles per packet of all tests, watched or not."""


def choose_traces(
    settings: Settings,
    run: Run,
    *,
    series: Iterable[Series],
    results: Iterable[Result],
    expected: Collection[TraceKey] | None,
    names: Names,
) -> CurrentWatchlist:
    """Choose traces by the specification of the settings; without one, all traces are watched.

    :param series: the series of the testbed in the store.
    :param results: the results of the run.
    :param expected: the traces that the run should have, if known.
    :param names: the current names of traces in the store, to which the specification applies.
    :raises SettingsError: if the specification cannot be used.
    :raises UsageError: if it watches no trace of the testbed, or its tags fit no test of the suites.
    """
    series = tuple(series)
    reference = reference_trends(series)
    cycles = tuple(one for one in series if part_of(one.key))
    known = None if expected is None else frozenset(map(names.current, expected))
    file = settings.analysis.specification
    if file is None:
        keys = {one.key for one in series} | (known or set())
        return CurrentWatchlist(
            series, dict.fromkeys(keys, WatchlistEntry()), known, tuple(results), (), reference, cycles
        )
    chosen = watchlist.load(file)
    if known is not None:
        known = frozenset(chosen.rename(key) for key in known)
    joined = chosen.join(series)
    found = chosen.choose(
        {one.key for one in joined} | (known or set()), _tag_selector(settings, run, chosen, names)
    )
    if not found.watched:
        raise errors.UsageError(f"specification {file}: no entry matches a test of testbed {run.testbed}")
    return CurrentWatchlist(
        tuple(one for one in joined if one.key in found.watched),
        dict(found.watched),
        None if known is None else known & found.watched.keys(),
        tuple(replace(result, key=chosen.rename(result.key)) for result in results),
        tuple(
            f"specification {file}: entry {number} matches no test of testbed {run.testbed}"
            for number in found.unused
        ),
        reference,
        cycles,
    )


def _tag_selector(settings: Settings, run: Run, chosen: Watchlist, names: Names) -> watchlist.Tagged:
    @cache
    def tagged(expressions: tuple[str, ...]) -> frozenset[TraceKey]:
        spec = specification.load(run.testbed, settings.testbeds)
        suites = settings.suites or SUITES
        tags = tags_of(spec, settings)
        found = select(suites, expressions, testbed=run.testbed, tags=tags)
        return frozenset(chosen.rename(names.current(key)) for key in found)

    return tagged
