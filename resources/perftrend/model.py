"""The common data types: results, runs, traces, groups, changes and verdicts.

Frozen dataclasses with units in their names. Rates are the sum of all directions in packets per second.
Times are in seconds, and moments in UTC. ``invalid`` is the reason why data is not valid, or empty.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from perftrend import measurement

Samples: TypeAlias = NDArray[np.float64]
"""Values of a trace in the order of time, shape (n,), NaN where a run has none."""
Trials: TypeAlias = tuple[tuple[float, ...], ...]
"""All samples of each run in the order of time, an empty tuple for a run without samples."""


def finite(number: float) -> float | None:
    """Return a number for files and responses: None for NaN and infinity."""
    return float(number) if math.isfinite(number) else None


class Better(StrEnum):
    """Which direction of a trace is good."""

    HIGHER = "higher"
    LOWER = "lower"


@dataclass(frozen=True, slots=True)
class TraceKey:
    """A trace's name: its sorted ``key=value`` parameters."""

    parameters: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, /, **parameters: str) -> TraceKey:
        """Return a key; the order of the parameters does not matter."""
        return cls(tuple(sorted(parameters.items())))

    def __getitem__(self, name: str) -> str:
        return self.as_dict()[name]

    def __str__(self) -> str:
        return ",".join(f"{name}={value}" for name, value in self.parameters)

    def as_dict(self) -> dict[str, str]:
        """Return the parameters by name."""
        return dict(self.parameters)

    def of_experiment(self, experiment: str) -> TraceKey:
        """Return the key of the same test's trace in an experiment; if empty, in nightly runs.

        :param experiment: see :class:`Run`.
        """
        return TraceKey.of(**self.as_dict() | {"experiment": experiment}) if experiment else self

    @property
    def experiment(self) -> str:
        """The experiment that it belongs to; empty: it is of nightly runs."""
        return next((value for name, value in self.parameters if name == "experiment"), "")

    @property
    def is_optional(self) -> bool:
        """Whether a test may have no such result: it does not count as missing.

        Which nodes a device has, and therefore whose cycles it counts, is only known after each run.
        """
        return any(name == "metric" and measurement.is_cycle_metric(value) for name, value in self.parameters)

    @property
    def json(self) -> str:
        """The parameters as sorted JSON, which the store contains and hashes."""
        return json.dumps(self.as_dict(), sort_keys=True, separators=(",", ":"))

    @property
    def hash(self) -> str:
        """A name that stays the same in every store: 32 hex digits of the JSON's SHA-256."""
        return hashlib.sha256(self.json.encode()).hexdigest()[:32]


