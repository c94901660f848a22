"""Endpoints and models of ``/annotations``, with links in the texts and to plots of annotated commits."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from http import HTTPStatus
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response
from markupsafe import Markup, escape
from pydantic import BaseModel, Field

from perftrend.dashboard.auth import Role, TestbedEditor, User, Viewer, require_editor
from perftrend.dashboard.context import AppContext, Context, recent_commits, usual_testbed
from perftrend.dashboard.error_pages import FieldError, in_field
from perftrend.dashboard.formats import plain
from perftrend.dashboard.links import EXPLORE, of_commit
from perftrend.dashboard.pages import body_of, done, page, parse_body
from perftrend.dashboard.response_cache import cacheable
from perftrend.errors import nearest
from perftrend.store.access import ALL_TESTBEDS
from perftrend.store.activity import EditResult
from perftrend.store.annotations import Annotation, subject_of, validate_commit
from perftrend.store.tiles import TileColumn

_SHOWN = 50
_PREVIEW = 200
"""Number of characters of a text in the preview of a link."""
_PATH = "/annotations"
_LARGEST = 2**31 - 1
"""Largest key in the database."""
_STEM = 7
"""Number of digits that distinguish two commits in nearly all cases."""
_AVERAGED = 20_000
"""Maximum number of traces whose averages are drawn."""

# Only http and https, which browsers do not execute. A full stop at the end belongs to the sentence.
_ADDRESS = re.compile(r"https?://[^\s<>\"'`\\^{|}]*[^\s<>\"'`\\^{|}.,;:!?()\[\]]")

router = APIRouter()

Commit = Annotated[str, Field(max_length=40)]
Text = Annotated[str, Field(max_length=8000)]
"""The limit is larger than that of the store, so that the error message of the store is shown."""
Identity = Annotated[int, Path(ge=1, le=_LARGEST)]


class AnnotationEntry(BaseModel):
    """A user's annotation of a commit, in plain text."""

    id: int
    commit: str
    """Its hash, or a prefix of it."""
    testbed: str | None
    """Null: it applies to all testbeds."""
    text: str
    author: str
    created: datetime
    edited: datetime | None
    edited_by: str
    version: int
    """Required in an edit or a deletion."""

    @classmethod
    def of(cls, annotation: Annotation) -> AnnotationEntry:
        """Return the view of an annotation."""
        return cls(
            id=annotation.identity,
            commit=annotation.commit,
            testbed=annotation.testbed,
            text=annotation.text,
            author=annotation.author,
            created=annotation.created,
            edited=annotation.edited,
            edited_by=annotation.edited_by,
            version=annotation.version,
        )


class AnnotationList(BaseModel):
    """Annotations: those of a commit, the oldest first, or those of all commits, the newest first."""

    commit: str
    """The annotated commit; empty: all commits."""
    annotations: list[AnnotationEntry]
    older: int | None
    """Value of ``before`` that requests the older ones; null: there are none."""


class NewAnnotation(BaseModel):
    """Request to annotate a commit."""

    commit: Commit
    text: Text
    testbed: Annotated[str, Field(max_length=255)] = ""


class EditedAnnotation(BaseModel):
    """A new text for an annotation."""

    text: Text
    version: Annotated[int, Field(ge=1, le=2**31 - 1)]
    """Version of the annotation that the edit is based on."""


class DeletedAnnotation(BaseModel):
    """Request to delete an annotation of this version."""

    version: Annotated[int, Field(ge=1, le=2**31 - 1)]


class Conflict(BaseModel):
    """Another user was faster; nothing was changed."""

    error: str
    """Names the other user and the time."""
    annotation: AnnotationEntry | None
    """The current annotation; null: it was deleted."""
    text: str
    """The text that was sent, so that it is not lost."""


_CONFLICT: dict[int | str, dict[str, Any]] = {
    409: {"model": Conflict, "description": "Another user has changed it in the meantime."}
}


@router.get(_PATH, response_model=AnnotationList)
@cacheable
def list_annotations(
    request: Request,
    site: Context,
    user: Viewer,
    commit: Annotated[str, Query(max_length=40, description="only those of this commit")] = "",
    before: Annotated[int | None, Query(ge=1, le=_LARGEST, description="only those with a lower id")] = None,
) -> Response:
    """Return annotations of commits."""
    written = site.store.annotations
    if commit:
        with in_field("commit"):
            commit = validate_commit(commit)
        found, older = written.of([commit]).get(commit, []), None
    else:
        found = written.newest(_SHOWN + 1, before=before)
        older = found[_SHOWN - 1].identity if len(found) > _SHOWN else None
        found = found[:_SHOWN]
    model = AnnotationList(commit=commit, annotations=list(map(AnnotationEntry.of, found)), older=older)
    return page(
        request,
        "annotations.html",
        model,
        title=f"Annotations of {commit[:12]}" if commit else "Annotations",
        plots=plots(site, found),
        recent=recent_commits(site),
        may_annotate=user.highest >= Role.EDITOR,
        testbeds=[each for each in site.store.tiles.testbeds() if user.may_edit(each)],
        linked=linkify,
        review=lambda revision: of_commit(revision, site.settings),
    )


@router.post(_PATH, status_code=201, response_model=AnnotationEntry, openapi_extra=body_of(NewAnnotation))
def add(
    request: Request,
    site: Context,
    user: TestbedEditor,
    new: Annotated[NewAnnotation, Depends(parse_body(NewAnnotation))],
) -> Response:
    """Annotate a commit."""
    testbeds = site.store.tiles.testbeds()
    if new.testbed and new.testbed not in testbeds:
        message = f"the store has no runs of that testbed{nearest(new.testbed, testbeds)}"
        raise FieldError("testbed", message)
    require_editor(user, [new.testbed or ALL_TESTBEDS])
    with in_field("commit"):
        commit = validate_commit(new.commit)
    with in_field("text"):
        added = site.store.annotations.add(commit, new.text, user=user.name, testbed=new.testbed or None)
    return done(request, _PATH, AnnotationEntry.of(added), status=201, commit=added.commit)


