"""How many jobs a user may start in a day.

There are two limits, both with the value of the setting
``gerrit.jobs_per_day``: on the jobs that one user starts on one change in 24 hours, and on the answered
requests that start no job. The reply to the first request beyond a limit contains the time when the next one
is possible. Further ones are ignored while that reply is less than 24 hours old.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta

from perftrend.store.requests import JOBS, Request, RequestState
from perftrend.text import format_count

_DAY = timedelta(days=1)
_STARTING_NOTHING = (RequestState.REFUSED, RequestState.DRY_RUN, RequestState.FAILED)


def beyond_limit(today: Iterable[Request], *, most: int, starts: bool) -> str:
    """Return a message if a user has reached a limit, otherwise an empty string.

    :param today: requests of the same user on the same change that were decided in the last 24 hours.
    :param most: maximum number of requests.
    :param starts: whether the new request would start a job.
    """
    states = JOBS if starts else _STARTING_NOTHING
    moments = sorted(each.decided for each in today if each.state in states and each.decided)
    if len(moments) < most:
        return ""
    following = moments[-most] + _DAY
    what = (
        f"{format_count(most, 'job')} of yours on this change started in the last 24 hours"
        if starts
        else f"{format_count(most, 'request')} of yours on this change started nothing in the last 24 hours"
    )
    return f"{what}, which is the maximum; the next is possible at {following:%Y-%m-%d %H:%M} UTC"


def was_notified(today: Iterable[Request]) -> bool:
    """Return whether the user has already been notified of a limit."""
    return any(each.state is RequestState.LIMITED for each in today)


def limits_since(now: datetime) -> datetime:
    """Return the start of the 24 hours in which requests count towards the limits."""
    return now - _DAY
