"""How much of the testbeds may be requested: by a request, a person, on a change, and in a queue.

Costs are the estimated usual durations of :mod:`perftrend.execution.estimate`, and for a job that has ended,
the time that it took. A job that was cancelled before it began costs nothing. Limits by person and by change
apply to 24 hours, on all testbeds. The queue of a testbed is what is estimated to be left of the jobs that
were requested there.

There is also a limit on the number of jobs that a person starts in 24 hours, and one of the same value on
the answered requests that start nothing. The reply to the first request beyond it on a change contains the
time when the next one is possible. Further ones are ignored while that reply is less than 24 hours old.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta

from perftrend.execution.estimate import format_duration
from perftrend.execution.request_validation import LimitExceeded
from perftrend.settings import GerritSettings
from perftrend.store.requests import IN_JENKINS, JOBS, LOCAL, Request, RequestState
from perftrend.text import format_count

_DAY = timedelta(days=1)
_HOUR_S = 3600
_STARTING_NOTHING = (RequestState.REFUSED, RequestState.DRY_RUN, RequestState.FAILED, RequestState.DONE)


def beyond_count(of_person: Iterable[Request], *, most: int, starts: bool, now: datetime) -> str:
    """Return a message if a person has reached the limit on the number of requests; empty if not.

    :param of_person: requests of the same person; those of the last 24 hours count.
    :param most: maximum number of requests.
    :param starts: whether the new request would start a job.
    """
    states = JOBS if starts else _STARTING_NOTHING
    since = day_before(now)
    moments = sorted(
        each.decided for each in of_person if each.state in states and each.decided and each.decided >= since
    )
    if len(moments) < most:
        return ""
    what = (
        f"{format_count(most, 'job')} of yours started in the last 24 hours"
        if starts
        else f"{format_count(most, 'request')} of yours started nothing in the last 24 hours"
    )
    return f"{what}, which is the maximum; the next is possible at {_format(moments[-most] + _DAY)}"


def was_notified(of_person: Iterable[Request], change: int) -> bool:
    """Return whether the person has been notified of this limit on the change."""
    return any(each.state is RequestState.LIMITED and each.change == change for each in of_person)


def exceeded(
    request: Request, others: Sequence[Request], limits: GerritSettings, now: datetime
) -> LimitExceeded | None:
    """Return the limit that a request exceeds, or None.

    :param others: requests since :func:`horizon` of the same person, on the same change or testbed, and all
        that are not finished on that testbed.
    """
    estimated_s = request.estimated_s or 0.0
    jobs = [each for each in others if each.state in JOBS and each.key != request.key]
    since = day_before(now)
    today = [each for each in jobs if each.decided and each.decided >= since]
    of_person = [each for each in today if each.account == request.account]
    if wrong := beyond_count(of_person, most=limits.jobs_per_day, starts=True, now=now):
        return LimitExceeded(wrong)
    rules = (
        ("a request may need {}", limits.hours_per_request, 0.0),
        ("the jobs of a person may need {} in 24 hours", limits.hours_per_day, _sum_s(of_person)),
        (
            "the jobs on a change may need {} in 24 hours",
            limits.hours_per_change,
            _sum_s(each for each in today if request.change and each.change == request.change),
        ),
        (
            f"{request.testbed} may have {{}} of work left to do",
            limits.hours_of_queue,
            backlog_s((each for each in jobs if each.testbed == request.testbed), now),
        ),
    )
    room_s = min(hours * _HOUR_S - used_s for _, hours, used_s in rules)
    if estimated_s <= room_s:
        return None
    text, hours, used_s = next(rule for rule in rules if estimated_s > rule[1] * _HOUR_S - rule[2])
    reason = f"it needs about {format_duration(estimated_s)}, but {text.format(_format_hours(hours))}"
    left_s = max(0.0, hours * _HOUR_S - used_s)
    if used_s:
        reason += f", of which {_format_left(left_s)}"
    return LimitExceeded(reason, max(0.0, room_s))


def backlog_s(jobs: Iterable[Request], now: datetime) -> float:
    """Return the estimated time that the jobs on a testbed still need, one after another.

    The duration of a job on Jenkins counts from when it began; if that is not known, from when the job before
    has ended.
    """
    left = list(jobs)
    remote = [(each.decided, each) for each in left if each.state in IN_JENKINS and each.decided]
    end = datetime.min.replace(tzinfo=UTC)
    for decided, job in sorted(remote, key=lambda each: each[0]):
        begin = job.began or max(end, decided)
        end = max(end, begin + timedelta(seconds=job.estimated_s or 0.0))
    local_s = sum(_left_s(each, now) for each in left if each.state in LOCAL)
    return max(0.0, (end - now).total_seconds()) + local_s


def _left_s(job: Request, now: datetime) -> float:
    gone_s = (now - job.began).total_seconds() if job.began else 0.0
    return max(0.0, (job.estimated_s or 0.0) - gone_s)


def day_before(now: datetime) -> datetime:
    """Return the start of the 24 hours in which requests count."""
    return now - _DAY


def horizon(limits: GerritSettings, now: datetime) -> datetime:
    """Return the time from which on requests can influence a decision."""
    queue = timedelta(hours=limits.hours_of_queue + limits.hours_per_request)
    return now - max(_DAY, queue)


def _sum_s(requests: Iterable[Request]) -> float:
    return sum(map(_cost_s, requests))


def _cost_s(request: Request) -> float:
    if request.duration_s is not None:
        return request.duration_s
    if request.state is RequestState.CANCELLED:
        return 0.0
    return request.estimated_s or 0.0


def _format_hours(hours: float) -> str:
    return f"{hours:g} hour{'s' * (hours != 1)}"


def _format_left(left_s: float) -> str:
    return "nothing is left now" if left_s < 60 else f"about {format_duration(left_s)} are left"  # noqa: PLR2004 - a minute


def _format(moment: datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M} UTC"
