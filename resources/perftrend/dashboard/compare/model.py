"""What ``/compare`` answers, and what it is sent."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

Verdict = Literal["better", "worse", "equal", "within noise", "no value"]
"""What a cell says of left, compared with right."""


class SideEntry(BaseModel):
    """One of the two values of a cell."""

    trace: str
    """Its id; of a patch set, the name of the test."""
    value: float | None
    commit: str
    """Which one it was measured of; empty where that is not known."""
    measured: datetime | None
    distance: int
    """Columns from what was asked for to what was taken; negative: before it."""


class CellEntry(BaseModel):
    """Two values and their ratio."""

    column: int
    left: SideEntry
    right: SideEntry
    unit: str
    better: str
    """``higher`` or ``lower``."""
    signed: float | None
    """left/right where left is larger, else -right/left."""
    ratio: float | None
    """left/right."""
    low: float | None
    """That ratio lies between low and high with 99 %; null where the noise is not known."""
    high: float | None
    verdict: Verdict
    shade: int
    """From -4, worse, to 4, better."""


class RowEntry(BaseModel):
    """A test."""

    name: str
    weight: float | None
    worst: float | None
    """The ratio that speaks most against left; above 1 it is better."""
    best: float | None
    mean: float | None
    """The geometric mean of the ratios; above 1, left is better."""
    count: int
    """Cells that say something."""
    cells: list[CellEntry | None]
    """One for each column that is shown; null where the row has none."""


class ColumnEntry(BaseModel):
    """What the cells of a column have in common."""

    number: int
    """What rows are sorted by, behind a ``c``."""
    name: str
    """The values, in the order of the parameters; empty where nothing tells the columns apart."""
    parameters: dict[str, str]


class ChoiceEntry(BaseModel):
    """A value that can be chosen."""

    value: str
    count: int


class ParameterEntry(BaseModel):
    """A parameter of the traces that are chosen."""

    name: str
    values: list[ChoiceEntry]
    more: int
    """Values that are left out here."""


class PatchEntry(BaseModel):
    """A per-patch test."""

    name: str
    """``job/build``: what it is chosen by."""
    patch: str
    """The change and the patch set, or the commit."""
    testbed: str
    finished: datetime
    """When its newest round ended."""
    in_progress: bool


class TableEntry(BaseModel):
    """The table, or a part of its rows."""

    left: str
    """What is left, for people."""
    right: str
    common: dict[str, str]
    """Parameters that all pairs have the same."""
    columns: list[ColumnEntry]
    hidden_columns: int
    """Columns that are left out here, and not from the CSV."""
    rows: list[RowEntry]
    first: int
    all_rows: int
    better: int
    """Cells in which left is better by more than noise; so are the following ones."""
    worse: int
    within_noise: int
    no_value: int
    full_shade: float
    """The ratio from which on the shade is full."""
    left_alone: list[str]
    """Some of those that have no partner."""
    right_alone: list[str]
    left_alone_count: int
    right_alone_count: int
    simulated: list[str]
    """Testbeds that sent no packets."""
    patch: str
    """What the per-patch test itself says; empty where none is compared."""
    in_progress: bool
    """Whether the per-patch test has not ended: it may get further rounds."""
    updated: datetime | None
    """When the newest round of the per-patch test ended; null where none is compared."""


class Compared(BaseModel):
    """What was asked, what can be asked, and the answer."""

    q: str
    by: str
    vertical: str
    left: str
    right: str
    at: str
    rule: str
    patch_of: str
    against: str
    ratio: str
    """How the page writes the ratio of a cell: ``signed`` or ``plain``; a cell here has both."""
    sort: str
    reverse: bool
    traces: int
    """How many the query fits."""
    parameters: list[ParameterEntry]
    patches: list[PatchEntry]
    problem: str
    """Why there is no table; empty where there is one, or nothing was asked."""
    table: TableEntry | None


class Preview(BaseModel):
    """The message that would be posted in Gerrit."""

    text: str
    """To the letter."""
    digest: str
    """What stands for the text when it is sent."""
    nonce: str
    """Tells a form that is sent twice from two forms."""
    change: int | None
    """The change of the patch set that is compared."""
    patch_set: int | None
    error: str
    """Why it was not posted; empty where nobody has tried."""


class ToPost(BaseModel):
    """What is to be posted."""

    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    nonce: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    change: Annotated[int, Field(ge=1, le=2**31 - 1)]
    patch_set: Annotated[int, Field(ge=0, le=100_000)] = 0
    """0: the newest."""


class PostedEntry(BaseModel):
    """What became of it."""

    change: int
    patch_set: int
    page: str
    """The address of the change."""
    is_new: bool
    """False: it was there already."""
