"""Admission of a job that a comment requests: the job itself checks who may start it, and what it needs.

Jenkins's Gerrit Trigger plugin starts a build for every comment with a trigger word, whoever wrote it. The
variables of the build name the change and the patch set. Who wrote the comment is what Gerrit reports: the
job looks for the review on this patch set that requests it. If there are several, each starts one job.

A request that the listener has started is in the store already, and is not decided again. Any other is
entered there, so that the limits apply to the requests of all jobs together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from perftrend import console
from perftrend.clients.gerrit import Account, Gerrit, connect
from perftrend.errors import StoreError, UsageError
from perftrend.execution import comment_reviews, permissions, request_limits, request_validation
from perftrend.execution.comment_reviews import CommentReview
from perftrend.execution.job_request import Grammar, JobRequest
from perftrend.execution.request_validation import InvalidRequestError, RequestPlan
from perftrend.settings import Settings
from perftrend.store import Store
from perftrend.store.requests import JOBS, Request, Requests, RequestState
from perftrend.text import plain
from perftrend.trigger import Refusal, Trigger

_NO_LOGIN = Account(None)
_CANCELLED = (RequestState.CANCELLING, RequestState.CANCELLED)


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
    keys = [comment_reviews.key(each.identity, job_request.trigger) for each in reviews]
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
    for review in comment_reviews.find_reviews(gerrit.comments(wanted.change), ours=ours):
        texts = [each.text for each in review.comments if each.patch_set == wanted.patch_set]
        requested = {
            each.identity
            for each in grammar.parse(texts)
            if isinstance(each, Trigger)
            and (each.job, each.testbed) == (job_request.trigger.job, job_request.trigger.testbed)
        }
        is_listeners = job_request.request == comment_reviews.key(review.identity, job_request.trigger)
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
    request = comment_reviews.build_request(
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

    def exceeded(others: Sequence[Request]) -> request_validation.LimitExceeded | None:
        return request_limits.exceeded(claimed, others, settings.gerrit, now)

    if requests is None:
        console.warn(f"there is no store {settings.store}, so limits of a day and of queues do not apply")
        limit = exceeded(())
    else:
        requests.end_old(now)
        limit = requests.claim(request, claimed, exceeded, since=request_limits.horizon(settings.gerrit, now))
    if limit:
        raise _refuse(requests, request, request_validation.refuse(trigger, plan, limit))
    return claimed if requests else None


def _refuse(requests: Requests | None, request: Request, refusal: Refusal) -> InvalidRequestError:
    _enter(requests, request, state=RequestState.REFUSED, reason=refusal.reason)
    return InvalidRequestError(refusal)


def _enter(requests: Requests | None, request: Request, *, state: RequestState, reason: str = "") -> None:
    if requests:
        requests.add([replace(request, state=state, reason=reason, decided=datetime.now(UTC))])
