"""Processing of requests: decide, start or end, and reply, each step once, in the order of the requests.

Every step is stored before the next one begins, and every step can be repeated. Before a job is started
again, the runner is searched for an earlier start, and Gerrit itself records which comments have a reply.

Who may start jobs is decided in :mod:`perftrend.execution.permissions`, and how much of the testbeds they may
need in :mod:`perftrend.execution.admission`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from http import HTTPStatus
from itertools import groupby
from typing import Any

from perftrend.clients.gerrit import Comment, Gerrit, RefusedError, UnavailableError
from perftrend.errors import PerftrendError, ServiceError
from perftrend.execution import admission, permissions, request_validation
from perftrend.execution.job_request import Grammar
from perftrend.execution.permissions import account_of
from perftrend.execution.request_validation import InvalidRequestError, RequestPlan
from perftrend.listener import cancellation
from perftrend.listener.health import Metrics
from perftrend.listener.runner import CancelResult, RequestRejectedError, Runner
from perftrend.settings import GerritSettings
from perftrend.store.requests import Request, Requests, RequestState
from perftrend.trigger import CANCEL, Refusal, Trigger

LOG = logging.getLogger(__name__)

_FOR_A_LINK = timedelta(seconds=20)
"""Maximum delay of a reply until the build has left the queue, so that the reply can contain its address."""
_PERSISTENT = timedelta(minutes=5)
"""A request is refused if a service has failed for it, and for it alone, for this long."""
_WAITS = timedelta(minutes=1)
"""Maximum delay of a reply until the jobs that it reports as cancelled have ended."""
_NEVER = (HTTPStatus.BAD_REQUEST, HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT, HTTPStatus.UNPROCESSABLE_ENTITY)
"""Permanent rejections of a reply, for example because the change was deleted; they are not retried."""

Planner = Callable[[Request, Trigger], RequestPlan]
"""Returns the plan of a job; raises :class:`InvalidRequestError` if it cannot be executed."""


def _now() -> datetime:
    return datetime.now(UTC)


@dataclass(frozen=True, slots=True)
class RequestProcessor:
    """Processes requests from the state ``seen`` to the reply."""

    gerrit: Gerrit | None
    """None: only requests of the dashboard are processed."""
    requests: Requests
    runner: Runner
    grammar: Grammar
    settings: GerritSettings
    planner: Planner
    metrics: Metrics
    now: Callable[[], datetime] = _now
    patience: timedelta = field(default=_FOR_A_LINK)
    _failing_since: dict[str, datetime] = field(default_factory=dict, init=False)
    """When the decision on a request first failed, by key."""

    def work(self) -> bool:
        """Process all open requests as far as possible; return whether to call this again soon.

        :raises ServiceError: if a request failed. It is raised immediately if a service is unavailable,
            otherwise after the other requests have been processed.
        """
        failures: list[ServiceError] = []
        is_left = False
        for _, of_review in groupby(self._open_requests(), key=lambda each: each.review):
            try:
                is_left |= self._serve(list(of_review))
            except UnavailableError:
                raise
            except ServiceError as error:
                failures.append(error)
        if failures:
            raise failures[0]
        return is_left

    def length(self) -> int:
        """Return the number of requests that wait for a decision, a start, an end, a reply or their turn."""
        waiting = {each.key for each in self.requests.in_states(RequestState.WAITING)}
        return len(waiting | {each.key for each in self._open_requests()})

    def _open_requests(self) -> list[Request]:
        found = self.requests.list_open()
        return found if self.gerrit else [each for each in found if each.is_of_page]

    def _serve(self, of_review: Sequence[Request]) -> bool:
        """Process the requests of one review; return whether its reply has to wait."""
        served = [self._advance(each) for each in of_review]
        if any(self._hopes_for_a_link(each) or self._awaits_end(each) for each in served):
            return True
        if unanswered := [each for each in served if not each.answered]:
            self._answer(unanswered)
        return False

    def _advance(self, request: Request) -> Request:
        if request.state is RequestState.CANCELLING:
            return self._cancel(request)
        return self._add_link(self._start(self._decide(request), request))

    # ---- deciding

    def _decide(self, request: Request) -> Request:
        if request.state is not RequestState.SEEN:
            return request
        parsed = self._parse_request(request)
        ends = isinstance(parsed, Trigger) and parsed.job == CANCEL
        starts = isinstance(parsed, Trigger) and not parsed.options.dry_run and not ends
        now = self.now()
        today = self.requests.of(request.account, admission.day_before(now))
        if wrong := admission.beyond_count(today, most=self.settings.jobs_per_day, starts=starts, now=now):
            is_notified = admission.was_notified(today, request.change)
            state = RequestState.IGNORED if is_notified else RequestState.LIMITED
            return self._change(request, state=state, reason=wrong, right_form="", decided=now)
        try:
            if ends:
                return self._decide_cancel(request)
            plan = self._plan(request, parsed)
        except UnavailableError:
            raise
        except ServiceError as error:
            plan = self._give_up(request, error)
        if isinstance(plan, Refusal):
            return self._refuse(request, plan, now)
        if not starts:
            return self._change(request, state=RequestState.DRY_RUN, told=str(plan), decided=now)
        assert isinstance(parsed, Trigger)  # noqa: S101 - it starts something
        return self._claim(request, parsed, plan, now)

    def _refuse(self, request: Request, refusal: Refusal, now: datetime) -> Request:
        return self._change(
            request,
            state=RequestState.REFUSED,
            reason=refusal.reason,
            right_form=refusal.right_form,
            decided=now,
        )

    def _claim(self, request: Request, trigger: Trigger, plan: RequestPlan, now: datetime) -> Request:
        """Claim a request, unless it is beyond a limit."""
        claimed = replace(
            request, state=RequestState.CLAIMED, told=str(plan), estimated_s=plan.usual_s, decided=now
        )
        limit = self.requests.claim(
            request,
            claimed,
            lambda others: admission.exceeded(claimed, others, self.settings, now),
            since=admission.horizon(self.settings, now),
        )
        if limit:
            return self._refuse(request, request_validation.refuse(trigger, plan, limit), now)
        return self._count(claimed)

    def _decide_cancel(self, request: Request) -> Request:
        """Mark the jobs of the change on the testbed that the author may end."""
        found = [
            each
            for each in self.requests.active_on(request.change)
            if each.testbed == request.testbed and cancellation.is_before(each, request)
        ]
        targets = [each for each in found if each.account == request.account]
        wrong = ""
        if len(targets) < len(found):
            author = account_of(request.account)
            wrong = permissions.why_not_end(self._gerrit(), self.settings.groups, author, request.change)
            targets = targets if wrong else found
        now = self.now()
        if found and not targets:
            return self._refuse(request, Refusal(request.line, wrong, ""), now)
        reason = wrong and f"other jobs continue: {wrong}"
        by = replace(request, state=RequestState.DONE, reason=reason, decided=now)
        self.requests.cancel(by, targets)
        return self._count(by)

    def _parse_request(self, request: Request) -> Trigger | Refusal:
        if request.reason:
            return Refusal(request.line, request.reason, request.right_form)
        # A request that was valid when it was seen may be invalid if the settings have changed since.
        found = self.grammar.parse(request.line)
        return found[0] if found else Refusal(request.line, "it is no longer a request", "")

    def _gerrit(self) -> Gerrit:
        assert self.gerrit  # noqa: S101 - requests of comments are only processed with it
        return self.gerrit

    def _why_not(self, request: Request) -> str:
        if request.is_of_page:
            # The dashboard has checked the role of the person.
            return ""
        author = account_of(request.account)
        return permissions.why_not(
            self._gerrit(), self.settings.groups, author, request.change, request.patch_set
        )

    def _plan(self, request: Request, parsed: Trigger | Refusal) -> RequestPlan | Refusal:
        if wrong := self._why_not(request):
            return Refusal(request.line, wrong, "")
        if isinstance(parsed, Refusal):
            return parsed
        try:
            return self.planner(request, parsed)
        except InvalidRequestError as unfit:
            return unfit.refusal
        except ServiceError:
            raise
        except PerftrendError as error:
            LOG.error("%s: %s", request.line, error)
            return Refusal(
                request.line, "the files that it needs cannot be used; see the log of the listener", ""
            )

    def _give_up(self, request: Request, error: ServiceError) -> Refusal:
        """Return the refusal of a request for which a service fails persistently, such as a missing ref.

        :raises ServiceError: if it has not failed for long enough.
        """
        now = self.now()
        if now - self._failing_since.setdefault(request.key, now) < _PERSISTENT:
            raise error
        del self._failing_since[request.key]
        LOG.error("%s: %s; given up", request.line, error)
        reason = "its commits or the groups of its author cannot be read; see the log of the listener"
        return Refusal(request.line, reason, "")

    # ---- starting

    def _start(self, request: Request, before: Request) -> Request:
        if request.state is not RequestState.CLAIMED:
            return request
        try:
            link = self.runner.begin(request, is_new=before.state is RequestState.SEEN)
        except RequestRejectedError as error:
            self.metrics.failures.labels("runner").inc()
            LOG.error("%s: %s", request.line, error)
            reason = "the job cannot be started here; see the log of the listener"
            return self._change(request, state=RequestState.FAILED, reason=reason)
        except ServiceError:
            self.metrics.failures.labels("runner").inc()
            raise
        LOG.info("%s: started for %s", request.line, _place(request))
        return self._change(request, state=self.runner.begun, link=link)

    def _cancel(self, request: Request) -> Request:
        """End the job of a request, as far as it has not ended."""
        try:
            result = self.runner.cancel(request)
        except RequestRejectedError as error:
            self.metrics.failures.labels("runner").inc()
            LOG.error("%s: cannot be ended: %s", request.line, error)
            reason = "it cannot be ended here; see the log of the listener"
            return self._change(request, state=RequestState.STARTED, reason=reason)
        except ServiceError:
            self.metrics.failures.labels("runner").inc()
            raise
        match result:
            case CancelResult.PENDING:
                return request
            case CancelResult.HAD_ENDED:
                return self._change(request, state=RequestState.ENDED)
            case CancelResult.ABORTED | CancelResult.NEVER_BEGAN:
                reason = "aborted" if result is CancelResult.ABORTED else "removed from the queue"
                LOG.info("%s: %s for %s", request.line, reason, _place(request))
                return self._change(request, state=RequestState.CANCELLED, reason=reason)

    def _awaits_end(self, request: Request) -> bool:
        """Return whether a reply waits until jobs have ended."""
        if request.state is RequestState.CANCELLING:
            return not request.answered
        if request.state is not RequestState.DONE or request.answered:
            return False
        targets = self.requests.cancelled_by(request)
        is_recent = request.decided is not None and self.now() - request.decided < _WAITS
        return is_recent and any(each.state is RequestState.CANCELLING for each in targets)

    def _add_link(self, request: Request) -> Request:
        """Return a request with the address of its build, or of its job if the build starts too late."""
        if request.state is not RequestState.STARTED or request.link or request.answered:
            return request
        link = self.runner.link(request)
        if not link and not self._is_recent(request):
            link = self.runner.page(request)
        return self._change(request, link=link) if link else request

    def _hopes_for_a_link(self, request: Request) -> bool:
        return request.state is RequestState.STARTED and not request.link and self._is_recent(request)

    def _is_recent(self, request: Request) -> bool:
        return request.decided is not None and self.now() - request.decided < self.patience

    def _change(self, request: Request, **columns: Any) -> Request:  # noqa: ANN401 - of any type
        if not self.requests.change(request, **columns):
            raise ServiceError(f"request {request.key} is also processed by another listener; run only one")
        changed = replace(request, **columns)
        return self._count(changed) if changed.state is not request.state else changed

    def _count(self, request: Request) -> Request:
        self.metrics.requests.labels(request.job or "none", request.state.value).inc()
        why = f" ({request.reason})" if request.reason else ""
        LOG.debug("%s: %s%s, %s", request.line, request.state.value, why, _place(request))
        return request

    # ---- answering

    def _answer(self, requests: Sequence[Request]) -> None:
        """Post one reply to the requests of a review."""
        text = reply_text([self._with_result(each) for each in requests])
        if text:
            try:
                posted = self._gerrit().answer(requests[0].change, _comment(requests[0]), text)
            except RefusedError as error:
                self.metrics.failures.labels("gerrit").inc()
                if error.status not in _NEVER:
                    raise
                LOG.error("cannot reply to change %d: %s", requests[0].change, error)
            else:
                self.metrics.answers.inc(posted.is_new)
        self.requests.mark_answered([each.key for each in requests])

    def _with_result(self, request: Request) -> Request:
        if request.state is not RequestState.DONE:
            return request
        return replace(request, told=cancellation.result_text(request, self.requests.cancelled_by(request)))


def _comment(request: Request) -> Comment:
    """Return the comment to reply to, with the fields that a reply needs."""
    return Comment(
        identity=request.comment,
        message_id=request.review,
        author=None,
        written=request.asked,
        patch_set=request.patch_set,
        text="",
        path=request.path,
    )


def _format_started(request: Request) -> str:
    return f'"{request.line}" started: {", ".join(filter(None, (request.told, request.link)))}'


def _format_dry_run(request: Request) -> str:
    return f'"{request.line}" would measure {request.told}. Nothing was started.'


def _format_cancelled(request: Request) -> str:
    return f'"{request.line}" was {request.reason}.'


def _format_done(request: Request) -> str:
    return request.told


def _format_refused(request: Request) -> str:
    return str(Refusal(request.line, request.reason, request.right_form))


_OF_STATE: Mapping[RequestState, Callable[[Request], str]] = {
    RequestState.REFUSED: _format_refused,
    RequestState.LIMITED: _format_refused,
    RequestState.FAILED: _format_refused,
    RequestState.DRY_RUN: _format_dry_run,
    RequestState.STARTED: _format_started,
    RequestState.WAITING: _format_started,
    RequestState.RUNNING: _format_started,
    RequestState.ENDED: _format_started,
    RequestState.CANCELLED: _format_cancelled,
    RequestState.DONE: _format_done,
}


def _place(request: Request) -> str:
    if request.is_of_page:
        return f"{request.author} of the dashboard"
    return f"change {request.change}, patch set {request.patch_set}"


def is_decided(request: Request) -> bool:
    """Return whether the reply to a request is known; a reply may be empty."""
    return request.state in _OF_STATE or request.state is RequestState.IGNORED


def reply_text(requests: Iterable[Request]) -> str:
    """Return the reply to the requests of one review; empty if none of them needs one.

    No line of it begins with a trigger word, so that no plugin interprets it as a request.
    """
    known = [each for each in requests if each.state in _OF_STATE]
    return "\n\n".join(_OF_STATE[each.state](each) for each in known)
