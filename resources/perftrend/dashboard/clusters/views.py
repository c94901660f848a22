"""Views of stored clusters for the responses of ``/clusters``.

In the plot of a cluster, class names leave the colours to the style sheet, and coordinates are integers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import copysign, inf
from urllib.parse import urlencode

from perftrend.analysis.cluster import CORRECTED_CUTOFF, CUTOFF, TriageStatus
from perftrend.analysis.formula import format_key
from perftrend.bisect import command as bisect_command
from perftrend.dashboard import links
from perftrend.dashboard.clusters.models import (
    ClusterBisection,
    ClusteringView,
    ClusterMember,
    ClusterOptions,
    ClusterSummary,
    ClusterView,
)
from perftrend.dashboard.context import AppContext
from perftrend.model import TraceKey, finite
from perftrend.scale import Scale, padded_range
from perftrend.store.clusterings import NewestClustering
from perftrend.store.clusters import StoredCluster

_LONGEST_ADDRESS = 8000
"""Maximum length of a link with trace ids; servers and proxies reject much longer ones."""
WIDTH, HEIGHT = 640, 120
_MARGIN = 8
_LEAST_SPAN = 1e-9
"""Relative to the middle: equal values are a line in the middle of the plot."""


def cluster_views(
    site: AppContext, clusters: Sequence[StoredCluster], *, whole: bool = False
) -> list[ClusterView]:
    """Return the views of clusters.

    :param whole: whether the views contain all members; the clusters must have been read with them.
    """
    members = [
        [
            (str(name), float(distance))
            for name, distance in (each.members if whole else each.summary["members"])
        ]
        for each in clusters
    ]
    keys = site.store.clusters.traces([name for several in members for name, _ in several])
    return [
        _view(site, each, [_member(name, distance, keys.get(name)) for name, distance in several])
        for each, several in zip(clusters, members, strict=True)
    ]


def _view(site: AppContext, cluster: StoredCluster, members: list[ClusterMember]) -> ClusterView:
    summary = ClusterSummary.model_validate(cluster.summary)
    corrected = copysign(inf, cluster.regression) if summary.corrected is None else summary.corrected
    return ClusterView(
        id=cluster.identity or 0,
        testbed=cluster.testbed,
        commit=cluster.commit,
        commit_link=_link(site, cluster.commit),
        before=summary.before,
        moment=cluster.moment,
        direction="regression" if cluster.regression < 0 else "progression",
        regression=finite(cluster.regression),
        interesting=abs(cluster.regression) > CUTOFF,
        corrected=summary.corrected,
        significant=abs(corrected) > CORRECTED_CUTOFF,
        step=summary.step,
        centroid=summary.centroid,
        position=summary.position,
        first=summary.first,
        last=summary.last,
        size=summary.size,
        total=summary.total,
        members=members,
        parameters=summary.parameters,
        status=TriageStatus(cluster.status),
        message=cluster.message,
        version=cluster.version,
        found=cluster.found,
        changed=cluster.changed,
        changed_by=cluster.changed_by,
        explore=f"/clusters/{cluster.identity}/explore",
        simulated=summary.simulated,
    )


def clustering_view(task: NewestClustering, *, joined: bool = False) -> ClusteringView:
    """Return the view of a clustering, with its progress."""
    return ClusteringView(
        testbed=task.testbed,
        state=task.state.value,
        under_way=task.under_way,
        stage=task.stage,
        options=ClusterOptions.model_validate(task.options),
        who=task.who,
        asked=task.asked,
        finished=task.finished,
        result=dict(task.result),
        joined=joined,
    )


def prepare_bisect_commands(site: AppContext, cluster: StoredCluster) -> ClusterBisection | None:
    """Return the commands to find the commit of a step between the two measured commits.

    :returns: None if one of them is unknown, or both are the same.
    """
    summary = ClusterSummary.model_validate(cluster.summary)
    old, new = ("" if _is_run(name) else name for name in (summary.before, cluster.commit))
    hashes = [name for name, _ in summary.members]
    keys = site.store.clusters.traces(hashes)
    # The test of the nearest trace is the one that shows the step best.
    nearest = next((keys[name] for name in hashes if name in keys), None)
    found = bisect_command.prepare(site.settings, cluster.testbed, nearest, old=old, new=new)
    if found is None:
        return None
    return ClusterBisection(git_log=f"git log --oneline {found.old}..{found.new}", **dict(found))


def explore_link(site: AppContext, cluster: StoredCluster) -> str:
    """Return the address of a plot of the first 20 traces of a cluster, or of as many as it can contain."""
    link = links.of_plot(testbed=cluster.testbed)
    for name in ids_of(site, [name for name, _ in cluster.summary["members"]]):
        more = f"{link}&{urlencode({'id': name})}"
        if len(more) > _LONGEST_ADDRESS:
            break
        link = more
    return link


def ids_of(site: AppContext, hashes: Sequence[str]) -> list[str]:
    """Return the ids of those of the traces that the store has, in their order."""
    keys = site.store.clusters.traces(hashes)
    return list(dict.fromkeys(format_key(keys[name]) for name in hashes if name in keys))


def alike(members: Sequence[ClusterMember]) -> dict[str, str]:
    """Return the parameters that all traces of a list share, to be shown once."""
    known = [member.parameters for member in members if member.parameters]
    if not known:
        return {}
    return {name: value for name, value in known[0].items() if all(each.get(name) == value for each in known)}


def format_parameters(parameters: Mapping[str, str]) -> str:
    """Format parameters in a line."""
    return ", ".join(f"{name}={value}" for name, value in parameters.items())


def label(member: ClusterMember, left_out: Collection[str]) -> str:
    """Return a label of a trace: the parameters that distinguish it from others of a list."""
    if not member.parameters:
        return f"a trace that is no longer in the store, {member.hash}"
    rest = {name: value for name, value in member.parameters.items() if name not in left_out}
    return format_parameters(rest or member.parameters)


def _member(name: str, distance: float, key: TraceKey | None) -> ClusterMember:
    return ClusterMember(hash=name, parameters=key.as_dict() if key else {}, distance=distance)


def _link(site: AppContext, commit: str) -> str:
    return "" if _is_run(commit) else links.of_commit(commit, site.settings)


def _is_run(commit: str) -> bool:
    """Return whether a commit is unknown, and replaced by the run that measured it."""
    return commit.startswith("run-")


@dataclass(frozen=True, slots=True)
class ClusterDrawing:
    """SVG paths of a plot."""

    course: str
    levels: str
    step: int
    """Horizontal position of the step, from the left."""
    width: int = WIDTH
    height: int = HEIGHT


def draw_centroid(centroid: Sequence[float], position: int) -> ClusterDrawing:
    """Return the plot of a centroid, WIDTH by HEIGHT in size.

    :param centroid: at least two values, up is better.
    :param position: the index of the first value after the step.
    """
    x = Scale(0.0, len(centroid) - 1.0, _MARGIN, WIDTH - _MARGIN)
    y = Scale(*padded_range(centroid, least_span=_LEAST_SPAN), HEIGHT - _MARGIN, _MARGIN)
    points = (f"{x(number):.0f} {y(value):.0f}" for number, value in enumerate(centroid))
    step = round(x(position - 0.5))
    sides = ((centroid[:position], _MARGIN, step), (centroid[position:], step, WIDTH - _MARGIN))
    levels = (f"M{start} {y(sum(side) / len(side)):.0f}H{stop}" for side, start, stop in sides if side)
    return ClusterDrawing("M" + "L".join(points), "".join(levels), step)
