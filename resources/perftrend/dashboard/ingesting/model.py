"""Response models of ``/ingest``."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from perftrend.store.ingestions import Ingestion, State


class Build(BaseModel):
    """A reported build, and the state of its ingestion."""

    number: int
    job: str
    build: int
    state: State
    asked: datetime
    due: datetime
    """Earliest time of the next attempt, if it waits."""
    attempts: int
    ended: datetime | None
    exit_code: int | None
    told: str
    """The last message of the newest attempt."""

    @classmethod
    def of(cls, told: Ingestion) -> Build:
        """Return the view of an ingestion."""
        return cls(
            number=told.number, job=told.job, build=told.build, state=told.state, asked=told.asked,
            due=told.due, attempts=told.attempts, ended=told.ended, exit_code=told.exit_code, told=told.told,
        )  # fmt: skip


class Builds(BaseModel):
    """The most recently reported builds, the newest first."""

    builds: list[Build]


class Accepted(BaseModel):
    """Response to an event."""

    build: Build | None
    """None: the event does not report a finished build."""
    joined: bool
    """Whether the build was already reported, and its ingestion is waiting or running."""
