"""Authentication of requests by API token, proxy header or session cookie.

If nobody can sign in, and only this machine reaches the dashboard, its users are editors: a person who
tries the dashboard, or uses it for a project of their own.

The format of API tokens is ``perftrend_KEY_SECRET``. The key is shown to all admins; the secret is shown
once, to the user who creates the token. The store contains a hash of the whole token.

A token has at most the roles that its owner has when it is used. The store therefore contains the groups
that the owner had when the token was created, or at the last sign-in. Nothing limits the tokens that an
operator creates on the command line. A token that another token created is limited by that one, and ends
with it.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import re
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

from fastapi import HTTPException
from prometheus_client import Counter
from starlette.requests import Request
from starlette.responses import Response

from perftrend import COMMAND
from perftrend.dashboard.auth.csrf import CsrfProtection
from perftrend.dashboard.auth.oidc import LIFE_S, Attempts, Provider
from perftrend.dashboard.auth.users import (
    ANONYMOUS,
    LOCAL_EDITOR,
    TOKEN,
    Person,
    Role,
    Roles,
    Sessions,
    User,
    UserSession,
    browser_of,
    is_name,
)
from perftrend.dashboard.metrics import Metrics
from perftrend.dashboard.middleware.rate_limit import Clients, is_loopback
from perftrend.errors import SettingsError, StoreError, UsageError
from perftrend.settings import DashboardSettings
from perftrend.store import Store
from perftrend.store.access import Token, Tokens

LOG = logging.getLogger(__name__)

LONGEST_DAYS = 730
_FORM = re.compile(r"perftrend_([0-9a-f]{12})_[A-Za-z0-9_-]{43}")
_NOTED = timedelta(minutes=1)
"""Minimum interval between updates of the last use, so that not every request writes."""

_SHORTEST_SECRET = 32
_EVERYWHERE = ("0.0.0.0:", "[::]:")
_FORWARDED = ("forwarded", "via", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
"""Headers that only a proxy adds."""
_BEARER = "bearer "
_HOW = f"admins create tokens at /users, and operators by {COMMAND} dashboard --new-token NAME"
_WRONG_TOKEN = f"this API token is invalid, expired or revoked; send another one: {_HOW}"


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


@dataclass(frozen=True, slots=True)
class Identity:
    """The user of a request, and how the user was authenticated."""

    user: User = ANONYMOUS
    bound: str = ""
    """What the user's CSRF tokens are bound to; empty: the user has none."""
    session: UserSession | None = None
    groups: tuple[str, ...] = ()
    token: Token | None = None
    is_ambient: bool = True
    """Whether a browser adds the credentials by itself, as it does with cookies but not with API tokens."""


_ANONYMOUS = Identity()
# Without a session, there is nothing that a CSRF token could be bound to; the origin is checked nevertheless.
_LOCAL_EDITOR = Identity(LOCAL_EDITOR)


