"""The sections of the settings, each a frozen table."""

from __future__ import annotations

from operator import itemgetter
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from perftrend.settings.values import (
    Address,
    Addresses,
    Count,
    Days,
    Folder,
    Host,
    Hours,
    HttpUrl,
    LossRatio,
    LossRatios,
    MaybeEmpty,
    Moment,
    Number,
    Seconds,
    Secret,
    Server,
    Text,
    Words,
    as_number,
)

STRICT = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Section(BaseModel):
    """A frozen table that rejects unknown keys."""

    model_config = STRICT


class TrialSettings(Section):
    """Settings of trials."""

    duration_s: Seconds | None = None
    """Duration of an MRR trial; none for the value of the testbed file."""
    multiplicity: Count | None = None
    """Trials of an MRR test; none for the value of the testbed file."""
    starts: Count | None = None
    """Starts of the device that these trials are spread over; none for the value of the testbed file."""
    attempts: Count = 5
    """Measurements of a trial before it is given up as invalid."""


class SearchSettings(Section):
    """Settings of the search for NDR and PDR."""

    initial_duration_s: Seconds | None = None
    """Trial duration of the first phase; none for the value of the testbed file."""
    final_duration_s: Seconds | None = None
    """Trial duration of the last phase; none for the value of the testbed file."""
    relative_width: Annotated[Number, Field(gt=0, lt=1)] = 0.005
    """Required width of the interval, relative to its upper bound."""
    loss_ratio: LossRatio = 0.005
    """The loss ratio that PDR allows (PLR)."""
    loss_ratios: LossRatios = ()
    """Loss ratios of further PDRs, such as 0.01 for the metric ``pdr_0.01``; NDR and PDR may be repeated."""
    minimum_pps: Annotated[Number, Field(gt=0)] | None = None
    """The lowest rate that is tried; none for the value of the testbed file."""
    intermediate_phases: Annotated[int, BeforeValidator(as_number), Field(ge=0)] = 2
    """Phases between the first and the last, each with half the width of the one before."""
    timeout_s: Seconds = 720.0
    """A search that takes longer ends without a result."""
    strategy: Literal["predictive", "mdr", "binary"] = "predictive"
    """The search method: the fastest one, the MDR search of CSIT, or binary search."""
    trials_per_bound: Annotated[Count, Field(le=1000)] = 1
    """Trials of the final duration that decide whether a rate passes; more than 1 needs ``predictive``."""
    exceed_ratio: Annotated[Number, Field(ge=0, lt=1)] = 0.0
    """Fraction of these trials that may fail at a rate that passes."""

    @property
    def goals(self) -> dict[str, float]:
        """The loss ratio of each rate that is searched, by metric, in ascending order."""
        known = {"ndr": 0.0, "pdr": self.loss_ratio}
        further = {f"pdr_{ratio}": ratio for ratio in self.loss_ratios if ratio not in known.values()}
        return dict(sorted({**known, **further}.items(), key=itemgetter(1)))

    @property
    def test_tags(self) -> tuple[str, ...]:
        """Tags of all tests, so that a search that fails has results of further PDRs, too."""
        further = (metric for metric in self.goals if metric not in {"ndr", "pdr"})
        return tuple(metric.upper().replace("PDR", "PLR") for metric in further)


class SoakSettings(Section):
    """Settings of the estimation of the critical load."""

    total_duration_s: Seconds = 1800.0
    """Duration of all trials together; a trial that would end later is not started."""
    trial_duration_s: Seconds = 5.0
    """Duration of the first trial; each further one is a little longer."""
    target_loss_ratio: Annotated[Number, Field(ge=1e-12, lt=1)] = 1e-7
    """The average loss ratio at the critical load."""
    credibility: Annotated[Number, Field(gt=0, lt=1)] = 0.95
    """Probability that the critical load lies within the interval."""


