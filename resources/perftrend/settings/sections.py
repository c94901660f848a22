"""The sections of the settings, each a frozen table of its own."""

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
    """A table that does not change and refuses what it does not know."""

    model_config = STRICT


class TrialSettings(Section):
    """How trials are made."""

    duration_s: Seconds | None = None
    """Duration of an MRR trial; none: what the testbed's file says."""
    multiplicity: Count | None = None
    """Trials of an MRR test; none: what the testbed's file says."""
    starts: Count | None = None
    """Starts of the device that these trials are spread over; none: what the testbed's file says."""
    attempts: Count = 5
    """How often a trial is measured before it is given up as one that cannot be trusted."""


class SearchSettings(Section):
    """How NDR and PDR are searched."""

    initial_duration_s: Seconds | None = None
    """Trial duration of the first phase; none: what the testbed's file says."""
    final_duration_s: Seconds | None = None
    """Trial duration of the last phase; none: what the testbed's file says."""
    relative_width: Annotated[Number, Field(gt=0, lt=1)] = 0.005
    """Required width of the interval, relative to its upper bound."""
    loss_ratio: LossRatio = 0.005
    """The loss ratio that PDR allows (PLR)."""
    loss_ratios: LossRatios = ()
    """Loss ratios of further PDRs, such as 0.01 for the metric ``pdr_0.01``; NDR and PDR may be repeated."""
    minimum_pps: Annotated[Number, Field(gt=0)] | None = None
    """The lowest rate that is tried; none: what the testbed's file says."""
    intermediate_phases: Annotated[int, BeforeValidator(as_number), Field(ge=0)] = 2
    """Phases between the first and the last, each with half the width of the one before."""
    timeout_s: Seconds = 720.0
    """A search that takes longer ends without a result."""
    strategy: Literal["predictive", "mdr", "binary"] = "predictive"
    """The way to search: the one that takes the least time, the documented MDR search, or binary search."""
    trials_per_bound: Annotated[Count, Field(le=1000)] = 1
    """Trials of the final duration that decide whether a rate passes; more than 1 needs ``predictive``."""
    exceed_ratio: Annotated[Number, Field(ge=0, lt=1)] = 0.0
    """Share of these trials that may fail at a rate that passes."""

    @property
    def goals(self) -> dict[str, float]:
        """The loss ratio of each rate that is searched, by metric, in ascending order."""
        known = {"ndr": 0.0, "pdr": self.loss_ratio}
        further = {f"pdr_{ratio}": ratio for ratio in self.loss_ratios if ratio not in known.values()}
        return dict(sorted({**known, **further}.items(), key=itemgetter(1)))

    @property
    def test_tags(self) -> tuple[str, ...]:
        """What all tests are tagged with, so that a search that fails has results of further PDRs, too."""
        further = (metric for metric in self.goals if metric not in {"ndr", "pdr"})
        return tuple(metric.upper().replace("PDR", "PLR") for metric in further)


class SoakSettings(Section):
    """How the critical load is estimated."""

    total_duration_s: Seconds = 1800.0
    """All trials together; none begins that would not end within it."""
    trial_duration_s: Seconds = 5.0
    """The first trial; each further one is a little longer."""
    target_loss_ratio: Annotated[Number, Field(ge=1e-12, lt=1)] = 1e-7
    """The average loss ratio at the critical load."""
    credibility: Annotated[Number, Field(gt=0, lt=1)] = 0.95
    """Probability that the critical load lies within the interval."""


