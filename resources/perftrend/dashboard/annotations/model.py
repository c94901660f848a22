"""What ``/annotations`` answers, and what it is sent."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

from perftrend.store.annotations import Annotation

Commit = Annotated[str, Field(max_length=40)]
Text = Annotated[str, Field(max_length=8000)]
"""Longer than what is kept, so that the error says what is wrong with it."""


class AnnotationEntry(BaseModel):
    """What somebody says of a commit, in plain text."""

    id: int
    commit: str
    """Its hash, or the begin of it."""
    testbed: str | None
    """Null: it concerns all testbeds."""
    text: str
    author: str
    created: datetime
    edited: datetime | None
    edited_by: str
    version: int
    """What an edit or a deletion has to carry."""

    @classmethod
    def of(cls, kept: Annotation) -> AnnotationEntry:
        """Return what is told of an annotation."""
        return cls(
            id=kept.identity,
            commit=kept.commit,
            testbed=kept.testbed,
            text=kept.text,
            author=kept.author,
            created=kept.created,
            edited=kept.edited,
            edited_by=kept.edited_by,
            version=kept.version,
        )


class AnnotationList(BaseModel):
    """Annotations: of a commit, the oldest first, or else of all, the newest first."""

    commit: str
    """What they are of; empty: of all commits."""
    annotations: list[AnnotationEntry]
    older: int | None
    """What to ask for by ``before`` to get those that are older; null: there are none."""


class NewAnnotation(BaseModel):
    """What is to be said of a commit."""

    commit: Commit
    text: Text
    testbed: Annotated[str, Field(max_length=255)] = ""


class EditedAnnotation(BaseModel):
    """A new text for an annotation."""

    text: Text
    version: Annotated[int, Field(ge=1, le=2**31 - 1)]
    """Of the annotation that the edit was made from."""


class DeletedAnnotation(BaseModel):
    """Which version is to be deleted."""

    version: Annotated[int, Field(ge=1, le=2**31 - 1)]


class Conflict(BaseModel):
    """Somebody was faster; nothing was changed."""

    error: str
    """Who and when."""
    annotation: AnnotationEntry | None
    """What there is now; null: it was deleted."""
    text: str
    """What was sent, so that it is not lost."""
