"""The reply to a review: one text for all its requests.

No line of a reply begins with a trigger word, so that no plugin interprets it as a request.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from perftrend.store.requests import Request, RequestState
from perftrend.trigger import Refusal


def _format_started(request: Request) -> str:
    return f'"{request.line}" started: {", ".join(filter(None, (request.told, request.link)))}'


def _format_dry_run(request: Request) -> str:
    return f'"{request.line}" would measure {request.told}. Nothing was started.'


def _format_refused(request: Request) -> str:
    if request.right_form:
        return str(Refusal(request.line, request.reason, request.right_form))
    return f'"{request.line}" starts nothing: {request.reason}.'


_OF_STATE: Mapping[RequestState, Callable[[Request], str]] = {
    RequestState.REFUSED: _format_refused,
    RequestState.LIMITED: _format_refused,
    RequestState.FAILED: _format_refused,
    RequestState.DRY_RUN: _format_dry_run,
    RequestState.STARTED: _format_started,
    RequestState.WAITING: _format_started,
    RequestState.RUNNING: _format_started,
    RequestState.ENDED: _format_started,
}


def is_decided(request: Request) -> bool:
    """Return whether the reply to a request is known; a reply may be empty."""
    return request.state in _OF_STATE or request.state is RequestState.IGNORED


def text(requests: Iterable[Request]) -> str:
    """Return the reply to the requests of one review; empty if none of them needs one."""
    known = [each for each in requests if each.state in _OF_STATE]
    return "\n\n".join(_OF_STATE[each.state](each) for each in known)
