"""References from the report and the mails: builds with their commits, and the next steps after a change.

Addresses come from the settings: Gerrit for commits, Jenkins for builds, and the dashboard for plots and
items. Anything that is not known is left out. Without settings, only the commits are known.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perftrend import links
from perftrend.analysis.environment import compare_environments
from perftrend.analysis.reference import ends_of
from perftrend.bisect.command import Bisection, prepare
from perftrend.model import (
    Change,
    EnvironmentChange,
    Outcome,
    Run,
    TraceKey,
    Verdict,
    reported_change,
    revision_of,
)
from perftrend.settings import Settings
from perftrend.text import HASH


@dataclass(frozen=True, slots=True)
class CommitReference:
    """A commit of the product."""

    commit: str
    """Hash, as the run names it; empty: not known."""
    url: str
    """Its review; empty: not known."""

    @property
    def short(self) -> str:
        """The abbreviated hash."""
        return self.commit[:HASH]


@dataclass(frozen=True, slots=True)
class BuildReference:
    """A build, and the commit that it measured."""

    number: int
    url: str
    """The build in Jenkins; empty: not known."""
    commit: CommitReference

    def __str__(self) -> str:
        return f"{self.number} ({self.commit.short})" if self.commit.commit else str(self.number)


@dataclass(frozen=True, slots=True)
class ChangeReference:
    """The builds around a change, and what to do next."""

    before: BuildReference
    """The last build that is certainly before the change."""
    after: BuildReference
    """The first build that is certainly after it."""
    bisection: Bisection | None
    """None if a commit is not known, both builds measured the same one, or the testbed has changed."""
    change: CommitReference
    """The newer commit of the bisection, on whose review its comment belongs; empty without a bisection."""
    has_same_commit: bool
    """Whether both builds measured the same commit."""
    environment: Sequence[EnvironmentChange]
    """What differs between the runs of both builds besides the product."""
    plot: str
    """The trace on the dashboard; empty: no dashboard."""
    item: str
    """The item of the change on the dashboard; empty: no dashboard."""


@dataclass(frozen=True, slots=True)
class References:
    """The references that the settings allow."""

    settings: Settings | None = None

    def commit(self, commit: str) -> CommitReference:
        """Return a commit with the address of its review."""
        return CommitReference(commit, links.of_commit(commit, self.settings) if self.settings else "")

    def build(self, run: Run) -> BuildReference:
        """Return the build of a run with its commit."""
        url = links.of_run(run, self.settings).get("build", "") if self.settings else ""
        return BuildReference(run.build, url, self.commit(revision_of(run.versions)))

    def change(self, change: Change, verdict: Verdict) -> ChangeReference:
        """Return the references of a change of a trace."""
        runs, key = verdict.series.runs, verdict.series.key
        first, last = ends_of(change, len(runs))
        is_testbed = verdict.outcome is Outcome.TESTBED and change == reported_change(verdict)
        old, new = _first_known(reversed(runs[: first + 1])), _first_known(runs[last:])
        bisection = (
            prepare(self.settings, runs[last].testbed, key, old=old, new=new)
            if self.settings and not is_testbed
            else None
        )
        return ChangeReference(
            before=self.build(runs[first]),
            after=self.build(runs[last]),
            bisection=bisection,
            change=self.commit(bisection.new if bisection else ""),
            has_same_commit=bool(old) and old == new,
            environment=compare_environments([runs[first]], [runs[last]]),
            plot=self.plot(key),
            item=self._on_dashboard(links.of_item(key.hash, commit=new[:HASH])),
        )

    @property
    def dashboard(self) -> str:
        """The start page of the dashboard; empty: no dashboard."""
        return self._on_dashboard("/")

    def plot(self, key: TraceKey) -> str:
        """Return the address of a trace's plot on the dashboard; empty: no dashboard."""
        return self._on_dashboard(links.of_trace(key.hash))

    def _on_dashboard(self, path: str) -> str:
        return links.on_dashboard(path, self.settings) if self.settings else ""


def _first_known(runs: Iterable[Run]) -> str:
    return next(filter(None, (revision_of(run.versions) for run in runs)), "")
