"""Items: changes that one commit may explain, and their triage by users.

Evaluations write the findings, users the triage. The edit of a user carries the version that it was made
from. An evaluation changes the version only if it closes or reopens an item.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine

from perftrend.errors import UsageError
from perftrend.store.activity import BulkEditResult, record
from perftrend.store.alerts import merges
from perftrend.store.alerts.item_rows import (
    AT_ONCE,
    FINDING,
    ITEM,
    ITEM_STATUS,
    OPEN,
    Item,
    ItemTriage,
    StoredFinding,
    TriageEdit,
    by_identity,
    columns_of,
    finding_of,
    item_of,
)
from perftrend.store.connection import read_transaction, write_transaction
from perftrend.store.schema import findings, item_alerts, items

_KINDS = ("regression", "testbed", "progression", "stopped", "silence")
"""In the order in which they are shown."""


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
                return [item_of(row) for row in rows[offset : offset + limit]], len(rows)
            total = _count(connection, chosen)
            page = connection.execute(query.limit(limit).offset(offset)).mappings()
            return [item_of(row) for row in page], total

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
            return next(iter(by_identity(connection, [identity]).values()), None)

    def of(self, identities: Iterable[int]) -> list[Item]:
        """Return items in ascending order; those that do not exist are omitted."""
        with read_transaction(self._engine) as connection:
            return list(by_identity(connection, sorted(identities)).values())

    def search(
        self, words: Sequence[str], *, identity: int | None, commit: str, limit: int
    ) -> tuple[list[Item], int]:
        """Return the items that are found by a text, the newest first.

        :param words: in lower case; each is in the testbed, the message or an owner.
        :param identity: an item that is found, too.
        :param commit: first digits of the first changed commit of items that are found, too; empty: of none.
        :returns: at most ``limit`` items, and the number of all.
        """
        texts = [sa.func.lower(each) for each in (items.c.testbed, items.c.message, items.c.owner)]
        fits = sa.and_(*(sa.or_(*(text.contains(word, autoescape=True) for text in texts)) for word in words))
        if identity is not None:
            fits |= items.c.id == identity
        if commit:
            fits |= items.c.first_changed_revision.startswith(commit, autoescape=True)
        query = sa.select(*ITEM).where(fits).order_by(items.c.id.desc()).limit(limit)
        with read_transaction(self._engine) as connection:
            count = connection.execute(sa.select(sa.func.count()).select_from(items).where(fits)).scalar()
            return [item_of(row) for row in connection.execute(query).mappings()], count or 0

    def count_open_by_owner(self) -> dict[str, int]:
        """Return the number of open items of each owner of items; 0 if all are closed."""
        current = sa.select(ITEM_STATUS.label("status"), items.c.owner).where(items.c.owner != "").subquery()
        query = sa.select(current.c.owner, current.c.status, sa.func.count())
        found: dict[str, int] = {}
        with read_transaction(self._engine) as connection:
            grouped = connection.execute(query.group_by(current.c.owner, current.c.status))
            for owners, status, number in grouped:
                for owner in owners.split(", "):
                    found[owner] = found.get(owner, 0) + (number if status in OPEN else 0)
        return found

    def testbeds(self, identities: Iterable[int]) -> set[str]:
        """Return the testbeds of items; those that do not exist are omitted."""
        with read_transaction(self._engine) as connection:
            return {item.testbed for item in by_identity(connection, list(identities)).values()}

    def find_related(self, item: Item, *, limit: int) -> list[Item]:
        """Return the items of other testbeds that the same commit may explain, the largest change first.

        Testbeds measure different commits at different times. So the ranges have to overlap in time, and
        neither may begin with the commit that the other one ends with.
        """
        overlapping = (items.c.last_good < item.span.first_changed.moment) & (
            items.c.first_changed > item.span.last_good.moment
        )
        apart = (items.c.last_good_revision == item.span.first_changed.revision) | (
            items.c.first_changed_revision == item.span.last_good.revision
        )
        query = sa.select(*ITEM).where(
            items.c.kind == item.kind, items.c.testbed != item.testbed, overlapping, sa.not_(apart)
        )
        query = query.order_by(sa.func.abs(sa.func.coalesce(items.c.size, 0.0)).desc(), items.c.id)
        with read_transaction(self._engine) as connection:
            return [item_of(row) for row in connection.execute(query.limit(limit)).mappings()]

    def findings(self, item: int) -> list[StoredFinding]:
        """Return the findings of an item; those that are gone come last."""
        query = sa.select(*FINDING).where(findings.c.item_id == item)
        query = query.order_by(findings.c.gone.is_not(None), findings.c.id)
        with read_transaction(self._engine) as connection:
            return [finding_of(row) for row in connection.execute(query).mappings()]

    def merged(self, item: int) -> list[int]:
        """Return the items that were merged into an item, in ascending order."""
        query = sa.select(items.c.id).where(items.c.merged_into == item).order_by(items.c.id)
        with read_transaction(self._engine) as connection:
            return list(connection.execute(query).scalars())

    def alerts(self, item: int) -> list[int]:
        """Return the identities of the alerts that found an item, in ascending order."""
        query = sa.select(item_alerts.c.alert_id).where(item_alerts.c.item_id == item)
        with read_transaction(self._engine) as connection:
            return list(connection.execute(query.order_by(item_alerts.c.alert_id)).scalars())

    def triage(self, edits: Sequence[TriageEdit], *, user: str) -> BulkEditResult[Item]:
        """Set the triage of items, all or none, and record it in the activity log, in one transaction.

        An edit that repeats the current triage is not a change, regardless of the version.

        :raises UsageError: if an item was merged into another.
        """
        with write_transaction(self._engine) as connection:
            before = by_identity(connection, [edit.item for edit in edits], lock=True)
            wanted = [
                edit for edit in edits if edit.item in before and not _is_unchanged(edit, before[edit.item])
            ]
            denied = _deny(
                {edit.item: edit.version for edit in wanted}, before, [edit.item for edit in edits]
            )
            if denied:
                return denied
            for edit in wanted:
                _check_not_merged(before[edit.item])
                _write(connection, edit, before[edit.item], user)
            return _current(connection, [edit.item for edit in edits])

    def merge(self, versions: Mapping[int, int], *, user: str) -> BulkEditResult[Item]:
        """Merge items into the oldest of them, all or none; :meth:`undo` of the others separates them.

        :raises UsageError: if they cannot be merged.
        """
        with write_transaction(self._engine) as connection:
            before = merges.lock(connection, versions)
            denied = _deny(versions, before, versions)
            if denied:
                return denied
            merges.merge(connection, list(before.values()), user=user)
            return _current(connection, sorted(versions))

    def split(
        self, identity: int, version: int, traces: Collection[str], *, user: str
    ) -> BulkEditResult[Item]:
        """Move some traces of an item to a new one; :meth:`merge` is the inverse.

        :param traces: hashes of traces.
        :returns: the item, and the new one.
        :raises UsageError: if the item does not have them, or has no others.
        """
        with write_transaction(self._engine) as connection:
            before = merges.lock(connection, [identity])
            denied = _deny({identity: version}, before, [identity])
            if denied:
                return denied
            new = merges.split(connection, before[identity], traces, user=user)
            return _current(connection, [identity, new])

    def assign(self, identity: int, owner: str, *, user: str) -> None:
        """Set the owner of an item in any version; do nothing if it does not exist.

        If it was merged into another one, that one gets the owner.
        """
        with write_transaction(self._engine) as connection:
            identity = merges.root_of(connection, identity)
            before = by_identity(connection, [identity], lock=True).get(identity)
            edit = TriageEdit(identity, before.version if before else 0, owner=owner)
            if before is not None and not _is_unchanged(edit, before):
                _write(connection, edit, before, user)

    def undo(self, versions: Mapping[int, int], *, user: str) -> BulkEditResult[Item]:
        """Undo the last triage or merge of items, unless they have been edited since."""
        with write_transaction(self._engine) as connection:
            before = merges.lock(connection, versions)
            denied = _deny(versions, before, versions)
            if denied:
                return denied
            wholes = set()
            for item in before.values():
                edit = TriageEdit(item.identity, item.version, **_fields(item.former))
                if item.merged_into is not None:
                    wholes.add(merges.undo_merge(connection, item, user=user))
                elif not _is_unchanged(edit, item):
                    _write(connection, edit, item, user)
            for whole in by_identity(connection, sorted(wholes), lock=True).values():
                merges.touch(connection, whole, user=user)
            return _current(connection, list(versions))


def _count(connection: Connection, chosen: ItemSelection) -> int:
    query = sa.select(sa.func.count()).select_from(items).where(*chosen.conditions())
    return connection.execute(query).scalar() or 0


def _with_traces(connection: Connection, traces: Sequence[str]) -> set[int]:
    found: set[int] = set()
    for start in range(0, len(traces), AT_ONCE):
        some = findings.c.trace.in_(traces[start : start + AT_ONCE])
        found.update(connection.execute(sa.select(findings.c.item_id).where(some)).scalars())
    return found


def _deny(
    versions: Mapping[int, int], before: Mapping[int, Item], wanted: Iterable[int]
) -> BulkEditResult[Item] | None:
    """Return why items cannot be edited: they do not exist, or have another version; None if they can."""
    gone = tuple(item for item in wanted if item not in before)
    refused = tuple(
        before[item]
        for item, version in versions.items()
        if item in before and before[item].version != version
    )
    return BulkEditResult(refused=refused, gone=gone) if gone or refused else None


def _current(connection: Connection, identities: Sequence[int]) -> BulkEditResult[Item]:
    now = by_identity(connection, identities)
    return BulkEditResult(now=tuple(now[item] for item in identities))


def _check_not_merged(item: Item) -> None:
    if item.merged_into is not None:
        raise UsageError(
            f"item {item.identity} is merged into item {item.merged_into}; edit that one, or undo the merge"
        )


def _fields(triage: ItemTriage) -> dict[str, Any]:
    return {name: getattr(triage, name) for name in ("status", "message", "owner", "snooze")}


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