class Authenticator:
    """Authentication of a dashboard: roles, proxies, provider, sessions and CSRF tokens.

    :raises SettingsError: for settings that cannot be combined.
    """

    def __init__(self, settings: DashboardSettings, store: Store, metrics: Metrics) -> None:
        self._settings = settings
        self._store = store
        self.roles = Roles.of(settings)
        self.proxies = Proxies(settings, metrics.ignored_user_headers)
        self.provider = Provider(settings) if settings.oidc_issuer or settings.oidc_client_id else None
        secret = _secret(settings)
        self.attempts = Attempts(secret, store.spent)
        self.sessions = Sessions(store.sessions, life_s=settings.session_s, idle_s=settings.idle_s)
        self.csrf = CsrfProtection(secret, life_s=settings.session_s, url=settings.url)
        is_safe = bool(settings.url and settings.url.startswith("https://"))
        # A cookie with this prefix cannot be set by another host of the domain or over plain HTTP.
        prefix = "__Host-" if is_safe else ""
        self._is_safe = is_safe
        self.session_cookie = f"{prefix}perftrend"
        self.attempt_cookie = f"{prefix}perftrend-sign-in"

    @cached_property
    def is_public(self) -> bool:
        """Whether users may read without authentication."""
        return self._settings.public or not can_sign_in(self._settings)

    @cached_property
    def has_local_editors(self) -> bool:
        """Whether users of this machine are editors."""
        return has_local_editors(self._settings)

    @cached_property
    def way_in(self) -> str:
        """One line that lists the available ways to authenticate."""
        ways = ["sign in at /sign-in"] if self.provider else []
        if self._settings.user_header and self._settings.proxies:
            ways.append("sign in at the proxy")
        ways.append("send an API token in a header, Authorization: Bearer TOKEN")
        return f"authentication is required: {', or '.join(ways)} ({_HOW})"

    def identify(self, request: Request) -> Identity:
        """Return the identity of the user of a request.

        :raises HTTPException: for an invalid API token, instead of falling back to another identity.
        :raises StoreError: if the store cannot be read.
        """
        authorization = request.headers.get("authorization", "")
        if authorization.lower().startswith(_BEARER):
            token = find_token(self._store.tokens, authorization[len(_BEARER) :].strip())
            user = user_of(self._store.tokens, token, self.user_of) if token else None
            if user is None:
                raise HTTPException(401, _WRONG_TOKEN, headers={"WWW-Authenticate": "Bearer"})
            return Identity(user, token=token, is_ambient=False)
        person = self.proxies.person(request)
        if person is not None:
            return Identity(self.user_of(person), f"proxy {person.name}", groups=person.groups)
        if self.has_local_editors and _is_local(request):
            return _LOCAL_EDITOR
        return self._in_session(request)

    def needs_store(self, request: Request) -> bool:
        """Return whether :meth:`identify` reads the store: unless the user is anonymous."""
        user_header = self._settings.user_header
        return bool(
            "authorization" in request.headers
            or "cookie" in request.headers
            or (user_header and user_header in request.headers)
        )

    def user_of(self, person: Person) -> User:
        """Return a person with the roles of the settings and of the grants, as they are now.

        :raises StoreError: if the store cannot be read.
        """
        return self.roles.user(person, self._store.grants.of(person.names))

    def back(self, request: Request) -> str:
        """Return the URL that the provider redirects to after signing in."""
        return f"{self._here(request)}/sign-in/done"

    def after(self, request: Request) -> str:
        """Return the URL that the provider redirects to after signing out."""
        return f"{self._here(request)}/sign-out/done"

    def sign_in(self, request: Request, response: Response, person: Person) -> UserSession:
        """Begin a session and set its cookie in a response."""
        self._store.tokens.update_groups(person.name, person.groups)
        session = self.sessions.begin(
            person,
            browser=browser_of(request.headers.get("user-agent", "")),
            address=request.scope.get("perftrend.client", ""),
        )
        self.set_cookie(response, self.session_cookie, session.cookie)
        return session

    def set_cookie(self, response: Response, name: str, value: str, *, life_s: int | None = None) -> None:
        """Set a cookie in a response; by default, until the browser is closed."""
        response.set_cookie(
            name, value, max_age=life_s, path="/", secure=self._is_safe, httponly=True, samesite="lax"
        )

    def forget(self, response: Response, name: str) -> None:
        """Delete a cookie by a response."""
        self.set_cookie(response, name, "", life_s=0)

    def set_attempt_cookie(self, response: Response, value: str) -> None:
        """Set the cookie of an attempt to sign in."""
        self.set_cookie(response, self.attempt_cookie, value, life_s=LIFE_S)

    def _here(self, request: Request) -> str:
        return (self._settings.url or str(request.base_url)).rstrip("/")

    def _in_session(self, request: Request) -> Identity:
        cookie = request.cookies.get(self.session_cookie)
        session = self.sessions.find(cookie) if cookie else None
        if session is None:
            return _ANONYMOUS
        person = session.person
        return Identity(self.user_of(person), session.bound, session, groups=person.groups)


