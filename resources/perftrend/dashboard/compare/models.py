"""Request and response models of ``/compare``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

Verdict = Literal["better", "worse", "equal", "within noise", "no value"]
"""Result of a cell: left, compared with right."""


class SideEntry(BaseModel):
    """One of the two values of a cell."""

    trace: str
    """Trace id; for a patch set, the name of the test."""
    value: float | None
    commit: str
    """The commit that was measured; empty: unknown."""
    measured: datetime | None
    distance: int
    """Number of columns from the requested place to the value; negative: before it."""


class CellEntry(BaseModel):
    """Two values and their ratio."""

    column: int
    left: SideEntry
    right: SideEntry
    unit: str
    better: str
    """``higher`` or ``lower``."""
    signed: float | None
    """left/right if left is larger, else -right/left."""
    ratio: float | None
    """left/right."""
    low: float | None
    """That ratio is between low and high with 99 % confidence; null if the noise is unknown."""
    high: float | None
    verdict: Verdict
    shade: int
    """From -4, worse, to 4, better."""


class RowEntry(BaseModel):
    """A test."""

    name: str
    weight: float | None
    worst: float | None
    """The worst ratio for left; above 1, left is better."""
    best: float | None
    mean: float | None
    """The geometric mean of the ratios; above 1, left is better."""
    count: int
    """Number of cells with a result."""
    cells: list[CellEntry | None]
    """One for each column that is shown; null if the row has none."""


class ColumnEntry(BaseModel):
    """Parameters that the cells of a column share."""

    number: int
    """Number of the column; ``c`` and this number sort the rows by it."""
    name: str
    """The values, in the order of the parameters; empty if no parameter distinguishes the columns."""
    parameters: dict[str, str]


class ChoiceEntry(BaseModel):
    """A selectable value."""

    value: str
    count: int


class ParameterEntry(BaseModel):
    """A parameter of the selected traces."""

    name: str
    values: list[ChoiceEntry]
    more: int
    """Number of values that are left out here."""


class PatchEntry(BaseModel):
    """A per-patch test."""

    name: str
    """``job/build``, by which it is selected."""
    patch: str
    """The change and the patch set, or the commit."""
    testbed: str
    finished: datetime
    """When its newest round ended."""
    in_progress: bool


class TableEntry(BaseModel):
    """The table, or a part of its rows."""

    left: str
    """Display name of the left side."""
    right: str
    common: dict[str, str]
    """Parameters that all pairs share."""
    columns: list[ColumnEntry]
    hidden_columns: int
    """Number of columns that are left out here; the CSV file contains them."""
    rows: list[RowEntry]
    first: int
    all_rows: int
    """Number of rows of all parts; without those within the noise if the page does not show them."""
    rows_within_noise: int
    """Number of rows whose differences are all within the noise. JSON and CSV always contain them."""
    better: int
    """Number of cells in which left is better by more than noise; likewise for the following fields."""
    worse: int
    within_noise: int
    no_value: int
    full_shade: float
    """The ratio above which the shade is full."""
    left_alone: list[str]
    """Some of the traces or tests without a partner."""
    right_alone: list[str]
    left_alone_count: int
    right_alone_count: int
    simulated: list[str]
    """Testbeds that sent no packets."""
    patch: str
    """The summary of the per-patch test; empty if none is compared."""
    in_progress: bool
    """Whether the per-patch test has not ended and may have further rounds."""
    updated: datetime | None
    """When the newest round of the per-patch test ended; null if none is compared."""


class CompareResponse(BaseModel):
    """The query, its selectable values, and the result."""

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
    """Notation on the page: ``percent``, ``signed`` or ``plain``; a cell here has both ratios."""
    noise: bool
    """Whether the page shows rows within the noise."""
    sort: str
    reverse: bool
    traces: int
    """Number of traces that match the query."""
    parameters: list[ParameterEntry]
    patches: list[PatchEntry]
    problem: str
    """Why there is no table; empty if there is one, or the query is incomplete."""
    table: TableEntry | None


class Preview(BaseModel):
    """The message that would be posted in Gerrit."""

    text: str
    """The exact text."""
    digest: str
    """Digest of the text, to be sent back with the form."""
    nonce: str
    """Distinguishes a form that is sent twice from two forms."""
    change: int | None
    """The change to post on; by default that of the compared patch set."""
    patch_set: int | None
    error: str
    """Why it cannot be or was not posted; empty if there is no problem."""


class ToPost(BaseModel):
    """Request to post a message."""

    digest: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    nonce: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")]
    change: Annotated[int, Field(ge=1, le=2**31 - 1)]
    patch_set: Annotated[int, Field(ge=0, le=100_000)] = 0
    """0: the newest."""


class PostedEntry(BaseModel):
    """Result of a request to post a message."""

    change: int
    patch_set: int
    page: str
    """The address of the change."""
    is_new: bool
    """False: it was posted before."""
