"""Retries of transient failures: one policy for the number of attempts and their pauses, for all HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable

import tenacity

from perftrend.clients.web.errors import UnavailableError

_LONGEST_PAUSE_S = 300.0
_LONGEST_BACKOFF_S = 30.0

Wait = Callable[[tenacity.RetryCallState], float]
"""How long to pause before the next attempt, in seconds."""


def exponential_backoff(first_s: float) -> Wait:
    """Return exponential backoff of up to 30 s, plus random jitter of up to ``first_s``."""
    return tenacity.wait_exponential(first_s, _LONGEST_BACKOFF_S) + tenacity.wait_random(0, first_s)


_default_pauses = exponential_backoff(1.0)


def retrier(attempts: int, wait: Wait, *, sleep: Callable[[float], None] = time.sleep) -> tenacity.Retrying:
    """Return a retrier that calls a function again while it raises UnavailableError.

    :param sleep: pauses for the given number of seconds.
    """
    return tenacity.Retrying(
        stop=tenacity.stop_after_attempt(attempts),
        wait=wait,
        sleep=sleep,
        retry=tenacity.retry_if_exception_type(UnavailableError),
        reraise=True,
    )


def pause_before_retry(state: tenacity.RetryCallState) -> float:
    """Return the pause that the server requests, at most 300 s, or exponential backoff with jitter."""
    error = state.outcome.exception() if state.outcome else None
    requested_s = error.retry_after_s if isinstance(error, UnavailableError) else None
    return _default_pauses(state) if requested_s is None else min(requested_s, _LONGEST_PAUSE_S)
