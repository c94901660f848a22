"""Clusters of the traces of a window, each with its centroid, its members, their parameters and its step.

Traces are normalised and divided by k-means, and a step is fitted to the centroid of each cluster. A
cluster whose |Regression| is above the cutoff is interesting: its traces changed at the position of the
step.

Normalised traces have no holes, the mean 0 and the standard deviation 1, so that only the shape remains. A
hole is a value that is not finite. It is filled with the next value to its right, or with the last one at
the end of a trace. A trace that hardly changes would become amplified noise: if its standard deviation is
not above the smallest one, only the mean is subtracted. A trace without values is excluded. In a window
around a commit, so is a trace without a value at that commit, or with less than half of the values on one
side of it.

The step is fitted at the position with the least squares error, among those with at least five commits on
each side. With L and R the averages before and from the position on, n₁ and n₂ their numbers of commits,
n = n₁ + n₂ and SSE the squares about both,

    lse = √SSE / n,   Regression = (R - L) / lse,
    t = (R - L) / (s √(1/n₁ + 1/n₂)) = Regression · √((n - 2) n₁ n₂ / n³),   s² = SSE / (n - 2).

Regression grows with √n and depends on the position of the step: a cutoff is valid for one length of
window. t, the corrected statistic, is Student's; its cutoff is valid for all.

Source: "Skia Perf: Design", sections Clustering and Alerting, with the opposite sign: there, a lower value
is better.

The triage of clusters is retained from one clustering to the next. A cluster is recognised by its
fingerprint, the first 20 of its members, which are those nearest to its centroid. A new cluster is the
same as the known one whose fingerprint has the most traces in common with it; one trace is enough. Of
both, the one with the larger |Regression| is retained, under the identity and with the triage of the known
one. If several new clusters are the same as one known cluster, the one with the largest |Regression| is
retained; all of them are compared with the previous fingerprint.

Only known clusters whose step is at a commit of the current window are compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise
from math import inf, sqrt
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from perftrend import errors
from perftrend.analysis.cluster.kmeans import KMeans, Progress, Seeding, automatic_k, k_means
from perftrend.analysis.stepfit import ORIGINAL_CUTOFF, StepFit
from perftrend.model import Better, Direction, Samples, TraceKey

FINGERPRINT_SIZE = 20

Details = TypeVar("Details")

_LEAST_WEIGHT, _MOST_ADDED = 12, 14

DEFAULT_K = 50
CUTOFF = ORIGINAL_CUTOFF
"""|Regression| above which a cluster is interesting."""
CORRECTED_CUTOFF = 8.0
"""|t| above which a step is more than noise. With 200 clusters in a window of 15 commits, noise alone causes
one that exceeds it in one of about 370 clusterings; in longer windows it hardly ever does."""

MINIMUM_SIDE = 5
"""Minimum number of commits on each side of a step."""

_ROUNDING = 1e-12
"""A deviation that is a smaller fraction of the step counts as 0."""

SMALLEST_DEVIATION = 0.001
"""Standard deviation that a trace must exceed to be scaled, in the unit of the trace."""

_SHORTEST_WITH_MIDDLE = 3
"""Shorter windows have no middle with two sides."""


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


def centroid_step(centroid: Samples, *, better: Better, side: int = MINIMUM_SIDE) -> StepFit | None:
    """Fit a step to a centroid.

    :param centroid: shape (w,), finite.
    :param better: which direction of the traces is good.
    :param side: commits on each side of the step, at least 1.
    :returns: the step; None if the window is shorter than two sides.
    """
    width = centroid.size
    if width < 2 * side:
        return None
    offsets = centroid - centroid[0]
    splits = np.arange(side, width - side + 1)
    before = np.cumsum(offsets)[splits - 1]
    left, right = before / splits, (offsets.sum() - before) / (width - splits)
    # The part of the squares about the common average that a split explains: the rest is the error.
    best = int(np.argmax((right - left) ** 2 * splits * (width - splits)))
    split = int(splits[best])
    step = float(right[best] - left[best])
    squares = [float(((part - part.mean()) ** 2).sum()) for part in (offsets[:split], offsets[split:])]
    lse = sqrt(sum(squares)) / width
    turned = step if better is Better.HIGHER else -step
    return StepFit(split, turned, lse, _ratio(turned, lse))


def t_statistic(step: StepFit, width: int) -> float:
    """Return Student's t of a step in a window of ``width`` commits, with the sign of its Regression."""
    before, after = step.position, width - step.position
    return step.regression * sqrt((width - 2) * before * after / width**3)


@dataclass(frozen=True, slots=True)
class ValueCount:
    """One value of a parameter in a cluster."""

    value: str
    count: int
    """Number of traces of the cluster that have it."""
    weight: int
    """12 + ⌊14 · fraction of the traces⌋, from 12 to 26: the text size in which the value is shown."""


