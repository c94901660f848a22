"""Alerts, the items that they found, and the outbox."""

from perftrend.store.alerts.alerts import ACTIONS, DIRECTIONS, Alert, Alerts, Override, Rules
from perftrend.store.alerts.item_rows import (
    CHANGES,
    OPEN,
    SNOOZED,
    STATUSES,
    Item,
    ItemTriage,
    Snooze,
    Span,
    StoredFinding,
    TriageEdit,
)
from perftrend.store.alerts.items import Items, ItemSelection
from perftrend.store.alerts.nights import Night
from perftrend.store.alerts.outbox import Message, Outbox

__all__ = [
    "ACTIONS",
    "CHANGES",
    "DIRECTIONS",
    "OPEN",
    "SNOOZED",
    "STATUSES",
    "Alert",
    "Alerts",
    "Item",
    "ItemSelection",
    "ItemTriage",
    "Items",
    "Message",
    "Night",
    "Outbox",
    "Override",
    "Rules",
    "Snooze",
    "Span",
    "StoredFinding",
    "TriageEdit",
]
