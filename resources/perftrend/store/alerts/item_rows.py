"""Items and findings as the store has them: their types, and the columns of queries.

A snoozed item is new again from its date on, or as soon as the store has its run. This is determined whenever
items are read: :data:`ITEM` has the status as it is then, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, RowMapping

from perftrend.model import MeasuredCommit, SuspectRange
from perftrend.store.rows import current_hash
from perftrend.store.schema import Moment, findings, items, runs

CHANGES = ("regression", "progression", "testbed")
"""Kinds of items that are changes of values; the others are about missing ones."""
SNOOZED = "snoozed"
STATUSES = ("new", "ignored", "bug", SNOOZED, "closed")
OPEN = ("new", "bug")
AT_ONCE = 1000
"""Number of values in the condition of a query."""


@dataclass(frozen=True, slots=True)
class StoredFinding:
    """A finding in one trace, or in a testbed as a whole."""

    identity: int
    item: int
    kind: str
    trace: str
    """The hash of its key; empty for a testbed."""
    span: SuspectRange
    before: float | None
    after: float | None
    low: float | None
    """The least value of ``after - before`` at 95 %; None if it is not known."""
    high: float | None
    confidence: float | None
    found: datetime
    """When it was found for the first time."""
    seen: datetime
    """When it was found for the last time."""
    gone: datetime | None
    """When it was no longer found; None if it still is."""
    origin: int | None
    """The item that it was found for, if that was merged into another."""

    @property
    def relative(self) -> float | None:
        """The step relative to the value before; None if it is not known."""
        return self._ratio(None if self.after is None or self.before is None else self.after - self.before)

    @property
    def relative_interval(self) -> tuple[float, float] | None:
        """The 95 % interval of the step, relative to the value before; None if it is not known."""
        low, high = self._ratio(self.low), self._ratio(self.high)
        return None if low is None or high is None else (low, high)

    def _ratio(self, step: float | None) -> float | None:
        return step / abs(self.before) if step is not None and self.before else None


@dataclass(frozen=True, slots=True)
class Snooze:
    """When a snoozed item is new again: from a moment on, or with a run."""

    until: datetime | None = None
    job: str | None = None
    """The job of the run; None if there is a moment."""
    build: int | None = None
    """The item is new again when its testbed has a run with this build number or a greater one."""

    def __str__(self) -> str:
        return f"{self.until:%Y-%m-%d %H:%M} UTC" if self.until else f"{self.job}/{self.build}"


@dataclass(frozen=True, slots=True)
class ItemTriage:
    """What users set of an item."""

    status: str
    """One of :data:`STATUSES`."""
    message: str
    """Why it is ignored, or the number of a bug."""
    owner: str
    snooze: Snooze | None
    """Only of a snoozed item."""


@dataclass(frozen=True, slots=True)
class Item:
    """Changes that one commit may explain."""

    identity: int
    testbed: str
    kind: str
    span: SuspectRange
    triage: ItemTriage
    reason: str
    """Why an evaluation closed it; empty if none did."""
    traces: int
    """Number of traces in which it is found."""
    trace: str
    """Hash of the trace with the largest change."""
    size: float | None
    """Change of that trace, relative to the value before."""
    low: float | None
    high: float | None
    opened: datetime
    changed: datetime
    changed_by: str
    """Empty if it was an evaluation."""
    version: int
    former: ItemTriage
    """Its triage before the last edit."""
    merged_into: int | None
    """The item that has its findings now; None: it was not merged."""
    split_from: int | None

    @property
    def status(self) -> str:
        """One of :data:`STATUSES`."""
        return self.triage.status

    @property
    def message(self) -> str:
        """The message of a user: why it is ignored, or the number of a bug."""
        return self.triage.message

    @property
    def owner(self) -> str:
        """Its owner, or owners separated by commas; empty: none."""
        return self.triage.owner

    @property
    def subject(self) -> str:
        """Its name in the activity log."""
        return subject_of(self.identity)


@dataclass(frozen=True, slots=True)
class TriageEdit:
    """An edit of an item's triage by a user; what is None is left unchanged."""

    item: int
    version: int
    """The version of the item that the edit was made from."""
    status: str | None = None
    message: str | None = None
    owner: str | None = None
    snooze: Snooze | None = None
    """Required if the status is :data:`SNOOZED`."""

    def triage_of(self, item: Item) -> ItemTriage:
        """Return the triage of an item after this edit."""
        now = item.triage
        status = now.status if self.status is None else self.status
        return ItemTriage(
            status=status,
            message=now.message if self.message is None else self.message,
            owner=now.owner if self.owner is None else self.owner,
            snooze=(self.snooze or now.snooze) if status == SNOOZED else None,
        )


