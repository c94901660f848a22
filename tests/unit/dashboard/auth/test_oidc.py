"""OpenID Connect with a provider that sends wrong data; nothing leaves the process."""

from __future__ import annotations

import base64
import hmac
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from perftrend.dashboard.auth.oidc import LoginAttempt, Provider, SignInRefusedError
from perftrend.dashboard.auth.users import Person
from perftrend.errors import ServiceError, SettingsError
from perftrend.settings import DashboardSettings
from tests.doubles.idp import EC, ISSUER, OTHER, RSA, Idp

BACK = "https://perf.example/sign-in/done"
ATTEMPT = LoginAttempt(
    state="s" * 43, nonce="n" * 43, verifier="dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk", place="/"
)


@pytest.fixture
def idp(idp: Idp) -> Idp:
    idp.nonce = ATTEMPT.nonce
    return idp


def provider(idp: Idp, **changed: Any) -> Provider:
    named = {"oidc_issuer": ISSUER, "oidc_client_id": "perftrend", **changed}
    return Provider(DashboardSettings(**named), adapter=lambda: idp)


def signed_in(idp: Idp, **changed: Any) -> Person:
    return provider(idp, **changed).person(ATTEMPT, BACK, "code")


def answer_with(token: str) -> bytes:
    return json.dumps({"access_token": "a", "token_type": "Bearer", "id_token": token}).encode()


def encoded(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


def test_person_is_sent_to_the_provider_with_all_that_binds_the_answer(idp: Idp) -> None:
    url = provider(idp).address(ATTEMPT, BACK)

    told = {name: values[0] for name, values in parse_qs(urlsplit(url).query).items()}
    # The example of RFC 7636, appendix B.
    assert "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM" == told.pop("code_challenge")
    assert {
        "tenant": "7",
        "response_type": "code",
        "client_id": "perftrend",
        "redirect_uri": BACK,
        "scope": "openid profile email",
        "state": ATTEMPT.state,
        "nonce": ATTEMPT.nonce,
        "code_challenge_method": "S256",
    } == told


def test_code_is_exchanged_with_the_verifier(idp: Idp) -> None:
    assert Person("alice", ("perf", "all")) == signed_in(idp)
    [sent] = [body for path, body in idp.asked if path == "/token"]
    assert {
        "grant_type": "authorization_code",
        "code": "code",
        "redirect_uri": BACK,
        "code_verifier": ATTEMPT.verifier,
        "client_id": "perftrend",
    } == sent


@pytest.mark.parametrize(
    ("key", "algorithm"), [(RSA, "RS256"), (RSA, "PS512"), (EC, "ES256")], ids=["RS256", "PS512", "ES256"]
)
def test_usual_signatures_are_believed(idp: Idp, key: Any, algorithm: str) -> None:
    idp.keys, idp.signed_by, idp.header = [RSA, EC], key, {"alg": algorithm, "kid": key.kid}

    assert "alice" == signed_in(idp).name


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example"},
        {"iss": None},
        {"aud": "somebody-else"},
        {"aud": "somebody-else", "azp": "perftrend"},
        {"aud": None},
        {"aud": ["perftrend", "other"]},
        {"aud": ["perftrend", "other"], "azp": "other"},
        {"exp": 1},
        {"exp": None},
        {"exp": float("inf")},
        {"iat": 4e9},
        {"nonce": "of another attempt"},
        {"nonce": None},
        {"sub": None},
        {"sub": 1},
        {"at_hash": "wrong"},
    ],
    ids=str,
)
def test_id_token_that_is_not_for_this_is_refused(idp: Idp, claims: dict[str, Any]) -> None:
    idp.claims |= claims

    with pytest.raises(SignInRefusedError, match="answer is invalid"):
        signed_in(idp)


def test_id_token_of_another_key_is_refused(idp: Idp) -> None:
    idp.signed_by = OTHER

    with pytest.raises(SignInRefusedError, match="answer is invalid"):
        signed_in(idp)


