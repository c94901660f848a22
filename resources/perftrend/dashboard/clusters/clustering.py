"""Clustering of the newest commits of a testbed, by a worker thread that makes one after the other.

The result is merged with the stored clusters. What is stored of a cluster includes the values of parameters
that are over-represented in it.

Requests are in the store, so it does not matter which process of a dashboard received them, nor whether that
process still exists. A worker that is stopped returns the current clustering to the queue; it starts again at
the next start.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import sqrt
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.cluster import (
    FINGERPRINT_SIZE,
    Cluster,
    ClusterDecision,
    Clustering,
    KnownCluster,
    TriageStatus,
    ValueCount,
    as_known_cluster,
    find_clusters,
    merge,
    parameter_summary,
)
from perftrend.analysis.formula import Query, Term
from perftrend.analysis.query import parse
from perftrend.dashboard.background import defect
from perftrend.dashboard.catalog import Traces
from perftrend.dashboard.clusters.models import (
    LEAST_WINDOW,
    ClusterOptions,
    ClusterSummary,
    OverrepresentedValue,
)
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.error_pages import FieldError, in_field
from perftrend.dashboard.workers import EndEvent
from perftrend.errors import PerftrendError, StoreError, UsageError, explain
from perftrend.model import finite
from perftrend.store.clusterings import NewestClustering
from perftrend.store.clusters import Rule, StoredCluster
from perftrend.store.tiles import Axis, TileColumn

MOST_VALUES = 2**24
"""Maximum number of traces times commits: 128 MB of values, and four times as much during the clustering."""
MOST_OVERREPRESENTED = 12
"""Maximum number of over-represented values of a cluster."""
_DEVIATIONS = 2.0
_DIGITS = 4

ProgressCallback = Callable[[str], None]
"""Called with the current stage; an exception from it ends the clustering."""
Counts = Mapping[str, Sequence[ValueCount]]

LOG = logging.getLogger(__name__)

_POLL_S = 2.0
"""Interval of the checks for requests."""
_DUE_S = 60.0
"""Interval of the checks for periodic clusterings that are due."""
_BEAT_S = 1.0
"""Interval of the progress reports."""


@dataclass(frozen=True, slots=True)
class ClusteringResult:
    """Result of one clustering."""

    clusters: tuple[StoredCluster, ...]
    """The interesting clusters, none of which is stored yet."""
    commits: tuple[str, ...]
    """Commits of the window."""
    numbers: dict[str, int | bool]
    """Statistics of the clustering, to show to users."""
    current: Mapping[str, str] = field(default_factory=dict)
    """Current hashes of traces, by the hashes of all their names."""


def validate_request(site: AppContext, testbed: str, options: ClusterOptions) -> None:
    """Check that a clustering is possible before it is queued.

    :raises UsageError: if the testbed is unknown or has too few commits, no trace matches the query, or there
        are too many values.
    """
    if testbed not in site.store.tiles.testbeds():
        raise FieldError("testbed", f"testbed {testbed!r} has no runs in the store; choose one from the list")
    with in_field("testbed"):
        _columns(site, testbed, options)
    with in_field("query"):
        _select_traces(site.catalog.now(), testbed, options)


def find(
    site: AppContext, testbed: str, options: ClusterOptions, report_progress: ProgressCallback
) -> ClusteringResult:
    """Cluster the newest commits of a testbed.

    :raises UsageError: in the same cases as :func:`validate_request`.
    """
    axis, window = _columns(site, testbed, options)
    traces = site.catalog.now()
    places = _select_traces(traces, testbed, options)
    chosen = [traces.stored[place] for place in places]
    report_progress(f"reads {len(chosen)} traces")
    values = site.store.tiles.values(axis, [trace.trace_id for trace in chosen], window)
    report_progress(f"divides {len(chosen)} traces")
    clustering = find_clusters(
        values,
        [trace.key for trace in chosen],
        better=[trace.better for trace in chosen],
        k=options.k,
        cutoff=options.limit,
        around_middle=False,
        progress=lambda iteration, error: report_progress(f"iteration {iteration}, total error {error:,.0f}"),
    )
    interesting = [cluster for cluster in clustering.clusters if _is_interesting(cluster, options)]
    report_progress(f"compares {len(interesting)} interesting clusters with the stored ones")
    columns = [axis.columns[number] for number in window]
    simulated = any(run.simulated for run in site.store.runs(testbed, last=1))
    return ClusteringResult(
        clusters=tuple(
            _build_stored_clusters(testbed, interesting, clustering, columns, simulated=simulated)
        ),
        commits=tuple(map(commit_of, columns)),
        current={name: trace.hash for name, trace in traces.by_hash.items()},
        numbers={
            "traces": len(chosen) - len(clustering.left_out),
            "left_out": len(clustering.left_out),
            "commits": len(window),
            "k": clustering.k,
            "clusters": len(clustering.clusters),
            "interesting": len(interesting),
            "iterations": clustering.iterations,
            "converged": clustering.converged,
        },
    )


def rule(found: ClusteringResult) -> Rule:
    """Return the merge rule of Skia Perf for a result."""

    def merged(stored: Sequence[StoredCluster]) -> list[StoredCluster]:
        known = [
            _to_known_cluster(each, [found.current.get(name, name) for name, _ in each.summary["members"]])
            for each in stored
        ]
        new = [_to_known_cluster(each, [name for name, _ in each.members]) for each in found.clusters]
        return [
            each.details if each.identity == each.details.identity
            # Found now, and the same as a stored cluster.
            else replace(each.details, identity=each.identity)
            for each in merge(known, new, commits=found.commits)
        ]  # fmt: skip

    return merged


def commit_of(column: TileColumn) -> str:
    """Return the commit of a column, or if it is unknown, a name made of the first run."""
    return column.revision or f"run-{column.runs[0]}"


def find_overrepresented(
    cluster: Counts, size: int, everything: Counts, total: int
) -> list[OverrepresentedValue]:
    """Return the over-represented values of a cluster, at most 12, the most surprising first.

    Of the m traces of a cluster, ``count`` have a value; of all n clustered traces, ``of_all`` have it. If
    the traces of the cluster were drawn at random, ``count`` would be about m · q, with q = of_all / n and
    the variance m q (1 - q) (n - m) / (n - 1) of the hypergeometric distribution. A value whose count
    exceeds that by more than two standard deviations is over-represented.

    :param cluster: the count of each value in the ``size`` traces of the cluster.
    :param everything: the count of each value in all ``total`` traces.
    """
    of_all = {(name, each.value): each.count for name, values in everything.items() for each in values}
    found = sorted(_score_overrepresented(cluster, size, of_all, total), key=lambda each: -each[0])
    return [value for _, value in found[:MOST_OVERREPRESENTED]]


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


def _columns(site: AppContext, testbed: str, options: ClusterOptions) -> tuple[Axis, range]:
    axis = site.store.tiles.axis(testbed)
    count = len(axis.columns)
    if count < LEAST_WINDOW:
        raise UsageError(
            f"testbed {testbed}: {count} commits were measured; a step needs at least {LEAST_WINDOW}"
        )
    return axis, range(max(count - options.window, 0), count)


def _select_traces(traces: Traces, testbed: str, options: ClusterOptions) -> NDArray[np.intp]:
    mask = traces.table.mask(Query((Term("testbed", testbed),))) & traces.table.mask(parse(options.query))
    places = np.flatnonzero(mask)
    if not places.size:
        raise UsageError(f"testbed {testbed}: the query {options.query!r} matches no traces; choose another")
    if places.size * options.window > MOST_VALUES:
        most = MOST_VALUES // options.window
        raise UsageError(
            f"testbed {testbed}: {places.size} traces are too many for {options.window} commits; "
            f"choose at most {most} by a query"
        )
    return places


def _is_interesting(cluster: Cluster, options: ClusterOptions) -> bool:
    if options.statistic == "documented":
        return cluster.interesting
    return abs(cluster.corrected) > options.limit


def _build_stored_clusters(
    testbed: str,
    interesting: Sequence[Cluster],
    clustering: Clustering,
    columns: Sequence[TileColumn],
    *,
    simulated: bool,
) -> list[StoredCluster]:
    everything = [key for cluster in clustering.clusters for key in cluster.members]
    counts = parameter_summary(everything) if interesting else {}
    commits = tuple(map(commit_of, columns))
    moments = tuple(column.started for column in columns)
    now = datetime.now(UTC)
    stored = []
    for cluster in interesting:
        named = as_known_cluster(cluster, commits)
        overrepresented_values = find_overrepresented(
            cluster.parameters, len(cluster.members), counts, len(everything)
        )
        summary = summary_of(
            cluster,
            named.members,
            commits=commits,
            moments=moments,
            parameters=overrepresented_values,
            total=len(everything),
            clustered=now,
            simulated=simulated,
        )
        distances = [round(float(distance), 4) for distance in cluster.distances]
        stored.append(
            StoredCluster(
                testbed=testbed,
                moment=moments[summary.position],
                commit=named.commit,
                regression=named.regression,
                summary=summary.model_dump(mode="json"),
                members=list(zip(named.members, distances, strict=True)),
                found=now,
            )
        )
    return stored


def _score_overrepresented(
    cluster: Counts, size: int, of_all: Mapping[tuple[str, str], int], total: int
) -> Iterator[tuple[float, OverrepresentedValue]]:
    for parameter, values in cluster.items():
        for each in values:
            common = of_all[parameter, each.value]
            share = common / total
            variance = size * share * (1 - share) * (total - size) / max(total - 1, 1)
            deviations = (each.count - size * share) / sqrt(variance) if variance else 0.0
            if deviations > _DEVIATIONS:
                found = OverrepresentedValue(
                    parameter=parameter, value=each.value, count=each.count, of_all=common
                )
                yield deviations, found


def _to_known_cluster(cluster: StoredCluster, members: Sequence[str]) -> KnownCluster[StoredCluster]:
    return KnownCluster(
        members=tuple(members),
        regression=cluster.regression,
        commit=cluster.commit,
        details=cluster,
        identity=cluster.identity,
        triage=ClusterDecision(TriageStatus(cluster.status), cluster.message),
    )


class _StoppedError(Exception):
    """The worker is stopped."""


class _LostError(Exception):
    """The clustering was cancelled, or another process has claimed it."""


class ClusteringWorker:
    """Worker that runs clusterings in its own thread, from entering the context to leaving it.

    ::

        with ClusteringWorker(site): ...
    """

    def __init__(self, site: AppContext, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._site = site
        self._now = now
        self._stopping = EndEvent()
        self._running = ExitStack()
        self._next_due = 0.0

    def __enter__(self) -> Self:
        self._running.enter_context(self._site.workers.run("clustering", self._run, self._stopping))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._running.close()

    def stop(self) -> None:
        """End the current clustering at the next iteration, and start no other."""
        self._stopping.set()

    def request_due_clusterings(self) -> None:
        """Request the clusterings whose period is over, for testbeds with new data."""
        period = self._site.settings.dashboard.cluster_period_s
        if period is None:
            return
        tiles = self._site.store.tiles
        for testbed in tiles.testbeds():
            axis = tiles.axis(testbed)
            if len(axis.columns) >= LEAST_WINDOW:
                self._site.store.clusterings.request_periodically(
                    testbed,
                    ClusterOptions().model_dump(),
                    data=" ".join(map(str, axis.version)),
                    period=timedelta(seconds=period),
                    now=self._now(),
                )

    def work_once(self) -> bool:
        """Run one clustering, if one is requested, and return whether there was one.

        :raises StoreError: if the store cannot be reached; the clustering is run later then.
        """
        clusterings = self._site.store.clusterings
        task = clusterings.claim(self._now())
        if task is None:
            return False
        try:
            self._cluster(task)
        except _StoppedError:
            clusterings.give_back(task)
        except _LostError:
            LOG.warning("clustering of %s: cancelled, or claimed by another process", task.testbed)
        except StoreError:
            raise
        except (PerftrendError, MemoryError) as error:
            reason = explain(error) or "not enough memory; select fewer traces"
            LOG.warning("clustering of %s: %s", task.testbed, reason)
            clusterings.fail(task, reason)
        except Exception as error:
            # Show the defect to the user who waits, and go on with the next clustering.
            reason = f"{defect(error)}; the dashboard's log says where"
            LOG.exception("clustering of %s: %s", task.testbed, reason)
            clusterings.fail(task, reason)
        return True

    def _cluster(self, task: NewestClustering) -> None:
        options = ClusterOptions.model_validate(task.options)
        found = find(self._site, task.testbed, options, self._make_progress_callback(task))
        merged = self._site.store.clusters.merge(task, rule(found), found.numbers)
        if merged is None:
            raise _LostError
        LOG.info(
            "clustering of %s: %d clusters are interesting, %d of them new",
            task.testbed,
            len(found.clusters),
            merged.added,
        )

    def _make_progress_callback(self, task: NewestClustering) -> Callable[[str], None]:
        last_reported = 0.0
        give_way = self._site.traffic.give_way_callback()

        def report_progress(stage: str) -> None:
            nonlocal last_reported
            give_way()
            if self._stopping.is_set():
                raise _StoppedError
            if time.monotonic() - last_reported < _BEAT_S:
                return
            last_reported = time.monotonic()
            if not self._site.store.clusterings.beat(task, stage, self._now()):
                raise _LostError

        return report_progress

    def _run(self) -> None:
        while not self._stopping.wait(_POLL_S):
            try:
                if time.monotonic() >= self._next_due:
                    self._next_due = time.monotonic() + _DUE_S
                    self.request_due_clusterings()
                with self._site.store.changes.suspend_commit_count():
                    while not self._stopping.is_set() and self.work_once():
                        pass
            except StoreError as error:
                # The database is unreachable; the clustering is claimed again when its lease has expired.
                LOG.error("clustering: %s", explain(error))
            except Exception as error:
                # A defect must not end all further clusterings.
                LOG.exception("clustering: %s: %s", type(error).__name__, explain(error))
