"""How often, and with which pauses, what failed for a passing reason is repeated: one rule for all HTTP."""

from __future__ import annotations

import time
from collections.abc import Callable

import tenacity

from perftrend.clients.web.refusals import UnavailableError

_LONGEST_PAUSE_S = 300.0
_LONGEST_BACKOFF_S = 30.0

Wait = Callable[[tenacity.RetryCallState], float]
"""How long to pause before the next attempt, in seconds."""


def backing_off(first_s: float) -> Wait:
    """Return ever longer pauses, up to half a minute, with some chance in them."""
    return tenacity.wait_exponential(first_s, _LONGEST_BACKOFF_S) + tenacity.wait_random(0, first_s)


_default_pauses = backing_off(1.0)


def retrying(attempts: int, wait: Wait, *, sleep: Callable[[float], None] = time.sleep) -> tenacity.Retrying:
    """Return what calls a function again while it raises UnavailableError.

    :param sleep: pauses for so many seconds.
    """
    return tenacity.Retrying(
        stop=tenacity.stop_after_attempt(attempts),
        wait=wait,
        sleep=sleep,
        retry=tenacity.retry_if_exception_type(UnavailableError),
        reraise=True,
    )


def patiently(state: tenacity.RetryCallState) -> float:
    """Return what the server asks for, within reason, or ever longer pauses with some chance in them."""
    error = state.outcome.exception() if state.outcome else None
    asked_s = error.retry_after_s if isinstance(error, UnavailableError) else None
    return _default_pauses(state) if asked_s is None else min(asked_s, _LONGEST_PAUSE_S)
