"""Watched folder: requests the ingestion of the builds in it that are complete and were not read before.

A build counts as complete if none of its files has changed between two scans. If it was ingested too early
because its writer paused, the store accepts nothing of it. Its ingestion is requested again after it has
changed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

from perftrend.archive import patch_report
from perftrend.archive.fetch.builds import ArchivedBuild, BuildFilter
from perftrend.archive.fetch.ingest import KnownBuilds
from perftrend.archive.fetch.tree import Disk, TreeSource
from perftrend.archive.ingestion import UNSTORED_MARK
from perftrend.dashboard.background import run_in_background
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.ingestion.routes import MOST_WAITING
from perftrend.errors import ArchiveError, ServiceError, explain

LOG = logging.getLogger(__name__)

_MOST_FILES = 20_000
_EVERYTHING = BuildFilter()

State: TypeAlias = frozenset[tuple[str, int, int]]
"""The files of a build with their sizes in bytes and the times of their last changes in ns."""


def folder_watcher(site: AppContext) -> AbstractContextManager[None]:
    """Watch the folder of the settings, if there is one, until the dashboard stops."""
    return run_in_background(site, watch)


def watch(site: AppContext, ending: threading.Event) -> None:
    """Scan the folder periodically until the event is set."""
    folder = site.settings.dashboard.watch_folder
    if folder is None:
        return
    watched = BuildFolder(folder)
    while not ending.is_set():
        try:
            request_ingestion(site, watched)
        except (ArchiveError, ServiceError) as error:
            # The folder, or its file system, may become available again, and a stray file be moved.
            LOG.error("watched folder: %s", explain(error))
        ending.wait(site.settings.dashboard.watch_s)


def request_ingestion(site: AppContext, watched: BuildFolder) -> None:
    """Request the ingestion of the builds of a folder that are complete and new.

    :raises ServiceError: if the folder cannot be read.
    """
    known = KnownBuilds(lambda: nullcontext(site.store))
    for build in watched.complete():
        if known.has(build):
            watched.mark_processed(build)
            continue
        ingestion, _ = site.store.ingestions.request(
            build.job, build.number, now=datetime.now(UTC), most=MOST_WAITING, source=build.location
        )
        if ingestion is not None:
            watched.mark_processed(build)
    known.note_versions()


class BuildFolder:
    """The builds of a folder, with their states at the last scan."""

    def __init__(self, folder: Path) -> None:
        self._source = TreeSource(Disk(folder))
        self._seen: dict[str, State] = {}
        self._processed: dict[str, State] = {}

    def complete(self) -> Iterator[ArchivedBuild]:
        """Yield the builds that have not changed since the last scan and were not processed in this state.

        :raises ServiceError: if the folder cannot be read.
        """
        before, self._seen = self._seen, {}
        for build in self._source.builds(_EVERYTHING):
            state = _state(Path(build.location))
            if state is None:
                continue
            self._seen[build.location] = state
            if state == before.get(build.location) and state != self._processed.get(build.location):
                yield build

    def mark_processed(self, build: ArchivedBuild) -> None:
        """Skip a build until it changes."""
        self._processed[build.location] = self._seen[build.location]


def _state(folder: Path) -> State | None:
    """Return the state of the files of a build; None: it is to be skipped, or changes during the scan."""
    found = set()
    try:
        # The rounds of a per-patch test in progress change all the time; its report is replaced whole.
        report = folder / patch_report.PLACE
        for path in [report] if report.is_file() else folder.rglob("*"):
            if path.name == UNSTORED_MARK:
                # The job that measures it enters it in the store itself.
                return None
            status = path.lstat()
            found.add((str(path.relative_to(folder)), status.st_size, status.st_mtime_ns))
            if len(found) > _MOST_FILES:
                LOG.error(
                    "watched folder: %s contains more than %d files; it is ignored", folder, _MOST_FILES
                )
                return None
    except OSError:
        return None
    return frozenset(found) or None
