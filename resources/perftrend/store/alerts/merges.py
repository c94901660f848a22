"""Merges of items into one, and splits of an item into two.

The findings of a merged item move to the oldest item, and remember in ``origin`` from which item they come.
The merged item is closed and remains, without findings; ``merged_into`` names the other one. A later
evaluation finds the same findings again, in their new item, so it does not recreate what was merged. To undo
a merge, the findings move back.

Evaluations of the testbed wait meanwhile, since they have read which findings belong to which item.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import sqlalchemy as sa
from sqlalchemy.engine import Connection

from perftrend.errors import UsageError
from perftrend.model import SuspectRange
from perftrend.store.activity import record
from perftrend.store.alerts.item_rows import (
    FINDING,
    Item,
    StoredFinding,
    by_identity,
    columns_of,
    finding_of,
    span_columns,
    subject_of,
)
from perftrend.store.schema import evaluations, findings, item_alerts, items
from perftrend.text import format_count


def lock(connection: Connection, identities: Iterable[int]) -> dict[int, Item]:
    """Return items that no evaluation and no other edit changes during a transaction."""
    wanted = sorted(identities)
    testbeds = {item.testbed for item in by_identity(connection, wanted).values()}
    for testbed in sorted(testbeds):
        row = sa.select(evaluations.c.testbed).where(evaluations.c.testbed == testbed)
        connection.execute(row.with_for_update()).first()
    return by_identity(connection, wanted, lock=True)


def merge(connection: Connection, merged: Sequence[Item], *, user: str) -> None:
    """Merge items into the oldest of them.

    :param merged: in ascending order of their identities.
    :raises UsageError: if they cannot be merged.
    """
    _check(merged)
    oldest, *others = merged
    for each in others:
        _move_all(connection, each.identity, oldest.identity)
        closed = {"status": "closed", "reason": f"merged into item {oldest.identity}"}
        _change(connection, each, user, merged_into=oldest.identity, **closed)
        record(connection, user, "merged", each.subject, f"into item {oldest.identity}")
    names = ", ".join(str(each.identity) for each in others)
    noun = "item" if len(others) == 1 else "items"
    record(connection, user, "merged", oldest.subject, f"{noun} {names} into this one")
    _change(connection, oldest, user, **_summary(connection, oldest.identity))


def undo_merge(connection: Connection, item: Item, *, user: str) -> int:
    """Undo the merge of an item, and return the item that it was part of, directly or by another merge."""
    whole, part = _whole(connection, item), _parts(connection, item.identity)
    moved = (findings.c.item_id == whole) & findings.c.origin.in_(part)
    own = sa.case((findings.c.origin == item.identity, None), else_=findings.c.origin)
    connection.execute(sa.update(findings).where(moved).values(item_id=item.identity, origin=own))
    _change(
        connection, replace(item, triage=item.former), user, **columns_of(item.former), reason="",
        merged_into=None,
        **_summary(connection, item.identity),
    )  # fmt: skip
    record(connection, user, "separated", item.subject, f"from item {whole}")
    record(connection, user, "separated", subject_of(whole), f"item {item.identity} from this one")
    return whole


def touch(connection: Connection, item: Item, *, user: str) -> None:
    """Store a new version of an item whose findings have changed."""
    _change(connection, item, user, **_summary(connection, item.identity))


def split(connection: Connection, item: Item, traces: Collection[str], *, user: str) -> int:
    """Move the findings of some traces of an item to a new one, and return it.

    :raises UsageError: if the item does not have them, or has no others.
    """
    has = _findings(connection, item.identity)
    moved = [each for each in has if each.trace and each.trace in traces]
    if unknown := sorted({*traces} - {each.trace for each in has}):
        raise UsageError(f"item {item.identity} has no trace {unknown[0]}")
    if not moved or len(moved) == len(has):
        raise UsageError(f"item {item.identity}: select some of its traces, but not all of them")
    triage = columns_of(item.triage)
    now = datetime.now(UTC)
    row = {
        **triage, **{f"former_{name}": value for name, value in triage.items()}, **span_columns(item.span),
        "testbed": item.testbed, "kind": item.kind, "reason": "", "traces": 0, "trace": "",
        "opened": item.opened, "changed": now, "changed_by": user, "version": 1, "split_from": item.identity,
    }  # fmt: skip
    key = connection.execute(sa.insert(items), row).inserted_primary_key
    new = int(key[0]) if key else 0
    move = sa.update(findings).where(findings.c.id == sa.bindparam("which")).values(item_id=new, origin=None)
    connection.execute(move, [{"which": each.identity} for each in moved])
    _copy_alerts(connection, item.identity, new)
    connection.execute(sa.update(items).where(items.c.id == new).values(_summary(connection, new)))
    count = format_count(len({each.trace for each in moved}), "trace")
    record(connection, user, "split", subject_of(new), f"{count} off from item {item.identity}")
    record(connection, user, "split", item.subject, f"{count} off into item {new}")
    touch(connection, item, user=user)
    return new


def root_of(connection: Connection, identity: int) -> int:
    """Return the item that an item was merged into, in the end; the item itself if it was not."""
    item = by_identity(connection, [identity]).get(identity)
    return identity if item is None else _whole(connection, item)


def _check(merged: Sequence[Item]) -> None:
    """Check that items can be merged."""
    if len(merged) < 2:  # noqa: PLR2004 - a merge needs two
        raise UsageError("select at least two items to merge")
    first = merged[0]
    for each in merged:
        if each.merged_into is not None:
            raise UsageError(f"item {each.identity} is already merged into item {each.merged_into}")
        if (each.testbed, each.kind) != (first.testbed, first.kind):
            raise UsageError(
                f"item {each.identity} is a {each.kind} on {each.testbed}, and item {first.identity} is a"
                f" {first.kind} on {first.testbed}; merge items of one kind on one testbed"
            )


def _move_all(connection: Connection, source: int, target: int) -> None:
    origin = sa.func.coalesce(findings.c.origin, source)
    move = sa.update(findings).where(findings.c.item_id == source)
    connection.execute(move.values(item_id=target, origin=origin))
    _copy_alerts(connection, source, target)


def _copy_alerts(connection: Connection, source: int, target: int) -> None:
    """Store that the alerts that found one item found another: they do not report it again."""
    of_target = sa.select(item_alerts.c.alert_id).where(item_alerts.c.item_id == target)
    new = sa.select(item_alerts.c.alert_id).where(
        item_alerts.c.item_id == source, item_alerts.c.alert_id.not_in(of_target)
    )
    rows = [{"item_id": target, "alert_id": alert} for alert in connection.execute(new).scalars().all()]
    if rows:
        connection.execute(sa.insert(item_alerts), rows)


def _whole(connection: Connection, item: Item) -> int:
    identity, into = item.identity, item.merged_into
    while into is not None:
        identity = into
        into = connection.execute(sa.select(items.c.merged_into).where(items.c.id == identity)).scalar()
    return identity


def _parts(connection: Connection, identity: int) -> list[int]:
    """Return an item and all that were merged into it, directly or not."""
    found = level = [identity]
    while level:
        below = connection.execute(sa.select(items.c.id).where(items.c.merged_into.in_(level)))
        level = list(below.scalars())
        found = [*found, *level]
    return found


def _change(connection: Connection, item: Item, user: str, **columns: object) -> None:
    """Change columns of an item; undo of its triage then restores the current one."""
    former = {f"former_{name}": value for name, value in columns_of(item.triage).items()}
    now = {"changed": datetime.now(UTC), "changed_by": user, "version": item.version + 1}
    connection.execute(sa.update(items).where(items.c.id == item.identity).values(**former, **now, **columns))


def _findings(connection: Connection, item: int) -> list[StoredFinding]:
    rows = connection.execute(sa.select(*FINDING).where(findings.c.item_id == item).order_by(findings.c.id))
    return [finding_of(row) for row in rows.mappings()]


def _summary(connection: Connection, item: int) -> Mapping[str, object]:
    """Return the columns of an item that describe its findings; the next evaluation refines the span."""
    found = _findings(connection, item)
    there = [each for each in found if each.gone is None] or found
    if not there:
        return {"traces": 0}
    largest = min(there, key=lambda each: (-abs(each.relative or 0.0), each.trace))
    low, high = largest.relative_interval or (None, None)
    return {
        **span_columns(_span(each.span for each in there)),
        "traces": len({each.trace for each in there} - {""}),
        "trace": largest.trace,
        "size": largest.relative,
        "low": low,
        "high": high,
    }


def _span(spans: Iterable[SuspectRange]) -> SuspectRange:
    """Return the commits that are in most of the spans, the earliest such commits."""
    counts = Counter(spans)
    within = [
        [each for each in counts if each.last_good < end.first_changed <= each.first_changed]
        for end in sorted(counts, key=lambda each: each.first_changed)
    ]
    most = max(within, key=lambda group: sum(counts[each] for each in group))
    begin = max(most, key=lambda each: each.last_good)
    end = min(most, key=lambda each: each.first_changed)
    return SuspectRange(begin.last_good, end.first_changed)
