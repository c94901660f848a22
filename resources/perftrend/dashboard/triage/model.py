"""What ``/triage`` takes and answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from perftrend.dashboard.formats import plain
from perftrend.store.alerts import Item, Span

LARGEST_NUMBER = 2**31 - 1
MOST_AT_ONCE = 500
"""Items in one edit."""
_BOX = "item."

Status = Literal["new", "ignored", "bug", "closed"]
KindName = Literal["regression", "progression", "silence", "stopped"]
Number = Annotated[int, Field(ge=1, le=LARGEST_NUMBER)]
Message = Annotated[str, AfterValidator(plain), AfterValidator(str.strip), Field(max_length=1000)]


class ItemFilter(BaseModel):
    """Which items are looked at."""

    status: Literal["new", "ignored", "bug", "closed", "all"] = "new"
    owner: Annotated[str, AfterValidator(plain), Field(max_length=255)] = ""
    """Empty: whoever it is."""
    testbed: Annotated[str, AfterValidator(plain), Field(max_length=255)] = ""
    """Empty: any."""
    query: Annotated[str, Field(max_length=4000)] = ""
    """Items that are found in one of the traces that a query fits; empty: all."""
    page: Annotated[int, Field(ge=1, le=100_000)] = 1
    done: Annotated[
        str, Field(max_length=16_000, pattern=r"^(\d{1,10}\.\d{1,10}(,\d{1,10}\.\d{1,10})*)?$")
    ] = ""
    """Items that were changed a moment ago, ``12.3,13.4``: identity and version, to be taken back."""


class RangeView(BaseModel):
    """The commits after the last good one, up to the first changed one."""

    last_good: str
    """Its hash; empty where it is not known."""
    last_good_at: datetime
    first_changed: str
    first_changed_at: datetime

    @classmethod
    def of(cls, span: Span) -> RangeView:
        """Take it from the store."""
        return cls(
            last_good=span.last_good_revision,
            last_good_at=span.last_good,
            first_changed=span.first_changed_revision,
            first_changed_at=span.first_changed,
        )


class ItemView(BaseModel):
    """What one commit may explain."""

    id: int
    testbed: str
    kind: KindName
    range: RangeView
    status: Status
    reason: str
    """Why it was closed without a person; empty where it was not."""
    message: str
    owner: str
    traces: int
    largest: str
    """The trace with the largest change, as people call it; empty where the store has it no more."""
    size: float | None
    """Of that change, relative to what was before."""
    low: float | None
    """The least size at 95 %; null: not known."""
    high: float | None
    opened: datetime
    changed: datetime
    changed_by: str
    """Empty: an evaluation."""
    version: int
    """What an edit has to carry."""

    @classmethod
    def of(cls, item: Item, largest: str) -> ItemView:
        """Take it from the store."""
        names = (
            "testbed", "kind", "status", "reason", "message", "owner", "traces", "size", "low", "high",
            "opened", "changed", "changed_by", "version",
        )  # fmt: skip
        told = {name: getattr(item, name) for name in names}
        return cls(id=item.identity, range=RangeView.of(item.span), largest=largest, **told)


class TriagePage(BaseModel):
    """Items: regressions, then improvements, then silence, each the newest and largest first."""

    counts: dict[str, int]
    """How many items there are of each status."""
    filter: ItemFilter
    total: int
    """Items that fit the filter."""
    pages: int
    items: list[ItemView]
    undo: dict[int, int]
    """What was changed a moment ago: identities and versions."""
    waiting: int
    """Messages that are not sent yet."""


class TraceView(BaseModel):
    """What was found in one trace."""

    hash: str
    name: str
    """Empty where the store has the trace no more."""
    parameters: dict[str, str]
    unit: str
    before: float | None
    after: float | None
    relative: float | None
    low: float | None
    """The least step at 95 %, relative to what was before; null: not known."""
    high: float | None
    confidence: float | None
    range: RangeView
    found: datetime
    gone: datetime | None
    """Since when it is not found any more."""


class CommitView(BaseModel):
    """A measured commit of the range."""

    commit: str
    started: datetime
    link: str
    """Where it is reviewed; empty: not known."""
    annotations: list[str]


class BisectView(BaseModel):
    """A bisection, ready to be started."""

    comment: str
    """For Gerrit, on the change of the first changed commit."""
    command: str
    change: str
    """Where that change is; empty: not known."""


class EntryView(BaseModel):
    """Something that was done to an item."""

    moment: datetime
    user: str
    action: str
    detail: str


class SentView(BaseModel):
    """A message about an item."""

    alert: str
    action: str
    sent: datetime | None
    error: str
    """Why it was not sent last time."""
    given_up: bool
    """Whether it is not tried any more."""


class FinderView(BaseModel):
    """An alert that found an item."""

    id: int
    name: str


class ItemDetail(BaseModel):
    """One item with all that is known of it."""

    item: ItemView
    traces: list[TraceView]
    """The largest change first, at most 500."""
    beside: list[ItemView]
    """Items of other testbeds that the same commit may explain, at most 50."""
    commits: list[CommitView]
    """Those that were measured, at most 100."""
    git_log: str
    """Lists all commits of the range; empty where they are not known."""
    bisect: BisectView | None
    explore: str
    """Where exactly these traces are drawn."""
    alerts: list[FinderView]
    """The alerts that found it."""
    activity: list[EntryView]
    messages: list[SentView]


class Edits(BaseModel):
    """What somebody says of items."""

    # A form carries its token, too.
    model_config = ConfigDict(extra="ignore")

    items: Annotated[dict[Number, Number], Field(min_length=1, max_length=MOST_AT_ONCE)]
    """The version of each item that the edit was made from."""
    status: Status
    message: Message | None = None
    """None, or nothing from a form: each keeps its own."""
    back: Annotated[str, Field(max_length=16_000)] = ""
    """Where a form goes back to, behind ``/triage``."""

    @model_validator(mode="before")
    @classmethod
    def _with_boxes(cls, given: Any) -> Any:  # noqa: ANN401 - it is not checked yet
        """Take the boxes of a form, ``item.12=3``, for the items."""
        return _boxed(given)


class Undo(BaseModel):
    """Items of which the last thing that was said is taken back."""

    model_config = ConfigDict(extra="ignore")

    items: Annotated[dict[Number, Number], Field(min_length=1, max_length=MOST_AT_ONCE)]
    back: Annotated[str, Field(max_length=16_000)] = ""

    @model_validator(mode="before")
    @classmethod
    def _with_boxes(cls, given: Any) -> Any:  # noqa: ANN401 - it is not checked yet
        return _boxed(given)


class Changed(BaseModel):
    """The items of an edit as they are now."""

    done: bool
    error: str = ""
    """Why nothing was changed, where somebody was faster."""
    items: list[ItemView]
    """Of a refused edit, those that somebody else has changed."""
    wanted: dict[str, str] = {}
    """Of a refused edit, what was to be said."""


def _boxed(given: Any) -> Any:  # noqa: ANN401 - it is not checked yet
    if not isinstance(given, dict) or "items" in given:
        return given
    boxes = {name.removeprefix(_BOX): value for name, value in given.items() if str(name).startswith(_BOX)}
    said = {name: value for name, value in given.items() if not str(name).startswith(_BOX)}
    if not str(said.get("message", "")).strip():
        said.pop("message", None)
    return {**said, "items": boxes}
