"""Response of the page: selectable values, the plot with its labels, and the selected point.

The details of that point are its runs, the commits before it, and a prepared bisection.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from perftrend import message
from perftrend.analysis.formula import FormulaId, NormalId, Query, Term, format_key, parse_trace_id
from perftrend.analysis.query import ValueChoice
from perftrend.bisect import command as bisect_command
from perftrend.bisect.command import Bisection
from perftrend.dashboard import links
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.explore.labels import label_lines
from perftrend.dashboard.explore.lines import MOST_LINES, LineDrawing, PointLine, bands, draw_lines
from perftrend.dashboard.explore.models import (
    AxisPoint,
    CommitModel,
    Condition,
    Explore,
    Mistake,
    ParameterChoices,
    PointModel,
    RunModel,
    TileModel,
    Value,
    ZoomModel,
)
from perftrend.dashboard.explore.presenter import DrawingDetails, markers, notes, relative
from perftrend.dashboard.explore.state import ExploreState
from perftrend.dashboard.explore.window import TESTBED, Window, open_window
from perftrend.errors import ArchiveError, FormulaError
from perftrend.measurement import LoadLatency
from perftrend.model import Result, Run, TraceKey, finite
from perftrend.settings import Settings
from perftrend.store.tiles import POINTS, TileColumn, columns_of_point, tile_of
from perftrend.store.tiles import newest as newest_tile

MOST_VALUES = 40
"""Maximum number of values that are offered for a parameter."""
MOST_COMMITS = 200
"""Maximum number of commits that are listed between two points."""


def explore(site: AppContext, state: ExploreState) -> Explore:
    """Return the response to a state.

    :raises UsageError: if the testbed or the scale does not exist.
    """
    window = open_window(site, state)
    if window is None:
        return _answer(state, LineDrawing(problems=list(state.problems)))
    drawing = draw_lines(window, state)
    lines = list(drawing.lines.values())
    seen = DrawingDetails(
        window,
        state,
        drawing,
        markers(window, lines, site.settings.analysis) if state.changes else [],
        bands(window, lines, state.spread),
    )
    named = label_lines(drawing.lines)
    answer = _answer(state, drawing)
    answer.testbed = window.axis.testbed
    answer.testbeds = site.store.tiles.testbeds()
    answer.beside = _all_testbeds_url(state, answer.testbed, answer.testbeds)
    answer.tile = _tile(window, state)
    answer.parameters = parameters(window, state, matched=len(drawing.places))
    answer.names = [name for name in window.traces.table.parameters if name != TESTBED]
    answer.common, answer.common_parts = named.common, named.parts
    answer.units = seen.units
    answer.points = [_axis_point(window, place) for place in range(len(window.points))]
    answer.lines = [seen.line(line, named.label_of[line.identity]) for line in lines]
    answer.changes = seen.changes()
    answer.suspected = seen.changes(suspected=True)
    answer.set_changes = seen.set_changes()
    answer.notes = notes(window)
    answer.simulated = site.store.tiles.has_simulated(window.axis.testbed)
    answer.notices = seen.notices()
    answer.stored = seen.shortcut_ids()
    answer.point = _selected_point(window, state, drawing.lines, site.settings)
    return answer


def _answer(state: ExploreState, drawing: LineDrawing) -> Explore:
    return Explore(
        testbed=state.testbed, testbeds=[], beside=None, tile=None,
        query=str(state.query), conditions=conditions(state), parameters=[], names=[],
        show=state.show, by=state.by, downsample=state.downsample, spread=state.spread, zoom=_zoom(state),
        matched=len(drawing.places), left_out=drawing.left_out, most=MOST_LINES,
        common={}, common_parts={}, units=[], points=[], lines=[], empty=drawing.empty, changes=[],
        suspected=[], set_changes=[], notes=[], simulated=False,
        mistakes=[
            Mistake(field=each.field, text=each.text, position=each.position, reason=each.reason,
                    caret=each.caret)
            for each in dict.fromkeys(drawing.problems)
        ],
        notices=[], point=None, stored=[], url=state.url,
    )  # fmt: skip


def _zoom(state: ExploreState) -> ZoomModel:
    columns, values = state.zoom.columns, state.zoom.values
    return ZoomModel(
        columns=(columns.low, columns.high) if columns else None,
        values={unit: (seen.low, seen.high) for unit, seen in values},
    )


def _tile(window: Window, state: ExploreState) -> TileModel:
    tile, columns = window.tile, len(window.axis.columns)
    last = newest_tile(columns, tile.scale)
    inner, outer = tile.zoom_in(columns, focus=state.at), tile.zoom_out()

    def url(scale: int, shown: int) -> str:
        # The newest tile is requested without a number, so that the link shows newer points later.
        wanted = None if shown == newest_tile(columns, scale).number else shown
        return state.with_tile(scale, wanted).url

    step = window.size // POINTS
    return TileModel(
        scale=tile.scale,
        number=tile.number,
        follows=window.follows,
        newest=last.number,
        columns=columns,
        columns_of_point=columns_of_point(tile.scale),
        points=window.size,
        older=url(tile.scale, max(tile.number - step, step - 1)) if window.points.start else None,
        newer=url(tile.scale, min(tile.number + step, last.number)) if not window.follows else None,
        zoomed_in=url(inner.scale, inner.number) if inner != tile else None,
        zoomed_out=url(outer.scale, outer.number) if outer != tile else None,
        latest=url(tile.scale, last.number) if not window.follows else None,
    )


def _all_testbeds_url(state: ExploreState, testbed: str, testbeds: list[str]) -> str | None:
    """Return the address with the traces of all testbeds; None if there is nothing to compare."""
    if len(testbeds) < 2 or TESTBED in state.query.by_key:  # noqa: PLR2004 - two to compare
        return None
    terms = tuple(Term(TESTBED, each) for each in testbeds)
    return state.but(testbed=testbed, query=Query((*state.terms, *terms))).url


def _axis_point(window: Window, place: int) -> AxisPoint:
    covered = window.columns_of(place)
    last = window.axis.columns[covered.stop - 1]
    return AxisPoint(column=covered.start, columns=len(covered), commit=last.revision, started=last.started)


def parameters(window: Window, state: ExploreState, *, matched: int) -> list[ParameterChoices]:
    """Return the selectable values that contain ``state.find``, by parameter; selected values come first.

    :param matched: the number of traces that match the query.
    """
    try:
        choices = window.traces.choices(window.here(state.query))
    except FormulaError:
        # The drawing reports the error in the query.
        return []
    terms_by_key = state.query.by_key
    return [
        _parameter(state, name, values)
        for name, values in choices.items()
        # A value that all traces have is not a choice.
        if name in terms_by_key or (name != TESTBED and [each.count for each in values] != [matched])
    ]


def conditions(state: ExploreState) -> list[Condition]:
    """Return the conditions of the query, each with the address of the page without it."""
    return [
        Condition(
            text=str(term),
            name=term.key,
            value=term.value,
            negated=term.negated,
            pattern=term.pattern,
            optional=term.optional,
            without=state.without(term).url,
        )
        for term in state.terms
    ]


def _parameter(state: ExploreState, name: str, values: list[ValueChoice]) -> ParameterChoices:
    chosen = {value for key, value in state.chosen if key == name}
    wanted = state.find.lower()
    fitting = [
        each
        for each in values
        if each.value in chosen or wanted in each.value.lower() or wanted in name.lower()
    ]
    offered = sorted(fitting, key=lambda each: each.value not in chosen)[: max(MOST_VALUES, len(chosen))]
    return ParameterChoices(
        name=name,
        values=[Value(value=each.value, count=each.count, chosen=each.value in chosen) for each in offered],
        of=len(values),
        hidden=len(fitting) - len(offered),
    )


def _selected_point(
    window: Window, state: ExploreState, lines: dict[str, PointLine], settings: Settings
) -> PointModel | None:
    """Return the details of the selected point; None: no point is selected, or it is not drawn."""
    line, column = lines.get(_current_id(window, state, lines)), window.column(state.at)
    place = None if state.at is None else window.point_of(state.at)
    if line is None or column is None or place is None or state.at is None:
        return None
    testbed = window.testbed_of(line.trace) if line.trace else window.axis.testbed
    there = window.column_at(testbed, state.at)
    covered = window.columns_of(place)
    newest = window.axis.columns[covered.stop - 1]
    before = _with_value(line, range(place - 1, -1, -1))
    after = _with_value(line, range(place + 1, len(line.values)))
    since, last = _range(window, state, covered, before)
    older, newer = (None if each is None else window.axis.columns[each] for each in (since, last))
    value = finite(line.values[place])
    value_before = None if before is None else finite(line.values[before])
    key = line.trace.key if line.trace else None
    return PointModel(
        trace=line.identity,
        column=covered.start,
        last=covered.stop - 1,
        commit=newest.revision,
        review=links.of_commit(newest.revision, settings),
        started=(there or column).started,
        unit=line.unit,
        value=value,
        least=finite(line.least[place]) if line.least is not None else None,
        greatest=finite(line.greatest[place]) if line.greatest is not None else None,
        before=value_before,
        change=relative(value, value_before) if line.is_one_sided else None,
        runs=_runs(window, line, there, settings) if there and not window.tile.scale else [],
        since=None if since is None or older is None else _commit(since, older, settings),
        chosen=state.since is not None and state.since in (since, last),
        commits=_commits(window, since, last, settings),
        git_log=_git_log(older, newer),
        bisect=_bisect(settings, testbed, key, older, newer),
        older=None if before is None else state.but(at=window.columns_of(before).start).url,
        newer=None if after is None else state.but(at=window.columns_of(after).start).url,
        closed=state.but(at=None, of="", since=None).url,
        compared=state.but(since=covered.start).url,
        zoomed_in=_zoom_in_url(window, state, covered.stop - 1),
    )


def _current_id(window: Window, state: ExploreState, lines: Mapping[str, PointLine]) -> str:
    """Return the current id of the selected line, so that addresses with a former name remain valid."""
    identity = state.of
    if identity in lines:
        return identity
    try:
        named = parse_trace_id(identity)
    except FormulaError:
        return identity
    if isinstance(named, FormulaId) and named.formula.function == state.show:
        # What an aggregate was before its values became relative.
        return str(FormulaId(replace(named.formula, function=state.show.function)))
    trace = window.traces.of_key(named.key) if isinstance(named, NormalId) else None
    return format_key(trace.key) if trace else identity


def _with_value(line: PointLine, places: range) -> int | None:
    return next((place for place in places if math.isfinite(line.values[place])), None)


def _range(window: Window, state: ExploreState, covered: range, before: int | None) -> tuple[int | None, int]:
    """Return the columns to compare: the point, and the chosen earlier one or that of the value before it."""
    other = state.since
    if other is not None and window.column(other) and other not in covered:
        return min(other, covered.stop - 1), max(other, covered.stop - 1)
    return None if before is None else window.columns_of(before).stop - 1, covered.stop - 1


def _runs(window: Window, line: PointLine, column: TileColumn, settings: Settings) -> list[RunModel]:
    if line.trace is None:
        return []
    measured = list(window.store.tiles.results(line.trace.trace_id, column))
    testbeds = {run.testbed for run, _ in measured}
    replaced = {run for testbed in testbeds for run in window.store.find_replaced(testbed)}
    return [_run(run, result, settings, replaced=run in replaced) for run, result in measured]


def _run(run: Run, result: Result, settings: Settings, *, replaced: bool) -> RunModel:
    return RunModel(
        name=run.name,
        started=run.started,
        finished=run.finished,
        versions={str(name): str(version) for name, version in run.versions.items()},
        status=result.status.value,
        value=finite(result.value),
        samples=[sample for sample in result.samples if math.isfinite(sample)],
        message=result.invalid or result.message,
        simulated=run.simulated,
        latency=_latency(result),
        # The address of the build now leads to a later build with the same number.
        links={} if replaced else dict(links.of_run(run, settings)),
    )


def _latency(result: Result) -> dict[str, LoadLatency]:
    if not result.details.get("latency"):
        return {}
    try:
        return dict(message.measurement_of(result.details).latency)
    except ArchiveError:
        # Such as one of a newer perftrend: its values are known, but its details are not.
        return {}


def _commits(window: Window, since: int | None, last: int, settings: Settings) -> list[CommitModel]:
    if since is None:
        return []
    first = max(since + 1, last + 1 - MOST_COMMITS)
    return [_commit(place, window.axis.columns[place], settings) for place in range(last, first - 1, -1)]


def _commit(place: int, column: TileColumn, settings: Settings) -> CommitModel:
    return CommitModel(
        column=place,
        commit=column.revision,
        started=column.started,
        review=links.of_commit(column.revision, settings),
    )


def _git_log(older: TileColumn | None, newer: TileColumn | None) -> str:
    """Return the command; a revision consists of hex digits only, so it needs no quoting."""
    if (
        older is None
        or newer is None
        or not older.revision
        or not newer.revision
        or older.revision == newer.revision
    ):
        return ""
    return f"git log --oneline {older.revision}..{newer.revision}"


def _bisect(
    settings: Settings, testbed: str, key: TraceKey | None, older: TileColumn | None, newer: TileColumn | None
) -> Bisection | None:
    if older is None or newer is None:
        return None
    return bisect_command.prepare(settings, testbed, key, old=older.revision, new=newer.revision)


def _zoom_in_url(window: Window, state: ExploreState, column: int) -> str | None:
    if not window.tile.scale:
        return None
    tile = tile_of(column, window.tile.scale - 1)
    return state.with_tile(tile.scale, tile.number).but(at=column).url
