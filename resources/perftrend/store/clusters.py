"""Clusters that a clustering found, and their triage by users.

Findings and triage are in separate columns. A clustering writes the former, a user the latter, so neither
overwrites the other. An edit carries the version that it was made from. If another user was faster, the edit
changes nothing and returns the current state.

Source: "Skia Perf: Design", section Alerting.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from perftrend.model import TraceKey
from perftrend.store import clusterings
from perftrend.store.activity import BulkEditResult, record
from perftrend.store.clusterings import NewestClustering
from perftrend.store.connection import read_transaction, write_transaction
from perftrend.store.schema import clusters, renamed_traces, traces
from perftrend.text import format_count

LOG_USER = "clustering"
"""The user of found clusters in the activity log."""
_AT_ONCE = 1000
"""Values in one condition of a query."""
_LIGHT = tuple(column for column in clusters.c if column.name != "members")


@dataclass(frozen=True, slots=True)
class StoredCluster:
    """A cluster as it is stored."""

    testbed: str
    moment: datetime
    """When the commit at the step was first measured."""
    commit: str
    """The commit at the step."""
    regression: float
    summary: Mapping[str, Any]
    """Further findings, as JSON: finite numbers only."""
    members: Sequence[Sequence[Any]] = ()
    """The hash of each trace and its distance from the centroid, the nearest first; read for one cluster
    at a time only, as there may be thousands."""
    identity: int | None = None
    """Its key; None if it is not stored yet."""
    status: str = "New"
    message: str = ""
    version: int = 1
    """Increases with each change of status or message."""
    found: datetime = field(default_factory=lambda: datetime.now(UTC))
    """When it was found for the first time."""
    changed: datetime | None = None
    """When status or message were last changed; None if they never were."""
    changed_by: str = ""


Rule: TypeAlias = Callable[[Sequence[StoredCluster]], Sequence[StoredCluster]]
"""From the stored clusters to those that should be stored. Unchanged clusters are the same objects, new ones
have no identity."""


@dataclass(frozen=True, slots=True)
class MergeCounts:
    """Numbers of clusters that a clustering added and replaced."""

    added: int
    replaced: int


class Clusters:
    """The clusters of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def select(
        self,
        testbed: str | None = None,
        *,
        status: str | None = None,
        newest: bool = False,
        limit: int | None = None,
        offset: int = 0,
    ) -> list[StoredCluster]:
        """Return clusters without their members.

        :param newest: whether the clusters that were found last come first; otherwise those with the largest
            statistic, of either sign.
        """
        query = sa.select(*_LIGHT).where(*_conditions(testbed, status)).limit(limit).offset(offset)
        largest = (sa.func.abs(clusters.c.regression).desc(), clusters.c.id)
        query = query.order_by(*((clusters.c.found.desc(),) if newest else ()), *largest)
        with read_transaction(self._engine) as connection:
            return [_cluster(row) for row in connection.execute(query).mappings()]

    def counts(self, testbed: str | None = None) -> dict[str, int]:
        """Return the number of clusters with each status."""
        query = sa.select(clusters.c.status, sa.func.count()).where(*_conditions(testbed, None))
        with read_transaction(self._engine) as connection:
            return {row[0]: row[1] for row in connection.execute(query.group_by(clusters.c.status))}

    def one(self, identity: int) -> StoredCluster | None:
        """Return a cluster with all its members; None if it does not exist."""
        with read_transaction(self._engine) as connection:
            row = connection.execute(sa.select(clusters).where(clusters.c.id == identity)).mappings().first()
            return _cluster(row) if row else None

    def testbeds(self, identities: Iterable[int]) -> set[str]:
        """Return the testbeds of clusters; those that do not exist are omitted."""
        query = sa.select(clusters.c.testbed).where(clusters.c.id.in_(list(identities))).distinct()
        with read_transaction(self._engine) as connection:
            return set(connection.execute(query).scalars())

    def traces(self, hashes: Sequence[str]) -> dict[str, TraceKey]:
        """Return the current keys of traces by hash; hashes that the store does not have are omitted."""
        current = traces.alias()
        query = (
            sa.select(traces.c.hash, current.c.parameters)
            .outerjoin(renamed_traces, renamed_traces.c.trace_id == traces.c.id)
            .join(current, current.c.id == sa.func.coalesce(renamed_traces.c.current_id, traces.c.id))
        )
        found = {}
        with read_transaction(self._engine) as connection:
            for start in range(0, len(hashes), _AT_ONCE):
                some = query.where(traces.c.hash.in_(hashes[start : start + _AT_ONCE]))
                for name, parameters in connection.execute(some):
                    found[name] = TraceKey.of(**json.loads(parameters))
        return found

    def merge(self, task: NewestClustering, rule: Rule, result: Mapping[str, Any]) -> MergeCounts | None:
        """Merge the findings of a clustering with the stored clusters, and finish it, in one transaction.

        The triage of stored clusters is never written here, so concurrent edits are preserved.

        :param rule: receives the clusters of the testbed without their members, the oldest first.
        :param result: numbers about the clustering that are stored with it.
        :returns: None if the clustering no longer belongs to this process; then nothing is changed.
        """
        with write_transaction(self._engine) as connection:
            if not clusterings.has_claim(connection, task):
                return None
            query = sa.select(*_LIGHT).where(clusters.c.testbed == task.testbed).order_by(clusters.c.id)
            known = [_cluster(row) for row in connection.execute(query).mappings()]
            merged = _store_clusters(connection, known, rule(known))
            full_result = {**result, "added": merged.added, "replaced": merged.replaced}
            clusterings.finish(connection, task, full_result)
        return merged

    def triage(
        self, versions: Mapping[int, int], *, status: str, message: str | None, user: str
    ) -> BulkEditResult[StoredCluster]:
        """Set the triage of clusters, and record it in the activity log, in one transaction.

        An edit that repeats the current triage is not a change, regardless of the version.

        :param versions: the clusters, each with the version that the edit was made from.
        :param message: None to leave each message unchanged.
        """
        with write_transaction(self._engine) as connection:
            query = sa.select(*_LIGHT).where(clusters.c.id.in_(versions)).order_by(clusters.c.id)
            rows = connection.execute(query.with_for_update()).mappings()
            now = {row["id"]: _cluster(row) for row in rows}
            changes = {
                identity: cluster
                for identity, cluster in now.items()
                if status != cluster.status or message not in {None, cluster.message}
            }
            refused = tuple(each for at, each in changes.items() if each.version != versions[at])
            gone = tuple(identity for identity in versions if identity not in now)
            if refused or gone:
                return BulkEditResult(tuple(now.values()), refused, gone)
            for identity, cluster in changes.items():
                new_message = cluster.message if message is None else message
                now[identity] = _set_triage(connection, cluster, status, new_message, user)
        return BulkEditResult(tuple(now.values()))

    def reset(self, testbed: str | None, *, except_status: str, user: str) -> int:
        """Delete the clusters with a status other than ``except_status``, and return their number.

        The activity log retains their triage. The next periodic clustering runs even without new values.
        """
        with write_transaction(self._engine) as connection:
            clusterings.forget_data(connection, testbed)
            chosen = (*_conditions(testbed, None), clusters.c.status != except_status)
            query = sa.select(*_LIGHT).where(*chosen).order_by(clusters.c.id).with_for_update()
            doomed = [_cluster(row) for row in connection.execute(query).mappings()]
            if doomed:
                connection.execute(
                    sa.delete(clusters).where(clusters.c.id.in_([row.identity for row in doomed]))
                )
                triaged = [
                    f"{each.identity} {_describe_triage(each.status, each.message)}"
                    for each in doomed
                    if each.changed
                ]
                detail = "; ".join([f"{len(doomed)} deleted", *triaged])
                record(connection, user, "reset", f"clusters of {testbed or 'all testbeds'}", detail)
        return len(doomed)


