"""How often and with which pauses something is asked again that failed for a passing reason."""

from __future__ import annotations

from collections.abc import Callable

import tenacity

from perftrend.clients.web.refusals import UnavailableError

_LONGEST_PAUSE_S = 300.0

Wait = Callable[[tenacity.RetryCallState], float]
"""How long to pause before the next attempt, in seconds."""
_backing_off = tenacity.wait_exponential_jitter(initial=1, max=30, jitter=1)


def retrying(attempts: int, wait: Wait) -> tenacity.Retrying:
    """Return what calls a function again while it raises UnavailableError."""
    return tenacity.Retrying(
        stop=tenacity.stop_after_attempt(attempts),
        wait=wait,
        retry=tenacity.retry_if_exception_type(UnavailableError),
        reraise=True,
    )


def patiently(state: tenacity.RetryCallState) -> float:
    """Return what the server asks for, within reason, or ever longer pauses with some chance in them."""
    error = state.outcome.exception() if state.outcome else None
    asked_s = error.retry_after_s if isinstance(error, UnavailableError) else None
    return _backing_off(state) if asked_s is None else min(asked_s, _LONGEST_PAUSE_S)
