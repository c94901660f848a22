"""A plain HTTP server with index pages, as Apache and nginx write them.

The HTML of an index page is untrusted: only the links to its own children are used. Their dates and sizes are
in the text after the links; a size is used if it is exact.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from html.parser import HTMLParser
from urllib.parse import quote, unquote, urljoin, urlsplit, urlunsplit

from typing_extensions import override

from perftrend.archive.fetch.builds import ANY, ArchivedFile, Transfer, Version
from perftrend.archive.fetch.tree import Folder, Listing, segment_is_sound
from perftrend.archive.fetch.web import Web, redact_url
from perftrend.clients.http_session import origin
from perftrend.errors import ArchiveError

_DATES = (
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d"), "%Y-%m-%d %H:%M"),
    (re.compile(r"\d\d-[A-Z][a-z]{2}-\d{4} \d\d:\d\d"), "%d-%b-%Y %H:%M"),
)
_HTML = re.compile(rb"<(?:!doctype|html|head|body|pre|table|a)\b", re.IGNORECASE)


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
