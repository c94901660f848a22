"""Saved selections of Explore: ``/shortcuts``, and ``/short`` and ``/s/…`` for short addresses."""

from __future__ import annotations

import re
from http import HTTPStatus
from typing import Annotated
from urllib.parse import urlsplit

from fastapi import APIRouter, Depends, HTTPException, Request, Response
from starlette.responses import RedirectResponse

from perftrend.analysis.formula import parse_stored_ids
from perftrend.dashboard.auth import User, Viewer, authenticator_of
from perftrend.dashboard.context import Context
from perftrend.dashboard.explore.models import SavedSelection, ShortAddressRequest, ShortcutRequest
from perftrend.dashboard.explore.state import ExploreState, read
from perftrend.dashboard.links import EXPLORE
from perftrend.dashboard.middleware.clients import is_loopback
from perftrend.dashboard.pages import body_of, done, parse_body
from perftrend.errors import UsageError
from perftrend.store import Store

router = APIRouter()

_KEY = re.compile(r"[A-Za-z0-9_-]{12}")


@router.post("/shortcuts", response_model=SavedSelection, openapi_extra=body_of(ShortcutRequest))
def save_shortcut(
    request: Request,
    site: Context,
    user: Viewer,
    wanted: Annotated[ShortcutRequest, Depends(parse_body(ShortcutRequest))],
) -> Response:
    """Save traces and formulas as a shortcut; the same content has the same id."""
    check_can_save(request, user)
    saved = store_shortcut(site.store, wanted.ids, user)
    return done(request, EXPLORE, saved, shortcut=saved.id)


@router.post("/short", response_model=SavedSelection, openapi_extra=body_of(ShortAddressRequest))
def save_short_address(
    request: Request,
    site: Context,
    user: Viewer,
    wanted: Annotated[ShortAddressRequest, Depends(parse_body(ShortAddressRequest))],
) -> Response:
    """Create a short address of a page of Explore; the same page has the same short address."""
    check_can_save(request, user)
    saved = store_short_url(site.store, wanted.url, user)
    return done(request, saved.url, saved)


@router.get("/s/{key}", response_class=RedirectResponse, status_code=302)
def short(site: Context, _: Viewer, key: str) -> Response:
    """Redirect to the page of a short address."""
    query = site.store.short_urls.query(key) if is_key(key) else None
    if query is None:
        raise HTTPException(404, "this short address does not exist")
    return RedirectResponse(f"{EXPLORE}?{query}", 302)


def can_save(request: Request, user: User) -> bool:
    """Return whether a user may save selections: if signed in, or if the request is from this machine."""
    client: str = request.scope.get("perftrend.client", "")
    return user.signed_in or (is_loopback(client) and authenticator_of(request).csrf.is_from_here(request))


def check_can_save(request: Request, user: User) -> None:
    """Check that a user may save selections.

    :raises HTTPException: with status 403 otherwise.
    """
    if not can_save(request, user):
        raise HTTPException(HTTPStatus.FORBIDDEN, "sign in to save shortcuts and short addresses")


def is_key(text: str) -> bool:
    """Return whether a text can be the key of a short address."""
    return _KEY.fullmatch(text) is not None


def store_shortcut(store: Store, ids: list[str], user: User) -> SavedSelection:
    """Save trace ids as a shortcut.

    :raises FormulaError: if one of them is not valid.
    :raises UsageError: if no id is left to save, or there are too many.
    """
    identity = store.shortcuts.save([str(each) for each in parse_stored_ids(ids)], user=user.name)
    return SavedSelection(id=identity, url=ExploreState(shortcut=identity).url)


def store_short_url(store: Store, url: str, user: User) -> SavedSelection:
    """Save an address of the page as a short address; unknown parameters are discarded.

    :param url: an address of the page, or its query string.
    :raises UsageError: if it is the address of another page, or not valid.
    """
    try:
        parts = urlsplit(url) if url.startswith(("/", "http://", "https://")) else None
    except ValueError:
        raise UsageError("address: not valid; enter the part after the ?") from None
    if parts and parts.path not in {EXPLORE, "/"}:
        raise UsageError("address: only Explore pages have short addresses; enter the part after the ?")
    state = read(parts.query if parts else url.removeprefix("?"))
    if state.problems:
        raise UsageError(f"address: {state.problems[0].reason}")
    key = store.short_urls.save(state.encoded, user=user.name)
    return SavedSelection(id=key, url=f"/s/{key}")
