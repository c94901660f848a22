"""Alerts, the items that they found, and the outbox."""

from perftrend.store.alerts.alerts import ACTIONS, DIRECTIONS, Alert, Alerts, Override, Rules
from perftrend.store.alerts.items import (
    STATUSES,
    Item,
    Items,
    ItemSelection,
    Span,
    StoredFinding,
    TriageEdit,
)
from perftrend.store.alerts.nights import Night
from perftrend.store.alerts.outbox import Message, Outbox

__all__ = [
    "ACTIONS",
    "DIRECTIONS",
    "STATUSES",
    "Alert",
    "Alerts",
    "Item",
    "ItemSelection",
    "Items",
    "Message",
    "Night",
    "Outbox",
    "Override",
    "Rules",
    "Span",
    "StoredFinding",
    "TriageEdit",
]