def parameter_summary(keys: Sequence[TraceKey]) -> dict[str, tuple[ValueCount, ...]]:
    """Count the values of each parameter; an empty value counts as a missing parameter.

    :param keys: the traces of a cluster.
    :returns: by parameter, both in alphabetical order, but with the most frequent value first.
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for (parameter, value), count in Counter(pair for key in keys for pair in key.parameters).items():
        if value:
            counts[parameter][value] = count
    return {
        parameter: tuple(
            ValueCount(value, count, _LEAST_WEIGHT + _MOST_ADDED * count // len(keys))
            for value, count in sorted(values.items(), key=lambda item: (-item[1], item[0]))
        )
        for parameter, values in sorted(counts.items())
    }


class Unusable(StrEnum):
    """The reason why a trace is excluded."""

    EMPTY = "it has no value"
    NO_MIDDLE = "it has no value in the middle"
    SPARSE_SIDE = "more than half of the values on a side of the middle are missing"


@dataclass(frozen=True, slots=True, eq=False)
class NormalisedTraces:
    """The traces that can be clustered, and why the others cannot."""

    rows: Samples
    """Shape (m, w), finite."""
    positions: NDArray[np.intp]
    """Positions of the traces in the rows, shape (m,), ascending."""
    left_out: Mapping[int, Unusable]
    """Reasons by the position of the trace."""


def normalise(
    traces: ArrayLike, *, smallest_deviation: float = SMALLEST_DEVIATION, around_middle: bool = True
) -> NormalisedTraces:
    """Fill the holes of traces and scale them to mean 0 and standard deviation 1.

    :param traces: one trace per row, shape (n, w), any unit; values that are not finite are holes.
    :param smallest_deviation: population standard deviation that a trace must exceed to be scaled.
    :param around_middle: whether to exclude a trace that lacks its middle or more than half of a side;
        meant for a window around one commit. Otherwise only traces without any value are excluded.
    :raises SettingsError: if the traces are not a table, or the smallest deviation is negative or not finite.
    """
    values = np.asarray(traces, dtype=np.float64)
    if values.ndim != 2:  # noqa: PLR2004 - traces and commits
        raise errors.SettingsError(f"clusters: give one row for each trace, not {values.ndim} dimensions")
    if not 0 <= smallest_deviation < np.inf:
        raise errors.SettingsError(
            f"clusters: smallest standard deviation is {smallest_deviation}; give 0 or more"
        )
    present = np.isfinite(values)
    left_out = _find_unusable(present, around_middle)
    positions = np.setdiff1d(np.arange(len(values)), list(left_out), assume_unique=True).astype(np.intp)
    filled = _fill_holes(values[positions], present[positions])
    return NormalisedTraces(_scale(filled, smallest_deviation), positions, left_out)


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


def _ratio(step: float, lse: float) -> float:
    if not step:
        return 0.0
    return step / lse if lse > _ROUNDING * abs(step) else inf * step


def _find_unusable(present: NDArray[np.bool_], around_middle: bool) -> dict[int, Unusable]:
    width = present.shape[1]
    found: dict[int, Unusable] = {}
    if around_middle and width >= _SHORTEST_WITH_MIDDLE:
        half = width // 2
        fewest = np.minimum(present[:, :half].sum(axis=1), present[:, width - half :].sum(axis=1))
        found |= dict.fromkeys(np.flatnonzero(2 * fewest < half).tolist(), Unusable.SPARSE_SIDE)
        found |= dict.fromkeys(np.flatnonzero(~present[:, half]).tolist(), Unusable.NO_MIDDLE)
    found |= dict.fromkeys(np.flatnonzero(~present.any(axis=1)).tolist(), Unusable.EMPTY)
    return dict(sorted(found.items()))


def _fill_holes(values: Samples, present: NDArray[np.bool_]) -> Samples:
    """Fill each hole with the next value to its right, at the end with the last one; no row may be empty."""
    width = values.shape[1]
    if present.all():
        return values
    columns = np.where(present, np.arange(width), width)
    following = np.minimum.accumulate(columns[:, ::-1], axis=1)[:, ::-1]
    last = width - 1 - np.argmax(present[:, ::-1], axis=1)
    filled: Samples = np.take_along_axis(values, np.minimum(following, last[:, np.newaxis]), axis=1)
    return filled


def _scale(rows: Samples, smallest_deviation: float) -> Samples:
    """Subtract each row's mean, and divide by its deviation if that is large enough."""
    if not rows.size:
        return rows
    # Powers of two are exact and keep the squares of the largest numbers finite.
    exponents = np.frexp(np.abs(rows).max(axis=1, keepdims=True))[1]
    scaled = np.ldexp(rows, -exponents)
    # Relative to its first value, a row of equal values has a deviation of exactly 0.
    scaled -= scaled[:, :1]
    scaled -= scaled.mean(axis=1, keepdims=True)
    deviations = scaled.std(axis=1, keepdims=True)
    with np.errstate(over="ignore", under="ignore"):
        wide = np.ldexp(deviations, exponents) > smallest_deviation
        normal: Samples = np.where(wide, scaled / np.where(wide, deviations, 1), np.ldexp(scaled, exponents))
    return normal
