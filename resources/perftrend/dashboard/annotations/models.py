"""Request and response models of ``/annotations``."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

from perftrend.store.annotations import Annotation

Commit = Annotated[str, Field(max_length=40)]
Text = Annotated[str, Field(max_length=8000)]
"""The limit is larger than that of the store, so that the error message of the store is shown."""


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
