"""Cancelling of requests: by a comment, by a new patch set, or because their change was abandoned.

What ends other requests is itself a request in the store, also if it is not a comment, so that it is carried
out and answered once. Gerrit's clock decides what it ends: what was requested before it.

A new patch set ends the jobs that build an older one, because their results no longer matter; if only the
commit message is new, they continue. Jobs that measure something else, such as trending, continue as well.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from datetime import datetime

from perftrend.clients.gerrit import GerritChange
from perftrend.execution.estimate import BUILDING
from perftrend.store.requests import Request, RequestState
from perftrend.trigger import CANCEL


def of_update(
    change: GerritChange, active: Sequence[Request], *, ours: str, now: datetime
) -> tuple[Request, list[Request]] | None:
    """Return the request to end jobs that follows from the state of a change, and what it ends.

    :param change: with all its patch sets.
    :param active: the requests of the change whose jobs may be queued or running.
    :param ours: the identity of the listener's own account.
    :returns: None if nothing has to be ended.
    """
    if change.status == "ABANDONED":
        targets, why = list(active), "The change was abandoned"
    else:
        newer = change.current
        targets = [each for each in active if each.job in BUILDING and _is_outdated(each, change)]
        why = f"Patch set {newer.number} was uploaded"
    if not targets:
        return None
    # A request is ended once, so this identifies what ends it.
    identity = f"cancel-{min(each.key for each in targets)[:32]}"
    by = Request(
        key=hashlib.sha256(identity.encode()).hexdigest(),
        change=change.number,
        patch_set=change.current.number,
        project=change.project,
        branch=change.branch,
        revision=change.current.revision,
        ref=change.current.ref,
        review=identity,
        comment=identity,
        path=None,
        account=ours,
        asked=now,
        place=0,
        line=why,
        job=CANCEL,
        state=RequestState.DONE,
        decided=now,
    )
    return by, targets


def _is_outdated(request: Request, change: GerritChange) -> bool:
    """Return whether a patch set with new code was uploaded after a request for an older one."""
    return any(
        each.number > request.patch_set and each.has_new_code and each.uploaded >= request.asked
        for each in change.patch_sets
    )


def is_before(request: Request, cancel: Request) -> bool:
    """Return whether a request was written before the one that is to end it.

    Gerrit's times are whole seconds, and reviews of the same second may have the same identity. What was
    decided earlier counts as written before.
    """
    if request.comment == cancel.comment:
        return request.place < cancel.place
    is_decided = request.state is not RequestState.SEEN
    return request.asked < cancel.asked or (request.asked == cancel.asked and is_decided)


def result_text(by: Request, targets: Iterable[Request]) -> str:
    """Return the message of what a request has ended; empty if it is not a comment, and has ended nothing.

    :param by: its reason is the message about what it must not end.
    """
    is_comment = bool(by.testbed)
    found = [
        f'"{each.line}" on patch set {each.patch_set} {_result(each)}'
        for each in targets
        if is_comment or each.state is not RequestState.ENDED
    ]
    if not (is_comment or found):
        return ""
    if by.reason:
        found.append(by.reason)
    head = f'"{by.line}"' if is_comment else by.line
    return f"{head}: {'; '.join(found) or 'nothing of this change is queued or running there'}."


def _result(target: Request) -> str:
    match target.state:
        case RequestState.CANCELLED:
            return f"was {target.reason}"
        case RequestState.ENDED:
            return "had already ended"
        case RequestState.CANCELLING:
            return "is ending"
        case _:
            return f"continues, because {target.reason}"
