"""Options of a clustering, summaries of clusters, and the request and response models of ``/clusters``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from perftrend.analysis.cluster import CORRECTED_CUTOFF, CUTOFF, MINIMUM_SIDE, TriageStatus
from perftrend.bisect.command import Bisection
from perftrend.dashboard.formats import plain
from perftrend.store.activity import ActivityEntry

WINDOW = 128
"""Default number of newest commits to cluster."""
LARGEST_WINDOW = 1024
LEAST_WINDOW = 2 * MINIMUM_SIDE
LARGEST_K = 200
LARGEST_NUMBER = 2**31 - 1
MOST_AT_ONCE = 500
"""Maximum number of clusters in one edit."""
_LARGEST_CUTOFF = 1e9
_BOX = "cluster."
_KEY = "^[1-9][0-9]{0,8}$"

StatusValue = Literal["New", "Ignore", "Bug"]
"""A :class:`TriageStatus` in a request, with an inline schema."""
Number = Annotated[int, Field(ge=1, le=LARGEST_NUMBER)]
Message = Annotated[str, AfterValidator(plain), AfterValidator(str.strip), Field(max_length=1000)]


def _blank_is_none(value: object) -> object:
    return None if value == "" else value


Blank = BeforeValidator(_blank_is_none)
"""Converts an empty field of a form to None."""


class ClusterOptions(BaseModel):
    """Options of the clustering of a testbed."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    k: Annotated[Annotated[int, Field(ge=1, le=LARGEST_K)] | None, Blank] = None
    """Initial number of clusters; none: ⌊40/30000 · traces + 10⌋, at most 200."""
    window: Annotated[int, Field(ge=LEAST_WINDOW, le=LARGEST_WINDOW)] = WINDOW
    """Number of newest commits to cluster."""
    query: Annotated[str, Field(max_length=4000), AfterValidator(plain)] = ""
    """Query for the traces; empty: all."""
    statistic: Literal["documented", "corrected"] = "documented"
    """Statistic that the cutoff applies to: Regression, or Student's t."""
    cutoff: Annotated[Annotated[float, Field(gt=0, le=_LARGEST_CUTOFF)] | None, Blank] = None
    """A cluster is interesting if the statistic is larger; none: 150, and 8 for the corrected one."""

    @property
    def limit(self) -> float:
        """The effective cutoff."""
        if self.cutoff is not None:
            return self.cutoff
        return CUTOFF if self.statistic == "documented" else CORRECTED_CUTOFF


class OverrepresentedValue(BaseModel):
    """A value that is more frequent in a cluster than among all traces."""

    parameter: str
    value: str
    count: int
    """Number of traces of the cluster that have it."""
    of_all: int
    """Number of all clustered traces that have it."""


class ClusterSummary(BaseModel):
    """The column ``cluster`` of the store: JSON with finite numbers only.

    It contains what is stored of a cluster in addition to its commit, its statistic and its members.
    """

    members: list[tuple[str, float]]
    """The hash of each of the first 20 traces and its distance from the centroid, the nearest first."""
    size: int
    """Number of all traces."""
    centroid: list[float]
    """The average course of the normalised traces, up is better."""
    position: int
    """Index of the first commit after the step in the window, from 0."""
    before: str
    """The commit before it."""
    step: float
    """The average from the position on minus the one before it, in standard deviations of the traces."""
    lse: float
    """The least squares error of the step; 0: a perfect step, for which both statistics are infinite."""
    corrected: float | None
    """Student's t; none: infinite, with the sign of the step."""
    parameters: list[OverrepresentedValue]
    """Over-represented values, the most surprising first."""
    total: int
    """Number of all clustered traces."""
    first: datetime
    """When the first commit of the window was measured."""
    last: datetime
    """When the last commit of the window was measured."""
    clustered: datetime
    """Time of this clustering."""
    simulated: bool = False
    """Whether the newest run of the testbed sent no packets."""


class ClusterMember(BaseModel):
    """A trace of a cluster."""

    hash: str
    parameters: dict[str, str]
    """Empty if the store no longer has the trace."""
    distance: float
    """From the centroid, in standard deviations."""


class ClusterView(BaseModel):
    """A cluster."""

    id: int
    testbed: str
    commit: str
    """The first commit after the step."""
    commit_link: str
    """Its URL; empty if no Gerrit is set."""
    before: str
    """The commit before it."""
    moment: datetime
    """When the commit was first measured."""
    direction: Literal["regression", "progression"]
    regression: float | None
    """The regression statistic of Skia Perf, negative for regressions; null: infinite."""
    interesting: bool
    """Whether its absolute value is above 150."""
    corrected: float | None
    """Student's t; null: infinite."""
    significant: bool
    """Whether its absolute value is above 8."""
    step: float
    """In standard deviations of the traces."""
    centroid: list[float]
    position: int
    """Index of the commit in the centroid, from 0."""
    first: datetime
    last: datetime
    """Times of the first and the last commit of the window."""
    size: int
    """Number of its traces."""
    total: int
    """Number of all clustered traces."""
    members: list[ClusterMember]
    """The nearest to the centroid first; in lists, the first 20."""
    parameters: list[OverrepresentedValue]
    status: TriageStatus
    message: str
    version: int
    """Required in an edit."""
    found: datetime
    changed: datetime | None
    changed_by: str
    explore: str
    """URL of the plot of its traces."""
    simulated: bool
    """Whether the newest run of the testbed sent no packets."""


