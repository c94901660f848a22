"""Request and response models of ``/runs``."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated

from pydantic import BaseModel, Field

from perftrend.store.invalidations import Invalidation


class InvalidationEntry(BaseModel):
    """A mark of a run, or of one of its results, as invalid."""

    trace: str
    """The hash of the result's trace; empty: the whole run is invalid."""
    parameters: Mapping[str, str]
    """Parameters of the trace; empty for a run."""
    reason: str
    author: str
    moment: datetime

    @classmethod
    def of(cls, mark: Invalidation) -> InvalidationEntry:
        """Return the view of a mark."""
        return cls(
            trace=mark.key.hash if mark.key else "",
            parameters=mark.key.as_dict() if mark.key else {},
            reason=mark.reason,
            author=mark.author,
            moment=mark.moment,
        )


class RunEntry(BaseModel):
    """A run."""

    job: str
    build: int
    started: datetime
    finished: datetime
    revision: str
    """The commit of the product; empty: unknown."""
    simulated: bool
    experiment: str
    """How it differs from the nightly runs, such as ``acl_rules=60``; empty: it is one of them."""
    archive: str
    """Location of its files: a URL or a path; empty: unknown."""
    replaced: bool
    """Whether a later run of the job has this number, because its build numbers were reset. The address of
    the build then leads to the later run."""
    invalidations: list[InvalidationEntry]
    """Marks as invalid, oldest first."""
    links: dict[str, str]
    """The known ones of the links ``build``, ``report``, ``log`` and ``archive``."""


class TestbedRuns(BaseModel):
    """The newest runs of a testbed, newest first."""

    testbed: str
    runs: list[RunEntry]


class NewestRuns(BaseModel):
    """The newest runs of each testbed."""

    testbeds: list[TestbedRuns]


class Selection(BaseModel):
    """A run, or results of it."""

    job: Annotated[str, Field(max_length=255)]
    build: Annotated[int, Field(ge=0, le=2**31 - 1)]
    started: datetime | None = None
    """If several runs have this number, the one that started then; null: the newest."""
    test: Annotated[str, Field(max_length=1000)] = ""
    """Only the results of this test; empty: all."""
    trace: Annotated[str, Field(max_length=32)] = ""
    """Only the result of the trace with this hash; empty: all."""


class InvalidSelection(Selection):
    """Request to mark a run, or results of it, as invalid."""

    reason: Annotated[str, Field(max_length=2000)]
    """The limit is larger than that of the store, so that the error message of the store is shown."""