class AnalysisSettings(Section):
    """Settings of the evaluation of the newest run."""

    method: Literal["mdl", "three-sigma"] = "mdl"
    """How changes are detected: by the partition into groups, or by the distance from the moving average."""
    formula: Literal["jumpavg-0.4", "jumpavg-0.1"] = "jumpavg-0.4"
    """Formula of the description length of the partition."""
    samples: Literal["runs", "trials"] = "runs"
    """Input of the partition from each run: its average, or all trials, which implies ``outliers`` false."""
    outliers: bool = Field(default_factory=lambda given: given.get("samples") != "trials")
    """Whether single bad runs are separated from the groups: in verdicts, reports, Explore and alerts."""
    window: Annotated[int, BeforeValidator(as_number), Field(ge=4)] = 30
    """Length N of the rolling window of the moving statistics, in runs."""
    history: Annotated[int, BeforeValidator(as_number), Field(ge=2)] = 180
    """Number of newest runs that are evaluated."""
    week_runs: Count = 5
    """Runs that count as one week; 10 if a topology has several testbeds."""
    minimum_change: Annotated[Number, Field(ge=0, le=1)] = 0.01
    """A smaller step between two trends, relative to the first, is not reported as a change."""
    specification: Folder | None = None
    """YAML file with the tests that are watched, their thresholds and owners; none for all tests."""
    regression: Literal["fail", "unstable"] = "fail"
    """Result of a job with a regression: the exit code 1, or 5, which Jenkins interprets as unstable."""
    job: Text | None = None
    """Job whose run is evaluated; none for the newest run of the testbed, from any job."""
    build: Count | None = None
    """Number of the evaluated run of that job; none for its newest."""
    as_of: Moment | None = None
    """Evaluate as on this day; none for now."""
    workers: Annotated[Count, Field(le=1024)] | None = None
    """Processes that evaluate traces; none for one on each core, up to 8, from 512 traces on."""
    cluster: Text | None = None
    """Address of a dask scheduler whose workers evaluate traces; none for this machine."""


class JenkinsSettings(Section):
    """The Jenkins that runs the jobs and stores their archives."""

    url: HttpUrl | None = None
    """Its address, such as ``https://jenkins.example.org``."""
    user: Text | None = None
    """The user of requests; none for anonymous access, which can often read but not start a build."""
    token: Secret = None
    """The user's API token."""
    timeout_s: Seconds = 30.0
    """Time without a response after which a request fails."""
    attempts: Count = 5
    """Attempts of a request before it fails."""


class GerritSettings(Section):
    """The Gerrit whose comments start jobs, and which receives the verdicts."""

    url: HttpUrl | None = None
    """Its address, such as ``https://review.example.org``."""
    user: Text | None = None
    """The user of requests by HTTP and by SSH."""
    token: Secret = None
    """The user's HTTP password, which Gerrit generates on the user's page of settings."""
    ssh_host: Host | None = None
    """Host of its event stream; none for the host of the address."""
    ssh_port: Annotated[Count, Field(le=65535)] = 29418
    """The port of its SSH server."""
    ssh_key: Folder | None = None
    """File with the user's private key; none for the default of ssh."""
    known_hosts: Folder | None = None
    """File with the trusted host keys; none for the default of ssh."""
    timeout_s: Seconds = 30.0
    """Time without a response after which a request fails."""
    attempts: Count = 5
    """Attempts of a request before it fails."""
    notify: Literal["none", "owner", "owner-reviewers", "all"] = "owner"
    """Users whom Gerrit notifies of a verdict by mail."""
    label: Text | None = "Performance"
    """The label that verdicts vote on; none for no vote."""
    groups: Words = ()
    """Groups whose members may start jobs, by name or identity; none: no comment starts a job."""
    jobs_per_day: Count = 50
    """Jobs that one user may start in 24 hours."""
    hours_per_request: Hours = 8.0
    """Estimated hours that one request may need."""
    hours_per_day: Hours = 24.0
    """Estimated hours that the jobs of one user may need in 24 hours."""
    hours_per_change: Hours = 24.0
    """Estimated hours that the jobs on one change may need in 24 hours."""
    hours_of_queue: Hours = 48.0
    """Estimated hours of work that a testbed may have left for a request to be accepted."""
    post: bool = True
    """Whether verdicts are posted."""
    notify_culprit: bool = False
    """Whether a bisection also notifies the change that made a test worse."""


class TriggerSettings(Section):
    """The requests that comments in Gerrit can make, and their words."""

    words: dict[str, Text] = {
        "bisecttest-{testbed}": "bisect",
        "canceltest-{testbed}": "cancel",
        "perftest-{testbed}": "perftest",
        "trendingtest-{testbed}": "trending",
    }
    """Patterns of the words that begin a request, and the jobs that they start: ``perftest``, or
    ``perftest on 2n-clx`` for a pattern without ``{testbed}``; ``cancel`` ends jobs."""
    testbeds: Words = ()
    """Testbeds that may be requested; none for all that have a file."""
    maximum_tests: Count = 60
    """A request that selects more tests is rejected."""
    maximum_duration_s: Seconds = 60.0
    """The longest trials that may be requested."""
    maximum_multiplicity: Count = 50
    """The most trials that may be requested."""