class Status(StrEnum):
    """The result of a test in Robot Framework."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    FAIL = "fail"
    SKIP = "skip"


NOT_SUPPORTED = "not supported: "
"""The prefix of the message of a skipped test that its testbed cannot run; it has no result."""

MARKED = "marked as invalid by "
"""The prefix of ``invalid`` in a result that a user marked."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of one test of one run for one metric."""

    key: TraceKey
    unit: str
    better: Better
    status: Status
    samples: tuple[float, ...] = ()
    """All samples, in the order of measuring; empty if nothing was measured."""
    value: float = math.nan
    """The value in the trace: the average of the samples, or the lower bound of a search.

    For a soak, the critical load."""
    invalid: str = ""
    """Why the value is not valid; empty if it is."""
    message: str = ""
    """The message of the test, if it failed."""
    details: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Bounds, trials, counters' file, versions and times, as in the test's JSON."""

    @property
    def marked(self) -> bool:
        """Whether a user marked the result, or its run, as invalid."""
        return self.invalid.startswith(MARKED)

    @property
    def usable(self) -> bool:
        """Whether the value may enter a trend."""
        return self.status is Status.PASS and not self.invalid and math.isfinite(self.value)


@dataclass(frozen=True, slots=True)
class Run:
    """One job build's execution of suites on one testbed."""

    testbed: str
    job: str
    build: int
    started: datetime
    finished: datetime
    versions: Mapping[str, str] = field(default_factory=dict, hash=False)
    """The versions of the device and of the generator: ``{"device": "<commit>", "generator": …}``."""
    archive: str = ""
    """The location of the run's files: a path or a URL."""
    simulated: bool = False
    """Whether no packet was sent; the data is marked as simulated everywhere, up to the graph."""
    suites_started: datetime | None = None
    """When the first suite started, by the clock of the machine that ran it, interpreted as UTC. A job that
    is deleted and created again counts from 1 again: these times distinguish its builds from the earlier
    ones. None if the output has no times."""
    suites_finished: datetime | None = None
    """When the last suite finished, in the same way."""
    experiment: str = ""
    """The difference from the nightly runs, such as ``acl_rules=60``; empty: it is one of them. The results
    of an experiment belong to traces of their own, whose parameter ``experiment`` is this text."""
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What the machines have besides the versions, such as ``{"dut: kernel": …}``; empty: not known."""

    @property
    def name(self) -> str:
        """``job/build``: the name of the run for users."""
        return f"{self.job}/{self.build}"


@dataclass(frozen=True, slots=True)
class EnvironmentChange:
    """A part of the environment that differs between two runs."""

    name: str
    """Such as ``generator`` or ``dut: kernel``."""
    before: str
    after: str

    def __str__(self) -> str:
        return f"{self.name} {self.before} → {self.after}"


@dataclass(frozen=True, slots=True, order=True)
class MeasuredCommit:
    """A commit as a testbed measured it."""

    moment: datetime
    """When it was first measured, UTC."""
    revision: str = field(default="", compare=False)
    """Its hash; empty if not known."""


@dataclass(frozen=True, slots=True)
class SuspectRange:
    """The commits after ``last_good`` up to ``first_changed``, of which one is the reason.

    :raises ValueError: if there is no such commit.
    """

    last_good: MeasuredCommit
    first_changed: MeasuredCommit

    def __post_init__(self) -> None:
        if not self.last_good < self.first_changed:
            raise ValueError(f"there is no commit after {self.last_good} and up to {self.first_changed}")

    def overlaps(self, other: SuspectRange) -> bool:
        """Whether some commit is in both."""
        return self.last_good < other.first_changed and other.last_good < self.first_changed

    def within(self, other: SuspectRange) -> SuspectRange:
        """Return the commits that are in both; they must overlap."""
        return SuspectRange(
            max(self.last_good, other.last_good), min(self.first_changed, other.first_changed)
        )


REFERENCE = "reference"
"""The experiment of runs that measure the reference build of a testbed, which never changes."""

PRODUCT = "device"
"""The key in the versions of a run that names its commit."""
_COMMIT = re.compile(r"(?:.*[-+.~_]g)?([0-9a-f]{7,40})", re.ASCII | re.DOTALL)
"""A hash, or the output of ``git describe``: ``v24.06-12-g0123abc``."""
_WHOLE_HASH = 40
_LONGEST_VERSION = 200


def revision_of(versions: Mapping[str, str]) -> str:
    """Return the commit of the product that a run has measured, as the run names it; empty if not known.

    A build from changed files (``-dirty``) has no commit.
    """
    version = str(versions.get(PRODUCT, ""))
    found = _COMMIT.fullmatch(version) if len(version) <= _LONGEST_VERSION else None
    if not found or (version.isdigit() and len(version) < _WHOLE_HASH):
        # A few decimal digits are more likely a date or a number than a hash.
        return ""
    return found[1]


@dataclass(frozen=True, slots=True)
class MetricSamples:
    """The samples of one measurement of one build for one metric of one test."""

    samples: tuple[float, ...]
    """In the order of measuring, at least one."""
    unit: str = "pps"
    better: Better = Better.HIGHER


NOT_VALID = "not valid: "
"""The prefix of a reason if a test ran, but its result is not valid."""


@dataclass(frozen=True, slots=True)
class BuildMeasurement:
    """One measurement of one build of the product: the chosen tests, run once."""

    commit: str
    """The whole hash of the commit that was built."""
    started: datetime
    """UTC."""
    finished: datetime
    values: Mapping[str, MetricSamples] = field(default_factory=dict, hash=False)
    """By the name of the test, followed by the metric if a test has several: ``64b-1c-ndrpdr pdr``."""
    failed: Mapping[str, str] = field(default_factory=dict, hash=False)
    """Tests without a valid value, by the same names, and why."""
    archive: str = ""
    """The folder of the measurement, relative to the job's archive."""
    against: str = ""
    """The other commit of the pair in which it was measured, to confirm a suspicion; empty without a pair."""
    variant: int = 0
    """The layout of the build or its environment that was measured, from 0."""
    disturbed: str = ""
    """What disturbed it, even after repetition, as text; empty if nothing was detected."""