@router.get(f"{_PATH}/{{identity}}", response_model=AnnotationEntry)
@cacheable
def one_annotation(request: Request, site: Context, user: Viewer, identity: Identity) -> Response:
    """Return one annotation; for editors, the page contains the edit form."""
    found = site.store.annotations.find(identity)
    if found is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"annotation {identity} does not exist, or was deleted")
    return page(
        request,
        "annotation.html",
        AnnotationEntry.of(found),
        title=f"Annotation of {found.commit[:12]}",
        description=" ".join(found.text.split())[:_PREVIEW],
        may_edit=user.may_edit(found.testbed or ALL_TESTBEDS),
        linked=linkify,
    )


@router.post(
    f"{_PATH}/{{identity}}",
    response_model=AnnotationEntry,
    responses=_CONFLICT,
    openapi_extra=body_of(EditedAnnotation),
)
def edit(
    request: Request,
    site: Context,
    user: TestbedEditor,
    identity: Identity,
    edited: Annotated[EditedAnnotation, Depends(parse_body(EditedAnnotation))],
) -> Response:
    """Change the text of an annotation."""
    _check_editor(site, user, identity)
    with in_field("text"):
        outcome = site.store.annotations.edit(identity, edited.text, version=edited.version, user=user.name)
    return _answer(request, site, identity, outcome, edited.text)


@router.post(
    f"{_PATH}/{{identity}}/delete",
    response_model=AnnotationEntry,
    responses=_CONFLICT,
    openapi_extra=body_of(DeletedAnnotation),
)
def delete(
    request: Request,
    site: Context,
    user: TestbedEditor,
    identity: Identity,
    deleted: Annotated[DeletedAnnotation, Depends(parse_body(DeletedAnnotation))],
) -> Response:
    """Delete an annotation; the activity log retains its text."""
    _check_editor(site, user, identity)
    outcome = site.store.annotations.delete(identity, version=deleted.version, user=user.name)
    return _answer(request, site, identity, outcome, "")


def _check_editor(site: AppContext, user: User, identity: int) -> None:
    """Check that a user may change an annotation; one that does not exist is reported later."""
    found = site.store.annotations.find(identity)
    if found is not None:
        require_editor(user, [found.testbed or ALL_TESTBEDS])


def _answer(
    request: Request, site: AppContext, identity: int, outcome: EditResult[Annotation], text: str
) -> Response:
    """Return the response to an edit: the current annotation, or the conflicting edit of another user."""
    now = outcome.now
    if outcome.is_done and now:
        return done(request, _PATH, AnnotationEntry.of(now), commit=now.commit)
    last = site.store.activity.newest(1, subject_of(identity))
    if not last:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"annotation {identity} does not exist")
    last_edit = f"{last[0].user} {last[0].action} it at {last[0].moment:%Y-%m-%d %H:%M:%S} UTC"
    model = Conflict(
        error=f"nothing was changed: {last_edit}, after you opened it",
        annotation=AnnotationEntry.of(now) if now else None,
        text=text,
    )
    return page(
        request,
        "annotation-conflict.html",
        model,
        title="Someone else changed this",
        status=409,
        identity=identity,
        linked=linkify,
    )


def linkify(text: str) -> Markup:
    """Return a text as HTML in which http and https addresses are links."""
    text = plain(text)
    pieces = []
    end = 0
    for found in _ADDRESS.finditer(text):
        pieces.append(escape(text[end : found.start()]))
        pieces.append(Markup('<a href="{0}" rel="noopener noreferrer nofollow">{0}</a>').format(found[0]))
        end = found.end()
    return Markup("").join([*pieces, escape(text[end:])])


def plots(site: AppContext, annotations: Iterable[Annotation]) -> dict[int, str]:
    """Return the addresses of plots of the annotated commits in Explore, by the ids of the annotations.

    Commits that were never measured have no address. If several testbeds measured a commit, the usual testbed
    is preferred.
    """
    testbeds = site.store.tiles.testbeds()
    usual = usual_testbed(site, testbeds)
    ordered = sorted(testbeds, key=lambda each: each != usual)
    known = {testbed: _Commits(site.store.tiles.axis(testbed).columns) for testbed in ordered}
    found = {}
    for each in annotations:
        for testbed in [each.testbed] if each.testbed else ordered:
            number = known[testbed].first(each.commit) if testbed in known else None
            if number is not None:
                found[each.identity] = _around(site, testbed, number)
                break
    return found


class _Commits:
    """The columns of a testbed, by prefixes of their commits."""

    def __init__(self, columns: Sequence[TileColumn]) -> None:
        self._begun: dict[str, list[tuple[int, str]]] = {}
        for number, column in enumerate(columns):
            self._begun.setdefault(column.revision[:_STEM], []).append((number, column.revision))

    def first(self, commit: str) -> int | None:
        """Return the first column of a commit."""
        begun = self._begun.get(commit[:_STEM], ())
        fitting = (number for number, each in begun if each.startswith(commit) or commit.startswith(each))
        return next(fitting, None)


def _around(site: AppContext, testbed: str, column: int) -> str:
    query: dict[str, object] = {"testbed": testbed, "at": column}
    table = site.catalog.table()
    if len(table) <= _AVERAGED:
        query |= {"show": "ave"} | ({"by": "metric"} if "metric" in table.parameters else {})
    return f"{EXPLORE}?{urlencode(query)}"
