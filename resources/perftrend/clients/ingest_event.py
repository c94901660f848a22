"""Events that notify a dashboard of a build: one signed POST, see ``docs/dashboard/ingesting.rst``.

The signature is the HMAC-SHA256 (RFC 2104) of the timestamp, a dot and the body. Neither can be changed
without invalidating it, and a replayed event is rejected after a few minutes.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import time

import requests
from pydantic import SecretStr

from perftrend.clients.web.session import HttpSession
from perftrend.errors import ServiceError

MOMENT_HEADER = "X-Perftrend-Timestamp"
"""Seconds since 1970, as a whole number."""
SIGNATURE_HEADER = "X-Perftrend-Signature"
"""``sha256=`` and hex digits."""
PATH = "/ingest"


def signature(secret: SecretStr, moment: str, body: bytes) -> str:
    """Return the value of the signature header."""
    message = moment.encode() + b"." + body
    return "sha256=" + hmac.new(secret.get_secret_value().encode(), message, hashlib.sha256).hexdigest()


def notify(url: str, secret: SecretStr, job: str, build: int, *, timeout_s: float = 10.0) -> None:
    """Notify the dashboard at an address of a build.

    :raises ServiceError: if it does not accept the event.
    """
    body = json.dumps({"job": job, "build": build}).encode()
    moment = str(int(time.time()))
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json",
        MOMENT_HEADER: moment,
        SIGNATURE_HEADER: signature(secret, moment, body),
    }
    address = url.rstrip("/") + PATH
    try:
        with (
            HttpSession(timeout_s=timeout_s) as session,
            session.post(address, data=body, headers=headers, stream=True) as answer,
        ):
            status = answer.status_code
    except requests.RequestException as error:
        reason = type(error).__name__
        raise ServiceError(f"{address}: {reason}; is the dashboard there?") from None
    if status != requests.codes.accepted:
        raise ServiceError(f"{address}: answers {status}; look into the log of the dashboard")
