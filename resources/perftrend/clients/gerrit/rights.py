"""What the user of the requests may do in Gerrit: vote on a label, and read the stream of events.

Source: Gerrit's documentation, "REST API", ``permitted_labels`` of ChangeInfo and List Account Capabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

from perftrend.clients.gerrit import validation
from perftrend.clients.gerrit.api import Api, phrase

_STREAM = "streamEvents"


@dataclass(frozen=True, slots=True)
class LabelRights:
    """The labels of an open change, and the user's votes on it."""

    project: str
    change: int
    labels: tuple[str, ...]
    votes: tuple[int, ...]
    """The votes on the label that the user may give, in ascending order."""


def label_rights(api: Api, label: str, project: str) -> LabelRights | None:
    """Return the user's rights on the newest open change; None if the user sees none.

    :param project: name of its project; empty for any.
    """
    query = f"status:open project:{phrase(project)}" if project else "status:open"
    for found in api.changes(query, 0, 1, ("DETAILED_LABELS",)):
        with validation.convert_errors(f"{api.transport.url}/changes/"):
            permitted = validation.table(found.get("permitted_labels") or {})
            votes = (int(validation.text(each)) for each in validation.items(permitted.get(label)))
            return LabelRights(
                validation.some_text(found.get("project")),
                validation.whole(found.get("_number")),
                tuple(sorted(validation.table(found.get("labels") or {}))),
                tuple(sorted(votes)),
            )
    return None


def may_stream(api: Api) -> bool:
    """Return whether the user may read the stream of events."""
    path = "accounts/self/capabilities"
    with validation.convert_errors(f"{api.transport.url}/{path}"):
        return validation.table(api.transport.json(path, [("q", _STREAM)])).get(_STREAM) is True
