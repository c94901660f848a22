"""Presentation of a drawing: lines, changes, notices of data that is not shown, shortcuts.

Missing numbers are None.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from perftrend.analysis.formula import Call, FormulaId, Text
from perftrend.analysis.formula.query import admits_missing
from perftrend.dashboard.explore.lines import (
    MOST_LINES,
    MOST_WITH_REPLICATES,
    Band,
    LineDrawing,
    PointLine,
    aggregates,
)
from perftrend.dashboard.explore.markers import MOST_TRACES as MOST_MARKED
from perftrend.dashboard.explore.markers import Marker
from perftrend.dashboard.explore.models import PlotChange
from perftrend.dashboard.explore.models import PlotLine as LineModel
from perftrend.dashboard.explore.state import AXES, ExploreState, Spread
from perftrend.dashboard.explore.window import Window
from perftrend.model import Samples, finite

_ROUNDED = 1e-12
"""Relative to the largest value."""


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

    def line(self, line: PointLine, label: str) -> LineModel:
        """Return the response model of a line."""
        average, last = mean(line.values), newest(line.values)
        place = None if last is None else int(np.flatnonzero(np.isfinite(line.values))[-1])
        band = (self.bands or {}).get(line.identity)
        state = self.state
        alone = ExploreState(
            testbed=state.testbed,
            scale=state.scale,
            tile=state.tile,
            ids=(line.identity,),
            downsample=state.downsample,
            spread=state.spread,
            zoom=state.zoom,
        )
        return LineModel(
            id=line.identity,
            label=label,
            parameters=line.trace.key.as_dict() if line.trace else {},
            unit=line.unit,
            better=line.trace.better.value if line.trace else "",
            values=numbers(line.values),
            least=None if line.least is None else numbers(line.least),
            greatest=None if line.greatest is None else numbers(line.greatest),
            low=numbers(band.low) if band else None,
            high=numbers(band.high) if band else None,
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
        elif state.terms and (state.show.is_scaled or len(drawing.places) > MOST_LINES):
            rows = Call("filter", (Text(str(state.query)),))
            found.append(str(FormulaId(Call(str(state.show), (rows,)) if state.show.is_scaled else rows)))
        else:
            found += [line.identity for line in drawing.lines.values() if line.is_normal]
        return [each for each in dict.fromkeys(found) if not each.startswith("!")]


def numbers(values: Samples) -> list[float | None]:
    """Return the values of an array, with None for NaN."""
    return [None if value != value else value for value in values.tolist()]  # noqa: PLR0124 - NaN


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
