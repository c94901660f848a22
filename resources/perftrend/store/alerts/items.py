"""Items: changes that one commit may explain, and their triage by users.

Evaluations write the findings, users the triage. The edit of a user carries the version that it was made
from. An evaluation changes the version only if it closes or reopens an item.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, RowMapping

from perftrend.store.activity import BulkEditResult, record
from perftrend.store.connection import read_transaction, write_transaction
from perftrend.store.rows import current_hash
from perftrend.store.schema import findings, item_alerts, items

STATUSES = ("new", "ignored", "bug", "closed")
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
class Item:
    """Changes that one commit may explain."""

    identity: int
    testbed: str
    kind: str
    span: Span
    status: str
    """One of :data:`STATUSES`."""
    reason: str
    """Why an evaluation closed it; empty if none did."""
    message: str
    """The message of a user: why it is ignored, or the number of a bug."""
    owner: str
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
    former_status: str
    former_message: str

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
    traces: Sequence[str] | None = None
    """Items that are found in one of these traces; None for any trace."""

    def conditions(self) -> list[sa.ColumnElement[bool]]:
        """Return the conditions of a query, without that of the traces."""
        found: list[sa.ColumnElement[bool]] = []
        if self.statuses:
            found.append(items.c.status.in_(self.statuses))
        if self.kinds:
            found.append(items.c.kind.in_(self.kinds))
        if self.testbed:
            found.append(items.c.testbed == self.testbed)
        if self.owner:
            found.append(items.c.owner == self.owner)
        return found


@dataclass(frozen=True, slots=True)
class TriageEdit:
    """An edit of an item's triage by a user."""

    item: int
    version: int
    """The version of the item that the edit was made from."""
    status: str
    message: str | None = None
    """None to leave it unchanged."""


FINDING = tuple(
    current_hash(each).label("trace") if each.name == "trace" else each for each in findings.columns
)
"""The columns of a finding; its trace under the current name."""


class Items:
    """The items of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def select(self, chosen: ItemSelection, *, limit: int, offset: int = 0) -> tuple[list[Item], int]:
        """Return items by kind, in the order in which kinds are shown, each the newest and largest first.

        :returns: at most ``limit`` items, and the number of all that match.
        """
        rank = sa.case({kind: number for number, kind in enumerate(_KINDS)}, value=items.c.kind)
        query = sa.select(items).where(*chosen.conditions())
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
            count = sa.select(sa.func.count()).select_from(items).where(*chosen.conditions())
            total = connection.execute(count).scalar() or 0
            page = connection.execute(query.limit(limit).offset(offset)).mappings()
            return [_item(row) for row in page], total

    def counts(self) -> dict[tuple[str, str], int]:
        """Return the number of items with each status and kind."""
        query = sa.select(items.c.status, items.c.kind, sa.func.count())
        with read_transaction(self._engine) as connection:
            grouped = connection.execute(query.group_by(items.c.status, items.c.kind))
            return {(status, kind): number for status, kind, number in grouped}

    def traces(self) -> list[str]:
        """Return the hashes of traces with findings."""
        query = sa.select(findings.c.trace).distinct().where(findings.c.trace != "")
        with read_transaction(self._engine) as connection:
            return list(connection.execute(query).scalars())

    def owners(self) -> list[str]:
        """Return the owners of items."""
        query = sa.select(items.c.owner).distinct().where(items.c.owner != "").order_by(items.c.owner)
        with read_transaction(self._engine) as connection:
            return list(connection.execute(query).scalars())

    def one(self, identity: int) -> Item | None:
        """Return an item; None if it does not exist."""
        with read_transaction(self._engine) as connection:
            return next(iter(_by_identity(connection, [identity]).values()), None)

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
        query = sa.select(items).where(
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
        """Set the owner of an item, and record it in the activity log; do nothing if it does not exist."""
        with write_transaction(self._engine) as connection:
            before = _by_identity(connection, [identity], lock=True).get(identity)
            if before is None or before.owner == owner:
                return
            change = sa.update(items).where(items.c.id == identity)
            connection.execute(
                change.values(
                    owner=owner, changed=datetime.now(UTC), changed_by=user, version=before.version + 1
                )
            )
            record(connection, user, "assigned", before.subject, owner or "nobody")

    def undo(self, versions: Mapping[int, int], *, user: str) -> BulkEditResult[Item]:
        """Undo the last triage of items, unless they have been edited since."""
        with read_transaction(self._engine) as connection:
            present = _by_identity(connection, list(versions))
        edits = [
            TriageEdit(item, version, present[item].former_status, present[item].former_message)
            if item in present
            else TriageEdit(item, version, "new")
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
        query = sa.select(items).where(items.c.id.in_(wanted[start : start + _AT_ONCE])).order_by(items.c.id)
        query = query.with_for_update() if lock else query
        found |= {row["id"]: _item(row) for row in connection.execute(query).mappings()}
    return found


def _with_traces(connection: Connection, traces: Sequence[str]) -> set[int]:
    found: set[int] = set()
    for start in range(0, len(traces), _AT_ONCE):
        some = findings.c.trace.in_(traces[start : start + _AT_ONCE])
        found.update(connection.execute(sa.select(findings.c.item_id).where(some)).scalars())
    return found


def _is_unchanged(edit: TriageEdit, item: Item) -> bool:
    return edit.status == item.status and edit.message in (None, item.message)


def _write(connection: Connection, edit: TriageEdit, before: Item, user: str) -> None:
    message = before.message if edit.message is None else edit.message
    change = sa.update(items).where(items.c.id == edit.item)
    connection.execute(
        change.values(
            status=edit.status,
            message=message,
            reason="",
            former_status=before.status,
            former_message=before.message,
            changed=datetime.now(UTC),
            changed_by=user,
            version=before.version + 1,
        )
    )
    transition = f"{before.status} → {edit.status}" if edit.status != before.status else edit.status
    record(connection, user, "triaged", before.subject, f"{transition}: {message}" if message else transition)


def _item(row: RowMapping) -> Item:
    names: Iterable[str] = (
        "testbed", "kind", "status", "reason", "message", "owner", "traces", "trace", "size", "low", "high",
        "opened", "changed", "changed_by", "version", "former_status", "former_message",
    )  # fmt: skip
    return Item(identity=row["id"], span=span_of(row), **{name: row[name] for name in names})
