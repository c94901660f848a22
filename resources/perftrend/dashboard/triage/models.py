"""Request and response models of ``/triage``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from perftrend.bisect.command import Bisection
from perftrend.dashboard.formats import plain
from perftrend.dashboard.job_requests import JobView
from perftrend.model import EnvironmentChange, SuspectRange
from perftrend.store.alerts import Item

LARGEST_NUMBER = 2**31 - 1
MOST_AT_ONCE = 500
"""Maximum number of items in one edit."""
_BOX = "item."
_TRACE_BOX = "trace."


def _owners(text: str) -> str:
    """Return owners, separated as those of several alerts are."""
    return ", ".join(filter(None, (each.strip() for each in text.split(","))))


Status = Literal["new", "ignored", "bug", "snoozed", "closed"]
EditStatus = Literal["new", "ignored", "bug", "closed"]
KindName = Literal["regression", "progression", "testbed", "silence", "stopped"]
Number = Annotated[int, Field(ge=1, le=LARGEST_NUMBER)]
Message = Annotated[str, AfterValidator(plain), AfterValidator(str.strip), Field(max_length=1000)]
Owner = Annotated[str, AfterValidator(plain), AfterValidator(_owners), Field(max_length=255)]
Versions = Annotated[dict[Number, Number], Field(min_length=1, max_length=MOST_AT_ONCE)]
Back = Annotated[str, Field(max_length=16_000)]


class ItemFilter(BaseModel):
    """Filter of the items on the page."""

    status: Literal["new", "bug", "open", "snoozed", "ignored", "closed", "all"] = "new"
    """``open``: new items and bugs."""
    owner: Annotated[str, AfterValidator(plain), Field(max_length=255)] = ""
    """One of the owners; empty: any."""
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
    def of(cls, span: SuspectRange) -> RangeView:
        """Return the view of a range."""
        return cls(
            last_good=span.last_good.revision,
            last_good_at=span.last_good.moment,
            first_changed=span.first_changed.revision,
            first_changed_at=span.first_changed.moment,
        )


class SnoozeView(BaseModel):
    """When a snoozed item is new again: at a moment or with a run, the other one is null."""

    until: datetime | None
    job: str | None
    build: int | None


class ItemView(BaseModel):
    """Findings that one commit may explain."""

    id: int
    testbed: str
    kind: KindName
    range: RangeView
    status: Status
    snooze: SnoozeView | None
    """When it is new again; null: it is not snoozed."""
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
    merged_into: int | None
    """The item that has its findings; null: it was not merged."""
    split_from: int | None
    """The item that its findings were split off from."""

    @classmethod
    def of(cls, item: Item, largest: str) -> ItemView:
        """Return the view of an item from the store."""
        names = (
            "testbed", "kind", "status", "reason", "message", "owner", "traces", "size", "low", "high",
            "opened", "changed", "changed_by", "version", "merged_into", "split_from",
        )  # fmt: skip
        values = {name: getattr(item, name) for name in names}
        snooze = item.triage.snooze
        return cls(
            id=item.identity,
            range=RangeView.of(item.span),
            largest=largest,
            snooze=SnoozeView(until=snooze.until, job=snooze.job, build=snooze.build) if snooze else None,
            **values,
        )


class TriagePage(BaseModel):
    """Items by kind, regressions first; each the newest and largest first."""

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


class PlotPoint(BaseModel):
    """A measured commit, and the values of traces there, relative to their means before the change.

    0 is the mean, and -0.1 is 10 % below it.
    """

    column: int
    """Position on the time axis of the testbed, as in Explore."""
    commit: str
    started: datetime
    largest: float | None
    """Value of the trace with the largest change."""
    median: float | None
    """Median of all traces."""
    low: float | None
    """Lower quartile of all traces."""
    high: float | None


class TraceLine(BaseModel):
    """A trace in a plot."""

    name: str
    values: list[float | None]
    """One for each point."""


class ItemPlot(BaseModel):
    """The traces of an item on one testbed around the change, each relative to its own mean before it."""

    testbed: str
    item: int | None
    """The item of this testbed about the same commits; null: nothing was found."""
    largest: str
    """Display name of the trace with the largest change; empty: this testbed does not have it, or none is."""
    traces: int
    """Number of traces that have a mean before the change."""
    change: float | None
    """Median of their changes, of up to 5 commits on each side; null: not measured on both sides."""
    last_good: int
    """Position among the points."""
    first_changed: int
    """Position among the points; their number: no changed commit was measured."""
    points: list[PlotPoint]
    lines: list[TraceLine]
    """All traces; empty if there are too many, and the quartiles are drawn instead."""


class CommitView(BaseModel):
    """A commit of the range."""

    commit: str
    subject: str
    """Empty: unknown."""
    author: str
    """Empty: unknown."""
    started: datetime | None
    """When it was first measured; null: it was not."""
    link: str
    """URL of its review; empty: unknown."""
    annotations: list[str]


class HistoryEntry(BaseModel):
    """An action in the history of an item."""

    number: int
    moment: datetime
    user: str
    """``evaluation`` and ``alerts`` are the dashboard itself."""
    action: str
    subject: str
    detail: str
    text: str
    """The action as a sentence."""


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


class CommonFeatures(BaseModel):
    """What all traces of an item have in common, and the fewest others have."""

    features: list[str]
    """Values such as ``frame=64B``, and words of names such as ``iacl50 in test``."""
    traces: int
    others: int
    """Number of other traces of the testbed that have all of this as well."""
    of_others: int
    """Number of all other traces of the testbed."""


class ItemDetail(BaseModel):
    """One item with all its details."""

    item: ItemView
    traces: list[TraceView]
    """The largest change first, at most 500."""
    plot: ItemPlot | None
    """Null if there is nothing to draw."""
    other_plots: list[ItemPlot]
    """The same traces on other testbeds, at most 12; those with an item about the same commits first."""
    merged: list[int]
    """Items that were merged into it."""
    split_from: ItemView | None
    """The item that it was split off from, if both can be merged again."""
    beside: list[ItemView]
    """Items of other testbeds that the same commit may explain, at most 50."""
    commits: list[CommitView]
    """Commits of the range, the oldest first; only the measured ones if the others are not known."""
    commits_are: Literal["all", "newest", "measured"]
    """Which commits of the range these are: ``newest`` are the newest 100 and those that were measured."""
    same_commit: bool
    """Whether the last good run and the first changed one measured the same commit."""
    common: CommonFeatures | None
    """What distinguishes the traces from the others of the testbed; null: nothing, or there is only one."""
    cycles: list[str]
    """The parts of the device that take more cycles per packet, in words, in the test that fell the most."""
    environment: list[EnvironmentChange]
    """What else differs between the two runs, apart from the commit of the device."""
    git_log: str
    """Command that lists all commits of the range; empty: the range is unknown."""
    bisect: Bisection | None
    jobs: list[JobView]
    """Bisections and other jobs that were requested for it, the newest first."""
    explore: str
    """URL of the plot of exactly these traces."""
    alerts: list[FinderView]
    """The alerts that found it."""
    activity: list[HistoryEntry]
    """The newest first."""
    messages: list[SentView]


class ItemVersions(BaseModel):
    """Items that are edited."""

    # A form also contains its CSRF token.
    model_config = ConfigDict(extra="ignore")

    items: Versions
    """The version of each item that the edit is based on."""
    back: Back = ""
    """URL that a form returns to, without ``/triage``."""

    @model_validator(mode="before")
    @classmethod
    def _with_boxes(cls, given: Any) -> Any:  # noqa: ANN401 - not validated yet
        """Convert the checkboxes of a form, ``item.12=3``, to ``items``."""
        return _collect_boxes(given)


class ItemEdits(ItemVersions):
    """Edit of the status of items."""

    status: EditStatus
    message: Message | None = None
    """None, or an empty field of a form: the messages of the items do not change."""


class SnoozeEdit(ItemVersions):
    """Items that are hidden until a date or a run."""

    until: Annotated[str, Field(max_length=100)] = ""
    """``next run`` or empty, ``7 days``, ``2026-12-01``, or ``build 61``."""
    message: Message | None = None


class OwnerEdit(ItemVersions):
    """Items that get another owner."""

    owner: Owner = ""
    """Empty: nobody."""


class Split(BaseModel):
    """Traces that are split off into a new item."""

    model_config = ConfigDict(extra="ignore")

    version: Number
    """The version of the item that the edit is based on."""
    traces: Annotated[list[Annotated[str, Field(max_length=32)]], Field(min_length=1, max_length=1000)]
    """Hashes of traces of the item."""

    @model_validator(mode="before")
    @classmethod
    def _with_boxes(cls, given: Any) -> Any:  # noqa: ANN401 - not validated yet
        """Convert the checkboxes of a form, ``trace.HASH=on``, to ``traces``."""
        if not isinstance(given, dict) or "traces" in given:
            return given
        boxes = [str(name) for name in given if str(name).startswith(_TRACE_BOX)]
        return {**given, "traces": [name.removeprefix(_TRACE_BOX) for name in boxes]}


class Undo(ItemVersions):
    """Items whose last edit is undone."""


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
