"""Request and response models of ``/compare``, and the query that the address of the page encodes."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal
from urllib.parse import urlencode

from fastapi import Query
from pydantic import BaseModel, ConfigDict, Field, field_validator

from perftrend.analysis.formula import Query as TraceQuery
from perftrend.analysis.formula import Term, parse_query
from perftrend.analysis.ratios import AGGREGATES
from perftrend.errors import FormulaError, nearest

BY_NAME = "name"
"""Sorts rows by test."""
_COLUMN = re.compile(r"c([0-9]{1,5})")

Verdict = Literal["better", "worse", "equal", "within noise", "no value"]
"""Result of a cell: left, compared with right."""


class By(StrEnum):
    """Kind of the two sides."""

    VERTICAL = "vertical"
    """Two values of a parameter."""
    COMMITS = "commits"
    """Two commits, of the same traces."""
    PATCH = "patch"
    """A measured patch set, and its baseline."""


class FallbackRule(StrEnum):
    """Which value is used if there is none of the exact commit."""

    NEAREST = "nearest"
    BEFORE = "before"
    AFTER = "after"


class Against(StrEnum):
    """Baseline of a patch set."""

    PARENT = "parent"
    """Its parent, measured in the same test."""
    TRACES = "traces"
    """The traces of the nightly runs."""


class Ratio(StrEnum):
    """Notation of the ratio of a cell."""

    PERCENT = "percent"
    SIGNED = "signed"
    PLAIN = "plain"

    @property
    def words(self) -> str:
        """Label of the option."""
        return {
            Ratio.PERCENT: "per cent",
            Ratio.SIGNED: "ratios with a sign",
            Ratio.PLAIN: "ratios below and above 1",
        }[self]

    @property
    def noun(self) -> str:
        """Name of the number."""
        return "difference" if self is Ratio.PERCENT else "ratio"

    @property
    def meaning(self) -> str:
        """Meaning of the number."""
        return {
            Ratio.PERCENT: "that of left from right, in per cent of right",
            Ratio.SIGNED: "left/right if left is larger, else -right/left",
            Ratio.PLAIN: "left/right: above 1 if left is larger, below 1 if right is",
        }[self]


class Question(BaseModel):
    """The whole query; texts are as the user entered them, without surrounding whitespace."""

    model_config = ConfigDict(frozen=True, str_strip_whitespace=True)

    q: Annotated[str, Field(max_length=10_000)] = ""
    """Query for the traces, in the syntax of Explore."""
    by: By = By.VERTICAL
    vertical: Annotated[str, Field(max_length=1000)] = ""
    left: Annotated[str, Field(max_length=1000)] = ""
    """A value of the vertical, or a commit."""
    right: Annotated[str, Field(max_length=1000)] = ""
    """The value or commit that left is compared with."""
    at: Annotated[str, Field(max_length=64)] = ""
    """The commit or the time of the values; empty: the latest."""
    rule: FallbackRule = FallbackRule.NEAREST
    patch: Annotated[str, Field(max_length=300)] = ""
    """The job and the build that measured a patch set, ``job/build``, or ``change/patch set``."""
    against: Against = Against.PARENT
    ratio: Ratio = Ratio.PERCENT
    noise: bool = False
    """Whether the page also shows rows whose differences are all within the noise."""
    sort: Annotated[str, Field(max_length=20)] = "weight"
    """An aggregate, ``name``, or ``c`` and the number of a column."""
    reverse: bool = False
    first: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """Index of the first row that is shown."""
    row: Annotated[str, Field(max_length=1000)] = ""
    """The only row to show, with all details; empty: many."""

    @field_validator("sort")
    @classmethod
    def _check_sort(cls, sort: str) -> str:
        if sort not in (*AGGREGATES, BY_NAME) and not _COLUMN.fullmatch(sort):
            raise ValueError(f"rows cannot be sorted by that{nearest(sort, (*AGGREGATES, BY_NAME, 'c0'))}")
        return sort

    @property
    def encoded(self) -> str:
        """The query string of the address, without defaults."""
        return self.but()

    def but(self, **changed: object) -> str:
        """Return the query string with other values in some fields."""
        values = {**self.model_dump(mode="json", exclude_defaults=True), **changed}
        # Without the fields of subclasses, which apply to one page view only.
        known = Question.model_fields
        return urlencode({
            name: int(values[name]) if values[name] is True else values[name]
            for name in known
            if name in values and values[name] != known[name].default
        })  # fmt: skip

    @property
    def column(self) -> int | None:
        """The number of the column that rows are sorted by; None: they are sorted by another criterion."""
        found = _COLUMN.fullmatch(self.sort)
        return int(found[1]) if found else None

    @property
    def is_whole(self) -> bool:
        """Whether it is complete enough to compare."""
        if self.by is By.PATCH:
            return bool(self.patch)
        return bool(self.left and self.right and (self.by is By.COMMITS or self.vertical))


class PageQuestion(Question):
    """Query of the page, with its additional field."""

    posted: Annotated[int | None, Field(ge=1, le=2**31 - 1)] = None
    """The change on which the table was just posted."""


class MessageQuestion(Question):
    """Query of the message, with its additional field."""

    change: Annotated[int | None, Field(ge=1, le=2**31 - 1)] = None
    """The change to post it on."""


TheQuestion = Annotated[Question, Query()]
"""The query of an address."""


def query_link_builder(requested: Question) -> Callable[[str, str], str]:
    """Return a function that builds the address with a value added to the query, or removed if present.

    Its arguments are the name of the parameter and the value. A page has hundreds of such addresses, so
    their common part is encoded once.
    """
    rest = requested.but(q="", first=0, row="")
    try:
        terms = parse_query(requested.q).terms
    except FormulaError:
        terms = ()

    def narrowed(name: str, value: str) -> str:
        term = Term(name, value)
        query = TraceQuery(tuple(each for each in terms if each != term) if term in terms else (*terms, term))
        return "&".join(filter(None, (urlencode({"q": query}) if query.terms else "", rest)))

    return narrowed


def rows_of(requested: Question) -> Callable[[str], str]:
    """Return a function that builds the address of a single row from its name."""
    rest = requested.but(row="")
    return lambda name: f"{rest}&{urlencode({'row': name})}" if name else rest


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
