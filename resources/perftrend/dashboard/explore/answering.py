"""Response of the page: selectable values, the plot and its details."""

from __future__ import annotations

from perftrend.analysis.formula import Query, Term
from perftrend.dashboard.explore.bands import bands
from perftrend.dashboard.explore.choosing import conditions, parameters
from perftrend.dashboard.explore.labels import labels
from perftrend.dashboard.explore.lines import MOST_LINES, Drawing, drawn
from perftrend.dashboard.explore.looking import point
from perftrend.dashboard.explore.markers import markers
from perftrend.dashboard.explore.model import Explore, Mistake, Point, TileModel, ZoomModel
from perftrend.dashboard.explore.notes import notes
from perftrend.dashboard.explore.state import State
from perftrend.dashboard.explore.telling import Seen
from perftrend.dashboard.explore.window import TESTBED, Window, opened
from perftrend.dashboard.site import Site
from perftrend.store.tiles import columns_of_point
from perftrend.store.tiles import newest as newest_tile


def explore(site: Site, state: State) -> Explore:
    """Return the response to a state.

    :raises UsageError: if the testbed or the scale does not exist.
    """
    window = opened(site, state)
    if window is None:
        return _answer(state, Drawing(problems=list(state.problems)))
    drawing = drawn(window, state)
    lines = list(drawing.lines.values())
    seen = Seen(
        window,
        state,
        drawing,
        markers(window, lines, site.settings.analysis) if state.changes else [],
        bands(window, lines, state.spread),
    )
    common, label_of = labels(drawing.lines)
    answer = _answer(state, drawing)
    answer.testbed = window.axis.testbed
    answer.testbeds = site.store.tiles.testbeds()
    answer.beside = _beside(state, answer.testbed, answer.testbeds)
    answer.tile = _tile(window, state)
    answer.parameters = parameters(window, state, matched=len(drawing.places))
    answer.names = [name for name in window.traces.table.parameters if name != TESTBED]
    answer.common = common
    answer.units = seen.units
    answer.points = [_point(window, place) for place in range(len(window.points))]
    answer.lines = [seen.line(line, label_of[line.identity]) for line in lines]
    answer.changes = seen.changes()
    answer.suspected = seen.changes(suspected=True)
    answer.notes = notes(window)
    answer.simulated = site.store.tiles.has_simulated(window.axis.testbed)
    answer.notices = seen.notices()
    answer.stored = seen.stored()
    answer.point = point(window, state, drawing.lines, site.settings)
    return answer


def _answer(state: State, drawing: Drawing) -> Explore:
    return Explore(
        testbed=state.testbed, testbeds=[], beside=None, tile=None,
        query=str(state.query), conditions=conditions(state), parameters=[], names=[],
        show=state.show, by=state.by, downsample=state.downsample, spread=state.spread, zoom=_zoom(state),
        matched=len(drawing.places), left_out=drawing.left_out, most=MOST_LINES,
        common={}, units=[], points=[], lines=[], empty=drawing.empty, changes=[], suspected=[], notes=[],
        simulated=False,
        mistakes=[
            Mistake(field=each.field, text=each.text, position=each.position, reason=each.reason,
                    caret=each.caret)
            for each in dict.fromkeys(drawing.problems)
        ],
        notices=[], point=None, stored=[], url=state.url,
    )  # fmt: skip


def _zoom(state: State) -> ZoomModel:
    columns, values = state.zoom.columns, state.zoom.values
    return ZoomModel(
        columns=(columns.low, columns.high) if columns else None,
        values={unit: (seen.low, seen.high) for unit, seen in values},
    )


def _tile(window: Window, state: State) -> TileModel:
    tile, columns = window.tile, len(window.axis.columns)
    last = newest_tile(columns, tile.scale)
    inner, outer = tile.zoomed_in(columns, focus=state.at), tile.zoomed_out()

    def url(scale: int, shown: int) -> str:
        # The newest tile is requested without a number, so that the link shows newer points later.
        wanted = None if shown == newest_tile(columns, scale).number else shown
        return state.during(scale, wanted).url

    return TileModel(
        scale=tile.scale,
        number=tile.number,
        follows=window.follows,
        newest=last.number,
        columns=columns,
        columns_of_point=columns_of_point(tile.scale),
        older=url(tile.scale, tile.left().number) if tile.number else None,
        newer=url(tile.scale, tile.right(columns).number) if not window.follows else None,
        zoomed_in=url(inner.scale, inner.number) if inner != tile else None,
        zoomed_out=url(outer.scale, outer.number) if outer != tile else None,
        latest=url(tile.scale, last.number) if not window.follows else None,
    )


def _beside(state: State, testbed: str, testbeds: list[str]) -> str | None:
    """Return the address with the traces of all testbeds; None if there is nothing to compare."""
    if len(testbeds) < 2 or TESTBED in state.query.by_key:  # noqa: PLR2004 - two to compare
        return None
    terms = tuple(Term(TESTBED, each) for each in testbeds)
    return state.but(testbed=testbed, query=Query((*state.terms, *terms))).url


def _point(window: Window, place: int) -> Point:
    covered = window.columns_of(place)
    last = window.axis.columns[covered.stop - 1]
    return Point(column=covered.start, columns=len(covered), commit=last.revision, started=last.started)