class Proxies:
    """Reads the user from the headers of trusted reverse proxies in front of the dashboard.

    Any client can forge these headers. They are therefore only accepted from the addresses of trusted
    proxies. In other requests they are ignored, counted and logged.

    :param ignored: counts the requests whose header is ignored.
    :raises SettingsError: if a proxy is not a valid address or network.
    """

    def __init__(self, settings: DashboardSettings, ignored: Counter) -> None:
        self._clients = Clients(settings.proxies)
        self._user_header = settings.user_header
        self._groups_header = settings.groups_header
        self._ignored = ignored

    def person(self, request: Request) -> Person | None:
        """Return the user that a trusted proxy passes with a request, or None."""
        names = _values(request, self._user_header) if self._user_header else []
        if not any(names):
            return None
        reason = self._doubt(request, names)
        if reason:
            self._ignored.inc()
            peer = request.client.host if request.client else "an unknown client"
            LOG.warning("header %s from %s is ignored: %s", self._user_header, peer, reason)
            return None
        return Person(names[0], self._groups(request))

    def _doubt(self, request: Request, names: list[str]) -> str:
        """Return the reason why the header is ignored; empty if it is accepted."""
        if not self._clients.are_behind(request.scope):
            return "it does not come from one of dashboard.proxies"
        if len(names) > 1:
            # A proxy that appends the header instead of replacing it forwards what the client sent.
            return "it occurs several times; configure the proxy to replace it"
        return "" if is_name(names[0]) else "it is not a valid user name"

    def _groups(self, request: Request) -> tuple[str, ...]:
        lines = _values(request, self._groups_header) if self._groups_header else []
        if len(lines) != 1:
            return ()
        groups = (word.strip() for word in lines[0].split(","))
        return tuple(group for group in groups if group and group.isprintable())


def can_sign_in(settings: DashboardSettings) -> bool:
    """Return whether users can authenticate by other means than API tokens."""
    return bool(settings.oidc_issuer or (settings.user_header and settings.proxies))


def has_local_editors(settings: DashboardSettings) -> bool:
    """Return whether users of this machine are editors: nobody can sign in, and no other machine reaches it.

    A public URL, further host names and proxies are signs of a proxy, whose users must not become editors.
    """
    is_reached = settings.url or settings.hosts or settings.proxies or settings.public
    return settings.local_editor and not (can_sign_in(settings) or is_reached) and is_on_loopback(settings)


def is_on_loopback(settings: DashboardSettings) -> bool:
    """Return whether the dashboard listens to connections from its own machine only."""
    host = settings.address.rpartition(":")[0].strip("[]")
    return host == "localhost" or is_loopback(host)


def _is_local(request: Request) -> bool:
    """Return whether a request comes from this machine, and not through a proxy there."""
    return is_loopback(request.scope.get("perftrend.client", "")) and not any(
        name in request.headers for name in _FORWARDED
    )


def notices(settings: DashboardSettings) -> tuple[str, ...]:
    """Return notes on authentication for the operator who starts a dashboard, a line each."""
    lines = []
    if has_local_editors(settings):
        lines.append("users of this machine may edit; to change that, set dashboard.local_editor: false")
    elif not can_sign_in(settings):
        lines.append("users cannot sign in, so they can only read; to change that, set dashboard.oidc_issuer")
        if settings.public:
            lines.append(f"dashboard.public is on: everyone who reaches {settings.address} may read")
    if settings.address.startswith(_EVERYWHERE) and not (settings.url or settings.hosts):
        lines.append(
            "it serves the host name localhost only; add others by dashboard.url and dashboard.hosts"
        )
    if can_sign_in(settings) and settings.secret is None:
        lines.append("dashboard.secret is not set: a restart invalidates open forms and attempts to sign in")
    if settings.user_header and not settings.proxies:
        lines.append("dashboard.user_header is ignored, since dashboard.proxies is empty")
    if settings.proxies and settings.user_header:
        lines.append(
            f"{', '.join(settings.proxies)} may name the user in {settings.user_header}: "
            "make sure that only the proxy connects from there"
        )
    return tuple(lines)


def _secret(settings: DashboardSettings) -> str:
    if settings.secret is None:
        return secrets.token_urlsafe(32)
    given = settings.secret.get_secret_value()
    if len(given) < _SHORTEST_SECRET:
        raise SettingsError(
            f"dashboard.secret: it has {len(given)} characters, at least {_SHORTEST_SECRET} are needed; "
            "make one with: openssl rand -hex 32"
        )
    return given


def _values(request: Request, header: str) -> list[str]:
    """Return the values of all headers of a name; invalid UTF-8 becomes characters that no user name has."""
    return [
        value.encode("latin-1").decode("utf-8", errors="surrogateescape").strip()
        for value in request.headers.getlist(header)
    ]
