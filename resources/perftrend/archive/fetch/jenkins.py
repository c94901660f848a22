"""A Jenkins as a source: its builds by its API, their archived files by URL."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from datetime import datetime, timedelta
from typing import Protocol

from perftrend.archive.fetch import unpack
from perftrend.archive.fetch.builds import (
    ANY,
    WEAKER,
    ArchivedBuild,
    ArchivedFile,
    BuildFilter,
    Transfer,
    Version,
    kind_of,
    rank_files,
    require_one_run,
)
from perftrend.archive.fetch.web import Web

ROBOT_REPORT = "robot/report/*zip*/robot-plugin.zip"
"""Path of the files that Jenkins' Robot Framework plugin archived; compressed during the request."""


Numbers = tuple[int | None, int | None]


class ArchivedArtifact(Protocol):
    """The required attributes of an artifact."""

    @property
    def path(self) -> str:
        """Relative to the archive."""

    @property
    def url(self) -> str:
        """Its URL."""


class FinishedBuild(Protocol):
    """The required attributes of a build."""

    @property
    def job(self) -> str:
        """Full name, with folders."""

    @property
    def number(self) -> int:
        """Its number."""

    @property
    def building(self) -> bool:
        """Whether it is running."""

    @property
    def started(self) -> datetime:
        """In UTC."""

    @property
    def duration_s(self) -> float:
        """Its duration in seconds."""

    @property
    def artifacts(self) -> Iterable[ArchivedArtifact]:
        """Its archived files."""

    @property
    def url(self) -> str:
        """The URL of its page."""


class Client(Protocol):
    """The required methods of a client for Jenkins."""

    def jobs(self, pattern: str) -> Iterable[str]:
        """Return the full names of the jobs that match a shell pattern."""

    def builds(
        self,
        job: str,
        *,
        since: datetime | None = None,
        numbers: tuple[int | None, int | None] = (None, None),
    ) -> Iterable[FinishedBuild]:
        """Return builds, the newest first."""


class JenkinsSource:
    """The builds of a Jenkins.

    :param job: the only job to use; empty for all.
    """

    workers = None

    def __init__(self, client: Client, web: Web, job: str = "") -> None:
        self._client = client
        self._web = web
        self._job = job

    def builds(self, wanted: BuildFilter) -> Iterator[ArchivedBuild]:
        """Yield the wanted builds that are finished; see :meth:`Source.builds`."""
        for job in [self._job] if self._job else self._client.jobs(wanted.job):
            if not wanted.job_fits(job):
                continue
            for build in self._client.builds(job, since=wanted.since, numbers=(wanted.first, wanted.last)):
                if not build.building:
                    yield _convert_build(build)

    def files(self, build: ArchivedBuild) -> Iterator[ArchivedFile]:
        """Yield the artifacts that may contain results, and before weaker ones the Robot Framework plugin's.

        :raises ArchiveError: if there are outputs of several runs.
        """
        ordered = rank_files(build.files)
        require_one_run(ordered)
        weaker = [file for file in ordered if kind_of(file.name) in WEAKER]
        yield from ordered[: len(ordered) - len(weaker)]
        yield ArchivedFile(f"{build.location}{ROBOT_REPORT}", "robot-plugin.zip")
        yield from weaker

    def open(
        self, file: ArchivedFile, *, offset: int = 0, version: Version = ANY
    ) -> AbstractContextManager[Transfer]:
        """Open an artifact; see :meth:`Source.open`."""
        return self._web.open(file.location, offset=offset, version=version)


def _convert_build(build: FinishedBuild) -> ArchivedBuild:
    return ArchivedBuild(
        job=build.job,
        number=build.number,
        location=build.url if build.url.endswith("/") else f"{build.url}/",
        started=build.started,
        finished=build.started + timedelta(seconds=build.duration_s),
        version=build.started.isoformat(),
        files=tuple(
            ArchivedFile(artifact.url, artifact.path)
            for artifact in build.artifacts
            if not unpack.find_name_fault(artifact.path)
        ),
    )