class AnalysisSettings(Section):
    """How the newest run is judged."""

    method: Literal["mdl", "three-sigma"] = "mdl"
    """What tells a change: the partition into groups, or the distance from the moving average."""
    formula: Literal["jumpavg-0.4", "jumpavg-0.1"] = "jumpavg-0.4"
    """The description length of the partition."""
    samples: Literal["runs", "trials"] = "runs"
    """What the partition sees of each run: its average, or all trials, which implies ``outliers`` false."""
    outliers: bool = Field(default_factory=lambda given: given.get("samples") != "trials")
    """Whether single bad runs are separated from the groups: in verdicts, reports, Explore and alerts."""
    window: Annotated[int, BeforeValidator(as_number), Field(ge=4)] = 30
    """Length N of the rolling window of the moving statistics, in runs."""
    history: Annotated[int, BeforeValidator(as_number), Field(ge=2)] = 180
    """How many of the newest runs are looked at."""
    week_runs: Count = 5
    """Runs that count as one week; 10 where a topology has several testbeds."""
    minimum_change: Annotated[Number, Field(ge=0, le=1)] = 0.01
    """A smaller step between two trends, relative to the first, is not told as a change."""
    specification: Folder | None = None
    """YAML file with the tests that are watched, their thresholds and owners; none: all tests."""
    regression: Literal["fail", "unstable"] = "fail"
    """What a regression makes of the job: the exit code 1, or 5, which Jenkins takes for unstable."""
    job: Text | None = None
    """Whose run is judged; none: the newest of the testbed, whatever job it is of."""
    build: Count | None = None
    """Which run of that job is judged; none: its newest."""
    as_of: Moment | None = None
    """Judge as on this day; none: now."""


class JenkinsSettings(Section):
    """The Jenkins that runs the jobs and keeps their archives."""

    url: HttpUrl | None = None
    """Its address, such as ``https://jenkins.example.org``."""
    user: Text | None = None
    """Who asks; none: everybody, who may often read but not start a build."""
    token: Secret = None
    """The user's API token."""
    timeout_s: Seconds = 30.0
    """A server that says nothing for so long has failed to answer."""
    attempts: Count = 5
    """How often something is asked before the server is given up."""


class GerritSettings(Section):
    """The Gerrit whose comments start jobs, and which gets the verdicts."""

    url: HttpUrl | None = None
    """Its address, such as ``https://review.example.org``."""
    user: Text | None = None
    """As whom it is read and written to, by HTTP and by SSH."""
    token: Secret = None
    """The user's HTTP password, which Gerrit generates on the user's page of settings."""
    ssh_host: Host | None = None
    """Where its events are listened to; none: the host of the address."""
    ssh_port: Annotated[Count, Field(le=65535)] = 29418
    """The port of its SSH server."""
    ssh_key: Folder | None = None
    """File with the user's private key; none: what ssh itself chooses."""
    known_hosts: Folder | None = None
    """File with the host keys that are trusted; none: those that ssh itself trusts."""
    timeout_s: Seconds = 30.0
    """A server that says nothing for so long has failed to answer."""
    attempts: Count = 5
    """How often something is asked before the server is given up."""
    notify: Literal["none", "owner", "owner-reviewers", "all"] = "owner"
    """Who gets a mail from Gerrit about a verdict."""
    label: Text | None = "Performance"
    """What verdicts vote on; none: they do not vote."""
    groups: Words = ()
    """Whose members may start jobs, names or identities of groups; none: everybody."""
    jobs_per_day: Count = 20
    """Jobs that one person may start on one change in 24 hours."""
    post: bool = True
    """Whether verdicts are posted."""
    tell_culprit: bool = False
    """Whether a bisection tells the change, too, that made a test worse."""


class TriggerSettings(Section):
    """What may be asked for by a comment in Gerrit, and in which words."""

    words: dict[str, Text] = {
        "bisecttest-{testbed}": "bisection",
        "perftest-{testbed}": "perftest",
        "trendingtest-{testbed}": "trending",
    }
    """Patterns of the words that begin a request, and the jobs that they start: ``perftest``, or
    ``perftest on 2n-clx`` of a pattern without ``{testbed}``."""
    testbeds: Words = ()
    """Testbeds that may be asked for; none: all that have a file."""
    maximum_tests: Count = 60
    """A request that selects more tests is refused."""
    maximum_duration_s: Seconds = 60.0
    """The longest trials that may be asked for."""
    maximum_multiplicity: Count = 50
    """The most trials that may be asked for."""


