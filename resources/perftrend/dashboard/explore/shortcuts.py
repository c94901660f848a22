"""Saved selections of the page: shortcuts and short addresses."""

from __future__ import annotations

import re
from http import HTTPStatus
from urllib.parse import urlsplit

from fastapi import HTTPException, Request

from perftrend.analysis.formula import parse_stored_ids
from perftrend.dashboard.auth import User, gate_of
from perftrend.dashboard.explore.models import SavedSelection
from perftrend.dashboard.explore.state import ExploreState, read
from perftrend.dashboard.middleware.clients import is_loopback
from perftrend.errors import UsageError
from perftrend.store import Store

_KEY = re.compile(r"[A-Za-z0-9_-]{12}")


def can_save(request: Request, user: User) -> bool:
    """Return whether a user may save selections: if signed in, or if the request is from this machine."""
    client: str = request.scope.get("perftrend.client", "")
    return user.signed_in or (is_loopback(client) and gate_of(request).forgery.is_from_here(request))


def check_can_save(request: Request, user: User) -> None:
    """Check that a user may save selections.

    :raises HTTPException: with status 403 otherwise.
    """
    if not can_save(request, user):
        raise HTTPException(HTTPStatus.FORBIDDEN, "sign in to save shortcuts and short addresses")


def is_key(text: str) -> bool:
    """Return whether a text can be the key of a short address."""
    return _KEY.fullmatch(text) is not None


def shortcut(store: Store, ids: list[str], user: User) -> SavedSelection:
    """Save trace ids as a shortcut.

    :raises FormulaError: if one of them is not valid.
    :raises UsageError: if no id is left to save, or there are too many.
    """
    identity = store.shortcuts.save([str(each) for each in parse_stored_ids(ids)], user=user.name)
    return SavedSelection(id=identity, url=ExploreState(shortcut=identity).url)


def short_url(store: Store, url: str, user: User) -> SavedSelection:
    """Save an address of the page as a short address; unknown parameters are discarded.

    :param url: an address of the page, or its query string.
    :raises UsageError: if it is the address of another page, or not valid.
    """
    parts = urlsplit(url) if url.startswith(("/", "http://", "https://")) else None
    if parts and parts.path != "/":
        raise UsageError("address: only Explore pages have short addresses; enter the part after the ?")
    state = read(parts.query if parts else url.removeprefix("?"))
    if state.problems:
        raise UsageError(f"address: {state.problems[0].reason}")
    key = store.short_urls.save(state.encoded, user=user.name)
    return SavedSelection(id=key, url=f"/s/{key}")
