"""Which traces an analysis looks at, and how, by its specification."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cache

from jobs import _options as options
from perftrend import errors, watchlist
from perftrend.keywords import selection
from perftrend.measure import specification
from perftrend.model import Result, Run, Series, TraceKey
from perftrend.settings import Settings
from perftrend.store.renames import Names
from perftrend.watchlist import Entry, Watchlist


@dataclass(frozen=True, slots=True)
class Watched:
    """The traces that are watched, under their newest names."""

    series: tuple[Series, ...]
    entries: dict[TraceKey, Entry]
    expected: frozenset[TraceKey] | None
    """Those that the run should have; None where the job's run before says so."""
    results: tuple[Result, ...]
    """What the run has, watched or not."""
    notices: tuple[str, ...]
    """What a reader must be told of the specification."""


def watched(
    settings: Settings,
    run: Run,
    *,
    series: Iterable[Series],
    results: Iterable[Result],
    expected: Collection[TraceKey] | None,
    names: Names,
) -> Watched:
    """Choose by the specification of the settings; without one everything is watched.

    :param series: what the store knows of the testbed.
    :param results: what the run has.
    :param expected: the traces that the run should have, if that is known.
    :param names: the current names of traces in the store, to which the specification applies.
    :raises SettingsError: if the specification cannot be used.
    :raises UsageError: if it watches no trace of the testbed, or its tags fit no test of the suites.
    """
    known = None if expected is None else frozenset(map(names.current, expected))
    file = settings.analysis.specification
    if file is None:
        series = tuple(series)
        keys = {one.key for one in series} | (known or set())
        return Watched(series, dict.fromkeys(keys, Entry()), known, tuple(results), ())
    chosen = watchlist.load(file)
    if known is not None:
        known = frozenset(chosen.renamed(key) for key in known)
    joined = chosen.joined(series)
    found = chosen.choose(
        {one.key for one in joined} | (known or set()), _tagged(settings, run, chosen, names)
    )
    if not found.watched:
        raise errors.UsageError(f"specification {file}: no entry fits a test of testbed {run.testbed}")
    return Watched(
        tuple(one for one in joined if one.key in found.watched),
        dict(found.watched),
        None if known is None else known & found.watched.keys(),
        tuple(replace(result, key=chosen.renamed(result.key)) for result in results),
        tuple(
            f"specification {file}: entry {number} fits no test of testbed {run.testbed}"
            for number in found.unused
        ),
    )


def _tagged(settings: Settings, run: Run, chosen: Watchlist, names: Names) -> watchlist.Tagged:
    @cache
    def tagged(expressions: tuple[str, ...]) -> frozenset[TraceKey]:
        spec = specification.load(run.testbed, settings.testbeds)
        suites = settings.suites or options.SUITES
        tags = selection.tags_of(spec, settings)
        found = selection.select(suites, expressions, testbed=run.testbed, tags=tags)
        return frozenset(chosen.renamed(names.current(key)) for key in found)

    return tagged
