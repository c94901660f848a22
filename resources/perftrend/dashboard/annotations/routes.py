"""Endpoints of ``/annotations``."""

from __future__ import annotations

from http import HTTPStatus
from typing import Annotated, Any

from fastapi import APIRouter, Depends, HTTPException, Path, Query, Request, Response

from perftrend.dashboard.annotations.links import linked
from perftrend.dashboard.annotations.model import (
    AnnotationEntry,
    AnnotationList,
    Conflict,
    DeletedAnnotation,
    EditedAnnotation,
    NewAnnotation,
)
from perftrend.dashboard.annotations.places import plots
from perftrend.dashboard.kept import kept
from perftrend.dashboard.pages import done, page, wants_json
from perftrend.dashboard.recent import recent_commits
from perftrend.dashboard.sent import body_of, sent
from perftrend.dashboard.site import Site, TheSite
from perftrend.dashboard.users import Editor, Role, Viewer
from perftrend.errors import UsageError, nearest
from perftrend.store.annotations import Edited, checked_commit, subject_of

router = APIRouter()

_SHOWN = 50
_PATH = "/annotations"
_LARGEST = 2**31 - 1
"""Largest key in the database."""

Identity = Annotated[int, Path(ge=1, le=_LARGEST)]
_CONFLICT: dict[int | str, dict[str, Any]] = {
    409: {"model": Conflict, "description": "Another user has changed it in the meantime."}
}


@router.get(_PATH, response_model=AnnotationList)
@kept
def list_annotations(
    request: Request,
    site: TheSite,
    user: Viewer,
    commit: Annotated[str, Query(max_length=40, description="only those of this commit")] = "",
    before: Annotated[int | None, Query(ge=1, le=_LARGEST, description="only those with a lower id")] = None,
) -> Response:
    """Return annotations of commits."""
    written = site.store.annotations
    problem, typed = "", commit
    try:
        commit = checked_commit(commit) if commit else ""
    except UsageError as error:
        if wants_json(request):
            raise
        problem, commit = str(error), ""
    if commit:
        found, older = written.of([commit]).get(commit, []), None
    else:
        found = written.newest(_SHOWN + 1, before=before)
        older = found[_SHOWN - 1].identity if len(found) > _SHOWN else None
        found = found[:_SHOWN]
    told = AnnotationList(commit=commit, annotations=list(map(AnnotationEntry.of, found)), older=older)
    return page(
        request,
        "annotations.html",
        told,
        title=f"Annotations of {commit[:12]}" if commit else "Annotations",
        status=HTTPStatus.BAD_REQUEST if problem else HTTPStatus.OK,
        problem=problem,
        typed=typed,
        plots=plots(site, found),
        recent=recent_commits(site),
        may_edit=user.role >= Role.EDITOR,
        testbeds=site.store.tiles.testbeds(),
        linked=linked,
    )


@router.post(_PATH, status_code=201, response_model=AnnotationEntry, openapi_extra=body_of(NewAnnotation))
def add(
    request: Request,
    site: TheSite,
    user: Editor,
    new: Annotated[NewAnnotation, Depends(sent(NewAnnotation))],
) -> Response:
    """Annotate a commit."""
    testbeds = site.store.tiles.testbeds()
    if new.testbed and new.testbed not in testbeds:
        raise UsageError(f"the store has no runs of that testbed{nearest(new.testbed, testbeds)}")
    added = site.store.annotations.add(new.commit, new.text, user=user.name, testbed=new.testbed or None)
    return done(request, _PATH, AnnotationEntry.of(added), status=201, commit=added.commit)


@router.get(f"{_PATH}/{{identity}}", response_model=AnnotationEntry)
@kept
def one_annotation(request: Request, site: TheSite, user: Viewer, identity: Identity) -> Response:
    """Return one annotation; for editors, the page contains the edit form."""
    found = site.store.annotations.find(identity)
    if found is None:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"annotation {identity} does not exist, or was deleted")
    return page(
        request,
        "annotation.html",
        AnnotationEntry.of(found),
        title=f"Annotation of {found.commit[:12]}",
        may_edit=user.role >= Role.EDITOR,
        linked=linked,
    )


@router.post(
    f"{_PATH}/{{identity}}",
    response_model=AnnotationEntry,
    responses=_CONFLICT,
    openapi_extra=body_of(EditedAnnotation),
)
def edit(
    request: Request,
    site: TheSite,
    user: Editor,
    identity: Identity,
    edited: Annotated[EditedAnnotation, Depends(sent(EditedAnnotation))],
) -> Response:
    """Change the text of an annotation."""
    outcome = site.store.annotations.edit(identity, edited.text, version=edited.version, user=user.name)
    return _answered(request, site, identity, outcome, edited.text)


@router.post(
    f"{_PATH}/{{identity}}/delete",
    response_model=AnnotationEntry,
    responses=_CONFLICT,
    openapi_extra=body_of(DeletedAnnotation),
)
def delete(
    request: Request,
    site: TheSite,
    user: Editor,
    identity: Identity,
    deleted: Annotated[DeletedAnnotation, Depends(sent(DeletedAnnotation))],
) -> Response:
    """Delete an annotation; the activity log retains its text."""
    outcome = site.store.annotations.delete(identity, version=deleted.version, user=user.name)
    return _answered(request, site, identity, outcome, "")


def _answered(request: Request, site: Site, identity: int, outcome: Edited, text: str) -> Response:
    """Return the response to an edit: the current annotation, or the conflicting edit of another user."""
    now = outcome.annotation
    if outcome.is_done and now:
        return done(request, _PATH, AnnotationEntry.of(now), commit=now.commit)
    last = site.store.activity.newest(1, subject_of(identity))
    if not last:
        raise HTTPException(HTTPStatus.NOT_FOUND, f"annotation {identity} does not exist")
    who = f"{last[0].user} {last[0].action} it at {last[0].moment:%Y-%m-%d %H:%M:%S} UTC"
    told = Conflict(
        error=f"nothing was changed: {who}, after you opened it",
        annotation=AnnotationEntry.of(now) if now else None,
        text=text,
    )
    return page(
        request,
        "annotation-conflict.html",
        told,
        title="Someone else changed this",
        status=409,
        identity=identity,
        linked=linked,
    )
