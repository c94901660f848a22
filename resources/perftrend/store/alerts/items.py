"""Items: changes that one commit may explain, and their triage by users.

Evaluations write the findings, users the triage. The edit of a user carries the version that it was made
from. An evaluation changes the version only if it closes or reopens an item.

A snoozed item is new again from its date on, or as soon as the store has its run. This is determined whenever
items are read: :data:`ITEM` has the status as it is then, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, RowMapping

from perftrend.store.activity import BulkEditResult, record
from perftrend.store.connection import read_transaction, write_transaction
from perftrend.store.rows import current_hash
from perftrend.store.schema import Moment, findings, item_alerts, items, runs

SNOOZED = "snoozed"
STATUSES = ("new", "ignored", "bug", SNOOZED, "closed")
OPEN = ("new", "bug")

_AT_ONCE = 1000
_KINDS = ("regression", "progression", "stopped", "silence")
"""In the order in which they are shown."""


@dataclass(frozen=True, slots=True)
class Span:
    """The commits after ``last_good`` up to ``first_changed``."""

    last_good: datetime
    """When it was first measured, UTC."""
    last_good_revision: str
    """Empty if it is not known."""
    first_changed: datetime
    first_changed_revision: str


@dataclass(frozen=True, slots=True)
class StoredFinding:
    """A finding in one trace, or in a testbed as a whole."""

    identity: int
    item: int
    kind: str
    trace: str
    """The hash of its key; empty for a testbed."""
    span: Span
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
    span: Span
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
class ItemSelection:
    """A selection of items; empty fields match all items."""

    statuses: Sequence[str] = ()
    kinds: Sequence[str] = ()
    testbed: str = ""
    owner: str = ""
    """One of the owners."""
    traces: Sequence[str] | None = None
    """Items that are found in one of these traces; None for any trace."""

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """Return the conditions of a query, without that of the traces."""
        found: list[sa.ColumnElement[bool]] = []
        if self.statuses:
            found.append(ITEM_STATUS.in_(self.statuses))
        if self.kinds:
            found.append(items.c.kind.in_(self.kinds))
        if self.testbed:
            found.append(items.c.testbed == self.testbed)
        if self.owner:
            owners = sa.literal(", ").concat(items.c.owner).concat(", ")
            found.append(owners.contains(f", {self.owner}, ", autoescape=True))
        return found


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


class Items:
    """The items of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def select(self, chosen: ItemSelection, *, limit: int, offset: int = 0) -> tuple[list[Item], int]:
        """Return items by kind, in the order in which kinds are shown, each the newest and largest first.

        :returns: at most ``limit`` items, and the number of all that match.
        """
        rank = sa.case({kind: number for number, kind in enumerate(_KINDS)}, value=items.c.kind)
        query = sa.select(*ITEM).where(*chosen.conditions())
        query = query.order_by(
            rank,
            items.c.first_changed.desc(),
            sa.func.abs(sa.func.coalesce(items.c.size, 0.0)).desc(),
            items.c.id.desc(),
        )
        with read_transaction(self._engine) as connection:
            if chosen.traces is not None:
                among = _with_traces(connection, chosen.traces)
                rows = [row for row in connection.execute(query).mappings() if row["id"] in among]
                return [_item(row) for row in rows[offset : offset + limit]], len(rows)
            total = _count(connection, chosen)
            page = connection.execute(query.limit(limit).offset(offset)).mappings()
            return [_item(row) for row in page], total

    def count(self, chosen: ItemSelection) -> int:
        """Return the number of items that match, regardless of their traces."""
        with read_transaction(self._engine) as connection:
            return _count(connection, chosen)

    def counts(self) -> dict[tuple[str, str], int]:
        """Return the number of items with each status and kind."""
        # Grouped below the cases, since PostgreSQL does not recognise an expression with parameters again.
        current = sa.select(ITEM_STATUS.label("status"), items.c.kind).subquery()
        query = sa.select(current.c.status, current.c.kind, sa.func.count())
        with read_transaction(self._engine) as connection:
            grouped = connection.execute(query.group_by(current.c.status, current.c.kind))
            return {(status, kind): number for status, kind, number in grouped}

    def traces(self) -> list[str]:
        """Return the hashes of traces with findings."""
        query = sa.select(findings.c.trace).distinct().where(findings.c.trace != "")
        with read_transaction(self._engine) as connection:
            return list(connection.execute(query).scalars())

    def owners(self) -> list[str]:
        """Return the owners of items, each by itself, in alphabetical order."""
        query = sa.select(items.c.owner).distinct().where(items.c.owner != "")
        with read_transaction(self._engine) as connection:
            found = connection.execute(query).scalars()
            return sorted({owner for each in found for owner in each.split(", ")})

    def one(self, identity: int) -> Item | None:
        """Return an item; None if it does not exist."""
        with read_transaction(self._engine) as connection:
            return next(iter(_by_identity(connection, [identity]).values()), None)

    def of(self, identities: Iterable[int]) -> list[Item]:
        """Return items in ascending order; those that do not exist are omitted."""
        with read_transaction(self._engine) as connection:
            return list(_by_identity(connection, sorted(identities)).values())

    def testbeds(self, identities: Iterable[int]) -> set[str]:
        """Return the testbeds of items; those that do not exist are omitted."""
        with read_transaction(self._engine) as connection:
            return {item.testbed for item in _by_identity(connection, list(identities)).values()}

    def find_related(self, item: Item, *, limit: int) -> list[Item]:
        """Return the items of other testbeds that the same commit may explain, the largest change first.

        Testbeds measure different commits at different times. So the ranges have to overlap in time, and
        neither may begin with the commit that the other one ends with.
        """
        overlapping = (items.c.last_good < item.span.first_changed) & (
            items.c.first_changed > item.span.last_good
        )
        apart = (items.c.last_good_revision == item.span.first_changed_revision) | (
            items.c.first_changed_revision == item.span.last_good_revision
        )
        query = sa.select(*ITEM).where(
            items.c.kind == item.kind, items.c.testbed != item.testbed, overlapping, sa.not_(apart)
        )
        query = query.order_by(sa.func.abs(sa.func.coalesce(items.c.size, 0.0)).desc(), items.c.id)
        with read_transaction(self._engine) as connection:
            return [_item(row) for row in connection.execute(query.limit(limit)).mappings()]

    def findings(self, item: int) -> list[StoredFinding]:
        """Return the findings of an item; those that are gone come last."""
        query = sa.select(*FINDING).where(findings.c.item_id == item)
        query = query.order_by(findings.c.gone.is_not(None), findings.c.id)
        with read_transaction(self._engine) as connection:
            return [finding_of(row) for row in connection.execute(query).mappings()]

    def alerts(self, item: int) -> list[int]:
        """Return the identities of the alerts that found an item, in ascending order."""
        query = sa.select(item_alerts.c.alert_id).where(item_alerts.c.item_id == item)
        with read_transaction(self._engine) as connection:
            return list(connection.execute(query.order_by(item_alerts.c.alert_id)).scalars())

    def triage(self, edits: Sequence[TriageEdit], *, user: str) -> BulkEditResult[Item]:
        """Set the triage of items, all or none, and record it in the activity log, in one transaction.

        An edit that repeats the current triage is not a change, regardless of the version.
        """
        with write_transaction(self._engine) as connection:
            before = _by_identity(connection, [edit.item for edit in edits], lock=True)
            gone = tuple(edit.item for edit in edits if edit.item not in before)
            wanted = [
                edit for edit in edits if edit.item in before and not _is_unchanged(edit, before[edit.item])
            ]
            refused = tuple(before[edit.item] for edit in wanted if before[edit.item].version != edit.version)
            if gone or refused:
                return BulkEditResult(refused=refused, gone=gone)
            for edit in wanted:
                _write(connection, edit, before[edit.item], user)
            now = _by_identity(connection, [edit.item for edit in edits])
        return BulkEditResult(now=tuple(now[edit.item] for edit in edits))

    def assign(self, identity: int, owner: str, *, user: str) -> None:
        """Set the owner of an item in any version; do nothing if it does not exist."""
        with write_transaction(self._engine) as connection:
            before = _by_identity(connection, [identity], lock=True).get(identity)
            edit = TriageEdit(identity, before.version if before else 0, owner=owner)
            if before is not None and not _is_unchanged(edit, before):
                _write(connection, edit, before, user)

    def undo(self, versions: Mapping[int, int], *, user: str) -> BulkEditResult[Item]:
        """Undo the last triage of items, unless they have been edited since."""
        with read_transaction(self._engine) as connection:
            present = _by_identity(connection, list(versions))
        edits = [
            _restore(item, version, present[item].former) if item in present else TriageEdit(item, version)
            for item, version in versions.items()
        ]
        return self.triage(edits, user=user)


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
            )
        },
    )  # fmt: skip