def test_public_key_signs_nothing(idp: Idp) -> None:
    """Who knows the provider's public key could otherwise sign with it as if it were a password."""
    _, payload, _ = idp.id_token().split(".")
    signed = encoded(b'{"alg":"HS256","kid":"one"}') + "." + payload
    mac = hmac.digest(RSA.as_pem(private=False), signed.encode(), "sha256")
    idp.bodies["/token"] = answer_with(f"{signed}.{encoded(mac)}")

    with pytest.raises(SignInRefusedError, match="answer is invalid"):
        signed_in(idp)


@pytest.mark.parametrize("token", ["", "x", "a.b.c", "e30.e30.", "eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0."])
def test_what_is_no_signed_token_is_refused(idp: Idp, token: str) -> None:
    idp.bodies["/token"] = answer_with(token)

    with pytest.raises(SignInRefusedError):
        signed_in(idp)


def test_new_keys_of_the_provider_are_read(idp: Idp) -> None:
    known = provider(idp)
    known.person(ATTEMPT, BACK, "code")
    idp.keys, idp.signed_by, idp.header = [OTHER], OTHER, {"alg": "RS256", "kid": "two"}

    assert "alice" == known.person(ATTEMPT, BACK, "code").name
    assert 2 == [path for path, _ in idp.asked].count("/keys")


def test_old_key_is_worth_nothing_after_a_rotation(idp: Idp) -> None:
    known = provider(idp)
    known.person(ATTEMPT, BACK, "code")
    idp.keys, idp.signed_by, idp.header = [OTHER], OTHER, {"alg": "RS256", "kid": "two"}
    known.person(ATTEMPT, BACK, "code")
    idp.signed_by, idp.header = RSA, {"alg": "RS256", "kid": "one"}

    with pytest.raises(SignInRefusedError):
        known.person(ATTEMPT, BACK, "code")


def test_keys_for_other_purposes_do_no_harm(idp: Idp) -> None:
    idp.further_keys = [{"kty": "new", "kid": "x"}, {**OTHER.as_dict(private=False), "use": "enc"}]  # type: ignore[dict-item]

    assert "alice" == signed_in(idp).name


def test_documents_are_read_once_for_many(idp: Idp) -> None:
    known = provider(idp)
    for _ in range(3):
        known.person(ATTEMPT, BACK, "code")

    assert 1 == [path for path, _ in idp.asked].count("/.well-known/openid-configuration")


def test_what_the_id_token_lacks_is_asked_for(idp: Idp) -> None:
    idp.claims = {"sub": "1"}
    idp.more = {"sub": "1", "preferred_username": "alice", "groups": ["perf"]}

    assert Person("alice", ("perf",)) == signed_in(idp)


def test_what_is_told_of_somebody_else_counts_for_nothing(idp: Idp) -> None:
    idp.claims = {"sub": "1"}
    idp.more = {"sub": "2", "preferred_username": "admin", "groups": ["admins"]}

    with pytest.raises(SignInRefusedError, match="preferred_username"):
        signed_in(idp)


def test_id_token_outweighs_what_is_told_beside_it(idp: Idp) -> None:
    idp.claims = {"sub": "1", "preferred_username": "alice"}
    idp.more = {"sub": "1", "preferred_username": "admin", "groups": ["perf"]}

    assert Person("alice", ("perf",)) == signed_in(idp)


@pytest.mark.parametrize("verified", [False, None, "true", 1])
def test_mail_address_has_to_be_verified(idp: Idp, verified: object) -> None:
    idp.claims |= {"email": "boss@example.org", "email_verified": verified}

    with pytest.raises(SignInRefusedError, match="not verified"):
        signed_in(idp, oidc_name_claim="email")


def test_verified_mail_address_is_a_name(idp: Idp) -> None:
    idp.claims |= {"email": "alice@example.org", "email_verified": True}

    assert "alice@example.org" == signed_in(idp, oidc_name_claim="email").name


