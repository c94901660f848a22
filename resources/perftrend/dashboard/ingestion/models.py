"""Response models of ``/ingest``."""

from __future__ import annotations

from datetime import datetime

from pydantic import BaseModel

from perftrend.store.ingestions import Ingestion, IngestionState


class ReportedBuild(BaseModel):
    """A reported build, and the state of its ingestion."""

    number: int
    job: str
    build: int
    state: IngestionState
    asked: datetime
    due: datetime
    """Earliest time of the next attempt, if it waits."""
    attempts: int
    ended: datetime | None
    exit_code: int | None
    told: str
    """The last message of the newest attempt."""

    @classmethod
    def of(cls, ingestion: Ingestion) -> ReportedBuild:
        """Return the view of an ingestion."""
        return cls(
            number=ingestion.number,
            job=ingestion.job,
            build=ingestion.build,
            state=ingestion.state,
            asked=ingestion.asked,
            due=ingestion.due,
            attempts=ingestion.attempts,
            ended=ingestion.ended,
            exit_code=ingestion.exit_code,
            told=ingestion.told,
        )


class ReportedBuilds(BaseModel):
    """The most recently reported builds, the newest first."""

    builds: list[ReportedBuild]


class AcceptedEvent(BaseModel):
    """Response to an event."""

    build: ReportedBuild | None
    """None: the event does not report a finished build."""
    joined: bool
    """Whether the build was already reported, and its ingestion is waiting or running."""
