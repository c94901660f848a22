"""Presentation of a plot: lines, markers of changes, users' notes on commits, and notices of data not shown.

The analysis engine finds the changes. A trace is analysed over the columns of the tile, with a history before
and some columns after them: whether a step is a change depends on both. Results are cached by the values of
the trace.

Missing numbers are None.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property, lru_cache
from urllib.parse import quote

import numpy as np

from perftrend.analysis import Criteria, Significance
from perftrend.analysis.change_details import ReportedChanges, find_reported_changes
from perftrend.analysis.formula import Call, FormulaId, NormalId, Text, parse_trace_id
from perftrend.analysis.formula.query import admits_missing
from perftrend.analysis.reportable_changes import ReportingRule
from perftrend.dashboard.explore.labels import short_name
from perftrend.dashboard.explore.lines import (
    MOST_WITH_REPLICATES,
    Band,
    LineDrawing,
    PointLine,
    aggregates,
)
from perftrend.dashboard.explore.models import (
    CommitNote,
    Explore,
    PlotChange,
    PlotLine,
    PointModel,
    SetChangeModel,
)
from perftrend.dashboard.explore.state import ExploreState, Show, Spread
from perftrend.dashboard.explore.window import TESTBED, Window
from perftrend.dashboard.explore.zoom import AXES
from perftrend.model import Better, Change, Samples, finite
from perftrend.report import latency_graph
from perftrend.settings.sections import AnalysisSettings
from perftrend.text import format_count

MOST_MARKED = 50
"""Maximum number of traces that are searched for changes."""
MOST_COLUMNS = 2200
"""Maximum number of columns of each trace: those of a tile of scale 2, with their history."""
MOST_NOTED_COLUMNS = 2200
"""Maximum number of columns of a tile whose notes are read."""
MOST_LISTED = 100
"""Maximum number of changes and notes that are listed."""
MOST_NAMED = 20
"""Maximum number of traces that are listed where a set of traces changes."""
MOST_STORED = 100
"""Maximum number of traces of a query that a shortcut has; for more, it has the query."""
_CACHE_SIZE = 2000
_ROUNDED = 1e-12
"""Relative to the largest value."""


@dataclass(frozen=True, slots=True)
class Marker:
    """A change of a line."""

    identity: str
    point: int
    """Index in the tile, from 0."""
    column: int
    """The first column after the change."""
    change: Change
    suspected: bool
    """Whether it is only suspected: a single outlier run, or a change that the newest run hints at."""


def markers(window: Window, lines: Iterable[PointLine], settings: AnalysisSettings) -> list[Marker] | None:
    """Return the changes of traces within a tile; calculated lines have those of their trace.

    :returns: None if the tile covers too much time, or too many traces are shown.
    """
    wanted = [line for line in lines if line.trace]
    if len(wanted) > MOST_MARKED or len(window.columns) + 2 * settings.history > MOST_COLUMNS:
        return None
    first = max(window.columns.start - settings.history, 0)
    last = min(window.columns.stop + settings.history, len(window.axis.columns))
    if not wanted or first == last:
        return []
    place_of = window.traces.table.place_of
    places = np.array([place_of[line.trace.key] for line in wanted if line.trace], dtype=np.intp)
    values = window.read(places, range(first, last))
    found: list[Marker] = []
    for line, row in zip(wanted, values, strict=True):
        better = line.trace.better if line.trace else Better.HIGHER
        reported = _detect_changes(np.ascontiguousarray(row).tobytes(), _rule(settings, better))
        found += _within(window, line.identity, first, reported.changes, suspected=False)
        found += _within(window, line.identity, first, reported.suspected, suspected=True)
    return found


def _within(
    window: Window, identity: str, first: int, changes: Iterable[Change], *, suspected: bool
) -> Iterator[Marker]:
    for change in changes:
        column = first + change.position
        point = window.point_of(column)
        if point is not None:
            yield Marker(identity, point, column, change, suspected)


def _rule(settings: AnalysisSettings, better: Better) -> ReportingRule:
    significance = Significance(minimum_change=settings.minimum_change)
    criteria = Criteria(formula=settings.formula, outliers=settings.outliers, significance=significance)
    return criteria.rule(better)


@lru_cache(maxsize=_CACHE_SIZE)
def _detect_changes(packed: bytes, rule: ReportingRule) -> ReportedChanges:
    """Return the reported and the suspected changes of a trace.

    :param packed: its values, float64.
    """
    samples = np.frombuffer(packed)
    return find_reported_changes(samples, rule) if np.isfinite(samples).any() else ReportedChanges((), ())


@dataclass(frozen=True, eq=False)
class DrawingDetails:
    """A drawing with its changes and bands."""

    window: Window
    state: ExploreState
    drawing: LineDrawing
    markers: list[Marker] | None
    """None: too much data to search."""
    bands: dict[str, Band] | None
    """By the ids of lines; None: too much data."""

    @cached_property
    def _number_of_changes(self) -> Counter[str]:
        return Counter(each.identity for each in self.markers or () if not each.suspected)

    @cached_property
    def units(self) -> list[str]:
        """The units of the lines, the most frequent first."""
        return [unit for unit, _ in Counter(line.unit for line in self.drawing.lines.values()).most_common()]

    @property
    def _averages_opposites(self) -> bool:
        """Whether one average combines traces of both directions."""
        if self.state.show is not Show.AVE or self.state.by or not self.drawing.lines:
            return False
        return len(set(self.window.traces.lower_is_better[self.drawing.places].tolist())) > 1

    def line(self, line: PointLine, label: str) -> PlotLine:
        """Return the response model of a line."""
        average, last = mean(line.values), newest(line.values)
        place = None if last is None else int(np.flatnonzero(np.isfinite(line.values))[-1])
        band = (self.bands or {}).get(line.identity)
        state = self.state
        alone = ExploreState(
            testbed=state.testbed,
            scale=state.scale,
            tile=state.tile,
            points=state.points,
            ids=(line.identity,),
            downsample=state.downsample,
            spread=state.spread,
            zoom=state.zoom,
        )
        return PlotLine(
            id=line.identity,
            label=label,
            parameters=line.trace.key.as_dict() if line.trace else {},
            unit=line.unit,
            better=line.trace.better.value if line.trace else "",
            values=line.values,
            least=line.least,
            greatest=line.greatest,
            low=band.low if band else None,
            high=band.high if band else None,
            newest=last,
            newest_column=None if place is None else self.window.columns_of(place).start,
            silent=0 if place is None else len(line.values) - 1 - place,
            mean=average,
            change=relative(last, average) if line.is_one_sided else None,
            changes=self._number_of_changes[line.identity],
            url=alone.url,
        )

    def changes(self, *, suspected: bool = False) -> list[PlotChange]:
        """Return the reported changes, or the suspected ones."""
        return [
            PlotChange(
                trace=each.identity,
                point=each.point,
                column=each.column,
                before=each.change.before,
                after=each.change.after,
                relative=finite(each.change.relative),
                direction=each.change.direction.value,
            )
            for each in self.markers or ()
            if each.suspected is suspected
        ]

    def set_changes(self) -> list[SetChangeModel]:
        """Return where the sets of traces of relative averages change, in the order of time."""
        found = [
            SetChangeModel(
                line=line.identity,
                point=each.point,
                column=self.window.columns_of(each.point).start,
                added=len(each.added),
                removed=len(each.removed),
                traces=list((*each.added, *each.removed)[:MOST_NAMED]),
            )
            for line in self.drawing.lines.values()
            for each in line.set_changes
        ]
        return sorted(found, key=lambda each: each.point)

    def notices(self) -> list[str]:
        """Return notices of data that is not shown, with the reasons."""
        lines, window = self.drawing.lines, self.window
        here, coarse = window.axis.testbed, window.tile.scale > 0
        found = []
        if self.drawing.left_out:
            whole = len(lines) + self.drawing.left_out
            found.append(
                f"{len(lines)} of {whole} lines are drawn; select fewer, "
                "or show averages with one line for each value of a parameter"
            )
        if self._averages_opposites:
            found.append(
                "The average has traces whose higher values are better and others whose lower values are; "
                "they cancel each other. Select better=higher, or one line for each metric"
            )
        if optional := [key for key, terms in self.state.query.by_key.items() if admits_missing(terms)]:
            names = ", ".join(optional)
            found.append(
                f"Traces without {names} match too (?!=, as in Skia Perf); != requires the parameter"
            )
        if self.markers is None:
            much = "such a long time" if len(lines) <= MOST_MARKED else f"more than {MOST_MARKED} traces"
            found.append(f"Changes are not marked for {much}; zoom in or select fewer traces")
        if self.bands is None:
            reason = "at scale 0" if coarse else f"for {MOST_WITH_REPLICATES} traces or fewer"
            found.append(f"The spread of replicates is shown only {reason}")
        elif self.state.spread is not Spread.NONE and lines and not self.bands:
            found.append("Calculated lines have no replicates")
        if self.units[AXES:]:
            names = ", ".join(unit or "numbers without a unit" for unit in self.units[AXES:])
            found.append(f"Not drawn because there is no axis left: lines in {names}; select by unit")
        if others := sorted(
            {window.testbed_of(line.trace) for line in lines.values() if line.trace} - {here}
        ):
            found.append(f"Values of {', '.join(others)} are drawn at the commits that {here} measured too")
        if self.state.tile is not None and self.state.tile != self.window.tile.number:
            found.append(
                f"Tile {self.state.tile} does not exist yet; "
                f"the newest tile, {self.window.tile.number}, is shown"
            )
        return found

    def shortcut_ids(self) -> list[str]:
        """Return the content of a shortcut: normal traces, and formulas instead of calculated ones."""
        state, drawing = self.state, self.drawing
        wrong = {problem.text for problem in drawing.problems}
        found = [each for each in state.ids if each not in wrong]
        found += self.window.store.shortcuts.load(state.shortcut) or () if state.shortcut else ()
        if state.terms and state.show.is_aggregate:
            found += aggregates(self.window, state, drawing.places)
        elif state.terms and (state.show.is_scaled or len(drawing.places) > MOST_STORED):
            rows = Call("filter", (Text(str(state.query)),))
            found.append(str(FormulaId(Call(str(state.show), (rows,)) if state.show.is_scaled else rows)))
        else:
            found += [line.identity for line in drawing.lines.values() if line.is_normal]
        return [each for each in dict.fromkeys(found) if not each.startswith("!")]


def relative(value: float | None, reference: float | None) -> float | None:
    """Return the relative difference of a value from a reference."""
    if value is None or not reference:
        return None
    return finite((value - reference) / abs(reference))


def mean(values: Samples) -> float | None:
    """Return the average of the finite values; 0 if it is only a rounding error."""
    present = values[np.isfinite(values)]
    if not len(present):
        return None
    average = float(present.mean())
    return 0.0 if abs(average) < _ROUNDED * float(np.abs(present).max()) else finite(average)


def newest(values: Samples) -> float | None:
    """Return the last finite value."""
    present = values[np.isfinite(values)]
    return float(present[-1]) if len(present) else None


def notes(window: Window) -> list[CommitNote]:
    """Return the annotations of the commits that are shown, in the order of time; none for coarse tiles."""
    if len(window.columns) > MOST_NOTED_COLUMNS:
        return []
    columns = window.axis.columns[window.columns.start : window.columns.stop]
    by_revision = window.store.annotations.of(
        {each.revision for each in columns}, testbed=window.axis.testbed
    )
    found = []
    for number, column in zip(window.columns, columns, strict=True):
        point = window.point_of(number)
        if point is None:
            continue
        found += [
            CommitNote(point=point, column=number, commit=column.revision, text=each.text, user=each.author)
            for each in by_revision.get(column.revision, ())
        ]
    return found


def set_change_label(change: SetChangeModel) -> str:
    """Return a label such as ``+2 traces``."""
    parts = [
        f"+{change.added}" * bool(change.added),
        f"\N{MINUS SIGN}{change.removed}" * bool(change.removed),
    ]
    return f"{' '.join(filter(None, parts))} trace{'' if change.added + change.removed == 1 else 's'}"


def trace_names(change: SetChangeModel) -> str:
    """Return short names of the traces that begin or end."""
    keys = [parse_trace_id(each) for each in change.traces]
    names = [
        short_name({name: value for name, value in each.key.parameters if name != TESTBED})
        if isinstance(each, NormalId)
        else str(each)
        for each in keys
    ]
    others = change.added + change.removed - len(names)
    return ", ".join(names) + f" and {others} more" * bool(others)


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """A change of a line, a user's note on a commit, or a change of the set of traces."""

    started: datetime
    """When its commit was first measured."""
    commit: str
    change: PlotChange | None
    note: CommitNote | None
    set_change: SetChangeModel | None
    what: str
    """The label of the line, the text of the note, or the traces of the set."""


