"""API tokens for jobs.

The format is ``perftrend_KEY_SECRET``. The key is shown to all admins; the secret is shown once, to the user
who creates the token. The store contains a hash of the whole token.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from datetime import UTC, datetime, timedelta

from perftrend.dashboard.auth.roles import TOKEN, Role, User, is_name
from perftrend.errors import StoreError, UsageError
from perftrend.store.tokens import Token, Tokens

LOG = logging.getLogger(__name__)

LONGEST_DAYS = 730
_FORM = re.compile(r"perftrend_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_NOTED = timedelta(minutes=1)
"""Minimum interval between updates of the last use, so that not every request writes."""


def check(name: str, *, days: int) -> None:
    """Check the name and the validity of a new token.

    :raises UsageError: if one of them is not allowed.
    """
    if not is_name(name):
        raise UsageError(f"token {name[:100]!r}: choose another name, such as nightly-2n-clx")
    if not 1 <= days <= LONGEST_DAYS:
        raise UsageError(f"token {name!r}: it can be valid for 1 to {LONGEST_DAYS} days, not {days}")


def new_token(tokens: Tokens, *, name: str, role: Role, owner: str, days: int) -> tuple[Token, str]:
    """Create a token.

    :param days: how long the token is valid.
    :returns: the entry in the store, and the token itself, which cannot be read from the store.
    :raises UsageError: if the name or the validity is not allowed.
    """
    check(name, days=days)
    key = secrets.token_hex(6)
    text = f"perftrend_{key}_{secrets.token_urlsafe(32)}"
    made = datetime.now(UTC)
    token = Token(
        key=key,
        hash=_hash(text),
        name=name,
        role=role.title,
        owner=owner,
        made=made,
        expires=made + timedelta(days=days),
    )
    tokens.add(token)
    return token, text


def user_of(tokens: Tokens, text: str) -> User | None:
    """Return the user of a token; None if the token is wrong, expired or revoked."""
    found = _FORM.fullmatch(text)
    token = tokens.find(found[1]) if found else None
    # Constant-time comparison, to prevent timing attacks.
    if token is None or not hmac.compare_digest(token.hash, _hash(text)):
        return None
    now = datetime.now(UTC)
    if token.revoked is not None or now >= token.expires:
        return None
    if token.used is None or now - token.used > _NOTED:
        _note_use(tokens, token.key, now)
    return User(TOKEN + token.name, Role.of(token.role))


def _note_use(tokens: Tokens, key: str, now: datetime) -> None:
    try:
        tokens.note_use(key, now)
    except StoreError as error:
        # Requests that only read should still succeed.
        LOG.warning("the use of token %s is not noted: %s", key, error)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