class ListenerSettings(Section):
    """How comments in Gerrit are listened to."""

    runner: Literal["jenkins", "local"] = "jenkins"
    """Who runs the jobs: Jenkins, or this machine."""
    projects: Words = ()
    """Projects of Gerrit that are listened to; none: all that the user sees."""
    address: Server = "127.0.0.1:9464"
    """Where health and metrics are served, ``host:port``."""
    look_back_s: Seconds = 86400.0
    """How old a comment may be at the very first start; later on none is lost, however old."""
    poll_s: Seconds = 300.0
    """How often Gerrit is asked for comments that no event told of."""


class ProjectSettings(Section):
    """The product under test: where its commits come from and how they are built."""

    profile: Text | None = None
    """How it is built: the name of a profile."""
    profiles: Folder | None = None
    """Folder of a team's own profiles, looked at before perftrend's own."""
    repository: Text | None = None
    """Where its commits are fetched from, a URL or a path; none: what the profile says."""
    parameters: dict[str, MaybeEmpty] = {}
    """Values for what the profile leaves open."""
    builds: Folder = Path("builds")
    """Folder that keeps what was built, by commit."""
    maximum_builds: Count = 50
    """How many builds are kept; those not used for the longest time go first."""


class PerftestSettings(Section):
    """How a change under review is compared with its parent."""

    change: Count | None = None
    """Number of the change in Gerrit; none: the one whose comment started the build."""
    minimum_rounds: Annotated[Count, Field(ge=2)] = 6
    """Rounds, each with the parent and the patch, before a verdict is given; their order is drawn by lot."""
    maximum_rounds: Count = 20
    """Rounds after which a verdict is given, whatever is known by then."""
    threshold: Annotated[Number, Field(ge=0, lt=1)] = 0.01
    """The smallest difference that matters, relative to the parent."""
    confidence: Annotated[Number, Field(gt=0.5, lt=1)] = 0.99
    """How sure a verdict has to be."""


class BisectSettings(Section):
    """How the commit is found that changed the performance."""

    old: Text | None = None
    """Hash of the older commit; none: what the comment says."""
    new: Text | None = None
    """Hash of the newer commit; none: the change."""
    change: Count | None = None
    """Number of a change in Gerrit, whose newest patch set is the newer commit."""
    strategy: Literal["adaptive", "documented"] = "adaptive"
    """How commits are chosen and judged: by all that is known, or by the documented rule."""
    first_parent: bool = False
    """Whether merges are looked at as a whole."""
    confidence: Annotated[Number, Field(gt=0.5, lt=1)] = 0.99
    """How sure it has to be of a commit that it names."""
    maximum_measurements: Count = 200
    """Measurements after which it ends undecided; the same command goes on with as many more."""
    maximum_changes: Count = 3
    """No more changes are named, the largest first."""
    inside: bool = False
    """Whether commits between are measured even where old and new do not differ."""
    builds_ahead: Annotated[int, BeforeValidator(as_number), Field(ge=0)] = 2
    """Commits that are built while another is measured, where that is done on other machines."""
    sessions: Folder = Path("bisections")
    """Folder that keeps what was built, measured and decided, so that a bisection goes on after a kill."""


class FetchSettings(Section):
    """How archived outputs are fetched."""

    cache: Folder = Path("cache")
    """Folder that keeps what was fetched, by content."""
    cache_bytes: Count = 20 * 1024**3
    """When it holds more, what was used longest ago is removed."""
    workers: Annotated[Count, Field(le=64)] = 4
    """Files that are fetched at the same time."""
    requests_per_second: Annotated[Number, Field(gt=0)] = 20.0
    """A server is asked no more often, all workers together."""
    maximum_bytes: Count = 2 * 1024**3
    """A file that is larger, packed or unpacked, is refused."""
    private_redirects: bool = False
    """Whether a public server may redirect to a private address."""


class MailSettings(Section):
    """How mails are sent."""

    server: Server | None = None
    """Takes the mails, ``host:port``; none: the job leaves them to Jenkins, as files."""
    security: Literal["starttls", "tls", "none"] = "starttls"
    """How the connection is encrypted."""
    user: Text | None = None
    """Who logs in; none: nobody does."""
    password: Secret = None
    """The user's password."""
    sender: Address | None = None
    """Whom the mails come from."""
    recipients: Addresses = ()
    """Who gets all of them, beside those that the specification names for a test."""
    record: Folder = Path("mails")
    """Folder with the runs that were reported to each recipient, so that every change is reported once."""
    timeout_s: Seconds = 30.0
    """A server that says nothing for so long has failed to answer."""