def _conditions(testbed: str | None, status: str | None) -> list[sa.ColumnElement[bool]]:
    wanted = {clusters.c.testbed: testbed, clusters.c.status: status}
    return [column == value for column, value in wanted.items() if value is not None]


def _cluster(row: sa.RowMapping) -> StoredCluster:
    return StoredCluster(
        testbed=row["testbed"],
        moment=row["ts"],
        commit=row["hash"],
        regression=row["regression"],
        summary=row["cluster"],
        members=row.get("members", ()),
        identity=row["id"],
        status=row["status"],
        message=row["message"],
        version=row["version"],
        found=row["found"],
        changed=row["changed"],
        changed_by=row["changed_by"],
    )


def _store_clusters(
    connection: Connection, known: Sequence[StoredCluster], wanted: Sequence[StoredCluster]
) -> MergeCounts:
    before = {id(each) for each in known}
    new = [each for each in wanted if each.identity is None]
    replaced = [each for each in wanted if each.identity is not None and id(each) not in before]
    for each in new:
        row = {"status": each.status, "message": each.message, "version": 1, "found": each.found}
        added = connection.execute(sa.insert(clusters), {**_columns(each), **row, "changed_by": ""})
        _log(connection, "found", added.inserted_primary_key[0] if added.inserted_primary_key else None, each)
    for each in replaced:
        connection.execute(sa.update(clusters).where(clusters.c.id == each.identity).values(_columns(each)))
        _log(connection, "found again, larger", each.identity, each)
    return MergeCounts(len(new), len(replaced))


def _log(connection: Connection, action: str, identity: int | None, cluster: StoredCluster) -> None:
    traces = format_count(len(cluster.members), "trace")
    kind = "Progression" if cluster.regression > 0 else "Regression"
    detail = f"{kind} {cluster.regression:+.1f} at {cluster.commit[:12]}, {traces}"
    record(connection, LOG_USER, action, f"cluster {identity}", detail)


def _columns(cluster: StoredCluster) -> dict[str, Any]:
    """Return the columns that a clustering writes."""
    return {
        "testbed": cluster.testbed,
        "ts": cluster.moment,
        "hash": cluster.commit,
        "regression": cluster.regression,
        "cluster": dict(cluster.summary),
        "members": [list(member) for member in cluster.members],
    }


def _set_triage(
    connection: Connection, old: StoredCluster, status: str, message: str, user: str
) -> StoredCluster:
    query = sa.update(clusters).where(clusters.c.id == old.identity)
    columns = {"status": status, "message": message, "version": old.version + 1}
    connection.execute(query.values(**columns, changed=datetime.now(UTC), changed_by=user))
    detail = f"{_describe_triage(old.status, old.message)} → {_describe_triage(status, message)}"
    record(connection, user, "triaged", f"cluster {old.identity}", detail)
    row = connection.execute(sa.select(*_LIGHT).where(clusters.c.id == old.identity)).mappings().one()
    return _cluster(row)


def _describe_triage(status: str, message: str) -> str:
    return f"{status}: {message}" if message else status
