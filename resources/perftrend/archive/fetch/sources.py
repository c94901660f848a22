"""Sources of archived builds by their location: a Jenkins, or a tree of folders anywhere else.

The builds of a Jenkins are listed by its API, and their archived files are read by URL. The folders of a log
server, a bucket, a tar or a disk are searched for builds, see :mod:`perftrend.archive.fetch.tree`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from perftrend import command_to_install
from perftrend.archive.fetch import unpack
from perftrend.archive.fetch.builds import (
    ANY,
    WEAKER,
    ArchivedBuild,
    ArchivedFile,
    BuildFilter,
    BuildSource,
    Transfer,
    Version,
    kind_of,
    rank_files,
    require_one_run,
)
from perftrend.archive.fetch.logserver import LogServer
from perftrend.archive.fetch.tree import Disk, OneFile, Tree, TreeSource
from perftrend.archive.fetch.unpack import Tarball
from perftrend.archive.fetch.web import Credentials, RateLimiter, Web
from perftrend.errors import UsageError, nearest

_JENKINS = "jenkins+"
_WEB = ("http", "https")
SCHEMES = (*_WEB, *(_JENKINS + scheme for scheme in _WEB), "s3")

ROBOT_REPORT = "robot/report/*zip*/robot-plugin.zip"
"""Path of the files that Jenkins' Robot Framework plugin archived; compressed during the request."""


@dataclass(frozen=True, slots=True)
class Access:
    """Settings and clients for access to sources."""

    pace: RateLimiter
    jenkins: Callable[[str], Client]
    """Creates a client for the Jenkins at a URL."""
    credentials: Mapping[str, Credentials]
    """By the address of their server."""
    timeout_s: float
    attempts: int
    report: Callable[[str], None]
    """Called with a message for each skipped item."""
    private_redirects: bool = False
    """Whether a public server may redirect to a private address."""

    def web(self) -> Web:
        """Return an HTTP client with these settings."""
        return Web(
            self.pace,
            credentials=self.credentials,
            timeout_s=self.timeout_s,
            attempts=self.attempts,
            private_redirects=self.private_redirects,
        )


def source_at(location: str, access: Access) -> BuildSource:
    """Return the source at a location.

    :param location: ``jenkins+https://…``, ``https://…``, ``s3://bucket/…``, or the path of a folder, a
        tar or an output.
    :raises UsageError: if it is not one of these.
    :raises ArchiveError: if it is a tar that cannot be read.
    """
    scheme, colon, _ = location.partition("://")
    if not colon:
        return _on_this_machine(Path(location).expanduser(), access)
    if scheme not in SCHEMES:
        raise UsageError(f"a source cannot begin with {scheme}://{nearest(scheme, SCHEMES)}")
    parts = _parts(location)
    if scheme == "s3":
        return TreeSource(_bucket(f"{parts.netloc}{parts.path}", access.pace))
    if scheme.startswith(_JENKINS):
        address, job = jenkins_address(location)
        return JenkinsSource(access.jenkins(address), access.web(), job)
    return TreeSource(LogServer(location, access.web()))


def jenkins_address(location: str) -> tuple[str, str]:
    """Return the address of the Jenkins and the job in ``jenkins+https://…/job/team/job/nightly``.

    :raises UsageError: if the URL is not valid.
    """
    parts = _parts(location.removeprefix(_JENKINS))
    before, _, behind = parts.path.partition("/job/")
    job = "/".join(unquote(part) for part in behind.strip("/").split("/job/")) if behind else ""
    return urlunsplit((parts.scheme, parts.netloc, before.rstrip("/"), "", "")), job


def _bucket(prefix: str, pace: RateLimiter) -> Tree:
    try:
        from perftrend.archive.fetch.bucket import Bucket  # noqa: PLC0415 - needs an extra
    except ImportError:
        how = command_to_install("s3", "s3fs")
        raise UsageError(f"s3:// needs more packages; install them with: {how}") from None
    return Bucket(prefix, pace)


def _parts(location: str) -> SplitResult:
    try:
        parts = urlsplit(location)
        _ = parts.port
    except ValueError:
        raise UsageError("the source is not a valid URL") from None
    if "@" in parts.netloc:
        raise UsageError(
            "a source's URL must not contain a user or a password, which others can see; "
            "give them as jenkins.user and jenkins.token, or in ~/.netrc"
        )
    if not parts.netloc:
        raise UsageError(f"source {location}: names no server")
    return parts


def _on_this_machine(path: Path, access: Access) -> BuildSource:
    if path.is_dir():
        return TreeSource(Disk(path))
    if not path.is_file():
        raise UsageError(f"source {path}: no such file or folder")
    with path.open("rb") as file:
        begun = file.read(512)
    kind = unpack.detect_archive(begun)
    is_output = begun.lstrip()[:1] in (b"<", b"{") or path.name.endswith((".xml.gz", ".json.gz", ".zip"))
    if kind and not is_output:
        return TreeSource(Tarball(path, access.report))
    return TreeSource(OneFile(path))


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
