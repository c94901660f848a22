"""Comparison of the values of two sides, each with the origin of its values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.formula import format_key
from perftrend.analysis.query import TraceTable, parse
from perftrend.analysis.ratios import (
    Layout,
    Pairs,
    Ratios,
    Values,
    across,
    build_layout,
    of_named,
    ratios,
    with_themselves,
)
from perftrend.dashboard.catalog import Traces
from perftrend.dashboard.compare.models import Against, By, FallbackRule, Question, Verdict
from perftrend.dashboard.compare.patches import (
    ComparedTest,
    Patch,
    PatchSamples,
    patch_name,
    read_patch,
    traces_of,
)
from perftrend.dashboard.compare.values import (
    TraceValues,
    ValuesAt,
    axes_of,
    newest,
    places_of,
    read_nearest_values,
    with_samples,
)
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.error_pages import in_field
from perftrend.errors import UsageError
from perftrend.model import Better, Samples, TraceKey
from perftrend.store import Store
from perftrend.store.tiles import POINTS, Axis, TileColumn

MOST_TRACES = 30_000
"""Maximum number of traces in one comparison."""
_HASH = re.compile(r"[0-9a-f]{13,64}")
_SHORT_HASH = 12
_SOME = 20
"""Number of traces or tests without a partner that are listed."""


@dataclass(frozen=True, slots=True)
class ValueOrigin:
    """Origin of one value of a cell."""

    trace: str
    """The id of the trace; for a patch set, the name of the test."""
    value: float
    column: TileColumn | None
    """Where it was measured; None if there is no value, or for a patch set."""
    distance: int
    """Number of columns from the requested place to that one; negative: before it."""


Side = Callable[[int], ValueOrigin]
"""One side of all pairs, by the number of the pair.

