"""Data that is stored of a cluster in addition to its commit, its statistic and its members."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from perftrend.analysis.cluster import FINGERPRINT_SIZE, Cluster
from perftrend.dashboard.clusters.parameters import OverrepresentedValue
from perftrend.model import finite

_DIGITS = 4


class ClusterSummary(BaseModel):
    """The column ``cluster`` of the store: JSON with finite numbers only."""

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


def summary_of(
    cluster: Cluster,
    hashes: tuple[str, ...],
    *,
    commits: tuple[str, ...],
    moments: tuple[datetime, ...],
    parameters: list[OverrepresentedValue],
    total: int,
    clustered: datetime,
    simulated: bool,
) -> ClusterSummary:
    """Return the summary of a cluster that has a step.

    :param hashes: the hashes of its members.
    :param commits: the commits of the window, measured at ``moments``.
    """
    step = cluster.step
    assert step is not None  # noqa: S101 - only clusters with a step are interesting
    distances = [round(float(distance), _DIGITS) for distance in cluster.distances[:FINGERPRINT_SIZE]]
    return ClusterSummary(
        members=list(zip(hashes, distances, strict=False)),
        size=len(hashes),
        centroid=[round(float(value), _DIGITS) for value in cluster.centroid],
        position=step.position,
        before=commits[step.position - 1],
        step=step.step,
        lse=step.lse,
        corrected=finite(cluster.corrected),
        parameters=parameters,
        total=total,
        first=moments[0],
        last=moments[-1],
        clustered=clustered,
        simulated=simulated,
    )
