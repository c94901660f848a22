"""Details of the selected point: its runs, the commits before it, and a prepared bisection."""

from __future__ import annotations

import math

from perftrend.analysis.formula import NormalId, format_key, parse_trace_id
from perftrend.dashboard import bisect_command, links
from perftrend.dashboard.bisect_command import Bisection
from perftrend.dashboard.explore.lines import PointLine
from perftrend.dashboard.explore.models import CommitModel, PointModel, RunModel
from perftrend.dashboard.explore.presenter import relative
from perftrend.dashboard.explore.state import ExploreState
from perftrend.dashboard.explore.window import Window
from perftrend.errors import FormulaError
from perftrend.model import Result, Run, TraceKey, finite
from perftrend.settings import Settings
from perftrend.store.tiles import TileColumn, tile_of

MOST_COMMITS = 200
"""Maximum number of commits that are listed between two points."""


def point(
    window: Window, state: ExploreState, lines: dict[str, PointLine], settings: Settings
) -> PointModel | None:
    """Return the details of the selected point; None: no point is selected, or it is not drawn."""
    line, column = lines.get(_current(window, state.of)), window.column(state.at)
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


def _current(window: Window, identity: str) -> str:
    """Return the current id of a line, so that addresses with a former name remain valid."""
    try:
        named = parse_trace_id(identity)
    except FormulaError:
        return identity
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
        # The address of the build now leads to a later build with the same number.
        links={} if replaced else dict(links.of_run(run, settings)),
    )


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
    return bisect_command.prepare(settings, testbed, key, older, newer)


def _zoom_in_url(window: Window, state: ExploreState, column: int) -> str | None:
    if not window.tile.scale:
        return None
    tile = tile_of(column, window.tile.scale - 1)
    return state.with_tile(tile.scale, tile.number).but(at=column).url