def happenings(answer: Explore) -> list[TimelineEvent]:
    """Return the changes of lines and sets, and the notes, that are marked in the plot, at most a hundred."""
    label_of = {line.id: line.label for line in answer.lines}
    points = answer.points
    found = [
        TimelineEvent(
            points[each.point].started, points[each.point].commit, each, None, None, label_of[each.trace]
        )
        for each in answer.changes
    ]
    found += [
        TimelineEvent(points[each.point].started, each.commit, None, each, None, each.text)
        for each in answer.notes
    ]
    found += [
        TimelineEvent(
            points[each.point].started, points[each.point].commit, None, None, each, trace_names(each)
        )
        for each in answer.set_changes
    ]
    return sorted(found, key=lambda each: each.started, reverse=True)[:MOST_LISTED]


@dataclass(frozen=True, slots=True)
class LatencyFigure:
    """The percentile curves of the latency that a run measured."""

    run: str
    """Its name."""
    picture: str
    """The address of the image, which contains it: it needs no request and is cached with the page."""
    caption: str


def latency_figures(point: PointModel | None) -> list[LatencyFigure]:
    """Return the figures of the runs of the selected point that measured latency."""
    return [
        LatencyFigure(
            run=run.name,
            picture=f"data:image/svg+xml,{quote(latency_graph.svg(run.latency, simulated=run.simulated))}",
            caption=f"The latency: {latency_graph.sentence(run.latency)}",
        )
        for run in (point.runs if point else ())
        if latency_graph.can_draw(run.latency)
    ]


def share_title(answer: Explore) -> str:
    """Return a title that names the traces: ``64b-2t1c-eth-l2xcbase-testpmd and 3 more on 2n-clx``."""
    names = [_full_name(answer, line) for line in answer.lines]
    if not names:
        return "Explore"
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{names[0]}{more} on {answer.testbed}"


def share_description(answer: Explore) -> str:
    """Return what a plot shows, in a line; empty if it shows nothing."""
    if not answer.lines or not answer.points:
        return ""
    first, last = (f"{each.started:%Y-%m-%d}" for each in (answer.points[0], answer.points[-1]))
    changes = [each.direction for each in answer.changes]
    counts = [
        format_count(changes.count(kind), kind) for kind in ("regression", "progression") if kind in changes
    ]
    lines = format_count(len(answer.lines), "line")
    return f"{lines}, {first} to {last}: {', '.join(counts) or 'no changes'}"


def _full_name(answer: Explore, line: PlotLine) -> str:
    test = line.parameters.get("test") or answer.common.get("test", "")
    words = [each for each in (test, *line.label.split()) if each not in ("", answer.testbed)]
    return " ".join(dict.fromkeys(words)) or line.id
