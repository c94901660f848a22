"""What the page answers."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel, ConfigDict, field_validator

Number = float | None
"""Null where there is none."""


class Part(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(use_attribute_docstrings=True, frozen=True)


class Value(Part):
    """A value that may be chosen."""

    value: str
    count: int
    """Traces that would be left if it were the only chosen value of its parameter."""
    chosen: bool


class Parameter(Part):
    """A parameter and the values that may be chosen."""

    name: str
    values: list[Value]
    of: int
    """How many values there are."""
    hidden: int
    """How many of those that fit are not told here: ask with a part of the value (``find``)."""


class Condition(Part):
    """A condition of the query."""

    text: str
    name: str
    value: str
    negated: bool
    pattern: bool
    optional: bool
    """Whether a trace without the parameter fits, too."""
    without: str
    """The address of the page without it."""


class Mistake(Part):
    """What was written in a wrong way."""

    field: str
    """``q``, ``queries``, ``id`` or ``shortcut``."""
    text: str
    position: int
    """Of what is wrong, from 0."""
    reason: str
    caret: str
    """Stands below the text and points at the position."""


class Change(Part):
    """A change that the analysis engine sees in a trace."""

    trace: str
    point: int
    """Its place among the points, from 0."""
    column: int
    before: float
    after: float
    relative: Number
    direction: str


class Note(Part):
    """What somebody wrote about a commit."""

    point: int
    column: int
    commit: str
    text: str
    user: str


class Line(Part):
    """A line of the plot."""

    id: str
    """A trace id: normal, ``!`` calculated or ``@`` formula."""
    label: str
    """The values in which it differs from the others."""
    parameters: dict[str, str]
    """Of the trace that it is or was calculated from; empty for rows of formulas over several."""
    unit: str
    """Of the values; empty: mere numbers."""
    better: str
    """``higher``, ``lower`` or empty: of that trace."""
    values: list[Number]
    """One a point. At a coarse scale the average of the columns that it covers, or the newest's value."""
    least: list[Number] | None
    """The least of the values that coarse points cover; null where a point is one value."""
    greatest: list[Number] | None
    low: list[Number] | None
    """The lower end of the band of the replicates."""
    high: list[Number] | None
    newest: Number
    """The newest value of the tile."""
    newest_column: int | None
    """Where it is."""
    silent: int
    """How many points have come since."""
    mean: Number
    """Of all values of the tile."""
    change: Number
    """The newest value against this mean, relative to it; null where values lie on both sides of zero."""
    changes: int
    """How many changes the tile has."""
    url: str
    """The page of this line alone."""


class Point(Part):
    """What is drawn above one place of the axis."""

    column: int
    """Its first column; columns are counted from the oldest of the testbed."""
    columns: int
    """How many columns it covers."""
    commit: str
    """Of the newest column; empty where it is not known."""
    started: datetime


class TileModel(Part):
    """The part of time that is shown, and the addresses of others."""

    scale: int
    number: int
    follows: bool
    """Whether these are the newest 128 points, and tomorrow others, rather than the tile of this number."""
    newest: int
    """The number of the newest tile of this scale."""
    columns: int
    """Columns of the testbed."""
    columns_of_point: int
    older: str | None
    newer: str | None
    zoomed_in: str | None
    zoomed_out: str | None
    latest: str | None
    """The newest tile, kept as such: tomorrow it is another one."""


class ZoomModel(Part):
    """What of the plot is seen."""

    columns: tuple[float, float] | None
    """The first and the last, between points perhaps; null: all."""
    values: dict[str, tuple[float, float]]
    """The least and the greatest by the unit that people read; of other units all are seen."""


class RunModel(Part):
    """A run behind a point."""

    name: str
    started: datetime
    finished: datetime
    versions: dict[str, str]
    status: str
    value: Number
    samples: list[float]
    message: str
    """Why there is no value, or what the test said."""
    simulated: bool
    links: dict[str, str]
    """Of the build, its log.html, its report and its archive, as far as they are known."""


class CommitModel(Part):
    """A commit that was measured."""

    column: int
    commit: str
    started: datetime
    review: str
    """Where it is reviewed; empty: not known."""


class BisectModel(Part):
    """A bisection, ready to be copied; nothing is started here."""

    old: str
    new: str
    comment: str
    """For Gerrit, on the change of the newer commit."""
    command: str
    change: str
    """Where that change is; empty: not known."""


class PointModel(Part):
    """A point that is looked at."""

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
    """Against the value before it, relative to it; null where values lie on both sides of zero."""
    runs: list[RunModel]
    since: CommitModel | None
    """The earlier point that it is compared with: chosen, or the value before it."""
    chosen: bool
    """Whether somebody has chosen that point."""
    commits: list[CommitModel]
    """Those that were measured after it, the newest first."""
    git_log: str
    """A command that lists all commits between both."""
    bisect: BisectModel | None
    older: str | None
    """The page with the value before."""
    newer: str | None
    closed: str
    """The page without a point."""
    compared: str
    """The page on which the next point that is chosen is compared with this one."""
    zoomed_in: str | None


class Explore(BaseModel):
    """What is explored."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    testbed: str
    testbeds: list[str]
    beside: str | None
    """The page with the traces of all testbeds; null: there is one only, or the query names testbeds."""
    tile: TileModel | None
    """Null while the store has no run."""
    query: str
    conditions: list[Condition]
    parameters: list[Parameter]
    names: list[str]
    """All parameters, to aggregate by."""
    show: str
    by: str
    downsample: str
    """What a point of a coarse scale is: ``mean`` or ``nth``."""
    spread: str
    zoom: ZoomModel
    matched: int
    """Traces that the query fits."""
    left_out: int
    """Lines that would be too many to be drawn."""
    most: int
    """Lines that are drawn at most."""
    common: dict[str, str]
    """The parameters that all normal traces have in common."""
    units: list[str]
    """Those of the lines, the most frequent first; a plot has axes for two."""
    points: list[Point]
    lines: list[Line]
    empty: list[str]
    """Trace ids that give no line now."""
    changes: list[Change]
    suspected: list[Change]
    """Single bad runs, and newest ones of which the next ones decide what they are."""
    notes: list[Note]
    simulated: bool
    """Whether runs of the tile sent no packets."""
    mistakes: list[Mistake]
    notices: list[str]
    """What is not shown, and why."""
    point: PointModel | None
    stored: list[str]
    """The trace ids that a shortcut of this page holds."""
    url: str
    """The address of all that was chosen."""


class Kept(Part):
    """What was kept."""

    id: str
    url: str


class ShortcutAsked(Part):
    """What a shortcut shall hold."""

    ids: list[str]
    """Trace ids; calculated ones are left out: the formulas make them again. In a form, one a line."""

    @field_validator("ids", mode="before")
    @classmethod
    def _lines(cls, given: object) -> object:
        return given.splitlines() if isinstance(given, str) else given


class ShortAsked(Part):
    """The page that shall get a short address."""

    url: str
    """Its address, or what stands behind the question mark of it."""
