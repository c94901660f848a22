"""Alerts, the items that they found, and the outbox."""

from perftrend.store.alerts.alerts import ACTIONS, DIRECTIONS, Alert, AlertEdited, Alerts, Override, Rules
from perftrend.store.alerts.items import (
    STATUSES,
    Chosen,
    Item,
    Items,
    Span,
    StoredFinding,
    Triage,
    Triaged,
)
from perftrend.store.alerts.nights import Night
from perftrend.store.alerts.outbox import Message, Outbox

__all__ = [
    "ACTIONS",
    "DIRECTIONS",
    "STATUSES",
    "Alert",
    "AlertEdited",
    "Alerts",
    "Chosen",
    "Item",
    "Items",
    "Message",
    "Night",
    "Outbox",
    "Override",
    "Rules",
    "Span",
    "StoredFinding",
    "Triage",
    "Triaged",
]