@pytest.mark.parametrize(
    "name", [None, "", 7, ["alice"], "a\r\nb", "token nightly", "group:admins", "nobody"]
)
def test_what_cannot_be_a_name_is_none(idp: Idp, name: object) -> None:
    idp.claims["preferred_username"] = name

    with pytest.raises(SignInRefusedError, match="preferred_username"):
        signed_in(idp)


@pytest.mark.parametrize(
    ("groups", "read"), [(None, ()), ("perf", ("perf",)), ([1, "a", None], ("a",)), ({}, ())]
)
def test_groups_are_read_as_far_as_they_are_any(idp: Idp, groups: object, read: tuple[str, ...]) -> None:
    idp.claims["groups"] = groups

    assert read == signed_in(idp).groups


def test_answer_of_another_provider_is_refused(idp: Idp) -> None:
    """RFC 9207: two providers, one of them bad, could otherwise be mixed up."""
    with pytest.raises(SignInRefusedError, match="another provider"):
        provider(idp).person(ATTEMPT, BACK, "code", issuer="https://evil.example")


@pytest.mark.parametrize(
    "changed",
    [
        {"issuer": "https://evil.example"},
        {"token_endpoint": "http://idp.example/token"},
        {"jwks_uri": "file:///etc/passwd"},
        {"authorization_endpoint": None},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"userinfo_endpoint": "http://idp.example/me"},
    ],
    ids=str,
)
def test_documents_that_lead_elsewhere_are_refused(idp: Idp, changed: dict[str, Any]) -> None:
    idp.metadata |= changed
    idp.claims = {"sub": "1"}

    with pytest.raises(ServiceError):
        signed_in(idp)


@pytest.mark.parametrize("path", ["/.well-known/openid-configuration", "/keys", "/token", "/me"])
@pytest.mark.parametrize(
    ("status", "body"),
    [(500, b""), (200, b"<html>"), (200, b"[1]"), (302, b""), (200, b"{" * 200), (200, b" " * 2_000_000)],
    ids=["500", "html", "list", "redirect", "nested", "large"],
)
def test_provider_that_fails_is_told_in_one_line(idp: Idp, path: str, status: int, body: bytes) -> None:
    idp.claims = {"sub": "1"}
    idp.statuses[path], idp.bodies[path] = status, body

    with pytest.raises((ServiceError, SignInRefusedError)) as caught:
        signed_in(idp)

    assert "\n" not in str(caught.value)


def test_provider_that_is_away_is_not_waited_for_by_everybody(idp: Idp) -> None:
    idp.statuses["/.well-known/openid-configuration"] = 503
    known = provider(idp)
    for _ in range(5):
        with pytest.raises(ServiceError):
            known.address(ATTEMPT, BACK)

    assert 1 == len(idp.asked)


def test_issuer_may_end_with_a_slash(idp: Idp) -> None:
    idp.metadata["issuer"] = idp.claims["iss"] = f"{ISSUER}/"

    assert "alice" == provider(idp).person(ATTEMPT, BACK, "code", issuer=f"{ISSUER}/").name


def test_provider_that_refuses_the_code_is_told_without_its_words(idp: Idp) -> None:
    idp.statuses["/token"] = 400
    idp.bodies["/token"] = b'{"error": "invalid_grant", "error_description": "call 555-1234"}'

    with pytest.raises(SignInRefusedError) as caught:
        signed_in(idp)

    assert "555" not in str(caught.value)


def test_client_secret_goes_to_the_provider_alone(idp: Idp) -> None:
    known = provider(idp, oidc_client_secret="hush")  # noqa: S106

    assert "hush" not in known.address(ATTEMPT, BACK)
    known.person(ATTEMPT, BACK, "code")
    assert {"Basic " + base64.b64encode(b"perftrend:hush").decode()} == idp.proofs
    assert "hush" not in str(idp.asked)


def test_issuer_and_client_belong_together() -> None:
    with pytest.raises(SettingsError, match="belong together"):
        Provider(DashboardSettings(oidc_issuer=ISSUER))
