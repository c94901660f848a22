"""What ``/ingest`` answers."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from perftrend.store.ingestions import Ingestion, State


class Build(BaseModel):
    """A build that somebody told of, and what became of it."""

    number: int
    job: str
    build: int
    state: State
    asked: datetime
    due: datetime
    """When it is tried, at the earliest, where it waits."""
    attempts: int
    ended: datetime | None
    exit_code: int | None
    told: str
    """What the newest attempt said last."""

    @classmethod
    def of(cls, told: Ingestion) -> Build:
        """Return what people are told of an ingestion."""
        return cls(
            number=told.number, job=told.job, build=told.build, state=told.state, asked=told.asked,
            due=told.due, attempts=told.attempts, ended=told.ended, exit_code=told.exit_code, told=told.told,
        )  # fmt: skip


class Builds(BaseModel):
    """The builds that were told of last, the newest first."""

    builds: list[Build]


class Accepted(BaseModel):
    """What becomes of an event."""

    build: Build | None
    """None: the event tells of nothing that ended."""
    joined: bool
    """Whether somebody had told of the build already, and it is under way."""