class RetentionSettings(Section):
    """How long data other than the values of results is retained, in days; none: for ever."""

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
    """How the dashboard is served."""

    address: Server = "127.0.0.1:8080"
    """Where it is served, ``host:port``; only on this machine, unless people sign in or it is public."""
    url: HttpUrl | None = None
    """How people reach it, such as ``https://perf.example.org``; none: at its address only."""
    hosts: Words = ()
    """Further names that it answers to; what asks for another host is refused."""
    proxies: Words = ()
    """Addresses or networks of the proxies in front of it, which may name the client and the user."""
    requests_per_second: Annotated[Number, Field(gt=0)] = 50.0
    """Requests that one client may make in the long run."""
    burst: Count = 200
    """Requests that one client may make at once."""
    maximum_bytes: Count = 1024**2
    """A request with a longer body is refused."""
    maximum_connections: Count = 1000
    """Connections at once; who comes then is asked to come later."""
    request_timeout_s: Seconds = 30.0
    """A client that takes longer to send a request, or to take some of its answer, is cut off."""
    database_timeout_s: Seconds = 30.0
    """How long a request waits for the database, taken together; then it is answered with 503."""
    stop_timeout_s: Seconds = 10.0
    """How long requests under way may take when the dashboard is stopped."""
    kept_bytes: Count | None = 64 * 1024**2
    """How much memory answers may take that are kept for the next who asks; none: none is kept."""
    behind_s: Seconds = 1.0
    """How far behind the store such an answer may be, where somebody else has written."""
    cluster_period_s: Seconds | None = 900.0
    """How often testbeds that have something new are clustered; none: when somebody asks for it only."""
    public: bool = False
    """Whether everybody who reaches it may read; on this machine they may where nobody can sign in."""
    admins: Words = ()
    """Who may do everything: names of people, and groups as ``group:NAME``."""
    editors: Words = ()
    """Who may change what people keep here; everybody else who signs in may read."""
    secret: Secret = None
    """Signs cookies, at least 32 characters; none: a random one, and a restart signs everybody out."""
    session_s: Seconds = 43200.0
    """Who signed in longer ago has to do so again."""
    idle_s: Seconds = 7200.0
    """Who did nothing for so long has to sign in again."""
    oidc_issuer: HttpUrl | None = None
    """The OpenID Connect provider that people sign in at; none: they do not."""
    oidc_client_id: Text | None = None
    """What the provider knows the dashboard by."""
    oidc_client_secret: Secret = None
    """What the dashboard proves that with; none: it is a public client."""
    oidc_scopes: Words = ("openid", "profile", "email")
    """What the provider is asked to tell."""
    oidc_name_claim: Text = "preferred_username"
    """Which claim is the name of a person; nobody may be able to choose that of somebody else."""
    oidc_groups_claim: Text = "groups"
    """Which claim lists the groups of a person."""
    user_header: Text | None = None
    """The header in which ``proxies`` tell who the user is; none: they do not."""
    groups_header: Text | None = None
    """The header in which they tell the user's groups, between commas; none: they do not."""
    alert_secret: Secret = None
    """What the webhooks of alerts are signed with; none: none is sent."""
    alert_networks: Words = ()
    """Networks that webhooks may reach although they are not public, such as ``10.1.0.0/16``."""
    ingest_secret: Secret = None
    """What events that tell of builds are signed with; none: none is taken, and jobs send none."""
    ingest_jobs: Words = ("perftrend-trending-*", "perftrend-experiment-*")
    """Shell patterns of the jobs that events may tell of."""
    ingest_source: Text | None = None
    """Where their builds are, as ``./run ingest`` takes it; none: the Jenkins of the settings."""
    watch: Folder | None = None
    """Folder whose new archives, ``JOB/NUMBER/…``, are ingested; none: none is watched."""
    watch_s: Seconds = 10.0
    """How often it is looked at; what changed since the last look is not complete yet."""
