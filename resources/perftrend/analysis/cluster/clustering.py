"""Clusters of the traces of a window, each with its centroid, its members and its step.

Traces are normalised and divided by k-means, and a step is fitted to the centroid of each cluster. A cluster
whose |Regression| is above the cutoff is interesting: its traces changed at the position of the step.

Source: "Skia Perf: Design", section Clustering.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perftrend import errors
from perftrend.analysis.cluster.kmeans import KMeans, Progress, automatic_k, k_means
from perftrend.analysis.cluster.normalisation import SMALLEST_DEVIATION, Unusable, normalise
from perftrend.analysis.cluster.parameters import ValueCount, parameter_summary
from perftrend.analysis.cluster.seeds import Seeding
from perftrend.analysis.cluster.steps import centroid_step, t_statistic
from perftrend.analysis.stepfit import ORIGINAL_CUTOFF, StepFit
from perftrend.model import Better, Direction, Samples, TraceKey

DEFAULT_K = 50
CUTOFF = ORIGINAL_CUTOFF
"""|Regression| above which a cluster is interesting."""
CORRECTED_CUTOFF = 8.0
"""|t| above which a step is more than noise. With 200 clusters in a window of 15 commits, noise alone causes
one that exceeds it in one of about 370 clusterings; in longer windows it hardly ever does."""


@dataclass(frozen=True, slots=True, eq=False)
class Cluster:
    """Traces with similar shapes."""

    centroid: Samples
    """The average of the normalised members, shape (w,)."""
    members: tuple[TraceKey, ...]
    """The nearest to the centroid first; equally near ones are in the order of their keys."""
    distances: Samples
    """Distances of the members from the centroid, ascending, shape (m,)."""
    parameters: Mapping[str, tuple[ValueCount, ...]]
    """How often each value of each parameter occurs among the members."""
    step: StepFit | None
    """The step in the centroid; None if the window is too short for one."""
    corrected: float
    """Student's t of the step, 0 without a step."""
    interesting: bool
    """Whether |Regression| is above the cutoff."""

    @property
    def significant(self) -> bool:
        """Whether the step is more than noise, by the corrected statistic."""
        return abs(self.corrected) > CORRECTED_CUTOFF

    @property
    def regression(self) -> float:
        """The statistic of Skia Perf: negative for a regression, 0 without a step."""
        return self.step.regression if self.step else 0.0

    @property
    def direction(self) -> Direction:
        """The direction of the step; a progression if there is no step."""
        return Direction.REGRESSION if self.regression < 0 else Direction.PROGRESSION


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A trace that belongs to no cluster."""

    key: TraceKey
    reason: Unusable


@dataclass(frozen=True, slots=True)
class Clustering:
    """The result of one clustering."""

    clusters: tuple[Cluster, ...]
    """By Regression, ascending: the worst regression first, the best progression last."""
    left_out: tuple[LeftOut, ...]
    """Traces with too few values, in the order of their keys."""
    k: int
    """The initial number of clusters; some may have vanished."""
    total_error: float
    """The sum of the distances of all traces from their centroids."""
    iterations: int
    converged: bool

    @property
    def interesting(self) -> tuple[Cluster, ...]:
        """The clusters that a person should inspect."""
        return tuple(cluster for cluster in self.clusters if cluster.interesting)


def find_clusters(
    traces: ArrayLike,
    keys: Sequence[TraceKey],
    *,
    better: Better | Sequence[Better] = Better.HIGHER,
    k: int | None = DEFAULT_K,
    seed: int = 1,
    seeding: Seeding = Seeding.SPREAD,
    cutoff: float = CUTOFF,
    smallest_deviation: float = SMALLEST_DEVIATION,
    around_middle: bool = True,
    progress: Progress | None = None,
) -> Clustering:
    """Find clusters of traces with similar shapes, and fit a step to each of them.

    The order of the traces has no influence on the clusters.

    :param traces: one trace per row, one commit per column, shape (n, w); holes are not finite.
    :param keys: the n different keys of the traces.
    :param better: which direction of the traces is good. If it is given for each of them, the traces for
        which less is better are inverted, so that up is good in every centroid: latency that rises while
        throughput falls then forms one cluster, not two.
    :param k: initial number of clusters; None for ⌊40/30000 · traces + 10⌋, at most 200.
    :param seed: of the choice of the first centroids, not negative.
    :param cutoff: |Regression| above which a cluster is interesting.
    :param smallest_deviation: see :func:`normalise`.
    :param around_middle: see :func:`normalise`; False if the columns are not a window around a commit.
    :param progress: called after each iteration with its number and the total error. An exception that it
        raises ends the clustering and propagates.
    :raises SettingsError: if an argument is invalid.
    """
    values = np.asarray(traces, dtype=np.float64)
    order = _order_by_key(values, keys, better)
    normalised = normalise(values[order], smallest_deviation=smallest_deviation, around_middle=around_middle)
    row_keys = [keys[order[position]] for position in normalised.positions]
    rows = normalised.rows
    if not isinstance(better, Better):
        signs = np.array([1.0 if each is Better.HIGHER else -1.0 for each in better])
        rows, better = rows * signs[order[normalised.positions]][:, np.newaxis], Better.HIGHER
    k = automatic_k(len(rows)) if k is None else k
    found = k_means(rows, k, seed=seed, seeding=seeding, progress=progress)
    clusters = sorted(_clusters(found, row_keys, better, cutoff), key=lambda cluster: cluster.regression)
    left_out = tuple(
        LeftOut(keys[order[position]], reason) for position, reason in normalised.left_out.items()
    )
    return Clustering(tuple(clusters), left_out, k, found.total_error, found.iterations, found.converged)


def _order_by_key(
    values: Samples, keys: Sequence[TraceKey], better: Better | Sequence[Better]
) -> NDArray[np.intp]:
    """Return the order of the traces by their keys."""
    if values.ndim != 2 or len(values) != len(keys):  # noqa: PLR2004 - traces and commits
        raise errors.SettingsError(
            f"clusters: traces have the shape {values.shape}, and there are {len(keys)} keys; "
            "give a key for each row"
        )
    if not isinstance(better, Better) and len(better) != len(keys):
        raise errors.SettingsError(
            f"clusters: {len(better)} directions for {len(keys)} traces; give one each"
        )
    order = sorted(range(len(keys)), key=lambda position: keys[position].parameters)
    for one, other in pairwise(order):
        if keys[one] == keys[other]:
            raise errors.SettingsError(f"clusters: trace {keys[one]} occurs twice; give each trace once")
    return np.array(order, dtype=np.intp)


def _clusters(found: KMeans, keys: Sequence[TraceKey], better: Better, cutoff: float) -> Iterator[Cluster]:
    # The positions ascend with the keys, so that equal distances are ordered by key.
    sorted_rows = np.lexsort((found.distances, found.labels))
    bounds = np.searchsorted(found.labels[sorted_rows], np.arange(len(found.centroids) + 1))
    for centroid, (start, stop) in zip(found.centroids, pairwise(bounds), strict=True):
        positions = sorted_rows[start:stop]
        members = tuple(keys[position] for position in positions)
        step = centroid_step(centroid, better=better)
        yield Cluster(
            centroid=centroid,
            members=members,
            distances=found.distances[positions],
            parameters=parameter_summary(members),
            step=step,
            corrected=t_statistic(step, centroid.size) if step else 0.0,
            interesting=step is not None and abs(step.regression) > cutoff,
        )
