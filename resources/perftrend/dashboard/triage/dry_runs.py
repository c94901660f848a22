"""Dry runs of alerts over the newest nights, one at a time in a thread.

They send nothing and write nothing. The newest dry run of each alert and testbed is stored in memory until
the dashboard stops; the oldest are discarded.
"""

from __future__ import annotations

import logging
import threading
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import UTC, datetime

from perftrend.analysis.alerts import FindingRule, NightReport, replay_nights
from perftrend.analysis.alerts.findings import largest
from perftrend.dashboard.background import defect
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.form_errors import FieldError
from perftrend.dashboard.triage.alert_models import DryRun, NightView, WouldNotify
from perftrend.dashboard.triage.alert_scan import history_of, watches_of
from perftrend.dashboard.triage.notifications import name_of
from perftrend.errors import PerftrendError, StoreError, UsageError, explain
from perftrend.store.alerts import Alert
from perftrend.store.tiles import StoredTrace

LOG = logging.getLogger(__name__)

MOST_WORK = 60_000
"""Maximum number of traces times nights; takes about a minute."""
_MOST_RUNS = 50
_MOST_NAMES = 10


@dataclass
class DryRuns:
    """The dry runs of a process; safe for several threads."""

    _lock: threading.Lock = field(default_factory=threading.Lock)
    _turn: threading.Lock = field(default_factory=threading.Lock)
    """Held by the dry run that is executed."""
    _runs: OrderedDict[tuple[int, str], DryRun] = field(default_factory=OrderedDict)

    def find(self, alert: int, testbed: str) -> DryRun | None:
        """Return the newest dry run of an alert on a testbed with its progress; None if there is none."""
        with self._lock:
            return self._runs.get((alert, testbed))

    def newest(self, alert: int) -> DryRun | None:
        """Return the newest dry run of an alert on any testbed."""
        with self._lock:
            return next((run for (of, _), run in reversed(self._runs.items()) if of == alert), None)

    def begin(self, site: AppContext, alert: Alert, testbed: str, *, nights: int) -> DryRun:
        """Start a dry run, or return the one that is waiting or running.

        :raises UsageError: if the alert has no traces on the testbed, or too many for the number of nights.
        """
        known = site.catalog.now()
        rows = known.of_testbed(testbed)
        overrides = site.store.alerts.overrides(alert.identity)
        outliers = site.settings.analysis.outliers
        watches = watches_of(known.table, rows, [alert], overrides, outliers=outliers, now=datetime.now(UTC))
        if not watches:
            raise UsageError(f"alert {alert.rules.name!r} matches no traces of testbed {testbed}")
        (watch,) = watches
        chosen = [known.stored[row] for row in rows[watch.rows]]
        nights = min(nights, len(site.store.tiles.axis(testbed).columns))
        if len(chosen) * nights > MOST_WORK:
            fewer = MOST_WORK // len(chosen)
            hint = f"choose {fewer} nights" if fewer else "give the alert a query with fewer traces"
            message = f"{len(chosen)} traces in {nights} nights are too many for a dry run; {hint}"
            raise FieldError("nights", message)
        key = (alert.identity, testbed)
        with self._lock:
            now = self._runs.get(key)
            if now and now.state in {"waiting", "running"}:
                return now
            run = DryRun(
                alert=alert.identity, version=alert.version, testbed=testbed, state="waiting", nights=nights,
                looked_at=0, traces=len(chosen), told=[],
            )  # fmt: skip
            self._runs[key] = run
            self._runs.move_to_end(key)
            while len(self._runs) > _MOST_RUNS:
                self._runs.popitem(last=False)
        work = threading.Thread(
            target=self._work, args=(site, watch.rule, chosen, run), daemon=True, name="dry run"
        )
        work.start()
        return run

    def _work(self, site: AppContext, rule: FindingRule, traces: list[StoredTrace], run: DryRun) -> None:
        with self._turn:
            try:
                self._replay(site, rule, traces, run)
            except StoreError:
                self._note(run, state="failed", error="the database cannot be reached; try again later")
            except (PerftrendError, MemoryError) as error:
                self._note(run, state="failed", error=explain(error) or "there is not enough memory")
            except Exception as error:
                # Show defects, too, to the user who waits for the result.
                LOG.exception("dry run of alert %d on %s", run.alert, run.testbed)
                message = f"{defect(error)}; see the log of the dashboard"
                self._note(run, state="failed", error=message)

    def _replay(self, site: AppContext, rule: FindingRule, traces: list[StoredTrace], run: DryRun) -> None:
        self._note(run, state="running")
        axis = site.store.tiles.axis(run.testbed)
        history = history_of(site.store, axis, traces, last=rule.detector.history + run.nights)
        named = {trace.hash: name_of(trace.key) for trace in traces}
        views: list[NightView] = []
        nights = replay_nights(rule, history, nights=run.nights, between=site.traffic.give_way_callback())
        for number, night in enumerate(nights, 1):
            if night.new or night.closed or night.joined:
                views.append(_view(night, named))
            self._note(run, looked_at=number, told=list(views))
        self._note(run, state="done")

    def _note(self, run: DryRun, **changed: object) -> None:
        key = (run.alert, run.testbed)
        with self._lock:
            self._runs[key] = self._runs.get(key, run).model_copy(update=changed)


def _view(night: NightReport, named: dict[str, str]) -> NightView:
    items = []
    for span, findings in night.new:
        ordered = sorted(findings, key=lambda each: (-_size(each.relative), each.trace))
        top = largest(findings)
        items.append(
            WouldNotify(
                kind=findings[0].kind.value,
                last_good=span.last_good.revision,
                first_changed=span.first_changed.revision,
                first_changed_at=span.first_changed.moment,
                traces=len(findings),
                names=[named[each.trace] for each in ordered[:_MOST_NAMES]],
                largest=top.relative if top and _size(top.relative) else None,
            )
        )
    return NightView(
        commit=night.night.revision,
        moment=night.night.moment,
        items=items,
        joined=night.joined,
        closed=night.closed,
    )


def _size(relative: float) -> float:
    return abs(relative) if relative == relative else 0.0  # noqa: PLR0124 - NaN is not itself
