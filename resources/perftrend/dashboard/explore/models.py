"""Request and response models of Explore."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import (
    BaseModel,
    ConfigDict,
    PlainSerializer,
    SkipValidation,
    WithJsonSchema,
    field_validator,
)

from perftrend.bisect.command import Bisection
from perftrend.measurement import LoadLatency
from perftrend.model import Samples

Number = float | None
"""Null if missing."""


def _numbers(values: Samples) -> list[Number]:
    return [None if value != value else value for value in values.tolist()]  # noqa: PLR0124 - NaN


Numbers = Annotated[
    Samples,
    SkipValidation,
    PlainSerializer(_numbers),
    WithJsonSchema({"type": "array", "items": {"anyOf": [{"type": "number"}, {"type": "null"}]}}),
]
"""An array, NaN for missing values; null in JSON. Lists of a million numbers would take most of the time."""


class ResponsePart(BaseModel):
    """A part of a response."""

    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True, arbitrary_types_allowed=True)


class Value(ResponsePart):
    """A selectable value."""

    value: str
    count: int
    """Number of traces left if it were the only selected value of its parameter."""
    chosen: bool


class ParameterChoices(ResponsePart):
    """A parameter and its selectable values."""

    name: str
    values: list[Value]
    of: int
    """Number of values."""
    hidden: int
    """Number of matching values that are not listed; use ``find`` with a part of the value to list them."""


class Condition(ResponsePart):
    """A condition of the query."""

    text: str
    name: str
    value: str
    negated: bool
    pattern: bool
    optional: bool
    """Whether traces without the parameter match, too."""
    without: str
    """The address of the page without it."""


class Mistake(ResponsePart):
    """An error in the input."""

    field: str
    """``q``, ``queries``, ``id`` or ``shortcut``."""
    text: str
    position: int
    """Position of the error, from 0."""
    reason: str
    caret: str
    """Line to show below the text, with a caret at the position."""


class PlotChange(ResponsePart):
    """A change that the analysis engine finds in a trace."""

    trace: str
    point: int
    """Index among the points, from 0."""
    column: int
    before: float
    after: float
    relative: Number
    direction: str


class CommitNote(ResponsePart):
    """A user's note on a commit."""

    point: int
    column: int
    commit: str
    text: str
    user: str


class SetChangeModel(ResponsePart):
    """A commit at which the set of traces of a relative average changes; the average continues unmoved."""

    line: str
    """The id of the line."""
    point: int
    """Index among the points, from 0."""
    column: int
    added: int
    """Number of traces that begin there."""
    removed: int
    """Number of traces that ended before it."""
    traces: list[str]
    """The ids of these traces, at most twenty; the added ones first."""


class PlotLine(ResponsePart):
    """A line of the plot."""

    id: str
    """A trace id: normal, ``!`` calculated or ``@`` formula."""
    label: str
    """The values that distinguish it from the other lines."""
    parameters: dict[str, str]
    """Of the trace that it shows or is calculated from; empty for rows of formulas over several."""
    unit: str
    """Of the values; empty: dimensionless."""
    better: str
    """``higher``, ``lower`` or empty: of that trace."""
    values: Numbers
    """One for each point. At a coarse scale, the average of the covered columns, or the newest value."""
    least: Numbers | None
    """Minimum of the values that each coarse point covers; null if a point is one value."""
    greatest: Numbers | None
    low: Numbers | None
    """The lower end of the band of the replicates."""
    high: Numbers | None
    newest: Number
    """The newest value of the tile."""
    newest_column: int | None
    """Column of the newest value."""
    silent: int
    """Number of points after the newest value."""
    mean: Number
    """Of all values of the tile."""
    change: Number
    """Relative difference of the newest value from this mean; null if values are on both sides of zero."""
    changes: int
    """Number of changes in the tile."""
    url: str
    """The page with only this line."""


class AxisPoint(ResponsePart):
    """A position on the horizontal axis."""

    column: int
    """Its first column; columns are counted from the oldest of the testbed."""
    columns: int
    """Number of columns that it covers."""
    commit: str
    """Of the newest column; empty: unknown."""
    started: datetime


class TileModel(ResponsePart):
    """The part of time that is shown, and the addresses of other parts."""

    scale: int
    number: int
    follows: bool
    """Whether these are the newest points, which change with new runs, not those of the tile."""
    newest: int
    """The number of the newest tile of this scale."""
    columns: int
    """Number of columns of the testbed."""
    columns_of_point: int
    points: int
    """Maximum number of points that are shown, up to the end of the tile."""
    older: str | None
    newer: str | None
    zoomed_in: str | None
    zoomed_out: str | None
    latest: str | None
    """The newest points, without a tile number: the same address shows newer points later."""


