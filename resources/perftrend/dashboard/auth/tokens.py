"""API tokens for jobs.

The format is ``perftrend_KEY_SECRET``. The key is shown to all admins; the secret is shown once, to the user
who creates the token. The store contains a hash of the whole token.

A token has at most the roles that its owner has when it is used. The store therefore contains the groups that
the owner had when the token was created, or at the last sign-in. Nothing limits the tokens that an operator
creates on the command line. A token that another token created is limited by that one, and ends with it.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from perftrend.dashboard.auth.roles import TOKEN, Person, Role, User, is_name
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


def new_token(
    tokens: Tokens,
    *,
    name: str,
    role: Role,
    owner: str,
    days: int,
    groups: tuple[str, ...] | None = None,
    parent: Token | None = None,
) -> tuple[Token, str]:
    """Create a token.

    :param days: how long the token is valid; at most as long as the one that created it.
    :param groups: those of the owner; None if the owner does not limit the token.
    :param parent: the token that creates it; None if its owner is not a token.
    :returns: the entry in the store, and the token itself, which cannot be read from the store.
    :raises UsageError: if the name or the validity is not allowed.
    """
    check(name, days=days)
    key = secrets.token_hex(6)
    text = f"perftrend_{key}_{secrets.token_urlsafe(32)}"
    made = datetime.now(UTC)
    expires = made + timedelta(days=days)
    token = Token(
        key=key,
        hash=_hash(text),
        name=name,
        role=role.title,
        owner=owner,
        made=made,
        expires=min(expires, parent.expires) if parent else expires,
        groups=groups,
        parent=parent.key if parent else None,
    )
    tokens.add(token)
    return token, text


def find_token(tokens: Tokens, text: str) -> Token | None:
    """Return a token, and store that it is used; None if it is wrong, expired or revoked."""
    found = _FORM.fullmatch(text)
    token = tokens.find(found[1]) if found else None
    # Constant-time comparison, to prevent timing attacks.
    if token is None or not hmac.compare_digest(token.hash, _hash(text)):
        return None
    now = datetime.now(UTC)
    if not _is_valid(token, now):
        return None
    if token.used is None or now - token.used > _NOTED:
        _note_use(tokens, token.key, now)
    return token


def user_of(tokens: Tokens, token: Token, user_of_person: Callable[[Person], User]) -> User | None:
    """Return the user of a valid token; None if the token that created it is expired or revoked.

    :param user_of_person: returns a person with the current roles.
    """
    user = User(TOKEN + token.name, Role.of(token.role))
    while token.parent is not None:
        parent = tokens.find(token.parent)
        if parent is None or not _is_valid(parent, datetime.now(UTC)):
            return None
        token = parent
        user = user.limit_to(User(TOKEN + token.name, Role.of(token.role)))
    if token.groups is None:
        return user
    return user.limit_to(user_of_person(Person(token.owner, token.groups)))


def _is_valid(token: Token, now: datetime) -> bool:
    return token.revoked is None and now < token.expires


def _note_use(tokens: Tokens, key: str, now: datetime) -> None:
    try:
        tokens.note_use(key, now)
    except StoreError as error:
        # Requests that only read should still succeed.
        LOG.warning("the use of token %s is not noted: %s", key, error)


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