class ClusteringView(BaseModel):
    """The newest clustering of a testbed."""

    testbed: str
    state: Literal["idle", "asked", "running", "done", "failed", "cancelled"]
    under_way: bool
    stage: str
    """Current stage, error, or the user who cancelled it."""
    options: ClusterOptions
    who: str
    """User who requested it; empty: it was started periodically."""
    asked: datetime | None
    finished: datetime | None
    result: dict[str, int | bool]
    """Statistics of the newest clustering that succeeded."""
    joined: bool = False
    """Whether it was already waiting or running when it was requested."""


class ClusterFilter(BaseModel):
    """Filter and order of the clusters on the page."""

    testbed: Annotated[str, Field(max_length=255)] = ""
    """Empty: all testbeds."""
    status: StatusValue | Literal[""] = ""
    """Empty: any."""
    order: Literal["regression", "newest"] = "regression"
    """Sort order: the largest statistic first, or the newest first."""
    page: Annotated[int, Field(ge=1, le=100_000)] = 1
    deleted: Annotated[int, Field(ge=0)] | None = None
    """Number of clusters that a reset has just deleted."""

    @property
    def chosen(self) -> TriageStatus | None:
        """The required status; None: any."""
        return TriageStatus(self.status) if self.status else None


class ClusterPage(BaseModel):
    """Clusters, 25 at a time."""

    testbeds: list[str]
    testbed: str
    """Testbed of the clusters; empty: all."""
    status: TriageStatus | None
    """Status of the clusters; null: any."""
    order: Literal["regression", "newest"]
    """Sort order."""
    counts: dict[TriageStatus, int]
    """Number of clusters of each status."""
    page: int
    pages: int
    clusters: list[ClusterView]
    clusterings: list[ClusteringView]
    """The newest clustering of each testbed that had one."""


class ClusterBisection(Bisection):
    """A bisection of the commits between the two measured commits of the step."""

    git_log: str
    """Command that lists all commits between them."""


class ClusterDetail(BaseModel):
    """One cluster with all its members and its activity."""

    cluster: ClusterView
    search: ClusterBisection | None
    """None if a commit is unknown, or both are the same."""
    activity: list[ActivityEntry]


class ClusteringRequest(ClusterOptions):
    """Request for a clustering."""

    # Otherwise an unknown name would be ignored as if the option were left out.
    model_config = ConfigDict(extra="forbid")

    testbed: Annotated[str, Field(min_length=1, max_length=255)]
    csrf: Annotated[str, Field(exclude=True)] = ""
    """CSRF token of a form."""

    @property
    def chosen(self) -> ClusterOptions:
        """Only the options."""
        return ClusterOptions.model_validate(self.model_dump(exclude={"testbed"}))


class Cancellation(BaseModel):
    """Request to cancel the clustering of a testbed."""

    testbed: Annotated[str, Field(min_length=1, max_length=255)]


class Edit(BaseModel):
    """Edit of one cluster."""

    status: StatusValue
    message: Message | None = None
    """None: unchanged."""
    version: Number
    """Version of the cluster that the edit is based on."""


class ClusterEdits(BaseModel):
    """Edit of several clusters."""

    clusters: Annotated[
        dict[Number, Number],
        Field(min_length=1, max_length=MOST_AT_ONCE, json_schema_extra={"propertyNames": {"pattern": _KEY}}),
    ]
    """The version of each cluster that the edit is based on."""
    status: StatusValue
    message: Annotated[Message | None, Blank] = None
    """None: the messages of the clusters do not change."""

    @model_validator(mode="before")
    @classmethod
    def _with_boxes(cls, given: Any) -> Any:  # noqa: ANN401 - not validated yet
        """Convert the checkboxes of a form, ``cluster.12=3``, to ``clusters``."""
        if not isinstance(given, dict) or "clusters" in given:
            return given
        boxes = {
            name.removeprefix(_BOX): version for name, version in given.items() if str(name).startswith(_BOX)
        }
        return {**given, "clusters": boxes}


class EditedClusters(BaseModel):
    """Result of an edit, with the clusters as they are now."""

    done: bool
    error: str = ""
    """Why nothing was changed, if another user was faster."""
    clusters: list[ClusterView]


class Reset(BaseModel):
    """Request to delete all clusters that are not bugs."""

    testbed: Annotated[str, Field(max_length=255)] = ""
    """Testbed of the clusters; empty: all."""
    confirm: bool = False


class ResetPage(BaseModel):
    """Number of clusters that a reset would delete, or has deleted."""

    testbed: str
    would_delete: int
    keeps: int
    deleted: int = 0
