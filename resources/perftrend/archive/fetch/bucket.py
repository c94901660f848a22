"""An S3 bucket, by s3fs. Import it only if it is used: s3fs is an extra.

Credentials, region and endpoint come from the standard settings of S3 clients: the environment
(``AWS_PROFILE``, ``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``), ``~/.aws``, or the machine's role. Without
credentials, the bucket is accessed as a public one.

Files are read by the HTTP session of all downloads, from URLs that s3fs signs: s3fs' own reads have a timeout
for each piece, and none for the whole file.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

import s3fs  # type: ignore[import-untyped]  # it has no types
from botocore.exceptions import BotoCoreError, ClientError  # type: ignore[import-untyped]  # it has no types
from botocore.session import Session  # type: ignore[import-untyped]  # it has no types

from perftrend.archive.fetch.builds import (
    ANY,
    ArchivedFile,
    Checksum,
    InterruptedTransferError,
    MissingError,
    Transfer,
    Version,
)
from perftrend.archive.fetch.tree import Folder, Listing, segment_is_sound
from perftrend.archive.fetch.web import RateLimiter, Web
from perftrend.errors import ServiceError

_DEADLINE_S = 300.0
"""Deadline for a listing, or for the details of a key."""
_SIGNED_S = 3600
"""A transfer has to begin within this time after its URL was signed."""
_MD5 = re.compile(r"[0-9a-f]{32}")
_ENCRYPTED = {"aws:kms", "aws:kms:dsse"}


class Bucket:
    """The keys below ``bucket/prefix``, as a tree of folders."""

    workers = None
    files_date_builds = True  # a bucket has no times of folders

    def __init__(self, prefix: str, pace: RateLimiter) -> None:
        self._prefix = prefix.strip("/")
        self._pace = pace
        anonymous = Session().get_credentials() is None
        # Its listings must not be cached: new builds are polled.
        self._files: Any = s3fs.S3FileSystem(anon=anonymous, use_listings_cache=False)
        self._web = Web(pace)

    @property
    def path(self) -> tuple[str, ...]:
        """Bucket and prefix."""
        return tuple(self._prefix.split("/"))

    def location(self, folder: str) -> str:
        """Return the folder's ``s3://`` URL."""
        return f"s3://{self._prefix}/{folder}".rstrip("/") + "/"

    def list_folder(self, folder: str) -> Listing:
        """List a folder, a page of 1000 keys at a time."""
        place = self.location(folder).removeprefix("s3://").rstrip("/")
        with self._request(place):
            entries = self._files.ls(place, detail=True, refresh=True, timeout=_DEADLINE_S)
        begin = f"{folder}/" if folder else ""
        found = [(entry["name"].removeprefix(f"{place}/").rstrip("/"), entry) for entry in entries]
        sound = [(name, entry) for name, entry in found if segment_is_sound(name)]
        return Listing(
            tuple(Folder(begin + name) for name, entry in sound if entry["type"] == "directory"),
            tuple(_file(begin + name, entry) for name, entry in sound if entry["type"] == "file"),
        )

    @contextmanager
    def open(
        self, file: ArchivedFile, *, offset: int = 0, version: Version = ANY
    ) -> Generator[Transfer, None, None]:
        """Open a key; it is resumed if its ETag is the same."""
        place = file.location.removeprefix("s3://")
        with self._request(place):
            found = self._files.info(place, refresh=True, timeout=_DEADLINE_S)
            current = _version(found)
            if not offset and version.etag and version.etag == current.etag:
                yield Transfer(lambda _: b"", 0, current, unchanged=True)
                return
            url = self._files.url(place, expires=_SIGNED_S, timeout=_DEADLINE_S)
        with self._web.open(url, offset=offset, version=version) as transfer:
            if current.etag and transfer.version.etag not in ("", current.etag):
                raise InterruptedTransferError(f"s3://{place}: was replaced at this moment")
            yield replace(transfer, version=current, checksum=_checksum(found))

    @contextmanager
    def _request(self, place: str) -> Generator[None, None, None]:
        """Wait for the rate limit, and convert the errors of the libraries."""
        self._pace.wait("s3://" + self.path[0])
        try:
            yield
        except FileNotFoundError as error:
            raise MissingError(f"s3://{place}: the bucket or key does not exist") from error
        except PermissionError as error:
            raise ServiceError(
                f"s3://{place}: access is denied; check AWS_PROFILE or AWS_ACCESS_KEY_ID"
            ) from error
        except (BotoCoreError, ClientError, OSError) as error:
            reason = " ".join(str(error).split())[:200] or f"does not answer within {_DEADLINE_S:g} s"
            raise InterruptedTransferError(f"s3://{place}: {reason}") from error


def _file(name: str, entry: dict[str, Any]) -> ArchivedFile:
    return ArchivedFile(
        f"s3://{entry['name']}", name, _version(entry), modified=_moment(entry), checksum=_checksum(entry)
    )


def _version(entry: dict[str, Any]) -> Version:
    moment = _moment(entry)
    return Version(entry.get("ETag") or "", moment.isoformat() if moment else "", entry.get("size"))


def _moment(entry: dict[str, Any]) -> datetime | None:
    moment = entry.get("LastModified")
    return moment if isinstance(moment, datetime) else None


def _checksum(entry: dict[str, Any]) -> Checksum | None:
    """Return the MD5 in an ETag, if the key was written in one part and is not encrypted by KMS."""
    etag = (entry.get("ETag") or "").strip('"')
    if not _MD5.fullmatch(etag) or entry.get("ServerSideEncryption") in _ENCRYPTED:
        return None
    return Checksum("md5", etag)