def span_of(row: RowMapping) -> Span:
    """Return the span of a row."""
    return Span(
        row["last_good"], row["last_good_revision"], row["first_changed"], row["first_changed_revision"]
    )


def _by_identity(connection: Connection, wanted: Sequence[int], *, lock: bool = False) -> dict[int, Item]:
    found: dict[int, Item] = {}
    for start in range(0, len(wanted), _AT_ONCE):
        query = sa.select(*ITEM).where(items.c.id.in_(wanted[start : start + _AT_ONCE])).order_by(items.c.id)
        query = query.with_for_update(of=items) if lock else query
        found |= {row["id"]: _item(row) for row in connection.execute(query).mappings()}
    return found


def _count(connection: Connection, chosen: ItemSelection) -> int:
    query = sa.select(sa.func.count()).select_from(items).where(*chosen.conditions())
    return connection.execute(query).scalar() or 0


def _with_traces(connection: Connection, traces: Sequence[str]) -> set[int]:
    found: set[int] = set()
    for start in range(0, len(traces), _AT_ONCE):
        some = findings.c.trace.in_(traces[start : start + _AT_ONCE])
        found.update(connection.execute(sa.select(findings.c.item_id).where(some)).scalars())
    return found


def _restore(item: int, version: int, former: ItemTriage) -> TriageEdit:
    """Return the edit that restores the former triage of an item; a snooze that is over ends at once."""
    return TriageEdit(item, version, former.status, former.message, former.owner, former.snooze)


