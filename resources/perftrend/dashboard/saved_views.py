"""Views: addresses of Explore, Triage and Compare under a name, at ``/views`` and on these pages."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated
from urllib.parse import parse_qsl, urlencode, urlsplit

from fastapi import APIRouter, Depends, HTTPException, Path, Request, Response
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from starlette.responses import RedirectResponse

from perftrend.dashboard.auth import Role, TestbedEditor, Viewer
from perftrend.dashboard.compare.models import Question
from perftrend.dashboard.context import Context
from perftrend.dashboard.error_pages import DuplicateError
from perftrend.dashboard.explore.state import read
from perftrend.dashboard.formats import plain
from perftrend.dashboard.links import EXPLORE
from perftrend.dashboard.pages import body_of, done, page, parse_body
from perftrend.dashboard.response_cache import cacheable
from perftrend.dashboard.triage.models import LARGEST_NUMBER, ItemFilter
from perftrend.errors import UsageError
from perftrend.store.shortcuts import LONGEST_NAME, SavedView

router = APIRouter()

PAGES = {EXPLORE: "Explore", "/triage": "Triage", "/compare": "Compare"}
"""The pages whose addresses can have a name."""

Identity = Annotated[int, Path(ge=1, le=LARGEST_NUMBER, description="id of a view")]


class ViewEntry(BaseModel):
    """A page under a name."""

    id: int
    name: str
    url: str
    """Address of the page."""
    author: str
    saved: datetime

    @classmethod
    def of(cls, view: SavedView) -> ViewEntry:
        """Return the entry of a stored view."""
        return cls(id=view.identity, name=view.name, url=view.url, author=view.author, saved=view.saved)


class SavedViews(BaseModel):
    """All views, by name."""

    views: list[ViewEntry]


class NewView(BaseModel):
    """A page that gets a name."""

    # A form also contains its CSRF token.
    model_config = ConfigDict(extra="ignore")

    name: Annotated[
        str, AfterValidator(plain), AfterValidator(str.strip), Field(min_length=1, max_length=LONGEST_NAME)
    ]
    url: Annotated[str, Field(max_length=32_000)]
    """Address of Explore, Triage or Compare."""


@router.get("/views", response_model=SavedViews)
@cacheable
def saved_views(request: Request, site: Context, user: Viewer) -> Response:
    """Return all views."""
    model = SavedViews(views=[ViewEntry.of(each) for each in site.store.views.all()])
    by_page = {
        title: [each for each in model.views if each.url.partition("?")[0] == path]
        for path, title in PAGES.items()
    }
    may_edit = user.highest >= Role.EDITOR
    return page(request, "views.html", model, title="Views", by_page=by_page, may_edit=may_edit)


@router.get("/views/{identity}", status_code=303, response_class=RedirectResponse)
def one(site: Context, _: Viewer, identity: Identity) -> RedirectResponse:
    """Redirect to the page of a view."""
    view = site.store.views.one(identity)
    if view is None:
        raise HTTPException(404, f"view {identity} does not exist")
    return RedirectResponse(view.url, 303)


@router.post("/views", status_code=201, response_model=ViewEntry, openapi_extra=body_of(NewView))
def save(
    request: Request,
    site: Context,
    user: TestbedEditor,
    new: Annotated[NewView, Depends(parse_body(NewView))],
) -> Response:
    """Save a page under a name; 409 if the name belongs to another page."""
    path, query = normalize(new.url)
    outcome = site.store.views.save(new.name, path, query, user=user.name)
    if not outcome.is_done or outcome.now is None:
        author = outcome.now.author if outcome.now else "someone"
        raise DuplicateError(
            "name",
            f"{author} has saved another page as “{new.name}”; enter another name, or delete that view",
        )
    return done(request, outcome.now.url, ViewEntry.of(outcome.now), status=201)


@router.post("/views/{identity}/delete", response_model=ViewEntry)
def delete(request: Request, site: Context, user: TestbedEditor, identity: Identity) -> Response:
    """Delete a view."""
    view = site.store.views.delete(identity, user=user.name)
    if view is None:
        raise HTTPException(404, f"view {identity} does not exist")
    return done(request, "/views", ViewEntry.of(view))


def normalize(url: str) -> tuple[str, str]:
    """Return the path and the query string of an address, without parameters that the page does not have.

    :raises UsageError: if it is not a valid address of one of the pages.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        raise UsageError("address: not valid; copy it from the page") from None
    if parts.path not in PAGES:
        raise UsageError(f"address: only pages of {', '.join(PAGES.values())} can be saved")
    try:
        return parts.path, _query(parts.path, parts.query)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"address: {place}: {first['msg'].removeprefix('Value error, ')}") from None


def _query(path: str, text: str) -> str:
    if path == EXPLORE:
        state = read(text)
        if state.problems:
            raise UsageError(f"address: {state.problems[0].reason}")
        return state.encoded
    fields = dict(parse_qsl(text))
    if path == "/compare":
        known = {name: value for name, value in fields.items() if name in Question.model_fields}
        return Question.model_validate(known).encoded
    known = {name: value for name, value in fields.items() if name in {"status", "owner", "testbed", "query"}}
    return urlencode(ItemFilter.model_validate(known).model_dump(exclude_defaults=True))
