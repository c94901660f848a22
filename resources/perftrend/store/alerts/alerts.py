"""Alerts: the traces to watch, the detector, and the notification.

An edit carries the version that it was made from. If another user was faster, the edit changes nothing and
returns the current alert. Each edit is recorded in the activity log in the same transaction, in words that
users read.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Connection, Engine, RowMapping

from perftrend.store.activity import EditResult, record
from perftrend.store.alerts.calibration import Calibration
from perftrend.store.alerts.items import Items
from perftrend.store.alerts.nights import Night, night
from perftrend.store.alerts.outbox import Outbox
from perftrend.store.connection import read_transaction, write_transaction
from perftrend.store.rows import current_hash
from perftrend.store.schema import alert_overrides, alerts, item_alerts, outbox, runs

ACTIONS = ("none", "mail", "gerrit", "webhook")
DIRECTIONS = ("both", "regression", "progression")
_AT_ONCE = 1000
_JOB = (runs.c.job, runs.c.experiment)


def _percent(ratio: float) -> str:
    return f"{round(100 * ratio, 10):g} %"


def _switch(is_on: object) -> str:
    return "on" if is_on else "off"


def _hidden(text: object) -> str:
    # Everyone may read the log, but not where alerts send to.
    return "…" if text else "nobody"


_LABELS: Mapping[str, str] = {
    "name": "name",
    "query": "query",
    "change": "minimum change",
    "confidence": "minimum confidence",
    "direction": "direction",
    "recent_runs": "newest runs",
    "silent_runs": "missing data after runs",
    "silent_hours": "testbed without runs after hours",
    "owner": "owner",
    "action": "action",
    "target": "send to",
    "enabled": "state",
    "method": "detector",
    "history": "newest commits",
    "formula": "description length",
    "outliers": "separation of single bad runs",
    "window": "three-sigma window",
    "step": "step fit statistic",
    "radius": "step fit runs on each side",
    "cutoff": "step fit cutoff",
}
_WORDS: Mapping[str, Callable[[Any], str]] = {
    "query": lambda text: text or "all traces",
    "change": _percent,
    "confidence": lambda ratio: _percent(ratio) if ratio else "none",
    "direction": {"both": "both", "regression": "regressions", "progression": "progressions"}.__getitem__,
    "silent_runs": lambda number: f"{number or 'never'}",
    "silent_hours": lambda hours: f"{hours:g}" if hours else "never",
    "owner": lambda text: text or "nobody",
    "target": _hidden,
    "enabled": _switch,
    "outliers": _switch,
    "cutoff": "{:g}".format,
}
_DEFAULT = "default"


def describe_rules(rules: Rules) -> str:
    """Return all rules of an alert: ``name nightly, query all traces, minimum change 3 %``."""
    return ", ".join(f"{_LABELS.get(name, name)} {text}" for name, text in _texts(rules).items())


def describe_difference(before: Rules, after: Rules) -> str:
    """Return the rules that differ: ``minimum change 3 % → 5 %``."""
    old, new = _texts(before), _texts(after)
    # A target is hidden, so that its text may be the same.
    is_moved = before.target != after.target
    return ", ".join(
        f"{_LABELS.get(name, name)} {old.get(name, _DEFAULT)} → {new.get(name, _DEFAULT)}"
        for name in {**old, **new}
        if old.get(name) != new.get(name) or (name == "target" and is_moved)
    )


def describe_override(override: Override) -> str:
    """Return the values of an override: ``trace 3f…: minimum change 7 %, muted until 2026-03-02``."""
    until = override.muted_until
    parts = {
        "minimum change": None if override.change is None else _percent(override.change),
        "minimum confidence": None if override.confidence is None else _percent(override.confidence),
        "muted until": until and f"{until:%Y-%m-%d}",
        "reason": override.reason or None,
    }
    text = ", ".join(f"{name} {value}" for name, value in parts.items() if value is not None)
    return f"trace {override.trace}: {text or 'as the alert'}"


def _texts(rules: Rules) -> dict[str, str]:
    values = asdict(rules)
    values |= values.pop("detector")
    return {name: _WORDS.get(name, str)(value) for name, value in values.items()}


@dataclass(frozen=True, slots=True)
class Rules:
    """The part of an alert that users edit."""

    name: str
    query: str
    """Query that selects the traces; empty for all."""
    detector: Mapping[str, Any] = field(default_factory=dict, hash=False)
    """Its method and options; the detector has defaults for those that are omitted."""
    change: float = 0.01
    """The minimum change, relative to the value before."""
    confidence: float = 0.0
    """The minimum confidence; 0 if none is required."""
    direction: str = "both"
    """One of :data:`DIRECTIONS`."""
    recent_runs: int = 30
    """Changes before these newest runs are not reported when they are first found."""
    silent_runs: int = 0
    """Number of runs without a value after which a trace is reported; 0 for never."""
    silent_hours: float = 0.0
    """Number of hours without a run after which a testbed is reported; 0 for never."""
    owner: str = ""
    action: str = "none"
    """One of :data:`ACTIONS`."""
    target: str = ""
    """Mail addresses, the address of a webhook, or the Gerrit project of the commits."""
    enabled: bool = True


@dataclass(frozen=True, slots=True)
class Alert:
    """An alert as it is stored."""

    identity: int
    rules: Rules
    created: datetime
    changed: datetime
    changed_by: str
    version: int
    """Increases with each edit of the alert or of its overrides."""

    @property
    def subject(self) -> str:
        """Its name in the activity log."""
        return f"alert {self.identity}"


@dataclass(frozen=True, slots=True)
class Override:
    """Other thresholds for one trace of an alert, or a mute until a date."""

    alert: int
    trace: str
    """The hash of its key."""
    change: float | None = None
    """None for the value of the alert."""
    confidence: float | None = None
    muted_until: datetime | None = None
    reason: str = ""
    changed: datetime = field(default_factory=lambda: datetime.now(UTC))
    changed_by: str = ""


_RULES = tuple(each.name for each in fields(Rules))
_OVERRIDE = tuple(each.name for each in fields(Override) if each.name != "alert")


class Alerts:
    """The alerts of a store; safe for several processes at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    @property
    def items(self) -> Items:
        """The items that the alerts found, to be triaged."""
        return Items(self._engine)

    @property
    def calibration(self) -> Calibration:
        """What became of the changes that were reported."""
        return Calibration(self._engine)

    @property
    def outbox(self) -> Outbox:
        """The messages to be sent."""
        return Outbox(self._engine)

    @contextmanager
    def night(self, testbed: str, *, newest_run: int, since: datetime | None) -> Generator[Night, None, None]:
        """Yield the transaction that stores the findings of a testbed; one at a time.

        :param newest_run: the greatest id of the runs that were evaluated.
        :param since: findings that end before it cannot be found again, and are not read.
        """
        with write_transaction(self._engine) as connection:
            yield night(connection, testbed, newest_run=newest_run, since=since)

    def jobs(self, of: Sequence[int]) -> dict[int, str]:
        """Return the jobs of runs, by the ids of the runs; each experiment of a job counts as a job."""
        found: dict[int, str] = {}
        with read_transaction(self._engine) as connection:
            for start in range(0, len(of), _AT_ONCE):
                query = sa.select(runs.c.id, *_JOB).where(runs.c.id.in_(of[start : start + _AT_ONCE]))
                found |= {row.id: _job_of(row.job, row.experiment) for row in connection.execute(query)}
        return found

    def newest(self, testbed: str) -> dict[str, datetime]:
        """Return when the newest run of each job on a testbed ended; jobs as in :meth:`jobs`."""
        query = sa.select(*_JOB, sa.func.max(runs.c.finished, type_=runs.c.finished.type).label("finished"))
        with read_transaction(self._engine) as connection:
            found = connection.execute(query.where(runs.c.testbed == testbed).group_by(*_JOB))
            return {_job_of(row.job, row.experiment): row.finished for row in found}

    def newest_build(self, testbed: str) -> tuple[str, int] | None:
        """Return the job and the build of the newest nightly run on a testbed; None if there is none."""
        query = sa.select(runs.c.job, runs.c.build).where(runs.c.testbed == testbed, runs.c.experiment == "")
        with read_transaction(self._engine) as connection:
            row = connection.execute(query.order_by(runs.c.started.desc()).limit(1)).first()
        return None if row is None else (row.job, row.build)

    def all(self) -> list[Alert]:
        """Return all alerts, sorted by name."""
        with read_transaction(self._engine) as connection:
            return all_alerts(connection)

    def one(self, identity: int) -> Alert | None:
        """Return an alert; None if it does not exist."""
        with read_transaction(self._engine) as connection:
            return _find(connection, identity)

    def overrides(self, alert: int | None = None) -> list[Override]:
        """Return the overrides of an alert, or of all; for a renamed trace, only the newest one."""
        current = current_hash(alert_overrides.c.trace).label("trace")
        others = [each for each in alert_overrides.columns if each.name != "trace"]
        query = sa.select(current, *others).order_by(alert_overrides.c.changed)
        if alert is not None:
            query = query.where(alert_overrides.c.alert_id == alert)
        with read_transaction(self._engine) as connection:
            found = [_override(row) for row in connection.execute(query).mappings()]
        newest = {(each.alert, each.trace): each for each in found}
        return [newest[key] for key in sorted(newest)]

    def add(self, rules: Rules, *, user: str) -> Alert:
        """Add an alert."""
        now = datetime.now(UTC)
        row = {**_columns(rules), "created": now, "changed": now, "changed_by": user, "version": 1}
        with write_transaction(self._engine) as connection:
            key = connection.execute(sa.insert(alerts), row).inserted_primary_key
            added = _there(_find(connection, int(key[0]) if key else 0))
            record(connection, user, "made", added.subject, describe_rules(rules))
        return added

    def edit(self, identity: int, rules: Rules, *, version: int, user: str) -> EditResult[Alert]:
        """Change an alert, unless it has been edited since.

        If the alert is disabled, its unsent messages are deleted.
        """
        with write_transaction(self._engine) as connection:
            before = _find(connection, identity)
            if before is None or not _bump_version(connection, identity, version, user, **_columns(rules)):
                return EditResult(is_done=False, now=before)
            if not rules.enabled:
                _drop_unsent(connection, identity)
            record(connection, user, "edited", before.subject, describe_difference(before.rules, rules))
            return EditResult(is_done=True, now=_find(connection, identity))

    def delete(self, identity: int, *, version: int, user: str) -> EditResult[Alert]:
        """Delete an alert with its overrides and its unsent messages; its items remain."""
        with write_transaction(self._engine) as connection:
            before = _find(connection, identity)
            if before is None or not _bump_version(connection, identity, version, user):
                return EditResult(is_done=False, now=before)
            connection.execute(sa.delete(alert_overrides).where(alert_overrides.c.alert_id == identity))
            connection.execute(sa.delete(item_alerts).where(item_alerts.c.alert_id == identity))
            _drop_unsent(connection, identity)
            connection.execute(sa.delete(alerts).where(alerts.c.id == identity))
            record(connection, user, "deleted", before.subject, f"was: {describe_rules(before.rules)}")
            return EditResult(is_done=True, now=before)

    def override(self, *overrides: Override, version: int, user: str) -> EditResult[Alert]:
        """Set one or more overrides of traces; an override without values is removed.

        :param overrides: of one alert.
        :param version: of the alert that the edit was made from.
        """
        identity = overrides[0].alert
        with write_transaction(self._engine) as connection:
            before = _find(connection, identity)
            if before is None or not _bump_version(connection, identity, version, user):
                return EditResult(is_done=False, now=before)
            for each in overrides:
                _set_override(connection, each, user)
                record(connection, user, "overrode", before.subject, describe_override(each))
            return EditResult(is_done=True, now=_find(connection, identity))


