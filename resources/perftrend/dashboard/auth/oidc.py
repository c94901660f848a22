"""OpenID Connect: an external provider authenticates users.

This is the authorization code flow with PKCE. A signed cookie holds the state of a login, a
:class:`LoginAttempt`, from the redirect to the provider until the return. The endpoints and keys of the
provider are read from its discovery document at the first sign-in, and again after an hour. If an ID token
cannot be verified, the provider may have rotated its keys, so the keys are read again once.

Source: "OpenID Connect Core 1.0", sections 3.1 and 5.3, "OpenID Connect Discovery 1.0", "OpenID Connect
RP-Initiated Logout 1.0", RFC 7636, RFC 9207.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import astuple, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlsplit

import requests
from authlib.common.urls import add_params_to_uri
from authlib.integrations.base_client import OAuthError
from authlib.integrations.requests_client import OAuth2Session
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from requests.adapters import BaseAdapter

from perftrend.clients.http_service import ServiceLogin, whole
from perftrend.clients.http_session import HttpSession
from perftrend.dashboard.auth.csrf import Clock, Signer
from perftrend.dashboard.auth.users import Person, is_name
from perftrend.errors import PerftrendError, ServiceError, SettingsError
from perftrend.settings import DashboardSettings
from perftrend.store.access import Spent

LIFE_S = 600
"""Maximum duration of a sign-in."""
HOME = "/"
_LONGEST_PLACE = 1500
"""Maximum length of the target path, which has to fit into a cookie with the other fields."""
_TIMEOUT_S = 10.0
_FRESH_S = 3600.0
_SILENT_S = 2 * _TIMEOUT_S
"""Time from the start of a failed discovery in which it is not repeated."""
_LEEWAY_S = 60
"""Tolerated difference between the provider's clock and the local one."""
_MAXIMUM_BYTES = 1024**2
_SERVICE = ServiceLogin("dashboard", user=None, timeout_s=_TIMEOUT_S)
_ALGORITHMS = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""Only asymmetric algorithms: with HMAC, the public key could be misused to sign tokens."""
_KINDS = ("RSA", "EC", "OKP")
_ENDING = "end_session_endpoint"
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")

Claims = Mapping[str, Any]


class SignInRefusedError(PerftrendError):
    """The provider denied the sign-in, or its response is not valid."""


@dataclass(frozen=True, slots=True)
class LoginAttempt:
    """A login that has been redirected to the provider; it can be used once.

    ``state`` proves that the same browser began the login, ``nonce`` that the provider's response belongs
    to this attempt, and ``verifier`` (PKCE) that the code was not issued to another client.
    """

    state: str
    nonce: str
    verifier: str
    place: str
    """Path on this site to redirect to afterwards."""


class Attempts:
    """The attempts to sign in to a dashboard."""

    def __init__(self, secret: str, spent: Spent, *, clock: Clock = time.time) -> None:
        self._seals = Signer(secret, "attempt to sign in", clock=clock)
        self._spent = spent
        self._clock = clock

    def begin(self, place: str) -> LoginAttempt:
        """Return a new attempt that leads to a page."""
        state, nonce, verifier = (secrets.token_urlsafe(32) for _ in range(3))
        return LoginAttempt(state, nonce, verifier, path_of_ours(place))

    def cookie(self, attempt: LoginAttempt) -> str:
        """Return the value of the cookie that stores an attempt."""
        return self._seals.seal(astuple(attempt))

    def come_back(self, cookie: str, state: str) -> LoginAttempt | None:
        """Return the attempt of a cookie, and mark it as used.

        :returns: None if the cookie is invalid or expired, the state differs, or the attempt was used before.
        """
        content = self._seals.open(cookie, maximum_age_s=LIFE_S)
        if content is None:
            return None
        attempt = LoginAttempt(*content)
        if not hmac.compare_digest(attempt.state.encode(), state.encode()):
            return None
        now = datetime.fromtimestamp(self._clock(), UTC)
        until = now + timedelta(seconds=2 * LIFE_S)
        return attempt if self._spent.spend(f"attempt {attempt.state}", now, until) else None


def path_of_ours(place: str) -> str:
    r"""Return a target if it is a path on this site, otherwise the home page.

    Browsers treat ``//host``, ``/\\host`` and paths with control characters as another site.
    """
    is_ours = re.fullmatch(r"/(?![/\\])[\x21-\x5b\x5d-\x7e]*", place) and len(place) <= _LONGEST_PLACE
    return place if is_ours else HOME


class _ProviderSession(HttpSession, OAuth2Session):  # type: ignore[misc]  # the library has no types
    """An OAuth 2.0 session with the timeouts and limits of :class:`HttpSession`."""


@dataclass(frozen=True, slots=True)
class _ProviderMetadata:
    """The metadata and keys of a provider."""

    metadata: Claims
    keys: KeySet
    read_at: float


class Provider:
    """The OpenID provider; thread-safe.

    :param adapter: creates transport adapters that replace the network.
    :raises SettingsError: if the settings lack the issuer or the client id.
    """

    def __init__(
        self, settings: DashboardSettings, *, adapter: Callable[[], BaseAdapter] | None = None
    ) -> None:
        if settings.oidc_issuer is None or settings.oidc_client_id is None:
            raise SettingsError(
                "dashboard.oidc_issuer and dashboard.oidc_client_id belong together; give both or neither"
            )
        self._issuer = settings.oidc_issuer
        self._client_id = settings.oidc_client_id
        secret = settings.oidc_client_secret
        self._client_secret = secret.get_secret_value() if secret else None
        self._scope = " ".join(settings.oidc_scopes)
        self._name_claim = settings.oidc_name_claim
        self._groups_claim = settings.oidc_groups_claim
        self._adapter = adapter
        self._known: _ProviderMetadata | None = None
        self._silent_until = 0.0
        self._lock = threading.Lock()

    def address(self, attempt: LoginAttempt, back: str) -> str:
        """Return the URL that a user is redirected to for signing in.

        :param back: URL of the dashboard that the provider redirects back to.
        :raises ServiceError: if the provider cannot be reached or its response is not valid.
        """
        with self._session(back) as session:
            url, _ = session.create_authorization_url(
                self._load_metadata().metadata["authorization_endpoint"],
                state=attempt.state,
                nonce=attempt.nonce,
                code_verifier=attempt.verifier,
            )
            return str(url)

    def person(self, attempt: LoginAttempt, back: str, code: str, issuer: str | None = None) -> Person:
        """Return the identity of a user that the provider has redirected back.

        :param back: URL that the provider has redirected to.
        :param code: the authorization code.
        :param issuer: the parameter ``iss`` of the redirect, if present.
        :raises SignInRefusedError: if the provider rejects the code, or the ID token is not valid.
        :raises ServiceError: if the provider cannot be reached or its response is not valid.
        """
        known = self._load_metadata()
        if issuer is not None and issuer != known.metadata["issuer"]:
            raise SignInRefusedError("the answer is from another provider; sign in again")
        with self._session(back) as session:
            tokens = self._exchange(session, known, attempt, code)
            claims = self._verify(str(tokens.get("id_token") or ""), attempt, str(tokens["access_token"]))
            wanted = {self._name_claim, self._groups_claim}
            if not wanted <= claims.keys() and "userinfo_endpoint" in known.metadata:
                claims = {**self._more(session, known, claims["sub"]), **claims}
        return self._person_of(claims)

    def address_after(self, back: str) -> str:
        """Return the URL at which a user signs out at the provider.

        The provider asks the user for confirmation, since no ID token is stored that could be sent as a hint.

        :param back: URL of the dashboard that the provider redirects back to.
        :returns: the URL; empty if the provider has no such endpoint.
        :raises ServiceError: if the provider cannot be reached or its response is not valid.
        """
        url = self._load_metadata().metadata.get(_ENDING)
        if not url:
            return ""
        self._check_endpoint(_ENDING, url)
        parameters = {"client_id": self._client_id, "post_logout_redirect_uri": back}
        return str(add_params_to_uri(url, parameters.items()))

    def _session(self, back: str) -> OAuth2Session:
        session = _ProviderSession(
            timeout_s=_TIMEOUT_S,
            client_id=self._client_id,
            client_secret=self._client_secret,
            scope=self._scope,
            redirect_uri=back,
            code_challenge_method="S256",
        )
        if self._adapter:
            for scheme in ("http://", "https://"):
                session.mount(scheme, self._adapter())
        return session

    def _load_metadata(self, *, refresh: bool = False) -> _ProviderMetadata:
        """Return the metadata and keys of the provider, cached for an hour.

        :param refresh: read them again.
        """
        with self._lock:
            known, now = self._known, time.monotonic()
            if known is None or refresh or now - known.read_at > _FRESH_S:
                if now < self._silent_until:
                    # Fail immediately: other users would otherwise wait for a timeout, one after another.
                    raise _silent(self._issuer)
                self._silent_until = now + _SILENT_S
                self._known = known = self._discover()
                self._silent_until = 0.0
            return known

    def _discover(self) -> _ProviderMetadata:
        metadata = self._get(f"{self._issuer}/.well-known/openid-configuration")
        if str(metadata.get("issuer", "")).rstrip("/") != self._issuer:
            raise ServiceError(f"{self._issuer} reports another issuer; correct dashboard.oidc_issuer")
        for name in _ENDPOINTS:
            self._check_endpoint(name, metadata.get(name))
        keys = self._get(metadata["jwks_uri"]).get("keys")
        usable = [
            key
            for key in (keys if isinstance(keys, list) else [])
            if isinstance(key, dict) and key.get("kty") in _KINDS and key.get("use", "sig") == "sig"
        ]
        try:
            return _ProviderMetadata(metadata, KeySet.import_key_set({"keys": usable}), time.monotonic())
        except (JoseError, ValueError, TypeError) as error:
            raise ServiceError(f"{metadata['jwks_uri']}: the keys cannot be read") from error

    def _check_endpoint(self, name: str, url: object) -> None:
        issuer, parts = urlsplit(self._issuer), urlsplit(url if isinstance(url, str) else "")
        if not parts.hostname or parts.scheme not in {"https", issuer.scheme}:
            raise ServiceError(f"{self._issuer}: its discovery document has no secure {name}")

    def _get(self, url: str) -> Claims:
        """Return a JSON object from the provider, without sending credentials."""
        with self._session("") as session:
            return _object(session, url, withhold_token=True)

    def _exchange(
        self, session: OAuth2Session, known: _ProviderMetadata, attempt: LoginAttempt, code: str
    ) -> Claims:
        url = known.metadata["token_endpoint"]
        try:
            tokens = session.fetch_token(
                url, grant_type="authorization_code", code=code, code_verifier=attempt.verifier
            )
        except OAuthError as error:
            raise SignInRefusedError("the provider rejected this sign-in; sign in again") from error
        except (requests.RequestException, OSError, ValueError) as error:
            raise _silent(url) from error
        if not isinstance(tokens.get("access_token"), str):
            raise _silent(url)
        return dict(tokens)

    def _verify(self, token: str, attempt: LoginAttempt, access_token: str) -> Claims:
        """Return the claims of an ID token, after verifying its signature, audience and nonce."""
        try:
            decoded = self._decode(token)
            metadata = self._load_metadata().metadata
            claims = CodeIDToken(
                decoded.claims,
                decoded.header,
                {
                    "iss": {"essential": True, "value": metadata["issuer"]},
                    "aud": {"essential": True, "value": self._client_id},
                    "sub": {"essential": True},
                },
                {"nonce": attempt.nonce, "client_id": self._client_id, "access_token": access_token},
            )
            claims.validate(leeway=_LEEWAY_S)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise SignInRefusedError(
                f"the provider's answer is invalid ({type(error).__name__}); sign in again, "
                "and contact the operator of the dashboard if that does not help"
            ) from error
        return dict(claims)

    def _decode(self, token: str) -> jwt.Token:
        try:
            return jwt.decode(token, self._load_metadata().keys, algorithms=_ALGORITHMS)
        except (JoseError, ValueError):
            # The provider may have rotated its keys.
            return jwt.decode(token, self._load_metadata(refresh=True).keys, algorithms=_ALGORITHMS)

    def _more(self, session: OAuth2Session, known: _ProviderMetadata, subject: str) -> Claims:
        """Return the claims of the userinfo endpoint."""
        url = known.metadata["userinfo_endpoint"]
        self._check_endpoint("userinfo_endpoint", url)
        claims = _object(session, url)
        # Prevents token substitution: the response has to be about the user of the ID token.
        return claims if claims.get("sub") == subject else {}

    def _person_of(self, claims: Claims) -> Person:
        name = claims.get(self._name_claim)
        if self._name_claim == "email" and claims.get("email_verified") is not True:
            raise SignInRefusedError("the provider has not verified this mail address; verify it there")
        if not isinstance(name, str) or not is_name(name):
            raise SignInRefusedError(
                f"the provider sends no valid name in {self._name_claim}; "
                "check dashboard.oidc_name_claim and dashboard.oidc_scopes"
            )
        groups = claims.get(self._groups_claim)
        listed = groups if isinstance(groups, list) else [groups]
        return Person(
            name, tuple(group for group in listed if isinstance(group, str) and group.isprintable())
        )


def _object(session: OAuth2Session, url: str, **options: bool) -> Claims:
    """Return the JSON object in a response of a provider."""
    try:
        with session.get(url, stream=True, allow_redirects=False, **options) as response:
            content = json.loads(whole(response, _MAXIMUM_BYTES, _SERVICE)) if response.ok else None
    except (requests.RequestException, OSError, ValueError) as error:
        raise _silent(url) from error
    if not isinstance(content, dict):
        raise _silent(url)
    return content


def _silent(url: str) -> ServiceError:
    return ServiceError(f"{url.partition('?')[0]} does not answer correctly; try again later")
