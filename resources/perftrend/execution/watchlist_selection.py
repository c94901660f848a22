"""The traces that an analysis watches, with thresholds and owners, according to its specification."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache

from perftrend import errors, watchlist
from perftrend.execution import selection
from perftrend.measure import specification
from perftrend.model import Result, Run, Series, TraceKey
from perftrend.settings import Settings
from perftrend.store.renames import Names
from perftrend.watchlist import Watchlist, WatchlistEntry


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
    known = None if expected is None else frozenset(map(names.current, expected))
    file = settings.analysis.specification
    if file is None:
        series = tuple(series)
        keys = {one.key for one in series} | (known or set())
        return CurrentWatchlist(series, dict.fromkeys(keys, WatchlistEntry()), known, tuple(results), ())
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
    )


def _tag_selector(settings: Settings, run: Run, chosen: Watchlist, names: Names) -> watchlist.Tagged:
    @cache
    def tagged(expressions: tuple[str, ...]) -> frozenset[TraceKey]:
        spec = specification.load(run.testbed, settings.testbeds)
        suites = settings.suites or selection.SUITES
        tags = selection.tags_of(spec, settings)
        found = selection.select(suites, expressions, testbed=run.testbed, tags=tags)
        return frozenset(chosen.rename(names.current(key)) for key in found)

    return tagged
