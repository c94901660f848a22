"""What the dashboard does beside its requests: evaluates testbeds with something new, and sends messages.

The ingestion evaluates a testbed as soon as a run is stored. This finds what came another way, testbeds that
fall silent, and messages that could not be sent before.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Hashable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime

from perftrend.dashboard.background import running
from perftrend.dashboard.site import Site
from perftrend.dashboard.triage.evaluation import evaluate
from perftrend.dashboard.triage.sending import deliver
from perftrend.errors import StoreError, explained
from perftrend.store import Store

LOG = logging.getLogger(__name__)

LOOK_S = 30.0
"""How often it looks whether there is something to do."""


@dataclass(frozen=True, slots=True)
class Looked:
    """An evaluation that was done."""

    state: Hashable
    """What it was of."""
    silent_from: datetime | None
    """When it has to be done again all the same; None: not before there is something new."""


def watchman(site: Site) -> AbstractContextManager[None]:
    """Watch the testbeds, and send what the alerts have to say."""
    return running(site, keep_watch)


def keep_watch(site: Site, ending: threading.Event) -> None:
    """Watch until the event is set."""
    seen: dict[str, Looked] = {}
    while not ending.is_set():
        for testbed in site.store.tiles.testbeds():
            if ending.is_set():
                return
            _survive(site, testbed, seen)
        sent = deliver(site.store, site.settings, ending=ending)
        if sent.sent or sent.failed:
            LOG.info("alerts: %d messages sent, %d not", sent.sent, sent.failed)
        ending.wait(LOOK_S)


def _survive(site: Site, testbed: str, seen: dict[str, Looked]) -> None:
    """Look at a testbed; what goes wrong there does not stop the others."""
    try:
        look_at(site, testbed, seen)
    except StoreError:
        raise
    except Exception as error:
        # What is wrong with one testbed must not end all alerts.
        LOG.exception("alerts on %s: %s: %s", testbed, type(error).__name__, explained(error))


def look_at(site: Site, testbed: str, seen: dict[str, Looked]) -> bool:
    """Evaluate a testbed, unless nothing has changed since it was evaluated last.

    :param seen: what was evaluated; is changed.
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
        give_way=site.traffic.giving_way(),
    )
    if not outcome.is_stale:
        seen[testbed] = Looked(state, outcome.silent_from)
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
    """Return what an evaluation depends on beside the time."""
    alerts = [alert for alert in store.alerts.all() if alert.rules.enabled]
    mute = [
        (each.alert, each.trace)
        for each in store.alerts.overrides()
        if each.muted_until is not None and each.muted_until > now
    ]
    versions = tuple((alert.identity, alert.version) for alert in alerts)
    return store.tiles.axis(testbed).version, versions, tuple(mute)
