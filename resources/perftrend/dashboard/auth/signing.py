"""Signed texts that contain the time of signing: the cookies of logins, and the tokens of forms."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from typing import Any

from itsdangerous import BadData, URLSafeSerializer

Clock = Callable[[], float]
"""Returns the seconds since 1970."""

LONGEST = 4096
"""Maximum length of a text that is verified; browsers do not store longer cookies."""
_SKEW_S = 60
"""Tolerated difference between the clocks of processes."""


class Signer:
    """Signs and verifies texts of one purpose, which contain the time of signing.

    The content is signed but not encrypted. Each purpose has its own key, so that a text that was signed
    for one purpose is not accepted for another.
    """

    def __init__(self, secret: str, purpose: str, *, clock: Clock = time.time) -> None:
        self._clock = clock
        self._serializer = URLSafeSerializer(
            secret,
            salt=f"perftrend {purpose}",
            signer_kwargs={"digest_method": hashlib.sha256, "key_derivation": "hmac"},
        )

    def seal(self, content: Any) -> str:  # noqa: ANN401 - any JSON value
        """Return a text of letters, digits, ``-``, ``_`` and ``.`` that contains the content and the time."""
        return str(self._serializer.dumps([int(self._clock()), content]))

    def open(self, text: str, *, maximum_age_s: float) -> Any | None:  # noqa: ANN401 - as above
        """Return the content of a text; None if the text is expired or was not signed for this purpose."""
        if len(text) > LONGEST:
            return None
        try:
            sealed, content = self._serializer.loads(text)
        except BadData:
            return None
        return content if -_SKEW_S <= self._clock() - sealed <= maximum_age_s else None
