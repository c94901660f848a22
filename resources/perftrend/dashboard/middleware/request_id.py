"""The id of a request, which its response, the log and the page of an internal error have in common.

A trusted proxy may choose it, so that the log of the proxy has the same one. Any other client could forge an
id to hide its requests among others, so its header is ignored.
"""

from __future__ import annotations

import re
import secrets
from contextvars import ContextVar

from starlette.datastructures import Headers
from starlette.types import Scope

from perftrend.dashboard.middleware.clients import Clients

HEADER = "X-Request-ID"
_VALID = re.compile(r"[A-Za-z0-9._-]{1,64}")
_RANDOM_BYTES = 16
_CURRENT: ContextVar[str] = ContextVar("request_id", default="")


def begin_request(scope: Scope, clients: Clients) -> str:
    """Choose the id of a request, and make it the current one.

    It remains the current one, because the server logs errors after the application has ended. Each request
    has a task, and therefore a context, of its own.
    """
    sent = Headers(scope=scope).getlist(HEADER)
    is_valid = len(sent) == 1 and _VALID.fullmatch(sent[0]) and clients.are_behind(scope)
    request_id = sent[0] if is_valid else secrets.token_hex(_RANDOM_BYTES)
    _CURRENT.set(request_id)
    return request_id


def current_request_id() -> str:
    """Return the id of the request that is being answered; empty outside of requests."""
    return _CURRENT.get()
