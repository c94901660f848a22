"""``/sign-in`` and ``/sign-out``: the redirects to the provider and back."""

from __future__ import annotations

import logging
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, Query, Request, Response
from starlette.responses import RedirectResponse

from perftrend.dashboard.auth import ANONYMOUS, Authenticator, User, Viewer, current_user, gate_of
from perftrend.dashboard.auth.authorization import identity_of
from perftrend.dashboard.auth.login_state import HOME
from perftrend.dashboard.auth.models import SignedOut
from perftrend.dashboard.auth.oidc import Provider, SignInRefusedError
from perftrend.dashboard.pages import page, wants_json
from perftrend.errors import ServiceError

LOG = logging.getLogger(__name__)

router = APIRouter()

TheGate = Annotated[Authenticator, Depends(gate_of)]
QueryText = Annotated[str, Query(max_length=4096)]

_NO_STORE = {"Cache-Control": "no-store"}
_LOST = "this sign-in belongs to another browser, was used before or took too long; sign in again"


@router.get("/sign-in", status_code=303, response_class=RedirectResponse)
def sign_in(request: Request, gate: TheGate, next: QueryText = HOME) -> Response:  # noqa: A002 - the usual name of the parameter
    """Redirect to the provider; after signing in, the user returns to the requested page."""
    provider = _provider(gate)
    attempt = gate.attempts.begin(next)
    answer = RedirectResponse(provider.address(attempt, gate.back(request)), 303, _NO_STORE)
    gate.set_attempt_cookie(answer, gate.attempts.cookie(attempt))
    return answer


@router.get("/sign-in/done", status_code=303, response_class=RedirectResponse)
def come_back(
    request: Request, gate: TheGate, state: QueryText = "", code: QueryText = "", iss: QueryText | None = None
) -> Response:
    """Complete a sign-in after the provider has redirected back."""
    provider = _provider(gate)
    attempt = gate.attempts.come_back(request.cookies.get(gate.attempt_cookie, ""), state)
    if attempt is None:
        raise HTTPException(400, _LOST)
    if not code:
        # The provider's error message is not shown, since anyone can put text into such a link.
        raise HTTPException(403, "the provider denied access; sign in again")
    try:
        person = provider.person(attempt, gate.back(request), code, iss)
    except SignInRefusedError as error:
        LOG.warning("sign-in refused: %s (%r)", error, error.__cause__)
        raise HTTPException(403, str(error)) from None
    answer = RedirectResponse(attempt.place, 303, _NO_STORE)
    _end_session(request, gate)
    gate.sign_in(answer, person)
    gate.forget(answer, gate.attempt_cookie)
    LOG.info("%s signed in", person.name)
    return answer


@router.post("/sign-out", response_model=SignedOut)
def sign_out(request: Request, gate: TheGate, user: Viewer) -> Response:
    """End a session, and redirect to sign out at the provider as well.

    The cookie and all copies of it become invalid, independent of the provider.
    """
    _end_session(request, gate)
    LOG.info("%s signed out", user.name)
    model = SignedOut(provider=_also_at_provider(request, gate))
    if model.provider or wants_json(request):
        answer = _confirm_sign_out(request, model, ANONYMOUS)
    else:
        answer = RedirectResponse("/sign-out/done", 303, _NO_STORE)
    gate.forget(answer, gate.session_cookie)
    return answer


@router.get("/sign-out/done", response_model=SignedOut)
def signed_out(request: Request) -> Response:
    """Confirm that the user is signed out; the home page could sign the user in again immediately."""
    return _confirm_sign_out(request, SignedOut(provider=""), current_user(request))


def _confirm_sign_out(request: Request, model: SignedOut, user: User) -> Response:
    # A refresh instead of a redirect: the form-action policy forbids redirects of forms to other sites.
    onwards = {"Refresh": f"0; url={model.provider}"} if model.provider else {}
    title = f"Signed {'in' if user.signed_in else 'out'}"
    headers = {**_NO_STORE, **onwards}
    return page(request, "signed-out.html", model, title=title, headers=headers, user=user)


def _also_at_provider(request: Request, gate: Authenticator) -> str:
    """Return the URL for signing out at the provider; empty if that is not needed or not possible."""
    if gate.provider is None or identity_of(request).session is None:
        return ""
    try:
        return gate.provider.address_after(gate.after(request))
    except ServiceError as error:
        LOG.warning("signed out here only: %s", error)
        return ""


def _provider(gate: Authenticator) -> Provider:
    if gate.provider is None:
        raise HTTPException(404, "signing in is not configured; dashboard.oidc_issuer is not set")
    return gate.provider


def _end_session(request: Request, gate: Authenticator) -> None:
    session = identity_of(request).session
    if session is not None:
        gate.sessions.end(session)
