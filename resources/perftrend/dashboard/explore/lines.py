"""Lines of the plot, and the bands of their replicates.

The lines are the traces that match a query, and those of trace ids and of a shortcut.

A line is a normal trace, a calculated one or the row of a formula. Aggregates are formulas, too: one for
each value of the parameter that they are grouped by. So every line has an id that reproduces it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

import numpy as np

from perftrend.analysis.formula import (
    DEFAULT_LIMITS,
    FUNCTIONS,
    CalculatedId,
    Call,
    EvaluationLimits,
    FormulaId,
    Makes,
    NormalId,
    Query,
    Rows,
    Term,
    Text,
    TraceId,
    TraceNode,
    evaluate,
    format_key,
    parse_trace_id,
    row_id,
)
from perftrend.analysis.formula.query import parse_filter
from perftrend.analysis.formula.relative import RowSet
from perftrend.dashboard.explore.state import ExploreState, Problem, Show, Spread
from perftrend.dashboard.explore.window import Places, Window
from perftrend.errors import FormulaError
from perftrend.model import Samples, TraceKey
from perftrend.store.tiles import StoredTrace
from perftrend.text import natural_key

MOST_LINES = 1000
"""Maximum number of lines in a plot."""
MOST_AGGREGATES = 100
"""Maximum number of aggregates in a plot; each of them is a formula."""
MOST_UNASKED = 100
"""Maximum number of traces that are drawn if nothing is selected."""
MOST_WITH_REPLICATES = 10
"""Maximum number of traces whose replicates are read."""

_UNIT_PRESERVING = frozenset(
    {"fill", "iqrr", "trace_ave", "trace_stddev", "ave", "avg", "sum", "geo", "std_dev", "min", "max"}
)
_RELATIVE = {"relative_ave": RowSet.average, "relative_min": RowSet.least, "relative_max": RowSet.most}
_PERCENTILES = {Spread.RANGE: (0.0, 100.0), Spread.QUARTILES: (25.0, 75.0)}


@dataclass(frozen=True, slots=True)
class TraceSetChange:
    """A point at which the traces of a relative average change."""

    point: int
    added: tuple[str, ...]
    """The ids of the traces that begin there."""
    removed: tuple[str, ...]
    """The ids of the traces that ended before it."""


@dataclass(frozen=True, slots=True, eq=False)
class PointLine:
    """A line: one value for each point."""

    identity: str
    """A trace id."""
    values: Samples
    """Shape (points,), NaN for gaps."""
    unit: str = ""
    """Empty: dimensionless, or several units."""
    trace: StoredTrace | None = None
    """The trace that it shows or is calculated from; None: it is the row of a formula over several."""
    least: Samples | None = None
    """Minimum of the values that each coarse point covers; None: a point is one value."""
    greatest: Samples | None = None
    set_changes: tuple[TraceSetChange, ...] = ()
    """Of a relative average: where its traces change."""

    @property
    def is_normal(self) -> bool:
        """Whether its values are those of its trace."""
        return self.identity.startswith(",")

    @property
    def is_one_sided(self) -> bool:
        """Whether relative differences of its values are meaningful: all are on one side of zero."""
        present = self.values[np.isfinite(self.values)]
        return bool((present > 0).all() or (present < 0).all())


@dataclass(slots=True)
class LineDrawing:
    """Lines to draw, and those that are left out."""

    lines: dict[str, PointLine] = field(default_factory=dict)
    """By id, in the order of the list."""
    places: Places = field(default_factory=lambda: np.array([], dtype=np.intp))
    """Places of the traces that match the query."""
    left_out: int = 0
    """Number of lines that exceed the maximum."""
    empty: list[str] = field(default_factory=list)
    """Ids that currently have no line."""
    problems: list[Problem] = field(default_factory=list)

    def add(self, line: PointLine) -> None:
        """Add a line, unless it is present or there are too many."""
        if line.identity in self.lines:
            return
        if len(self.lines) < MOST_LINES:
            self.lines[line.identity] = line
        else:
            self.left_out += 1


def draw_lines(window: Window, state: ExploreState) -> LineDrawing:
    """Return the drawing of a state."""
    drawing = LineDrawing(problems=list(state.problems))
    try:
        drawing.places = window.select(state.query)
    except FormulaError as error:
        drawing.problems.append(Problem("q", str(state.query), error.position, error.reason))
    if state.terms or (_is_free(state) and (state.show.is_aggregate or len(drawing.places) <= MOST_UNASKED)):
        _add_query(drawing, window, state, drawing.places)
    wrong = {problem.text for problem in state.problems if problem.field == "id"}
    _add_ids(drawing, window, [each for each in state.ids if each not in wrong])
    if state.shortcut:
        _add_shortcut(drawing, window, state.shortcut)
    return drawing


def _is_free(state: ExploreState) -> bool:
    """Return whether nothing is selected."""
    return not (state.terms or state.ids or state.shortcut or state.problems)


def aggregates(window: Window, state: ExploreState, places: Places) -> list[str]:
    """Return the ids of the formulas of an aggregate, one for each value of its parameter.

    :param places: the places of the traces that match the query.
    """
    if not state.by:
        return [str(FormulaId(_aggregate(state.show, state.query)))]
    others = tuple(term for term in state.terms if term.key != state.by)
    queries = (
        Query((*others, Term(state.by, value))) for value in window.traces.table.values(state.by, places)
    )
    return [str(FormulaId(_aggregate(state.show, query))) for query in queries]


def _aggregate(show: Show, query: Query) -> Call:
    return Call(show.function, (Call("filter", (Text(str(query)),)),))


def _add_query(drawing: LineDrawing, window: Window, state: ExploreState, places: Places) -> None:
    if state.show.is_aggregate:
        ids = aggregates(window, state, places) if len(places) else []
        drawing.left_out += max(len(ids) - MOST_AGGREGATES, 0)
        if len(ids) > 1:
            window.source.share(places)
        _add_ids(drawing, window, ids[:MOST_AGGREGATES])
        return
    few = places[:MOST_LINES]
    drawing.left_out += len(places) - len(few)
    for line in _scale_lines(window, few, state.show) if state.show.is_scaled else _normal(window, few):
        drawing.add(line)


def _normal(window: Window, places: Places) -> Iterator[PointLine]:
    places = np.array(
        sorted(places.tolist(), key=lambda place: _natural_order(window.traces.stored[place])), np.intp
    )
    traces = window.at(places)
    if window.is_single:
        for trace, row in zip(traces, window.values(places), strict=True):
            yield PointLine(format_key(trace.key), row, trace.unit, trace)
        return
    planes = window.planes(places)
    for place, trace in enumerate(traces):
        least, greatest = planes.least[place], planes.greatest[place]
        yield PointLine(format_key(trace.key), planes.mean[place], trace.unit, trace, least, greatest)


def _scale_lines(window: Window, places: Places, show: Show) -> Iterator[PointLine]:
    compute = FUNCTIONS[show].compute
    for line in _normal(window, places):
        values = compute(line.values[np.newaxis])[0] if compute else line.values
        values = np.where(np.isfinite(values), values, np.nan)
        yield PointLine(row_id(f"{show}({line.identity})"), values, trace=line.trace)


def _add_ids(drawing: LineDrawing, window: Window, ids: Sequence[str]) -> None:
    """Add the lines of trace ids."""
    read: list[tuple[str, TraceId]] = []
    for text in ids:
        try:
            read.append((text, parse_trace_id(text)))
        except FormulaError as error:
            drawing.problems.append(Problem("id", text, error.position, error.reason))
    normal = _read_normal_lines(drawing, window, [each for _, each in read if isinstance(each, NormalId)])
    limits = _share_limits(sum(not isinstance(each, NormalId) for _, each in read))
    for text, each in read:
        if isinstance(each, NormalId):
            lines = normal.get(str(each))
        else:
            lines = _evaluate_formula(drawing, window, text, each, limits)
        for line in lines or ():
            drawing.add(line)
        if lines == []:
            drawing.empty.append(text)


def _read_normal_lines(
    drawing: LineDrawing, window: Window, ids: Sequence[NormalId]
) -> dict[str, list[PointLine]]:
    """Return the lines of normal traces by id, read together; an unknown trace has an empty list.

    Ids that exceed the maximum number of lines are left out.
    """
    known = {str(each): window.traces.table.place_of.get(each.key) for each in ids}
    found: dict[str, list[PointLine]] = {name: [] for name, place in known.items() if place is None}
    # The former name and the current one of a trace have the same place.
    places = list(dict.fromkeys(place for place in known.values() if place is not None))
    drawing.left_out += max(len(places) - MOST_LINES, 0)
    lines = {line.identity: line for line in _normal(window, np.array(places[:MOST_LINES], dtype=np.intp))}
    for name, place in known.items():
        identity = "" if place is None else format_key(window.traces.stored[place].key)
        if identity in lines:
            found[name] = [lines[identity]]
    return found


def _add_shortcut(drawing: LineDrawing, window: Window, identity: str) -> None:
    try:
        held = window.source.shortcut(identity)
    except FormulaError as error:
        drawing.problems.append(Problem("shortcut", identity, 0, error.reason))
        return
    if held is None:
        drawing.problems.append(Problem("shortcut", identity, 0, f"shortcut {identity} does not exist"))
    else:
        _add_ids(drawing, window, [str(each) for each in held])


def _share_limits(formulas: int) -> EvaluationLimits:
    """Return the limits of each of several formulas, so that their total does not exceed those of one."""
    each = DEFAULT_LIMITS.total_cells // max(formulas, 1)
    return replace(DEFAULT_LIMITS, total_cells=each)


def _evaluate_formula(
    drawing: LineDrawing,
    window: Window,
    text: str,
    identity: CalculatedId | FormulaId,
    limits: EvaluationLimits,
) -> list[PointLine]:
    formula = identity.formula if isinstance(identity, FormulaId) else _of_store(identity.name)
    if not isinstance(formula, Call):
        return []
    try:
        rows, changes = _evaluate(window, formula, limits)
    except FormulaError as error:
        # Positions in a formula are counted from the character after the @ or ! of its id.
        drawing.problems.append(Problem("id", text, error.position + 1, error.reason))
        return []
    unit = unit_of(window, formula)
    if isinstance(identity, CalculatedId):
        name = str(identity.name)
        trace = window.traces.of_key(_normal_key(identity.name))
        return [PointLine(text, rows[name], unit, trace)] if name in rows else []
    drawing.left_out += max(len(rows) - MOST_LINES, 0)
    return [replace(line, set_changes=changes) for line in _lines(window, rows, unit)]


def _evaluate(
    window: Window, formula: Call, limits: EvaluationLimits
) -> tuple[Rows, tuple[TraceSetChange, ...]]:
    """Return the rows of a formula, and where the traces of a relative average change."""
    points, compute = len(window.points), _RELATIVE.get(formula.function)
    operand = formula.arguments[0]
    if not (compute and isinstance(operand, Call)):
        return evaluate(formula, window.source, points=points, limits=limits), ()
    given = evaluate(operand, window.source, points=points, limits=limits)
    # The set of tens of thousands of traces takes longer than anything else here, so it is made once.
    members = RowSet.of(given.matrix)
    rows = Rows((str(formula),), compute(members)[np.newaxis])
    changes = list(members.changes())
    names = given.names if changes else ()
    return rows, tuple(
        TraceSetChange(
            each.point,
            added=tuple(row_id(names[place]) for place in each.added),
            removed=tuple(row_id(names[place]) for place in each.removed),
        )
        for each in changes
    )


def _lines(window: Window, rows: Rows, unit: str) -> Iterator[PointLine]:
    for name in islice(rows, MOST_LINES):
        identity = row_id(name)
        parsed = None if identity.startswith("@") else parse_trace_id(identity)
        trace = None
        if isinstance(parsed, NormalId):
            trace = window.traces.of_key(parsed.key)
        elif isinstance(parsed, CalculatedId):
            trace = window.traces.of_key(_normal_key(parsed.name))
        own = trace.unit if trace and isinstance(parsed, NormalId) else unit
        yield PointLine(identity, rows[name], own, trace)


def _normal_key(name: Call | TraceNode) -> TraceKey:
    """Return the key of the normal trace that a calculated one is derived from."""
    while isinstance(name, Call):
        name = next(each for each in name.arguments if isinstance(each, Call | TraceNode))
    return name.key


def _of_store(name: Call | TraceNode) -> Call:
    """Return the formula whose rows include that of a calculated trace."""
    if isinstance(name, TraceNode):
        query = Query(tuple(Term(key, value) for key, value in name.key.parameters))
        return Call("filter", (Text(str(query)),), name.position)
    inner, *rest = name.arguments
    if isinstance(inner, Call | TraceNode):
        return Call(name.function, (_of_store(inner), *rest), name.position)
    return name


def _natural_order(trace: StoredTrace) -> list[tuple[int, str]]:
    return natural_key(f"{trace.key.as_dict().get('test', '')} {trace.key}")


def unit_of(window: Window, call: Call) -> str:
    """Return the unit of all rows of a formula; empty: dimensionless, or several units."""
    if FUNCTIONS[call.function].makes is Makes.FOUND:
        units = _find_units(window, call)
    elif call.function in _UNIT_PRESERVING:
        units = {unit_of(window, each) for each in call.arguments if isinstance(each, Call)}
    else:
        units = set()
    return units.pop() if len(units) == 1 else ""


def _find_units(window: Window, call: Call) -> set[str]:
    (text,) = (each.value for each in call.arguments if isinstance(each, Text))
    wanted = parse_filter(text) if call.function == "filter" else text
    if isinstance(wanted, str):
        held = window.source.shortcut(wanted) or ()
        known = (window.traces.of_key(each.key) for each in held if isinstance(each, NormalId))
        formulas = any(isinstance(each, FormulaId) for each in held)
        return {trace.unit for trace in known if trace} | ({""} if formulas else set())
    return set(window.traces.units[window.select(wanted)].tolist())


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """Lower and upper limit of the replicates of each point, shapes (points,), NaN if there are none."""

    low: Samples
    high: Samples


def bands(window: Window, lines: Iterable[PointLine], spread: Spread) -> dict[str, Band] | None:
    """Return the bands of normal traces by their ids.

    :returns: None if there are too many, or a point covers more than one column.
    """
    wanted = {line.identity: line.trace for line in lines if line.trace and line.is_normal}
    if spread is Spread.NONE:
        return {}
    if len(wanted) > MOST_WITH_REPLICATES or window.tile.scale:
        return None
    of_testbed: dict[str, dict[str, StoredTrace]] = {}
    for identity, trace in wanted.items():
        of_testbed.setdefault(window.testbed_of(trace), {})[identity] = trace
    return {
        identity: _band(samples, spread)
        for testbed, traces in of_testbed.items()
        for identity, samples in _samples(window, testbed, traces).items()
    }


def _samples(
    window: Window, testbed: str, traces: Mapping[str, StoredTrace]
) -> dict[str, list[tuple[float, ...]]]:
    """Return the replicates at each point of traces of one testbed."""
    known = [window.column_at(testbed, number) for number in window.columns]
    columns = [column for column in known if column]
    found = window.store.tiles.samples([trace.trace_id for trace in traces.values()], columns)
    # A commit that the testbed did not measure has no column.
    places = np.cumsum([column is not None for column in known]) - 1
    return {
        identity: [
            found.get((trace.trace_id, place), ()) if column else ()
            for place, column in zip(places.tolist(), known, strict=True)
        ]
        for identity, trace in traces.items()
    }


def _band(samples: list[tuple[float, ...]], spread: Spread) -> Band:
    limits = np.full((len(samples), 2), np.nan)
    for place, replicates in enumerate(samples):
        if replicates:
            limits[place] = np.percentile(replicates, _PERCENTILES[spread])
    return Band(limits[:, 0], limits[:, 1])
