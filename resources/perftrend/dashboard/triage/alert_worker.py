"""Background worker of the dashboard: evaluates testbeds with new data, and sends messages.

The ingestion evaluates a testbed as soon as a run is stored. This worker finds runs that were stored another
way, testbeds without new runs, and messages that could not be sent before.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime

from perftrend.dashboard.background import run_in_background
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.triage.evaluation import evaluate
from perftrend.dashboard.triage.notifications import deliver
from perftrend.errors import StoreError, explain
from perftrend.store import Store

LOG = logging.getLogger(__name__)

LOOK_S = 30.0
"""Interval of the checks for work."""


@dataclass(frozen=True, slots=True)
class CompletedScan:
    """A completed evaluation."""

    state: Hashable
    """Evaluated state of the testbed."""
    silent_from: datetime | None
    """When to repeat it without new data; None: only if there is new data."""


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


def _survive(site: AppContext, testbed: str, seen: dict[str, CompletedScan]) -> None:
    """Evaluate a testbed; log errors, except those of the store."""
    try:
        look_at(site, testbed, seen)
    except StoreError:
        raise
    except Exception as error:
        # A defect on one testbed must not stop all alerts.
        LOG.exception("alerts on %s: %s: %s", testbed, type(error).__name__, explain(error))


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
