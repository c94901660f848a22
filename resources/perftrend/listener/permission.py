"""Who may start jobs, and how many of them.

Both limits are for one person on one change in 24 hours, and both are the setting ``gerrit.jobs_per_day``: so
many jobs start, and so many requests are answered that start none. The first one beyond them is answered with
when it goes on, and after that nothing is said until then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta

from perftrend.clients.gerrit import Account, Group
from perftrend.store.requests import JOBS, Request, State

DAY = timedelta(days=1)
_STARTING_NOTHING = (State.REFUSED, State.TOLD, State.FAILED)


def beyond_limit(today: Iterable[Request], *, most: int, starts: bool) -> str:
    """Say that somebody has asked too often; empty: not yet.

    :param today: what the same person asked on the same change, decided in the last 24 hours.
    :param most: how many requests are served.
    :param starts: whether this one would start a job.
    """
    states = JOBS if starts else _STARTING_NOTHING
    moments = sorted(each.decided for each in today if each.state in states and each.decided)
    if len(moments) < most:
        return ""
    following = moments[-most] + DAY
    what = (
        f"{_count(most, 'job')} of yours on this change started in the last 24 hours"
        if starts
        else f"{_count(most, 'request')} of yours on this change started nothing in the last 24 hours"
    )
    return f"{what}, which is all that may; the next is possible at {following:%Y-%m-%d %H:%M} UTC"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def is_told(today: Iterable[Request]) -> bool:
    """Tell whether the same person has been told of a limit already."""
    return any(each.state is State.LIMITED for each in today)


def outside_groups(
    account: Account, groups: Sequence[str], groups_of: Callable[[Account], Iterable[Group]]
) -> str:
    """Say that somebody may start nothing; empty: they may.

    :param groups: names or identities of those who may; none: everybody.
    :param groups_of: returns what somebody is a member of.
    """
    if not groups:
        return ""
    found = groups_of(account)
    if any(name in groups for group in found for name in (group.name, group.identity)):
        return ""
    return f"only members of {' or '.join(groups)} may start jobs here"


def since(now: datetime) -> datetime:
    """Return from when on requests count."""
    return now - DAY
