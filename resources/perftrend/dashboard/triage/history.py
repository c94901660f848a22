"""The history of an item: the entries of its activity log as sentences."""

from __future__ import annotations

import re
from collections.abc import Mapping

from perftrend.dashboard.triage.models import HistoryEntry
from perftrend.store.activity import ActivityEntry
from perftrend.store.alerts import STATUSES

_STATUS = "|".join(STATUSES)
_UNTIL = r"\d{4}-\d\d-\d\d \d\d:\d\d UTC|[^:]+/\d+"
_TRIAGED = re.compile(
    rf"(?:(?P<old>{_STATUS}) → )?(?P<new>{_STATUS})(?P<until> until (?:{_UNTIL}))?(?:: (?P<message>.*))?",
    re.DOTALL,
)
_SENT = re.compile(r"(?P<action>.+) of alert (?P<alert>\d{1,10})")
_KINDS = {
    "regression": "a regression",
    "progression": "an improvement",
    "silence": "missing data",
    "stopped": "a testbed without runs",
}
_FORMS = {
    "joined": "Found in {what}",
    "closed": "Closed automatically{detail}",
    "reopened": "Reopened automatically{detail}",
    "assigned": "{user} assigned it to {what}",
    "merged": "{user} merged {part}",
    "separated": "{user} separated {part}",
    "split": "{user} split {part}",
}


def history_entry(entry: ActivityEntry, alerts: Mapping[int, str]) -> HistoryEntry:
    """Return an entry with its sentence.

    :param alerts: names of the alerts by their ids.
    """
    return HistoryEntry(
        number=entry.number,
        moment=entry.moment,
        user=entry.user,
        action=entry.action,
        subject=entry.subject,
        detail=entry.detail,
        text=_sentence(entry, alerts),
    )


def _sentence(entry: ActivityEntry, alerts: Mapping[int, str]) -> str:
    triaged = _TRIAGED.fullmatch(entry.detail) if entry.action == "triaged" else None
    sent = _SENT.fullmatch(entry.detail) if entry.action == "sent" else None
    if triaged:
        return f"{entry.user} {_describe(triaged)}"
    if sent:
        name = alerts.get(int(sent["alert"]), "a deleted alert")
        return f"{sent['action'].capitalize()} sent for {name}"
    if entry.action == "found":
        kind, _, testbed = entry.detail.partition(" on ")
        return f"Found as {_KINDS.get(kind, kind)} on {testbed}"
    detail = f": {entry.detail}" if entry.detail else ""
    form = _FORMS.get(entry.action, "{user} {action} it{detail}")
    part = f"it {entry.detail}" if entry.detail.startswith(("into ", "from ")) else entry.detail
    return form.format(user=entry.user, action=entry.action, detail=detail, what=entry.detail, part=part)


def _describe(triaged: re.Match[str]) -> str:
    message = f": {triaged['message']}" if triaged["message"] else ""
    until = triaged["until"] or ""
    if triaged["old"]:
        return f"changed the status from {triaged['old']} to {triaged['new']}{until}{message}"
    if until:
        return f"snoozed it{until}{message}"
    return f"changed the message{message}" if message else "removed the message"
