"""The triage of clusters, and how it is retained from one clustering to the next.

A cluster is recognised by its fingerprint, the first 20 of its members, which are those nearest to its
centroid. A new cluster is the same as the known one whose fingerprint has the most traces in common with it;
one trace is enough. Of both, the one with the larger |Regression| is retained, under the identity and with
the triage of the known one. If several new clusters are the same as one known cluster, the one with the
largest |Regression| is retained; all of them are compared with the previous fingerprint.

Only known clusters whose step is at a commit of the current window are compared.

Source: "Skia Perf: Design", section Alerting.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Generic, TypeVar

from perftrend import errors
from perftrend.analysis.cluster.clustering import Cluster

FINGERPRINT_SIZE = 20

Details = TypeVar("Details")


class TriageStatus(StrEnum):
    """The decision about a cluster."""

    NEW = "New"
    """Not triaged yet."""
    IGNORE = "Ignore"
    BUG = "Bug"


@dataclass(frozen=True, slots=True)
class ClusterDecision:
    """The decision about a cluster, and its reason."""

    status: TriageStatus = TriageStatus.NEW
    message: str = ""
    """The reason to ignore it, or the number of the bug."""


@dataclass(frozen=True, slots=True)
class KnownCluster(Generic[Details]):
    """An interesting cluster as it is stored from one clustering to the next."""

    members: tuple[str, ...]
    """Stable names of traces, the nearest to the centroid first."""
    regression: float
    commit: str
    """The commit at the step."""
    details: Details
    """Further results, which are retained together with the regression that they belong to."""
    identity: int | None = None
    """The identity under which it is stored; None if it is not stored."""
    triage: ClusterDecision = field(default_factory=ClusterDecision)

    @property
    def fingerprint(self) -> tuple[str, ...]:
        """The first 20 members."""
        return self.members[:FINGERPRINT_SIZE]


def as_known_cluster(cluster: Cluster, commits: Sequence[str]) -> KnownCluster[Cluster]:
    """Return a cluster in a form that can be merged and stored.

    :param commits: the commits of the window, one per column.
    :raises SettingsError: if the cluster has no step, or the step is after the last commit.
    """
    if cluster.step is None or cluster.step.position >= len(commits):
        raise errors.SettingsError("clusters: a cluster without a step at a commit cannot be stored")
    names = tuple(key.hash for key in cluster.members)
    return KnownCluster(names, cluster.regression, commits[cluster.step.position], cluster)


def merge(
    known: Sequence[KnownCluster[Details]],
    found: Iterable[KnownCluster[Details]],
    *,
    commits: Collection[str],
) -> list[KnownCluster[Details]]:
    """Match the clusters that were found now with the known ones.

    :param known: the stored clusters, in the order of their identities: if a new cluster has as many traces
        in common with two of them, it is the same as the first.
    :param found: the interesting clusters of the current clustering.
    :param commits: the commits of the window that was clustered.
    :returns: all clusters: the known ones in their order, as the identical object if nothing is to be
        written, then the new ones.
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
    """Return the clusters that are bugs; a reset deletes all others."""
    return [cluster for cluster in known if cluster.triage.status is TriageStatus.BUG]
