"""What ``/runs`` answers, and what it is sent."""

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
    """Of the trace; empty for a run."""
    reason: str
    author: str
    moment: datetime

    @classmethod
    def of(cls, mark: Invalidation) -> InvalidationEntry:
        """Return what is shown of a mark."""
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
    """The commit of the product; empty where it is not known."""
    simulated: bool
    experiment: str
    """How it differs from the nightly runs, such as ``acl_rules=60``; empty: it is one of them."""
    archive: str
    """Where its files lie: a URL or a path; empty where that is not known."""
    replaced: bool
    """Whether a later run of the job has this number, because the job counts anew. What lies at the address
    of the build is then that of the later run."""
    invalidations: list[InvalidationEntry]
    """What people marked as invalid, oldest first."""
    links: dict[str, str]
    """Where to go from here, as far as that is known: ``build``, ``report``, ``log`` and ``archive``."""


class TestbedRuns(BaseModel):
    """The newest runs of a testbed, newest first."""

    testbed: str
    runs: list[RunEntry]


class Runs(BaseModel):
    """The newest runs of each testbed."""

    testbeds: list[TestbedRuns]


class Selection(BaseModel):
    """A run, or results of it."""

    job: Annotated[str, Field(max_length=255)]
    build: Annotated[int, Field(ge=0, le=2**31 - 1)]
    started: datetime | None = None
    """Of several runs with this number, the one that started then; null: the newest."""
    test: Annotated[str, Field(max_length=1000)] = ""
    """Only the results of this test; empty: all."""
    trace: Annotated[str, Field(max_length=32)] = ""
    """Only the result of the trace with this hash; empty: all."""


class InvalidSelection(Selection):
    """What is to be marked as invalid."""

    reason: Annotated[str, Field(max_length=2000)]
    """Longer than what is stored, so that the error says what is wrong with it."""
