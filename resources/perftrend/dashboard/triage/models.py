"""Request and response models of ``/triage``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from perftrend.bisect.command import Bisection
from perftrend.dashboard.formats import plain
from perftrend.dashboard.job_requests import JobView
from perftrend.store.activity import ActivityEntry
from perftrend.store.alerts import Item, Span

LARGEST_NUMBER = 2**31 - 1
MOST_AT_ONCE = 500
"""Maximum number of items in one edit."""
_BOX = "item."

Status = Literal["new", "ignored", "bug", "closed"]
KindName = Literal["regression", "progression", "silence", "stopped"]
Number = Annotated[int, Field(ge=1, le=LARGEST_NUMBER)]
Message = Annotated[str, AfterValidator(plain), AfterValidator(str.strip), Field(max_length=1000)]


class ItemFilter(BaseModel):
    """Filter of the items on the page."""

    status: Literal["new", "ignored", "bug", "closed", "all"] = "new"
    owner: Annotated[str, AfterValidator(plain), Field(max_length=255)] = ""
    """Empty: any."""
    testbed: Annotated[str, AfterValidator(plain), Field(max_length=255)] = ""
    """Empty: any."""
    query: Annotated[str, Field(max_length=4000)] = ""
    """Items with a finding in a trace that matches the query; empty: all."""
    page: Annotated[int, Field(ge=1, le=100_000)] = 1
    done: Annotated[
        str, Field(max_length=16_000, pattern=r"^(\d{1,10}\.\d{1,10}(,\d{1,10}\.\d{1,10})*)?$")
    ] = ""
    """Items that were just changed, as ``12.3,13.4``: identity and version, for undo."""


class RangeView(BaseModel):
    """The commits after the last good one, up to the first changed one."""

    last_good: str
    """Hash of the commit; empty: unknown."""
    last_good_at: datetime
    first_changed: str
    first_changed_at: datetime

    @classmethod
    def of(cls, span: Span) -> RangeView:
        """Return the view of a span from the store."""
        return cls(
            last_good=span.last_good_revision,
            last_good_at=span.last_good,
            first_changed=span.first_changed_revision,
            first_changed_at=span.first_changed,
        )


class ItemView(BaseModel):
    """Findings that one commit may explain."""

    id: int
    testbed: str
    kind: KindName
    range: RangeView
    status: Status
    reason: str
    """Why it was closed automatically; empty if it was not."""
    message: str
    owner: str
    traces: int
    largest: str
    """Display name of the trace with the largest change; empty if the store no longer has it."""
    size: float | None
    """Size of that change, relative to the value before."""
    low: float | None
    """Lower bound of the size at 95 %; null: unknown."""
    high: float | None
    opened: datetime
    changed: datetime
    changed_by: str
    """User; empty: an evaluation."""
    version: int
    """Required in an edit."""

    @classmethod
    def of(cls, item: Item, largest: str) -> ItemView:
        """Return the view of an item from the store."""
        names = (
            "testbed", "kind", "status", "reason", "message", "owner", "traces", "size", "low", "high",
            "opened", "changed", "changed_by", "version",
        )  # fmt: skip
        values = {name: getattr(item, name) for name in names}
        return cls(id=item.identity, range=RangeView.of(item.span), largest=largest, **values)


class TriagePage(BaseModel):
    """Items: regressions, then progressions, then missing data, each the newest and largest first."""

    counts: dict[str, int]
    """Number of items of each status."""
    filter: ItemFilter
    total: int
    """Number of items that match the filter."""
    pages: int
    items: list[ItemView]
    undo: dict[int, int]
    """Items that were just changed: identities and versions."""
    waiting: int
    """Number of messages that are not sent yet."""


class TraceView(BaseModel):
    """Finding in one trace."""

    hash: str
    name: str
    """Empty if the store no longer has the trace."""
    parameters: dict[str, str]
    unit: str
    before: float | None
    after: float | None
    relative: float | None
    low: float | None
    """Lower bound of the step at 95 %, relative to the value before; null: unknown."""
    high: float | None
    confidence: float | None
    range: RangeView
    found: datetime
    gone: datetime | None
    """Time since which it is no longer found."""


class CommitView(BaseModel):
    """A measured commit of the range."""

    commit: str
    started: datetime
    link: str
    """URL of its review; empty: unknown."""
    annotations: list[str]


class SentView(BaseModel):
    """A message about an item."""

    alert: str
    action: str
    sent: datetime | None
    error: str
    """Why the last attempt failed."""
    given_up: bool
    """Whether it is no longer retried."""


class FinderView(BaseModel):
    """An alert that found an item."""

    id: int
    name: str


class ItemDetail(BaseModel):
    """One item with all its details."""

    item: ItemView
    traces: list[TraceView]
    """The largest change first, at most 500."""
    beside: list[ItemView]
    """Items of other testbeds that the same commit may explain, at most 50."""
    commits: list[CommitView]
    """Measured commits of the range, at most 100."""
    git_log: str
    """Command that lists all commits of the range; empty: the range is unknown."""
    bisect: Bisection | None
    jobs: list[JobView]
    """Bisections and other jobs that were requested for it, the newest first."""
    explore: str
    """URL of the plot of exactly these traces."""
    alerts: list[FinderView]
    """The alerts that found it."""
    activity: list[ActivityEntry]
    messages: list[SentView]


class ItemEdits(BaseModel):
    """Edit of items."""

    # A form also contains its CSRF token.
    model_config = ConfigDict(extra="ignore")

    items: Annotated[dict[Number, Number], Field(min_length=1, max_length=MOST_AT_ONCE)]
    """The version of each item that the edit is based on."""
    status: Status
    message: Message | None = None
    """None, or an empty field of a form: the messages of the items do not change."""
    back: Annotated[str, Field(max_length=16_000)] = ""
    """URL that a form returns to, without ``/triage``."""

    @model_validator(mode="before")
    @classmethod
    def _with_boxes(cls, given: Any) -> Any:  # noqa: ANN401 - not validated yet
        """Convert the checkboxes of a form, ``item.12=3``, to ``items``."""
        return _collect_boxes(given)


class Undo(BaseModel):
    """Items whose last edit is undone."""

    model_config = ConfigDict(extra="ignore")

    items: Annotated[dict[Number, Number], Field(min_length=1, max_length=MOST_AT_ONCE)]
    back: Annotated[str, Field(max_length=16_000)] = ""

    @model_validator(mode="before")
    @classmethod
    def _with_boxes(cls, given: Any) -> Any:  # noqa: ANN401 - not validated yet
        return _collect_boxes(given)


class EditedItems(BaseModel):
    """Result of an edit, with the items as they are now."""

    done: bool
    error: str = ""
    """Why nothing was changed, if another user was faster."""
    items: list[ItemView]
    """If the edit was refused, the items that were changed meanwhile."""
    wanted: dict[str, str] = {}
    """If the edit was refused, the values that it would have set."""


def _collect_boxes(given: Any) -> Any:  # noqa: ANN401 - not validated yet
    if not isinstance(given, dict) or "items" in given:
        return given
    boxes = {name.removeprefix(_BOX): value for name, value in given.items() if str(name).startswith(_BOX)}
    fields = {name: value for name, value in given.items() if not str(name).startswith(_BOX)}
    if not str(fields.get("message", "")).strip():
        fields.pop("message", None)
    return {**fields, "items": boxes}
