"""What ``/clusters`` takes and answers."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from perftrend.analysis.cluster import TriageStatus
from perftrend.dashboard.clusters.options import Blank, Options
from perftrend.dashboard.clusters.parameters import Overrepresented
from perftrend.dashboard.formats import plain

LARGEST_NUMBER = 2**31 - 1
MOST_AT_ONCE = 500
"""Clusters in one edit."""
_BOX = "cluster."
_KEY = "^[1-9][0-9]{0,8}$"

Said = Literal["New", "Ignore", "Bug"]
"""A :class:`TriageStatus` in a request: its schema stands by itself."""
Number = Annotated[int, Field(ge=1, le=LARGEST_NUMBER)]
Message = Annotated[str, AfterValidator(plain), AfterValidator(str.strip), Field(max_length=1000)]


class Member(BaseModel):
    """A trace of a cluster."""

    hash: str
    parameters: dict[str, str]
    """Empty where the store has the trace no more."""
    distance: float
    """From the centroid, in deviations."""


class ClusterView(BaseModel):
    """A cluster."""

    id: int
    testbed: str
    commit: str
    """The first commit after the step."""
    commit_link: str
    """Where it is shown; empty where no Gerrit is set."""
    before: str
    """The commit before it."""
    moment: datetime
    """When the commit was first measured."""
    direction: Literal["regression", "progression"]
    regression: float | None
    """The documented statistic, negative for bad news; null: infinite."""
    interesting: bool
    """Whether it is beyond 150."""
    corrected: float | None
    """Student's t; null: infinite."""
    significant: bool
    """Whether it is beyond 8."""
    step: float
    """In deviations of the traces."""
    centroid: list[float]
    position: int
    """Of the commit in the centroid, from 0."""
    first: datetime
    last: datetime
    """The window."""
    size: int
    """The number of its traces."""
    total: int
    """Of all traces that were clustered."""
    members: list[Member]
    """The nearest to the centroid first; in lists the first 20."""
    parameters: list[Overrepresented]
    status: TriageStatus
    message: str
    version: int
    """What an edit has to carry."""
    found: datetime
    changed: datetime | None
    changed_by: str
    explore: str
    """Where its traces are drawn."""
    simulated: bool
    """Whether no packet was ever sent."""


class ClusteringView(BaseModel):
    """The newest clustering of a testbed."""

    testbed: str
    state: Literal["idle", "asked", "running", "done", "failed", "cancelled"]
    under_way: bool
    stage: str
    """What is being done, what went wrong, or who has cancelled it."""
    options: Options
    who: str
    """Empty: nobody asked, it was time."""
    asked: datetime | None
    finished: datetime | None
    result: dict[str, int | bool]
    """Numbers about the newest one that was done."""
    joined: bool = False
    """Whether it was under way already when it was asked for."""


class ClusterFilter(BaseModel):
    """Which clusters are looked at."""

    testbed: Annotated[str, Field(max_length=255)] = ""
    """Empty: of all testbeds."""
    status: Said | Literal[""] = ""
    """Empty: any."""
    order: Literal["regression", "newest"] = "regression"
    """What comes first: the largest statistic, or what was found last."""
    page: Annotated[int, Field(ge=1, le=100_000)] = 1
    deleted: Annotated[int, Field(ge=0)] | None = None
    """How many a reset has deleted a moment ago."""

    @property
    def chosen(self) -> TriageStatus | None:
        """The status that clusters have to have."""
        return TriageStatus(self.status) if self.status else None


class ClusterPage(BaseModel):
    """Clusters, 25 at a time."""

    testbeds: list[str]
    testbed: str
    """Whose clusters these are; empty: of all."""
    status: TriageStatus | None
    """The status that they have; null: any."""
    order: Literal["regression", "newest"]
    """What comes first."""
    counts: dict[TriageStatus, int]
    """How many there are of each status."""
    page: int
    pages: int
    clusters: list[ClusterView]
    clusterings: list[ClusteringView]
    """The newest one of each testbed that had one."""


class Entry(BaseModel):
    """Something that somebody did."""

    moment: datetime
    user: str
    action: str
    detail: str


class Searched(BaseModel):
    """How the commit of the step is found between the two that were measured."""

    git_log: str
    """Lists all commits between them."""
    comment: str
    """Starts a bisection in Gerrit, on the change of the commit after the step."""
    command: str
    """Starts it by hand."""
    change: str
    """Where that change is; empty: not known."""


class ClusterDetail(BaseModel):
    """One cluster with all its members, and what was done to it."""

    cluster: ClusterView
    search: Searched | None
    """None where the commits are not known."""
    activity: list[Entry]


class ClusteringRequest(Options):
    """A clustering that is asked for."""

    # What is not there would be taken for an option that is left out.
    model_config = ConfigDict(extra="forbid")

    testbed: Annotated[str, Field(min_length=1, max_length=255)]
    csrf: Annotated[str, Field(exclude=True)] = ""
    """The token of a form."""

    @property
    def chosen(self) -> Options:
        """The options alone."""
        return Options.model_validate(self.model_dump(exclude={"testbed"}))


class Cancellation(BaseModel):
    """Whose clustering is to be ended."""

    testbed: Annotated[str, Field(min_length=1, max_length=255)]


class Edit(BaseModel):
    """What somebody says of one cluster."""

    status: Said
    message: Message | None = None
    """None: it stays."""
    version: Number
    """Of the cluster that the edit was made from."""


class Edits(BaseModel):
    """What somebody says of several clusters."""

    clusters: Annotated[
        dict[Number, Number],
        Field(min_length=1, max_length=MOST_AT_ONCE, json_schema_extra={"propertyNames": {"pattern": _KEY}}),
    ]
    """The version of each cluster that the edit was made from."""
    status: Said
    message: Annotated[Message | None, Blank] = None
    """None: each keeps its own."""

    @model_validator(mode="before")
    @classmethod
    def _with_boxes(cls, given: Any) -> Any:  # noqa: ANN401 - it is not checked yet
        """Take the boxes of a form, ``cluster.12=3``, for the clusters."""
        if not isinstance(given, dict) or "clusters" in given:
            return given
        boxes = {
            name.removeprefix(_BOX): version for name, version in given.items() if str(name).startswith(_BOX)
        }
        return {**given, "clusters": boxes}


class Changed(BaseModel):
    """The clusters of an edit as they are now."""

    done: bool
    error: str = ""
    """Why nothing was changed, where somebody was faster."""
    clusters: list[ClusterView]


class Reset(BaseModel):
    """What is to be deleted: all clusters that are no bugs."""

    testbed: Annotated[str, Field(max_length=255)] = ""
    """Of which testbed; empty: of all."""
    confirm: bool = False


class ResetPage(BaseModel):
    """What a reset would delete, or has deleted."""

    testbed: str
    would_delete: int
    keeps: int
    deleted: int = 0
