"""What people said of clusters, and how it stays with them from one clustering to the next.

A cluster is known again by its fingerprint, the first 20 of its members, which are those nearest to
its centroid. A cluster that was found now is the same as the known one whose fingerprint it holds the
most traces of, one being enough. Of both the one with the larger |Regression| stays, under the
identity and with the triage of the known one; so only the identity may remain as it was. Where
several of now are the same as one known cluster, the one with the largest stays; all of them are
compared with the fingerprint that it had before.

Only those known clusters are compared whose commit of the step is in the window of now.

Source: "Skia Perf: Design", section Alerting.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Generic, TypeVar

from perftrend import errors
from perftrend.analysis.cluster.finding import Cluster

FINGERPRINT_SIZE = 20

Details = TypeVar("Details")


class TriageStatus(StrEnum):
    """What a person said of a cluster."""

    NEW = "New"
    """Nothing yet."""
    IGNORE = "Ignore"
    BUG = "Bug"


@dataclass(frozen=True, slots=True)
class Triage:
    """What a person said of a cluster, and why."""

    status: TriageStatus = TriageStatus.NEW
    message: str = ""
    """Why it is ignored, or the number of the bug."""


@dataclass(frozen=True, slots=True)
class KnownCluster(Generic[Details]):
    """An interesting cluster as it is kept from one clustering to the next."""

    members: tuple[str, ...]
    """Names of traces that stay the same, the nearest to the centroid first."""
    regression: float
    commit: str
    """The commit at the step."""
    details: Details
    """What else was found; it stays with the regression that it belongs to."""
    identity: int | None = None
    """Under what it is kept; None while it is not."""
    triage: Triage = field(default_factory=Triage)

    @property
    def fingerprint(self) -> tuple[str, ...]:
        """The first 20 members."""
        return self.members[:FINGERPRINT_SIZE]


def keepable(cluster: Cluster, commits: Sequence[str]) -> KnownCluster[Cluster]:
    """Name what a clustering found so that it can be merged and kept.

    :param commits: the commits of the window, one a column.
    :raises SettingsError: if the cluster has no step, or that lies behind the commits.
    """
    if cluster.step is None or cluster.step.position >= len(commits):
        raise errors.SettingsError("clusters: a cluster without a step at a commit cannot be kept")
    names = tuple(key.hash for key in cluster.members)
    return KnownCluster(names, cluster.regression, commits[cluster.step.position], cluster)


def merge(
    known: Sequence[KnownCluster[Details]],
    found: Iterable[KnownCluster[Details]],
    *,
    commits: Collection[str],
) -> list[KnownCluster[Details]]:
    """Find known clusters again among those that were found now.

    :param known: the clusters that are kept, in the order of their identities: where a cluster of now
        holds as many traces of two of them, it is the same as the first.
    :param found: the interesting clusters of now.
    :param commits: the commits of the window that was clustered.
    :returns: all clusters that there are now: the known ones in their order, the very same object where
        nothing is to be written, then the new ones.
    """
    window = frozenset(commits)
    relevant = [position for position, old in enumerate(known) if old.commit in window]
    merged, new = list(known), []
    for cluster in found:
        members = frozenset(cluster.members)
        matches = {at: len(members.intersection(known[at].fingerprint)) for at in relevant}
        same = max(matches, key=matches.__getitem__, default=None)
        if same is None or not matches[same]:
            new.append(cluster)
        elif abs(cluster.regression) > abs(merged[same].regression):
            old = known[same]
            merged[same] = replace(cluster, identity=old.identity, triage=old.triage)
    return merged + new


def reset(known: Iterable[KnownCluster[Details]]) -> list[KnownCluster[Details]]:
    """Return what is left when all that is no bug is deleted."""
    return [cluster for cluster in known if cluster.triage.status is TriageStatus.BUG]