class ListenerSettings(Section):
    """Settings of the listener for comments in Gerrit."""

    runner: Literal["jenkins", "local"] = "jenkins"
    """What runs the jobs: Jenkins, or this machine."""
    projects: Words = ()
    """Gerrit projects whose comments are read; none for all that the user can see."""
    address: Server = "127.0.0.1:9464"
    """Where health and metrics are served, ``host:port``."""
    lookback_s: Seconds = 86400.0
    """Maximum age of a comment at the very first start; later on, comments of any age are read."""
    poll_s: Seconds = 300.0
    """Interval at which Gerrit is queried for comments without an event."""


class ProjectSettings(Section):
    """The product under test: where its commits come from and how they are built."""

    profile: Text | None = None
    """Name of the profile that builds it."""
    profiles: Folder | None = None
    """Folder of a team's own profiles, searched before perftrend's own."""
    repository: Text | None = None
    """URL or path that its commits are fetched from; none for that of the profile."""
    parameters: dict[str, MaybeEmpty] = {}
    """Values for the parameters of the profile."""
    trusted: bool = False
    """Whether the code of changes under review is run without a sandbox."""
    builds: Folder = Path("builds")
    """Folder of builds, by commit."""
    maximum_builds: Count = 50
    """Number of builds that are retained; the least recently used ones are deleted first."""


class PerftestSettings(Section):
    """Settings of the comparison of a change under review with its parent."""

    change: Count | None = None
    """Number of the change in Gerrit; none for the one whose comment started the build."""
    minimum_rounds: Annotated[Count, Field(ge=2)] = 6
    """Rounds, each with the parent and the patch, before a verdict is given; their order is random."""
    maximum_rounds: Count = 20
    """Rounds after which a verdict is given in any case."""
    threshold: Annotated[Number, Field(ge=0, lt=1)] = 0.01
    """The smallest difference that matters, relative to the parent."""
    confidence: Annotated[Number, Field(gt=0.5, lt=1)] = 0.99
    """Confidence that a verdict requires."""


class BisectSettings(Section):
    """Settings of the search for the commit that changed the performance."""

    old: Text | None = None
    """The older commit; none for that of the comment."""
    new: Text | None = None
    """The newer commit; none for the change."""
    change: Count | None = None
    """Number of a change in Gerrit, whose newest patch set is the newer commit."""
    strategy: Literal["adaptive", "documented"] = "adaptive"
    """How commits are selected and judged: by all that is known, or by the rule of CSIT."""
    first_parent: bool = False
    """Whether merges are treated as a whole."""
    confidence: Annotated[Number, Field(gt=0.5, lt=1)] = 0.99
    """Confidence that is required to report a commit."""
    maximum_measurements: Count = 200
    """Measurements after which it ends undecided; the same command continues with as many more."""
    maximum_changes: Count = 3
    """Maximum number of changes that are reported, the largest first."""
    search_equal_ends: bool = False
    """Whether commits between are measured even if old and new do not differ."""
    builds_ahead: Annotated[int, BeforeValidator(as_number), Field(ge=0)] = 2
    """Commits that are built while another is measured, if that does not disturb the measurement."""
    sessions: Folder = Path("bisections")
    """Folder of builds, measurements and decisions, so that a bisection resumes after a kill."""


class FetchSettings(Section):
    """Settings of downloads of archived outputs."""

    cache: Folder = Path("cache")
    """Folder of fetched files, by content."""
    cache_bytes: Count = 20 * 1024**3
    """Size of the cache above which the least recently used files are removed."""
    workers: Annotated[Count, Field(le=64)] = 4
    """Files that are fetched at the same time."""
    requests_per_second: Annotated[Number, Field(gt=0)] = 20.0
    """Maximum rate of requests to a server, of all workers together."""
    maximum_bytes: Count = 2 * 1024**3
    """A file that is larger, packed or unpacked, is rejected."""
    private_redirects: bool = False
    """Whether a public server may redirect to a private address."""


class MailSettings(Section):
    """Settings of mails."""

    server: Server | None = None
    """The mail server, ``host:port``; none if the job leaves the mails to Jenkins, as files."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """How the connection is encrypted."""
    user: Text | None = None
    """The user to log in as; none for no login."""
    password: Secret = None
    """The user's password."""
    sender: Address | None = None
    """Sender of the mails."""
    recipients: Addresses = ()
    """Recipients of all mails, in addition to those that the specification names for a test."""
    lab: Addresses = ()
    """Who is responsible for the testbeds: recipients and owners of changes of a testbed."""
    record: Folder = Path("mails")
    """Folder with the runs that were reported to each recipient, so that every change is reported once."""
    timeout_s: Seconds = 30.0
    """Time without a response after which a request fails."""


