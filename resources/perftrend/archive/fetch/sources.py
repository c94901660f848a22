"""Sources of archived builds by their location: a Jenkins, a log server, or a tree of folders anywhere else.

The builds of a Jenkins are listed by its API, and their archived files are read by URL. The folders of a log
server, a bucket, a tar or a disk are searched for builds, see :mod:`perftrend.archive.fetch.tree`.

A log server is a plain HTTP server with index pages, as Apache and nginx write them. The HTML of an index
page is untrusted: only the links to its own children are used. Their dates and sizes are in the text after
the links; a size is used if it is exact.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from html.parser import HTMLParser
from pathlib import Path
from typing import Protocol
from urllib.parse import SplitResult, quote, unquote, urljoin, urlsplit, urlunsplit

from typing_extensions import override

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
from perftrend.archive.fetch.tree import Disk, Folder, Listing, OneFile, Tree, TreeSource, segment_is_sound
from perftrend.archive.fetch.unpack import Tarball
from perftrend.archive.fetch.web import Credentials, RateLimiter, Web, redact_url
from perftrend.clients.http_session import origin
from perftrend.errors import ArchiveError, UsageError, nearest

_JENKINS = "jenkins+"
_WEB = ("http", "https")
SCHEMES = (*_WEB, *(_JENKINS + scheme for scheme in _WEB), "s3")

ROBOT_REPORT = "robot/report/*zip*/robot-plugin.zip"
"""Path of the files that Jenkins' Robot Framework plugin archived; compressed during the request."""

_DATES = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d"), "%Y-%m-%d %H:%M"),
    (re.compile(r"\d\d-[A-Z][a-z]{2}-\d{4} \d\d:\d\d"), "%d-%b-%Y %H:%M"),
)
_HTML = re.compile(rb"<(?:!doctype|html|head|body|pre|table|a)\b", re.IGNORECASE)


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


class LogServer:
    """The tree of folders below a URL.

    :raises ArchiveError: on listing, if the page is not an index page.
    """

    workers = None
    files_date_builds = False

    def __init__(self, url: str, web: Web) -> None:
        parts = urlsplit(url)
        path = parts.path if parts.path.endswith("/") else f"{parts.path}/"
        self._url = urlunsplit((parts.scheme, parts.netloc, path, "", ""))
        self._web = web

    @property
    def path(self) -> tuple[str, ...]:
        """The parts of the URL's path; empty if the URL has no path."""
        return tuple(unquote(urlsplit(self._url).path).split("/")[1:-1])

    def location(self, folder: str) -> str:
        """Return the URL of a folder."""
        return self._url + (f"{quote(folder)}/" if folder else "")

    def list_folder(self, folder: str) -> Listing:
        """Read an index page."""
        url, page = self._web.page(self.location(folder))
        if not _HTML.search(page[:4096]):
            raise ArchiveError(f"{redact_url(url)}: is not an index page; name the folder above the builds")
        index = _Index(url)
        index.feed(page.decode("utf-8", "replace"))
        index.close()
        begin = f"{folder}/" if folder else ""
        return Listing(
            tuple(
                Folder(begin + entry.name, entry.modified)
                for entry in index.entries.values()
                if entry.is_folder
            ),
            tuple(
                ArchivedFile(entry.url, begin + entry.name, Version(size=entry.size), modified=entry.modified)
                for entry in index.entries.values()
                if not entry.is_folder
            ),
        )

    def open(
        self, file: ArchivedFile, *, offset: int = 0, version: Version = ANY
    ) -> AbstractContextManager[Transfer]:
        """Open a file; it is resumed if the server supports ranges."""
        return self._web.open(file.location, offset=offset, version=version)


class _Entry:
    def __init__(self, name: str, url: str, *, is_folder: bool) -> None:
        self.name = name
        self.url = url
        self.is_folder = is_folder
        self.modified: datetime | None = None
        self.size: int | None = None


class _Index(HTMLParser):
    """Collects the children that a page links to, by name, with the data in the text after a link."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.entries: dict[str, _Entry] = {}
        self._url = url
        self._base = url if url.endswith("/") else url.rpartition("/")[0] + "/"
        self._entry: _Entry | None = None
        self._in_link = False
        self._behind = ""

    @override
    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            self._end_entry()
            self._entry = self._child(dict(attrs).get("href") or "")
            self._in_link = True
        elif tag == "tr":
            self._end_entry()

    @override
    def handle_endtag(self, tag: str) -> None:
        if tag == "a":
            self._in_link = False

    @override
    def handle_data(self, data: str) -> None:
        if self._entry and not self._in_link:
            self._behind += f" {data}"

    @override
    def close(self) -> None:
        super().close()
        self._end_entry()

    def _end_entry(self) -> None:
        if self._entry:
            self._entry.modified, self._entry.size = _parse_date_and_size(self._behind)
            self.entries.setdefault(self._entry.name, self._entry)
        self._entry, self._behind = None, ""

    def _child(self, href: str) -> _Entry | None:
        """Return the child that a link refers to; None for other links: up, away, or to a sorted page."""
        try:
            target = urljoin(self._url, href.strip())
            parts, base = urlsplit(target), urlsplit(self._base)
            if origin(target) != origin(self._base) or parts.query or not parts.path.startswith(base.path):
                return None
        except ValueError:
            return None
        relative = parts.path[len(base.path) :]
        name = unquote(relative.removesuffix("/"))
        if not segment_is_sound(name):
            return None
        url = urlunsplit((base.scheme, base.netloc, parts.path, "", ""))
        return _Entry(name, url, is_folder=relative.endswith("/"))


def _parse_date_and_size(text: str) -> tuple[datetime | None, int | None]:
    """Parse the date, in UTC, and the size if it is exact: ``19-Nov-2025 22:41  123456``."""
    for form, layout in _DATES:
        if found := form.search(text):
            try:
                moment = datetime.strptime(found[0], layout).replace(tzinfo=UTC)
            except ValueError:
                continue
            behind = text[found.end() :].split()
            size = behind[0] if behind and len(behind[0]) < 16 else ""  # noqa: PLR2004 - below a petabyte
            # Three digits or fewer may be a rounded size, but then its unit is bytes in any case.
            return moment, int(size) if size.isdecimal() else None
    return None, None
