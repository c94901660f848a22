"""Conversion of a URL or a path to a source."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, unquote, urlsplit, urlunsplit

from perftrend import command_to_install
from perftrend.archive.fetch import unpack
from perftrend.archive.fetch.builds import BuildSource
from perftrend.archive.fetch.jenkins import Client, JenkinsSource
from perftrend.archive.fetch.logserver import LogServer
from perftrend.archive.fetch.tarball import Tarball
from perftrend.archive.fetch.tree import Disk, OneFile, Tree, TreeSource
from perftrend.archive.fetch.web import Credentials, RateLimiter, Web
from perftrend.errors import UsageError, nearest

_JENKINS = "jenkins+"
_WEB = ("http", "https")
SCHEMES = (*_WEB, *(_JENKINS + scheme for scheme in _WEB), "s3")


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
