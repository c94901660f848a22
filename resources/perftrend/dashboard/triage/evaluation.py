"""Evaluation of testbeds by the alerts: findings become items, and messages to send.

The slow part, reading and analysing the traces, is first and outside of any transaction. Then everything is
entered in one transaction. Therefore a process may be killed at any point, and two may evaluate one testbed
at the same time: each finding is entered once, and each message is put into the outbox once.

The background worker evaluates each testbed again after new runs or edits of alerts, or if it has been
without runs for long enough to be reported, and sends the messages that are due.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Hashable, Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from perftrend.analysis.alerts import (
    Finding,
    FindingGroup,
    FindingKind,
    KnownFinding,
    common_range,
    distinct,
    match_findings,
)
from perftrend.dashboard.background import run_in_background
from perftrend.dashboard.catalog import Catalog
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.triage.alert_scan import ScanResult, look, watches_of
from perftrend.dashboard.triage.notifications import deliver, payload_of, targets_of
from perftrend.errors import StoreError, explain
from perftrend.store import Store
from perftrend.store.alerts import Night, span_columns

LOG = logging.getLogger(__name__)

LOOK_S = 30.0
"""Interval of the checks of the worker for work."""
_ATTEMPTS = 3
"""An evaluation starts again if an alert is edited meanwhile."""

_GONE = {FindingKind.SILENCE: "has values again", FindingKind.STOPPED: "has runs again"}
_NOT_FOUND = "no longer found"


@dataclass(frozen=True, slots=True)
class EvaluationResult:
    """Changes made by an evaluation."""

    new: int = 0
    """Number of items created."""
    joined: int = 0
    """Number of findings that joined existing items."""
    closed: int = 0
    reopened: int = 0
    messages: int = 0
    silent_from: datetime | None = None
    """When to evaluate again even without new runs, because the testbed counts as stopped then."""
    is_stale: bool = False
    """Whether nothing was changed: another process knew more runs, or an alert was edited meanwhile."""


@dataclass(frozen=True, slots=True)
class CompletedScan:
    """A completed evaluation."""

    state: Hashable
    """Evaluated state of the testbed."""
    silent_from: datetime | None
    """When to repeat it without new data; None: only if there is new data."""


def evaluate(
    store: Store,
    catalog: Catalog,
    testbed: str,
    now: datetime | None = None,
    *,
    outliers: bool = True,
    lab: str = "",
    give_way: Callable[[], object] = lambda: None,
) -> EvaluationResult:
    """Evaluate all alerts on a testbed, and enter their findings in the store.

    :param catalog: the traces of the store.
    :param now: the time up to which missing runs are counted; None: the current time.
    :param outliers: whether single outlier runs are separated from the groups.
    :param lab: the owners of items of testbeds; empty: those of the alert.
    :param give_way: called between two traces.
    :raises StoreError: if the store cannot be read or written; nothing is changed then.
    """
    moment = now or datetime.now(UTC)
    for _ in range(_ATTEMPTS):
        alerts = [alert for alert in store.alerts.all() if alert.rules.enabled]
        if not alerts:
            return EvaluationResult()
        known = catalog.now()
        rows = known.of_testbed(testbed)
        axis = store.tiles.axis(testbed)
        overrides = store.alerts.overrides()
        watches = watches_of(known.table, rows, alerts, overrides, outliers=outliers, now=moment)
        if not watches or not axis.columns:
            return EvaluationResult()
        traces = [known.stored[row] for row in rows]
        seen = look(store, axis, traces, watches, now=moment, give_way=give_way)
        newest_run = max(run for column in axis.columns for run in column.runs)
        with store.alerts.night(testbed, newest_run=newest_run, since=seen.places[0].moment) as night:
            if night.is_stale:
                return EvaluationResult(is_stale=True)
            versions = night.versions()
            if all(versions.get(watch.alert.identity) == watch.alert.version for watch in watches):
                return _enter(night, seen, lab=lab, now=moment)
    return EvaluationResult(is_stale=True)


def watchman(site: AppContext) -> AbstractContextManager[None]:
    """Evaluate testbeds and send the messages of the alerts, in the background."""
    return run_in_background(site, evaluate_and_deliver)


def evaluate_and_deliver(site: AppContext, ending: threading.Event) -> None:
    """Evaluate testbeds and send messages until the event is set."""
    seen: dict[str, CompletedScan] = {}
    while not ending.is_set():
        for testbed in site.store.tiles.testbeds():
            if ending.is_set():
                return
            _survive(site, testbed, seen)
        sent = deliver(site.store, site.settings, ending=ending)
        if sent.sent or sent.failed:
            LOG.info("alerts: %d messages sent, %d not", sent.sent, sent.failed)
        ending.wait(LOOK_S)


def look_at(site: AppContext, testbed: str, seen: dict[str, CompletedScan]) -> bool:
    """Evaluate a testbed, unless nothing has changed since the last evaluation.

    :param seen: the last evaluation of each testbed; is updated.
    :returns: whether it was evaluated.
    """
    now = datetime.now(UTC)
    state = _state(site.store, testbed, now)
    last = seen.get(testbed)
    if last and last.state == state and (last.silent_from is None or now <= last.silent_from):
        return False
    outcome = evaluate(
        site.store,
        site.catalog,
        testbed,
        now,
        outliers=site.settings.analysis.outliers,
        lab=", ".join(site.settings.mail.lab),
        give_way=site.traffic.give_way_callback(),
    )
    if not outcome.is_stale:
        seen[testbed] = CompletedScan(state, outcome.silent_from)
    if outcome.new or outcome.closed or outcome.reopened:
        LOG.info(
            "alerts on %s: %d new, %d closed, %d reopened",
            testbed,
            outcome.new,
            outcome.closed,
            outcome.reopened,
        )
    return True


def columns_of(finding: Finding) -> dict[str, Any]:
    """Return the columns of a finding in the store."""
    return {**span_columns(finding.range), **finding.numbers}


def _enter(night: Night, seen: ScanResult, *, lab: str, now: datetime) -> EvaluationResult:
    alerts_of = distinct(seen.found)
    known = [
        KnownFinding(
            each.identity,
            each.item,
            FindingKind(each.kind),
            each.trace,
            each.span,
            each.gone is not None,
            each.origin,
        )
        for each in night.known
    ]
    matching = match_findings(
        known,
        alerts_of,
        is_new=lambda finding: bool(seen.tellers(finding, alerts_of[finding])),
        was_looked_at=seen.was_looked_at,
    )
    night.update_findings({each: columns_of(found) for each, found in matching.again.items()}, now=now)
    night.set_gone(matching.gone, now=now)
    new = messages = 0
    item_of = {each.identity: each.item for each in night.known}
    found_in = {item_of[identity] for identity in matching.again}
    # Before messages: an alert that finds such an item for the first time reports it.
    reopened = sum(night.reopen(item, now=now) for item in sorted(found_in))
    touched = found_in | {item_of[identity] for identity in matching.gone}
    for group in matching.groups:
        tellers = frozenset[int]().union(*(seen.tellers(each, alerts_of[each]) for each in group.members))
        item = group.item or _new_item(night, group, seen, tellers, lab=lab, now=now)
        new += group.item is None
        kind = group.members[0].kind.value
        rows = [{"trace": member.trace, **columns_of(member)} for member in group.members]
        night.add_findings(item, kind, rows, now=now)
        if group.item is not None:
            night.log_joined(item, len(rows))
        messages += _queue_messages(night, item, group, seen, tellers, now=now)
        touched.add(item)
        found_in.add(item)
    closed = 0
    for item in sorted(touched):
        closed += _update_item(night, item, now=now)
    reopened += sum(night.reopen(item, now=now) for item in sorted(found_in))
    joined = sum(len(group.members) for group in matching.groups if group.item is not None)
    return EvaluationResult(new, joined, closed, reopened, messages, seen.silent_from)


def _new_item(
    night: Night, group: FindingGroup, seen: ScanResult, tellers: Iterable[int], *, lab: str, now: datetime
) -> int:
    owners = dict.fromkeys(seen.watches[each].alert.rules.owner for each in sorted(tellers))
    owner = ", ".join(filter(None, owners))
    if group.members[0].kind is FindingKind.TESTBED:
        owner = lab or owner
    return night.add_item(group.members[0].kind.value, group.range, owner=owner[:255], now=now)


def _queue_messages(
    night: Night, item: int, group: FindingGroup, seen: ScanResult, tellers: Iterable[int], *, now: datetime
) -> int:
    """Put a message into the outbox for each alert that has not reported the item before."""
    wanted = night.status(item) in {"new", "bug"}
    count = 0
    for number in sorted(tellers):
        alert = seen.watches[number].alert
        if not night.link(item, number) or not wanted:
            continue
        payload = payload_of(item, night.testbed, group, alert, seen.traces)
        for target in targets_of(alert.rules):
            key = secrets.token_hex(16)
            night.send(
                key,
                item=item,
                alert=number,
                action=alert.rules.action,
                target=target,
                payload=payload,
                now=now,
            )
            count += 1
    return count


def _update_item(night: Night, item: int, *, now: datetime) -> bool:
    """Update an item from its remaining findings; close it if none remain. Return whether it was closed."""
    findings = night.findings_of(item)
    there = [each for each in findings if each.gone is None]
    if not there:
        return night.close(item, _GONE.get(FindingKind(findings[0].kind), _NOT_FOUND), now=now)
    span = common_range([each.span for each in there])
    largest = min(there, key=lambda each: (-abs(each.relative or 0.0), each.trace))
    night.describe(item, span, largest, traces=len({each.trace for each in there} - {""}))
    return False


def _survive(site: AppContext, testbed: str, seen: dict[str, CompletedScan]) -> None:
    """Evaluate a testbed; log errors, except those of the store."""
    try:
        look_at(site, testbed, seen)
    except StoreError:
        raise
    except Exception as error:
        # A defect on one testbed must not stop all alerts.
        LOG.exception("alerts on %s: %s: %s", testbed, type(error).__name__, explain(error))


def _state(store: Store, testbed: str, now: datetime) -> Hashable:
    """Return the state that an evaluation depends on, except for the time."""
    alerts = [alert for alert in store.alerts.all() if alert.rules.enabled]
    mute = [
        (each.alert, each.trace)
        for each in store.alerts.overrides()
        if each.muted_until is not None and each.muted_until > now
    ]
    versions = tuple((alert.identity, alert.version) for alert in alerts)
    return store.tiles.axis(testbed).version, versions, tuple(mute)