def _job_of(job: str, experiment: str) -> str:
    return f"{job} {experiment}" if experiment else job


def all_alerts(connection: Connection) -> list[Alert]:
    """Return all alerts, sorted by name, as a transaction sees them."""
    query = sa.select(alerts).order_by(alerts.c.name, alerts.c.id)
    return [_alert(row) for row in connection.execute(query).mappings()]


def _find(connection: Connection, identity: int) -> Alert | None:
    row = connection.execute(sa.select(alerts).where(alerts.c.id == identity)).mappings().first()
    return _alert(row) if row else None


def _there(alert: Alert | None) -> Alert:
    if alert is None:
        raise AssertionError("what was entered in this transaction is there")
    return alert


def _bump_version(connection: Connection, identity: int, version: int, user: str, **columns: object) -> bool:
    change = sa.update(alerts).where(alerts.c.id == identity, alerts.c.version == version)
    now = {"changed": datetime.now(UTC), "changed_by": user, "version": version + 1}
    return connection.execute(change.values(**columns, **now)).rowcount == 1


def _drop_unsent(connection: Connection, alert: int) -> None:
    connection.execute(sa.delete(outbox).where(outbox.c.alert_id == alert, outbox.c.sent.is_(None)))


def _set_override(connection: Connection, override: Override, user: str) -> None:
    of_trace = (alert_overrides.c.alert_id == override.alert) & (
        current_hash(alert_overrides.c.trace) == override.trace
    )
    connection.execute(sa.delete(alert_overrides).where(of_trace))
    values = (override.change, override.confidence, override.muted_until)
    if any(each is not None for each in values):
        row = {name: getattr(override, name) for name in _OVERRIDE}
        row |= {"alert_id": override.alert, "changed": datetime.now(UTC), "changed_by": user}
        connection.execute(sa.insert(alert_overrides), row)


def _columns(rules: Rules) -> dict[str, Any]:
    return {**asdict(rules), "detector": dict(rules.detector)}


def _alert(row: RowMapping) -> Alert:
    return Alert(
        identity=row["id"],
        rules=Rules(**{name: row[name] for name in _RULES}),
        created=row["created"],
        changed=row["changed"],
        changed_by=row["changed_by"],
        version=row["version"],
    )


def _override(row: RowMapping) -> Override:
    return Override(alert=row["alert_id"], **{name: row[name] for name in _OVERRIDE})
