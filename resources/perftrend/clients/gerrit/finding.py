"""The change that a commit came from, found by its hash or by the Change-Id in its message."""

from __future__ import annotations

import re

from perftrend.clients.gerrit.api import Api, phrase
from perftrend.clients.gerrit.changes import OUTLINE, Change, PatchSet

_MOST = 10
_CHANGE_ID = re.compile(r"I[0-9a-f]{40}")


def patch_set_of(
    api: Api, project: str, commit: str, change_id: str = "", branch: str = ""
) -> tuple[Change, PatchSet] | None:
    """Return the change and the patch set of a commit.

    A commit that Gerrit does not know may still come from a change, if it was cherry-picked or rebased
    elsewhere. Then the only change with its Change-Id in the project, or the only one on the branch, is
    returned, with its newest patch set.
    """
    where = f"project:{phrase(project)}"
    for listed in _changes(api, f"commit:{phrase(commit)} {where}"):
        change = api.change(listed.number)
        for each in change.patch_sets:
            if each.revision == commit:
                return change, each
    if not _CHANGE_ID.fullmatch(change_id):
        return None
    found = _changes(api, f"change:{change_id} {where}")
    if len(found) > 1:
        found = [each for each in found if each.branch == branch]
    return (found[0], found[0].current) if len(found) == 1 else None


def _changes(api: Api, query: str) -> list[Change]:
    return [api.read_change(each) for each in api.changes(query, 0, _MOST, OUTLINE)]