def _is_unchanged(edit: TriageEdit, item: Item) -> bool:
    return edit.triage_of(item) == item.triage


def _write(connection: Connection, edit: TriageEdit, before: Item, user: str) -> None:
    now, was = edit.triage_of(before), before.triage
    change = sa.update(items).where(items.c.id == edit.item)
    connection.execute(
        change.values(
            **columns_of(now),
            **{f"former_{name}": value for name, value in columns_of(was).items()},
            reason=before.reason if now.status == was.status else "",
            changed=datetime.now(UTC),
            changed_by=user,
            version=before.version + 1,
        )
    )
    if now.owner != was.owner:
        record(connection, user, "assigned", before.subject, now.owner or "nobody")
    if replace(now, owner=was.owner) != was:
        record(connection, user, "triaged", before.subject, _describe(was, now))


def _describe(was: ItemTriage, now: ItemTriage) -> str:
    transition = f"{was.status} → {now.status}" if now.status != was.status else now.status
    until = f" until {now.snooze}" if now.snooze else ""
    return f"{transition}{until}: {now.message}" if now.message else f"{transition}{until}"


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


def _item(row: RowMapping) -> Item:
    names: Iterable[str] = (
        "testbed", "kind", "reason", "traces", "trace", "size", "low", "high", "opened", "changed",
        "changed_by", "version",
    )  # fmt: skip
    return Item(
        identity=row["id"],
        span=span_of(row),
        triage=_triage(row),
        former=_triage(row, "former_"),
        **{name: row[name] for name in names},
    )