It is computed per cell, because a table has many more cells than a page shows.
"""


@dataclass(frozen=True, slots=True)
class UnpairedTraces:
    """Traces or tests without a partner on the other side."""

    count: int = 0
    some: tuple[str, ...] = ()
    """The first of them."""

    @classmethod
    def of_traces(cls, now: Traces, places: NDArray[np.intp]) -> UnpairedTraces:
        """Return traces, by their ids."""
        return cls(len(places), tuple(format_key(now.stored[place].key) for place in places[:_SOME].tolist()))

    @classmethod
    def of_tests(cls, names: Sequence[str]) -> UnpairedTraces:
        """Return tests of a patch set, by their names."""
        return cls(len(names), tuple(names[:_SOME]))


ALL_PAIRED = UnpairedTraces()


def side_of_traces(trace_values: TraceValues) -> Side:
    """Return the side of values of traces."""

    def side(number: int) -> ValueOrigin:
        return ValueOrigin(
            format_key(trace_values.trace(number).key),
            float(trace_values.values.value[number]),
            trace_values.column(number),
            int(trace_values.distance[number]),
        )

    return side


def side_of_tests(tests: Sequence[ComparedTest], sampled: Sequence[PatchSamples]) -> Side:
    """Return the side of values of tests of a patch set."""

    def side(number: int) -> ValueOrigin:
        return ValueOrigin(tests[number].trace.test, sampled[number].value, None, 0)

    return side


@dataclass(frozen=True, slots=True, eq=False)
class PairComparison:
    """Comparison of n pairs; arrays of the shape (n,)."""

    layout: Layout
    ratios: Ratios
    units: tuple[str, ...]
    lower_is_better: NDArray[np.bool_]
    verdicts: tuple[Verdict, ...]
    sides: tuple[Side, Side]
    titles: tuple[str, str]
    """Display names of the left and the right side."""
    left_alone: UnpairedTraces = ALL_PAIRED
    right_alone: UnpairedTraces = ALL_PAIRED
    patch: Patch | None = None
    simulated: tuple[str, ...] = ()
    """Testbeds that sent no packets."""


def compare_sides(site: AppContext, requested: Question) -> PairComparison:
    """Return the comparison that a query requests.

    :raises UsageError: if something does not exist, or too many traces are selected.
    :raises ArchiveError: if the report of a patch set on Jenkins is broken.
    :raises ServiceError: if Jenkins has no report of the patch set, or fails.
    """
    now = site.catalog.now()
    with in_field("q"):
        chosen = select_traces(now, requested.q)
    if requested.by is By.PATCH:
        return _of_patch(site, now, chosen, requested)
    own = now.table.own
    if requested.by is By.COMMITS:
        return _of_commits(site, now, with_themselves(own, chosen), requested)
    left, right = (
        now.table.current(requested.vertical, value) for value in (requested.left, requested.right)
    )
    return _of_vertical(site, now, across(own, chosen, requested.vertical, left, right), requested)


def select_traces(now: Traces, query: str) -> NDArray[np.intp]:
    """Return the places of the traces that match a query.

    :raises FormulaError: if the query is not valid.
    """
    return now.table.rows(parse(query))


def _of_vertical(site: AppContext, now: Traces, pairs: Pairs, requested: Question) -> PairComparison:
    with in_field("q"):
        _check_number(2 * len(pairs) + len(pairs.left_alone) + len(pairs.right_alone))
    pairs = pairs.only(_of_one_unit(now, pairs))
    # Both sides together, so that a tile with values of both is read once.
    with in_field("at"):
        whole = _at(site, now, np.concatenate([pairs.left, pairs.right]), requested.at, requested.rule)
    sides = whole.part(slice(0, len(pairs))), whole.part(slice(len(pairs), None))
    vertical = requested.vertical
    when = f", {_describe_time_point(requested.at, requested.rule)}"
    return _both(
        site, now, pairs, sides,
        titles=(f"{vertical} {requested.left}{when}", f"{vertical} {requested.right}{when}"),
        left_alone=UnpairedTraces.of_traces(now, pairs.left_alone),
        right_alone=UnpairedTraces.of_traces(now, pairs.right_alone),
    )  # fmt: skip


def _of_commits(site: AppContext, now: Traces, pairs: Pairs, requested: Question) -> PairComparison:
    with in_field("q"):
        _check_number(len(pairs))
    values_at = WholeTiles(site.store).values
    with in_field("left"):
        left = _at(site, now, pairs.left, requested.left, requested.rule, values_at=values_at)
    with in_field("right"):
        right = _at(site, now, pairs.left, requested.right, requested.rule, values_at=values_at)
    titles = (
        _describe_time_point(requested.left, requested.rule),
        _describe_time_point(requested.right, requested.rule),
    )
    return _both(site, now, pairs, (left, right), titles=titles)


def _of_patch(site: AppContext, now: Traces, chosen: NDArray[np.intp], requested: Question) -> PairComparison:
    with in_field("patch"):
        patch = read_patch(site.store, requested.patch, jenkins=site.settings.jenkins)
    here = now.table.by_value("testbed", chosen).get(patch.test.testbed, np.arange(0))
    keys = {place: now.stored[place].key for place in chosen[here].tolist()}
    former = now.table.former.get("test", {})
    named = traces_of([each.trace.test for each in patch.tests], keys, former=former)
    name = patch_name(patch.test)
    if requested.against is Against.PARENT:
        return _of_parent(
            patch, named, keys, is_all=not requested.q, titles=(name, "its parent, measured in the same test")
        )
    pairs = of_named(named, now.table.own)
    with in_field("at"):
        right = _at(site, now, pairs.right, requested.at, requested.rule)
    tests = [patch.tests[number] for number in pairs.left.tolist()]
    return _comparison(
        pairs,
        (_values([test.current for test in tests]), with_samples(site.store, right)),
        units=now.units[pairs.right],
        lower_is_better=now.lower_is_better[pairs.right],
        sides=(side_of_tests(tests, [test.current for test in tests]), side_of_traces(right)),
        titles=(name, _describe_time_point(requested.at, requested.rule)),
        left_alone=UnpairedTraces.of_tests(
            [patch.tests[number].trace.test for number in pairs.left_alone.tolist()]
        ),
        patch=patch,
        simulated=[patch.test.testbed] if patch.test.simulated else [],
    )


def _of_parent(
    patch: Patch,
    named: Sequence[int | None],
    keys: Mapping[int, TraceKey],
    *,
    is_all: bool,
    titles: tuple[str, str],
) -> PairComparison:
    """Compare a patch with its parent; the report contains the values of both."""
    numbers = [number for number, place in enumerate(named) if is_all or place is not None]
    own = TraceTable([_key(patch, number, named[number], keys) for number in numbers]).own
    pairs = with_themselves(own, np.arange(len(numbers)))
    tests = [patch.tests[number] for number in numbers]
    currents, parents = [test.current for test in tests], [test.parent for test in tests]
    return _comparison(
        pairs,
        (_values(currents), _values(parents)),
        units=[test.trace.unit for test in tests],
        lower_is_better=np.array([test.trace.better is Better.LOWER for test in tests], dtype=bool),
        sides=(side_of_tests(tests, currents), side_of_tests(tests, parents)),
        titles=titles,
        patch=patch,
        simulated=[patch.test.testbed] if patch.test.simulated else [],
    )


def _key(patch: Patch, number: int, place: int | None, keys: Mapping[int, TraceKey]) -> TraceKey:
    """Return the trace key of a test; if no trace is known, the key consists of the data in the report."""
    if place is not None:
        return keys[place]
    testbed = {"testbed": patch.test.testbed} if patch.test.testbed else {}
    return TraceKey.of(test=patch.tests[number].trace.test, **testbed)


def _both(
    site: AppContext,
    now: Traces,
    pairs: Pairs,
    sides: tuple[TraceValues, TraceValues],
    *,
    titles: tuple[str, str],
    left_alone: UnpairedTraces = ALL_PAIRED,
    right_alone: UnpairedTraces = ALL_PAIRED,
) -> PairComparison:
    left, right = sides
    return _comparison(
        pairs,
        (with_samples(site.store, left), with_samples(site.store, right)),
        units=now.units[pairs.left],
        lower_is_better=now.lower_is_better[pairs.left],
        sides=(side_of_traces(left), side_of_traces(right)),
        titles=titles,
        left_alone=left_alone,
        right_alone=right_alone,
        simulated=_find_simulated(site, {*left.testbeds, *right.testbeds}),
    )


def _comparison(
    pairs: Pairs,
    values: tuple[Values, Values],
    *,
    units: Sequence[str] | NDArray[np.object_],
    lower_is_better: NDArray[np.bool_],
    sides: tuple[Side, Side],
    titles: tuple[str, str],
    left_alone: UnpairedTraces = ALL_PAIRED,
    right_alone: UnpairedTraces = ALL_PAIRED,
    patch: Patch | None = None,
    simulated: Iterable[str] = (),
) -> PairComparison:
    found = ratios(*values, lower_is_better=lower_is_better)
    return PairComparison(
        layout=build_layout(pairs.parameters, len(pairs)),
        ratios=found,
        verdicts=_verdicts(found),
        units=tuple(units),
        lower_is_better=lower_is_better,
        sides=sides,
        titles=titles,
        left_alone=left_alone,
        right_alone=right_alone,
        patch=patch,
        simulated=tuple(simulated),
    )


def _verdicts(found: Ratios) -> tuple[Verdict, ...]:
    names: list[Verdict] = ["no value", "equal", "within noise", "better", "worse"]
    gain = found.gain
    chosen = np.select([np.isnan(gain), gain == 0, found.is_noise, gain > 0], range(4), default=4)
    return tuple(names[each] for each in chosen.tolist())


def _at(
    site: AppContext,
    now: Traces,
    places: NDArray[np.intp],
    at: str,
    rule: FallbackRule,
    *,
    values_at: ValuesAt | None = None,
) -> TraceValues:
    values_at = values_at or site.store.tiles.values
    axes = axes_of(site.store, now, places)
    if not at:
        return read_nearest_values(values_at, now, places, axes, newest(axes), FallbackRule.BEFORE)
    # If only other testbeds measured a commit, its time there determines the place.
    everywhere = {testbed: site.store.tiles.axis(testbed) for testbed in site.store.tiles.testbeds()}
    return read_nearest_values(values_at, now, places, axes, places_of(at, {**everywhere, **axes}), rule)


def _describe_time_point(at: str, rule: FallbackRule) -> str:
    if not at:
        return "latest"
    at = at[:_SHORT_HASH] if _HASH.fullmatch(at) else at
    return f"nearest to {at}" if rule is FallbackRule.NEAREST else f"at {at} or {rule}"


def _values(tests: Sequence[PatchSamples]) -> Values:
    return Values(
        np.array([test.value for test in tests], dtype=np.float64),
        np.array([test.error for test in tests], dtype=np.float64),
        np.array([test.freedom for test in tests], dtype=np.int64),
    )


def _of_one_unit(now: Traces, pairs: Pairs) -> NDArray[np.bool_]:
    """Return a mask of the pairs whose traces have the same unit and the same direction of improvement."""
    (unit, lower), (other, other_lower) = (
        (now.units[side], now.lower_is_better[side]) for side in (pairs.left, pairs.right)
    )
    same: NDArray[np.bool_] = (unit == other) & (lower == other_lower)
    return same


def _find_simulated(site: AppContext, testbeds: Iterable[str]) -> list[str]:
    """Return the testbeds whose newest run sent no packets."""
    return [
        testbed
        for testbed in sorted(testbeds)
        if any(run.simulated for run in site.store.runs(testbed, last=1))
    ]


def _check_number(count: int) -> None:
    if count > MOST_TRACES:
        raise UsageError(f"{count} traces are too many to compare; choose at most {MOST_TRACES} by a query")


class WholeTiles:
    """Reader that caches whole tiles; the store reads all of a tile in any case.

    ::

        values_at = WholeTiles(store).values
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._cache: dict[tuple[int, range, bytes], Samples] = {}

    def values(self, axis: Axis, ids: NDArray[np.int64], columns: range) -> Samples:
        """Return the values of traces in columns, shape (n, columns); NaN if missing.

        :raises StoreError: if the store cannot be read.
        """
        parts = []
        for start in range(columns.start // POINTS * POINTS, columns.stop, POINTS):
            tile = range(start, min(start + POINTS, len(axis.columns)))
            whole = self._tile(axis, ids, tile)
            parts.append(whole[:, max(columns.start - start, 0) : columns.stop - start])
        return parts[0] if len(parts) == 1 else np.concatenate([np.empty((len(ids), 0)), *parts], axis=1)

    def _tile(self, axis: Axis, ids: NDArray[np.int64], tile: range) -> Samples:
        key = (axis.axis_id, tile, ids.tobytes())
        if key not in self._cache:
            self._cache[key] = self._store.tiles.values(axis, ids, tile)
        return self._cache[key]