@dataclass(frozen=True, slots=True, eq=False)
class Series:
    """A trace with its values: one entry per run, in the order of time."""

    key: TraceKey
    unit: str
    better: Better
    runs: tuple[Run, ...]
    """The runs that tried this trace, n of them."""
    samples: Samples
    """Run values, shape (n,), NaN if the run has none that may enter the trend."""
    results: tuple[Result, ...] = ()
    """The results of the samples, n of them: they contain the reason for a missing value."""

    @property
    def trials(self) -> Trials:
        """All samples of each run, n of them; empty for a run whose value may not enter the trend."""
        return tuple(
            result.samples if math.isfinite(value) else ()
            for value, result in zip(self.samples, self.results, strict=True)
        )

    def at(self, indices: Sequence[int]) -> Series:
        """Return the trace with some of its runs only."""
        chosen = list(indices)
        return replace(
            self,
            runs=tuple(self.runs[index] for index in chosen),
            samples=self.samples[chosen],
            results=tuple(self.results[index] for index in chosen) if self.results else (),
        )


@dataclass(frozen=True, slots=True)
class Group:
    """Consecutive runs that belong to one normal distribution; its average is the trend."""

    start: int
    stop: int
    """One past the last run."""
    mean: float
    stdev: float
    """Population standard deviation."""
    bits: float
    """Description length of the group, given the group before."""

    @property
    def size(self) -> int:
        """The number of positions from start to stop."""
        return self.stop - self.start


class Direction(StrEnum):
    """Whether a change is bad or good."""

    REGRESSION = "regression"
    PROGRESSION = "progression"


@dataclass(frozen=True, slots=True)
class Change:
    """The boundary between two groups."""

    position: int
    """Index of the first run after the change."""
    before: float
    after: float
    direction: Direction
    confidence: float = math.nan
    """One less the probability that noise alone causes such a step; NaN if not known."""
    effect_size: float = math.nan
    """The step in standard deviations, negative if the values fell; NaN if not known."""
    last_before: int | None = None
    """Position of the last run that is before the change at 95 %; None if not known."""
    first_after: int | None = None
    """Position of the first run that is after the change at 95 %."""
    pattern: str = ""
    """The pattern by "Trend Analysis", such as ``ordinary`` or ``small``; empty if not known."""
    drift: bool = False
    """Whether it is a slow drift instead of a step."""

    @property
    def relative(self) -> float:
        """The step relative to the trend before it; NaN if that was zero."""
        return (self.after - self.before) / self.before if self.before else math.nan


class Outcome(StrEnum):
    """The outcome of a test in the newest run."""

    NORMAL = "normal"
    REGRESSION = "regression"
    PROGRESSION = "progression"
    TESTBED = "testbed"
    """Worse, and so is the reference build: the testbed has changed, not the product."""
    NOT_VALID = "not valid"
    FAILED = "failed"
    MISSING = "missing"


@dataclass(frozen=True, slots=True, eq=False)
class Verdict:
    """One trace, analysed: its groups and changes, its statistics, and the newest run's outcome.

    Source: "Trend Analysis" (compliance metrics) and "Continuous Performance Trending and
    Analysis" (analysis metrics).
    """

    series: Series
    outcome: Outcome
    reason: str
    """Why, in one sentence for users."""
    groups: tuple[Group, ...] = ()
    changes: tuple[Change, ...] = ()
    vanished: tuple[Change, ...] = ()
    """Changes that an earlier analysis reported, and that are gone with later runs."""
    suspected: Change | None = None
    """A change that the newest run suggests; the next ones decide whether it is a change."""
    bad_runs: tuple[Change, ...] = ()
    """Single runs that are separated from the groups, each as a step away from its trend."""
    owners: tuple[str, ...] = ()
    """The persons responsible for the test."""
    mail: tuple[str, ...] = ()
    """The addresses that are notified if it changes."""
    trend: float = math.nan
    """Last Trend: the average of the last group."""
    runs: int = 0
    """Number of samples in the last group."""
    long_term_change: float = math.nan
    """Relative to the best trend between three months and one week ago."""
    moving_median: Samples = field(default_factory=lambda: np.empty(0))
    """MM, shape (n,)."""
    trimmed_average: Samples = field(default_factory=lambda: np.empty(0))
    """TMA, shape (n,)."""
    trimmed_deviation: Samples = field(default_factory=lambda: np.empty(0))
    """TMSD, shape (n,)."""
    outliers: NDArray[np.bool_] = field(default_factory=lambda: np.empty(0, dtype=bool))
    """True where a sample is 1.5 IQR or more outside its window's quartiles, shape (n,)."""


def reported_change(verdict: Verdict) -> Change | None:
    """Return the change that a verdict reports: the newest in its direction."""
    is_testbed = verdict.outcome is Outcome.TESTBED
    direction = Direction.REGRESSION.value if is_testbed else verdict.outcome.value
    fitting = [change for change in verdict.changes if change.direction.value == direction]
    return max(fitting, key=lambda change: change.position, default=None)
