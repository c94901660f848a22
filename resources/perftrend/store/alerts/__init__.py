"""Alerts, the items that they found, and the outbox."""

from perftrend.store.alerts.alerts import ACTIONS, DIRECTIONS, Alert, Alerts, Override, Rules
from perftrend.store.alerts.calibration import LEVELS, FindingOutcomes, RunTimes
from perftrend.store.alerts.item_rows import (
    CHANGES,
    OPEN,
    SNOOZED,
    STATUSES,
    Item,
    ItemTriage,
    Snooze,
    StoredFinding,
    TriageEdit,
    span_columns,
)
from perftrend.store.alerts.items import Items, ItemSelection
from perftrend.store.alerts.nights import Night
from perftrend.store.alerts.outbox import Message, Outbox

__all__ = [
    "ACTIONS",
    "CHANGES",
    "DIRECTIONS",
    "LEVELS",
    "OPEN",
    "SNOOZED",
    "STATUSES",
    "Alert",
    "Alerts",
    "FindingOutcomes",
    "Item",
    "ItemSelection",
    "ItemTriage",
    "Items",
    "Message",
    "Night",
    "Outbox",
    "Override",
    "Rules",
    "RunTimes",
    "Snooze",
    "StoredFinding",
    "TriageEdit",
    "span_columns",
]