FINDING = tuple(
    current_hash(each).label("trace") if each.name == "trace" else each for each in findings.columns
)
"""The columns of a finding; its trace under the current name."""

_has_run = (
    sa.select(runs.c.id)
    .where(
        runs.c.testbed == items.c.testbed,
        runs.c.job == items.c.snoozed_job,
        runs.c.build >= items.c.snoozed_build,
        runs.c.experiment == "",
    )
    .exists()
)
_now = sa.bindparam("now", callable_=lambda: datetime.now(UTC), type_=Moment)
_is_over = (items.c.snoozed_until <= _now) | _has_run
ITEM_STATUS = sa.case(((items.c.status == SNOOZED) & _is_over, "new"), else_=items.c.status)
"""The status of an item at the time of the query."""
ITEM = tuple(ITEM_STATUS.label("status") if each.name == "status" else each for each in items.columns)
"""The columns of an item, with its status at the time of the query."""


def subject_of(identity: int) -> str:
    """Return the name of an item in the activity log."""
    return f"item {identity}"


def finding_of(row: RowMapping) -> StoredFinding:
    """Return the finding of a row."""
    return StoredFinding(
        identity=row["id"],
        item=row["item_id"],
        span=span_of(row),
        **{
            name: row[name]
            for name in (
                "kind", "trace", "before", "after", "low", "high", "confidence", "found", "seen", "gone",
                "origin",
            )
        },
    )  # fmt: skip


def span_of(row: RowMapping) -> SuspectRange:
    """Return the range of commits of a row."""
    return SuspectRange(
        MeasuredCommit(row["last_good"], row["last_good_revision"]),
        MeasuredCommit(row["first_changed"], row["first_changed_revision"]),
    )


def span_columns(span: SuspectRange) -> dict[str, Any]:
    """Return the columns of a range of commits."""
    return {
        "last_good": span.last_good.moment,
        "last_good_revision": span.last_good.revision,
        "first_changed": span.first_changed.moment,
        "first_changed_revision": span.first_changed.revision,
    }


def by_identity(connection: Connection, wanted: Sequence[int], *, lock: bool = False) -> dict[int, Item]:
    """Return items by their identities; those that do not exist are omitted."""
    found: dict[int, Item] = {}
    for start in range(0, len(wanted), AT_ONCE):
        query = sa.select(*ITEM).where(items.c.id.in_(wanted[start : start + AT_ONCE])).order_by(items.c.id)
        query = query.with_for_update(of=items) if lock else query
        found |= {row["id"]: item_of(row) for row in connection.execute(query).mappings()}
    return found


def columns_of(triage: ItemTriage) -> dict[str, object]:
    """Return the columns of a triage."""
    snooze = triage.snooze or Snooze()
    return {
        "status": triage.status,
        "message": triage.message,
        "owner": triage.owner,
        "snoozed_until": snooze.until,
        "snoozed_job": snooze.job,
        "snoozed_build": snooze.build,
    }


def _triage(row: RowMapping, prefix: str = "") -> ItemTriage:
    """Return the triage of a row; of an item whose snooze is over, without it."""
    status = row[f"{prefix}status"]
    snooze = Snooze(*(row[f"{prefix}snoozed_{name}"] for name in ("until", "job", "build")))
    return ItemTriage(
        status, row[f"{prefix}message"], row[f"{prefix}owner"], snooze if status == SNOOZED else None
    )


def item_of(row: RowMapping) -> Item:
    """Return the item of a row."""
    names: Iterable[str] = (
        "testbed", "kind", "reason", "traces", "trace", "size", "low", "high", "opened", "changed",
        "changed_by", "version", "merged_into", "split_from",
    )  # fmt: skip
    return Item(
        identity=row["id"],
        span=span_of(row),
        triage=_triage(row),
        former=_triage(row, "former_"),
        **{name: row[name] for name in names},
    )
