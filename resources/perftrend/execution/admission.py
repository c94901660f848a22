"""Admission of a job that a comment requests: the job itself checks who may start it, and what it needs.

Jenkins's Gerrit Trigger plugin starts a build for every comment with a trigger word, whoever wrote it. The
variables of the build name the change and the patch set. Who wrote the comment is what Gerrit reports: the
job looks for the review on this patch set that requests it. If there are several, each starts one job.

A request that the listener has started is in the store already, and is not decided again. Any other is
entered there, so that the limits apply to the requests of all jobs together.

Limits say how much of the testbeds may be requested: by a request, a person, on a change, and in a queue.
Costs are the estimated usual durations of :mod:`perftrend.execution.estimate`, and for a job that has ended,
the time that it took. A job that was cancelled before it began costs nothing. Limits by person and by change
apply to 24 hours, on all testbeds. The queue of a testbed is what is estimated to be left of the jobs that
were requested there.

There is also a limit on the number of jobs that a person starts in 24 hours, and one of the same value on
the answered requests that start nothing. The reply to the first request beyond it on a change contains the
time when the next one is possible. Further ones are ignored while that reply is less than 24 hours old.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from perftrend import console
from perftrend.clients.gerrit import Account, Gerrit, connect
from perftrend.errors import StoreError, UsageError
from perftrend.execution import permissions, request_validation
from perftrend.execution.estimate import format_duration
from perftrend.execution.job_request import Grammar, JobRequest
from perftrend.execution.permissions import CommentReview
from perftrend.execution.request_validation import InvalidRequestError, LimitExceeded, RequestPlan
from perftrend.settings import GerritSettings, Settings
from perftrend.store import Store
from perftrend.store.requests import IN_JENKINS, JOBS, LOCAL, Request, Requests, RequestState
from perftrend.text import format_count, plain
from perftrend.trigger import Refusal, Trigger

_DAY = timedelta(days=1)
_HOUR_S = 3600
_STARTING_NOTHING = (RequestState.REFUSED, RequestState.DRY_RUN, RequestState.FAILED, RequestState.DONE)

_NO_LOGIN = Account(None)
_CANCELLED = (RequestState.CANCELLING, RequestState.CANCELLED)


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


@dataclass(frozen=True, slots=True)
class PatchSetRequest:
    """The request of a job, and the patch set that it is on."""

    job_request: JobRequest
    change: int
    patch_set: int


@contextmanager
def admitted(
    job_request: JobRequest | None, settings: Settings, plan: Callable[[Trigger], RequestPlan]
) -> Iterator[None]:
    """Admit a job for the block; its end is recorded.

    A job is always admitted if no comment on a change started it: a person did.

    :param plan: returns the plan of the job.
    :raises InvalidRequestError: if the author of the comment may not start it, or it is beyond a limit.
    :raises UsageError: if no comment on the patch set requests it.
    :raises SettingsError: if the settings name no Gerrit, or not who may start jobs.
    """
    if job_request is None or job_request.change is None:
        yield
        return
    if job_request.patch_set is None:
        raise UsageError("GERRIT_PATCHSET_NUMBER is not set; leave it to Jenkins or the listener")
    wanted = PatchSetRequest(job_request, job_request.change, job_request.patch_set)
    with _open_requests(settings) as requests:
        claimed = _admit(wanted, settings, plan, requests)
    try:
        yield
    finally:
        if claimed:
            _end(settings, claimed)


def is_cancelled(job_request: JobRequest | None, settings: Settings) -> bool:
    """Return whether the listener has ended a job that it started; False if its store is not known here."""
    if job_request is None or not job_request.request:
        return False
    try:
        with _open_requests(settings) as requests:
            known = requests.with_keys([job_request.request]) if requests else {}
    except StoreError:
        return False
    return any(each.state in _CANCELLED for each in known.values())


@contextmanager
def _open_requests(settings: Settings) -> Iterator[Requests | None]:
    """Yield the requests of the store; None if there is no store, which is not created."""
    if Store.may_be_there(settings.store):
        with Store.open(settings.store) as store:
            yield store.requests
    else:
        yield None


def _end(settings: Settings, claimed: Request) -> None:
    try:
        with _open_requests(settings) as requests:
            if requests and claimed.began:
                duration_s = (datetime.now(UTC) - claimed.began).total_seconds()
                requests.change(claimed, state=RequestState.ENDED, duration_s=duration_s)
    except StoreError as error:
        console.warn(f"the end of the job is not recorded, so it counts as long as it was estimated: {error}")


def _admit(
    wanted: PatchSetRequest,
    settings: Settings,
    plan: Callable[[Trigger], RequestPlan],
    requests: Requests | None,
) -> Request | None:
    """Check the request; return it as it was entered into the store, or None if this job did not enter it."""
    job_request = wanted.job_request
    if requests and _is_started_by_listener(wanted, requests):
        return None
    gerrit = connect(settings.gerrit)
    reviews = _find_reviews(gerrit, wanted, settings)
    keys = [permissions.key(each.identity, job_request.trigger) for each in reviews]
    known = requests.with_keys(keys) if requests else {}
    review, key = _choose(reviews, keys, job_request.request, known, has_store=requests is not None)
    request = known.get(key) or _build_request(gerrit, wanted, review)
    if request.state in JOBS:
        # The build is started again, for example after it was killed.
        return None
    why = permissions.why_not(gerrit, settings.gerrit.groups, review.author, wanted.change, wanted.patch_set)
    if why:
        raise _refuse(requests, request, Refusal(request.line, why, ""))
    if job_request.is_dry_run:
        _enter(requests, request, state=RequestState.DRY_RUN)
        return None
    return _claim(requests, request, settings, plan(job_request.trigger), job_request.trigger)


def _is_started_by_listener(wanted: PatchSetRequest, requests: Requests) -> bool:
    request = requests.with_keys([wanted.job_request.request]).get(wanted.job_request.request)
    return (
        request is not None
        and request.state in JOBS
        and (request.change, request.patch_set) == (wanted.change, wanted.patch_set)
        and request.line == str(wanted.job_request.trigger)
    )


def _find_reviews(gerrit: Gerrit, wanted: PatchSetRequest, settings: Settings) -> Sequence[CommentReview]:
    """Return the reviews on the patch set that request exactly this job.

    :raises UsageError: if there is none.
    """
    grammar, job_request = Grammar.of(settings), wanted.job_request
    identities = {each.identity for each in job_request.triggers}
    ours = gerrit.account if settings.gerrit.user else _NO_LOGIN
    found = []
    for review in permissions.find_reviews(gerrit.comments(wanted.change), ours=ours):
        texts = [each.text for each in review.comments if each.patch_set == wanted.patch_set]
        requested = {
            each.identity
            for each in grammar.parse(texts)
            if isinstance(each, Trigger)
            and (each.job, each.testbed) == (job_request.trigger.job, job_request.trigger.testbed)
        }
        is_listeners = job_request.request == permissions.key(review.identity, job_request.trigger)
        if requested == identities or (is_listeners and identities <= requested):
            found.append(review)
    if not found:
        raise UsageError(
            f"no comment on patch set {wanted.patch_set} of change {wanted.change} requests "
            f"'{job_request.trigger}'; was it deleted?"
        )
    return found


def _choose(
    reviews: Sequence[CommentReview],
    keys: Sequence[str],
    listeners: str,
    known: Mapping[str, Request],
    *,
    has_store: bool,
) -> tuple[CommentReview, str]:
    """Return the review that this job is for: the first one that has not started a job yet.

    Without a store, that is not known. Then it is the newest one, so that nobody can start a job by a copy of
    another person's comment.

    :param listeners: the key of the request if the listener has started the job.
    """
    pairs = list(zip(reviews, keys, strict=True))
    own = [pair for pair in pairs if pair[1] == listeners]
    unknown = [pair for pair in pairs if pair[1] not in known] if has_store else []
    return (own or unknown[:1] or pairs)[-1]


def _build_request(gerrit: Gerrit, wanted: PatchSetRequest, review: CommentReview) -> Request:
    change = gerrit.change(wanted.change)
    request = permissions.build_request(
        review,
        review.comments[0],
        wanted.job_request.trigger,
        change=change,
        patch_set=change.patch_set(wanted.patch_set),
    )
    # The job posts its result itself.
    return replace(request, link=plain(os.environ.get("BUILD_URL", "")), answered=True)


def _claim(
    requests: Requests | None, request: Request, settings: Settings, plan: RequestPlan, trigger: Trigger
) -> Request | None:
    now = datetime.now(UTC)
    claimed = replace(
        request, state=RequestState.ADMITTED, told=str(plan), estimated_s=plan.usual_s,
        decided=now, began=now, reason="",
    )  # fmt: skip

    def find_exceeded(others: Sequence[Request]) -> request_validation.LimitExceeded | None:
        return exceeded(claimed, others, settings.gerrit, now)

    if requests is None:
        console.warn(f"there is no store {settings.store}, so limits of a day and of queues do not apply")
        limit = find_exceeded(())
    else:
        requests.end_old(now)
        limit = requests.claim(request, claimed, find_exceeded, since=horizon(settings.gerrit, now))
    if limit:
        raise _refuse(requests, request, request_validation.refuse(trigger, plan, limit))
    return claimed if requests else None


def _refuse(requests: Requests | None, request: Request, refusal: Refusal) -> InvalidRequestError:
    _enter(requests, request, state=RequestState.REFUSED, reason=refusal.reason)
    return InvalidRequestError(refusal)


def _enter(requests: Requests | None, request: Request, *, state: RequestState, reason: str = "") -> None:
    if requests:
        requests.add([replace(request, state=state, reason=reason, decided=datetime.now(UTC))])
