"""A night: the transaction that turns the findings of an evaluation into items.

Evaluations of a testbed are serialized. An evaluation whose newest run is older than that of the last one is
stale, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection
from sqlalchemy.exc import IntegrityError

from perftrend.model import SuspectRange
from perftrend.store.activity import record
from perftrend.store.alerts.item_rows import (
    FINDING,
    ITEM_STATUS,
    StoredFinding,
    finding_of,
    span_columns,
    subject_of,
)
from perftrend.store.connection import savepoint
from perftrend.store.schema import alerts, evaluations, findings, item_alerts, items, outbox
from perftrend.text import format_count

LOG_USER = "evaluation"
"""The user of these changes in the activity log."""


@dataclass(frozen=True, slots=True)
class Night:
    """The known findings of a testbed, and the changes that an evaluation can make."""

    connection: Connection
    testbed: str
    is_stale: bool
    known: tuple[StoredFinding, ...]
    """In the order of their identities, including those that are gone."""

    def versions(self) -> dict[int, int]:
        """Return the versions of the alerts, as this transaction sees them."""
        query = sa.select(alerts.c.id, alerts.c.version)
        return {row.id: row.version for row in self.connection.execute(query)}

    def add_item(self, kind: str, span: SuspectRange, *, owner: str, now: datetime) -> int:
        """Add an item without findings."""
        row = {
            **span_columns(span), "testbed": self.testbed, "kind": kind, "status": "new", "reason": "",
            "message": "", "owner": owner, "traces": 0, "trace": "", "opened": now, "changed": now,
            "changed_by": "", "version": 1, "former_status": "new", "former_message": "",
            "former_owner": owner,
        }  # fmt: skip
        key = self.connection.execute(sa.insert(items), row).inserted_primary_key
        item = int(key[0]) if key else 0
        record(self.connection, LOG_USER, "found", subject_of(item), f"{kind} on {self.testbed}")
        return item

    def add_findings(
        self, item: int, kind: str, found: Sequence[Mapping[str, Any]], *, now: datetime
    ) -> None:
        """Add findings to an item.

        :param found: mappings with trace, the columns of the span, before, after, low, high, confidence.
        """
        rows = [{**each, "item_id": item, "kind": kind, "found": now, "seen": now} for each in found]
        self.connection.execute(sa.insert(findings), rows)

    def log_joined(self, item: int, count: int) -> None:
        """Record in the activity log that an item has more findings."""
        detail = format_count(count, "more trace")
        record(self.connection, LOG_USER, "joined", subject_of(item), detail)

    def update_findings(self, again: Mapping[int, Mapping[str, Any]], *, now: datetime) -> None:
        """Update findings that were found again, with their new values."""
        if not again:
            return
        columns = (
            "last_good", "last_good_revision", "first_changed", "first_changed_revision", "before", "after",
            "low", "high", "confidence",
        )  # fmt: skip
        change = sa.update(findings).where(findings.c.id == sa.bindparam("which"))
        change = change.values({name: sa.bindparam(f"new_{name}") for name in columns})
        change = change.values(seen=now, gone=None)
        rows = [
            {"which": identity, **{f"new_{name}": each[name] for name in columns}}
            for identity, each in again.items()
        ]
        self.connection.execute(change, rows)

    def set_gone(self, identities: Collection[int], *, now: datetime) -> None:
        """Mark findings that are no longer found."""
        if identities:
            change = sa.update(findings).where(findings.c.id == sa.bindparam("which")).values(gone=now)
            self.connection.execute(change, [{"which": each} for each in identities])

    def findings_of(self, item: int) -> list[StoredFinding]:
        """Return the findings of an item, as this transaction sees them."""
        query = sa.select(*FINDING).where(findings.c.item_id == item).order_by(findings.c.id)
        return [finding_of(row) for row in self.connection.execute(query).mappings()]

    def describe(self, item: int, span: SuspectRange, largest: StoredFinding, *, traces: int) -> None:
        """Store what pages show of an item: its span and its largest change."""
        low, high = largest.relative_interval or (None, None)
        change = sa.update(items).where(items.c.id == item)
        shown = {"traces": traces, "trace": largest.trace, "size": largest.relative, "low": low, "high": high}
        self.connection.execute(change.values(**span_columns(span), **shown))

    def close(self, item: int, reason: str, *, now: datetime) -> bool:
        """Close an item without remaining findings, and return whether it was open."""
        change = sa.update(items).where(items.c.id == item, items.c.status != "closed")
        columns = {
            "status": "closed", "reason": reason, "former_status": items.c.status,
            "former_message": items.c.message, "former_owner": items.c.owner,
            "former_snoozed_until": items.c.snoozed_until, "former_snoozed_job": items.c.snoozed_job,
            "former_snoozed_build": items.c.snoozed_build, "changed": now, "changed_by": "",
            "version": items.c.version + 1,
        }  # fmt: skip
        if self.connection.execute(change.values(columns)).rowcount == 0:
            return False
        record(self.connection, LOG_USER, "closed", subject_of(item), reason)
        return True

    def reopen(self, item: int, *, now: datetime) -> bool:
        """Restore the status of an item that an evaluation closed, and return whether it was restored."""
        is_closed = (items.c.id == item) & (items.c.status == "closed") & (items.c.reason != "")
        columns = {
            "status": items.c.former_status, "reason": "", "former_status": "closed",
            "snoozed_until": items.c.former_snoozed_until, "snoozed_job": items.c.former_snoozed_job,
            "snoozed_build": items.c.former_snoozed_build, "changed": now, "changed_by": "",
            "version": items.c.version + 1,
        }  # fmt: skip
        if self.connection.execute(sa.update(items).where(is_closed).values(columns)).rowcount == 0:
            return False
        record(self.connection, LOG_USER, "reopened", subject_of(item), "found again")
        return True

    def status(self, item: int) -> str:
        """Return the status of an item."""
        found = self.connection.execute(sa.select(ITEM_STATUS).where(items.c.id == item)).scalar_one()
        return str(found)

    def link(self, item: int, alert: int) -> bool:
        """Store that an alert found an item, and return whether that is new."""
        same = (item_alerts.c.item_id == item) & (item_alerts.c.alert_id == alert)
        if self.connection.execute(sa.select(item_alerts.c.item_id).where(same)).first():
            return False
        self.connection.execute(sa.insert(item_alerts), {"item_id": item, "alert_id": alert})
        return True

    def send(
        self,
        key: str,
        *,
        item: int,
        alert: int,
        action: str,
        target: str,
        payload: Mapping[str, Any],
        now: datetime,
    ) -> None:
        """Put a message into the outbox; it is sent after this transaction."""
        row = {
            "key": key, "item_id": item, "alert_id": alert, "action": action, "target": target,
            "payload": dict(payload), "made": now, "due": now, "attempts": 0, "error": "",
        }  # fmt: skip
        self.connection.execute(sa.insert(outbox), row)


def night(connection: Connection, testbed: str, *, newest_run: int, since: datetime | None) -> Night:
    """Begin a night; other nights of the testbed wait until it ends."""
    query = sa.select(evaluations.c.newest_run).where(evaluations.c.testbed == testbed).with_for_update()
    last = connection.execute(query).scalar()
    if last is None:
        try:
            with savepoint(connection):
                connection.execute(sa.insert(evaluations), {"testbed": testbed, "newest_run": -1})
        except IntegrityError:
            # Another process was first. Its row is there now.
            pass
        last = connection.execute(query).scalar_one()
    if last > newest_run:
        return Night(connection, testbed, is_stale=True, known=())
    change = sa.update(evaluations).where(evaluations.c.testbed == testbed)
    connection.execute(change.values(newest_run=newest_run))
    known = (
        sa.select(*FINDING)
        .join(items, items.c.id == findings.c.item_id)
        .where(items.c.testbed == testbed)
        .order_by(findings.c.id)
    )
    if since is not None:
        known = known.where(findings.c.first_changed >= since)
    rows = connection.execute(known).mappings()
    return Night(connection, testbed, is_stale=False, known=tuple(map(finding_of, rows)))
