"""What a browser keeps for us: signed, so that it comes back as it went, and with its age.

It is no secret to who has it. Each purpose has a key of its own, so that what was sealed for one is not
taken for another.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any

from itsdangerous import BadData, URLSafeSerializer

Clock = Callable[[], float]
"""Tells the seconds since 1970."""

LONGEST = 4096
"""Letters of a text that is looked at: browsers keep no longer cookies."""
_SKEW_S = 60
"""The clocks of several processes may differ by so much."""


class Seals:
    """Seals and opens texts of one purpose."""

    def __init__(self, secret: str, purpose: str, *, clock: Clock = time.time) -> None:
        self._clock = clock
        self._serializer = URLSafeSerializer(
            secret,
            salt=f"perftrend {purpose}",
            signer_kwargs={"digest_method": hashlib.sha256, "key_derivation": "hmac"},
        )

    def seal(self, content: Any) -> str:  # noqa: ANN401 - whatever JSON can hold
        """Return a text of letters, digits, ``-``, ``_`` and ``.`` that holds a content and the moment."""
        return str(self._serializer.dumps([int(self._clock()), content]))

    def open(self, text: str, *, maximum_age_s: float) -> Any | None:  # noqa: ANN401 - as above
        """Return what was sealed; None if it was not sealed by us for this purpose, or too long ago."""
        if len(text) > LONGEST:
            return None
        try:
            sealed, content = self._serializer.loads(text)
        except BadData:
            return None
        return content if -_SKEW_S <= self._clock() - sealed <= maximum_age_s else None