class ZoomModel(ResponsePart):
    """The visible part of the plot."""

    columns: tuple[float, float] | None
    """The first and the last, possibly between points; null: all."""
    values: dict[str, tuple[float, float]]
    """Minimum and maximum, by displayed unit; all values of other units are visible."""


class RunModel(ResponsePart):
    """A run behind a point."""

    name: str
    started: datetime
    finished: datetime
    versions: dict[str, str]
    status: str
    value: Number
    samples: list[float]
    message: str
    """Why there is no value, or the message of the test."""
    simulated: bool
    latency: dict[str, LoadLatency]
    """The latency that the test measured, by metric; empty if it measured none."""
    links: dict[str, str]
    """To the build, its log.html, its report and its archive, as far as they are known."""


class CommitModel(ResponsePart):
    """A measured commit."""

    column: int
    commit: str
    started: datetime
    review: str
    """URL of its review; empty: unknown."""


class PointModel(ResponsePart):
    """The selected point."""

    trace: str
    column: int
    last: int
    """The last column that it covers."""
    commit: str
    review: str
    started: datetime
    unit: str
    value: Number
    least: Number
    greatest: Number
    before: Number
    """The value before it."""
    change: Number
    """Relative difference from the value before it; null if values are on both sides of zero."""
    runs: list[RunModel]
    since: CommitModel | None
    """The commit that it is compared with: of the chosen point, or of the value before it."""
    chosen: bool
    """Whether the user chose that point."""
    commits: list[CommitModel]
    """Commits measured after that one, the newest first."""
    git_log: str
    """A command that lists all commits between both."""
    bisect: Bisection | None
    older: str | None
    """The page with the value before."""
    newer: str | None
    closed: str
    """The page without a point."""
    compared: str
    """The page on which the next selected point is compared with this one."""
    zoomed_in: str | None


class Explore(BaseModel):
    """Response of Explore."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    testbed: str
    testbeds: list[str]
    beside: str | None
    """The page with the traces of all testbeds; null if there is only one, or the query names testbeds."""
    tile: TileModel | None
    """Null if the store has no run."""
    query: str
    conditions: list[Condition]
    parameters: list[ParameterChoices]
    names: list[str]
    """Parameters to aggregate by."""
    show: str
    by: str
    downsample: str
    """Value of a point of a coarse scale: ``mean`` or ``nth``."""
    spread: str
    zoom: ZoomModel
    matched: int
    """Number of traces that match the query."""
    left_out: int
    """Number of lines that exceed the maximum."""
    most: int
    """Maximum number of lines."""
    common: dict[str, str]
    """The parameters that all normal traces have in common."""
    common_parts: dict[str, str]
    """What the values of others have in common at their ends, such as ``64b-…-mrr``; labels omit it."""
    units: list[str]
    """Units of the lines, the most frequent first; a plot has axes for two."""
    points: list[AxisPoint]
    lines: list[PlotLine]
    empty: list[str]
    """Trace ids that currently have no line."""
    changes: list[PlotChange]
    suspected: list[PlotChange]
    """Single outlier runs, and changes in the newest runs that further runs have to confirm."""
    set_changes: list[SetChangeModel]
    """Where the sets of traces of relative averages change."""
    notes: list[CommitNote]
    simulated: bool
    """Whether the testbed has runs that sent no packets."""
    mistakes: list[Mistake]
    notices: list[str]
    """Data that is not shown, with the reasons."""
    point: PointModel | None
    stored: list[str]
    """Trace ids that a shortcut of this page would contain."""
    url: str
    """The address of the whole selection."""


class SavedSelection(ResponsePart):
    """A saved shortcut or short address."""

    id: str
    url: str


class ShortcutRequest(ResponsePart):
    """Request to save a shortcut."""

    ids: list[str]
    """Trace ids; calculated ones are left out, because formulas reproduce them. In a form, one per line."""

    @field_validator("ids", mode="before")
    @classmethod
    def _lines(cls, given: object) -> object:
        return given.splitlines() if isinstance(given, str) else given


class ShortAddressRequest(ResponsePart):
    """Request to create a short address."""

    url: str
    """Address of the page, or its query string."""