class RetentionSettings(Section):
    """Retention of data other than the values of results, in days; none for no limit."""

    details_days: Days | None = None
    """Details of results (trials, bounds, versions, times), counted from the end of the run."""
    patch_tests_days: Days | None = None
    """Per-patch tests with their values, counted from their newest round."""
    archives_days: Days | None = None
    """Folders of builds and of requests in the archive, counted from the last change in them."""
    bisections_days: Days | None = None
    """Sessions of bisections that were not finished, counted from their last record."""
    activity_days: Days | None = None
    """Entries of the activity log."""
    requests_days: Days | None = None
    """Requests of comments in Gerrit that are finished and answered."""
    short_urls_days: Days | None = None
    """Short addresses of pages, counted from when they were last requested."""
    outbox_days: Days | None = None
    """Messages of alerts, counted from when they were sent."""


class DashboardSettings(Section):
    """Settings of the dashboard."""

    address: Server = "127.0.0.1:8080"
    """Address it is served at, ``host:port``; only on this machine, unless users sign in or it is public."""
    url: HttpUrl | None = None
    """Public URL, such as ``https://perf.example.org``; none if it is only reached at its address."""
    hosts: Words = ()
    """Further host names of the dashboard; requests for other hosts are rejected."""
    proxies: Words = ()
    """Addresses or networks of the proxies in front of it, which may name the client and the user."""
    requests_per_second: Annotated[Number, Field(gt=0)] = 50.0
    """Requests that one client may make per second on average."""
    burst: Count = 200
    """Requests that one client may make at once."""
    maximum_bytes: Count = 1024**2
    """A request with a longer body is rejected."""
    maximum_connections: Count = 1000
    """Maximum number of connections; further requests are answered with 503."""
    request_timeout_s: Seconds = 30.0
    """A client that takes longer to send a request, or to receive a part of the response, is disconnected."""
    database_timeout_s: Seconds = 30.0
    """Total time that a request waits for the database before it is answered with 503."""
    stop_timeout_s: Seconds = 10.0
    """Time that requests under way may take when the dashboard is stopped."""
    response_cache_bytes: Count | None = 64 * 1024**2
    """Memory for cached responses, in bytes; none to disable the cache."""
    cache_max_age_s: Seconds = 1.0
    """How far behind the store a cached response may be, if another process has written."""
    cluster_period_s: Seconds | None = 900.0
    """Interval at which testbeds with new values are clustered; none to cluster only on request."""
    public: bool = False
    """Whether everyone who reaches it may read; on this machine they may if there is no way to sign in."""
    local_editor: bool = True
    """Whether users of this machine may edit, if nobody can sign in and only this machine reaches it."""
    admins: Words = ()
    """Users who may do everything: names, and groups as ``group:NAME``."""
    editors: Words = ()
    """Users who may change the data of the dashboard; all others who sign in may read."""
    secret: Secret = None
    """Key that signs forms and logins, at least 32 characters; none for a random one at each start."""
    session_s: Seconds = 43200.0
    """Time after signing in after which a user has to sign in again."""
    idle_s: Seconds = 7200.0
    """Time without activity after which a user has to sign in again."""
    oidc_issuer: HttpUrl | None = None
    """The OpenID Connect provider that users sign in at; none to disable it."""
    oidc_client_id: Text | None = None
    """Identifier of the dashboard at the provider."""
    oidc_client_secret: Secret = None
    """Secret of the dashboard at the provider; none if it is a public client."""
    oidc_scopes: Words = ("openid", "profile", "email")
    """Scopes that are requested from the provider."""
    oidc_name_claim: Text = "preferred_username"
    """Claim with the name of a user; users must not be able to choose the name of another user."""
    oidc_groups_claim: Text = "groups"
    """Claim with the groups of a user."""
    user_header: Text | None = None
    """Header in which ``proxies`` name the user; none if they do not."""
    groups_header: Text | None = None
    """Header in which they list the groups of the user, between commas; none if they do not."""
    alert_secret: Secret = None
    """Key that signs the webhooks of alerts; none to send no webhooks."""
    alert_networks: Words = ()
    """Networks that webhooks may reach although they are not public, such as ``10.1.0.0/16``."""
    ingest_secret: Secret = None
    """Key that signs events that report builds; none to accept no events, and jobs send none."""
    ingest_jobs: Words = ("perftrend-trending-*", "perftrend-experiment-*", "perftrend-reference-*")
    """Shell patterns of the jobs that events may report."""
    ingest_source: Text | None = None
    """Location of their builds, as for ``./run ingest``; none for the Jenkins of the settings."""
    watch_folder: Folder | None = None
    """Folder whose new archives, ``JOB/NUMBER/…``, are ingested; none to watch no folder."""
    watch_s: Seconds = 10.0
    """Interval at which it is scanned; files that changed since the last scan are not complete yet."""
