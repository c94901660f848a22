"""Background ingestion of the reported builds, one after the other, and of the builds in a watched folder.

Each build is ingested by ``./run ingest`` in its own process: the memory that it needs is freed with it, and
a crash does not stop the dashboard. If the source lacks files of the build, the ingestion is retried later,
because Jenkins reports builds before all their files exist. A per-patch test in progress is ingested
periodically until it has ended.

A build in the watched folder counts as complete if none of its files has changed between two scans. If it was
ingested too early because its writer paused, the store accepts nothing of it. Its ingestion is requested
again after it has changed.
"""

from __future__ import annotations

import glob
import logging
import os
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, TypeAlias

from pydantic import SecretStr

from perftrend.archive import patch_report
from perftrend.archive.fetch.builds import ArchivedBuild, BuildFilter
from perftrend.archive.fetch.ingest import KnownBuilds
from perftrend.archive.fetch.tree import Disk, TreeSource
from perftrend.archive.ingestion import UNSTORED_MARK
from perftrend.dashboard.background import run_in_background
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.ingestion.routes import MOST_WAITING
from perftrend.errors import ArchiveError, ServiceError, explain
from perftrend.settings import PREFIX, Settings, names, variable
from perftrend.store.ingestions import Ingestion, IngestionState

LOG = logging.getLogger(__name__)

JOB = "perftrend.cli.ingest"
"""Started by name: it is in a layer above, and may import modules that this one may not."""
WAITS = tuple(timedelta(minutes=each) for each in (1, 2, 5, 15, 60))
"""Delays between the attempts."""
POLL = timedelta(minutes=1)
"""Interval of the ingestions of a per-patch test in progress."""
LONGEST_POLL = timedelta(days=1)

_POLL_S = 1.0
_BEAT_S = 10.0
_LONGEST = timedelta(hours=2)
_FAREWELL_S = 15.0
_TAIL_BYTES = 4096
_LONGEST_MESSAGE = 500
_STORED = re.compile(r"\b[1-9][0-9]* (?:new|known|in progress)\b")
_GIVEN = ("store", "fetch.", "jenkins.")
"""The only settings that are passed to the job."""
_MOST_FILES = 20_000
_EVERYTHING = BuildFilter()

Command = Callable[[Ingestion], Sequence[str]]
BuildState: TypeAlias = frozenset[tuple[str, int, int]]
"""The files of a build with their sizes in bytes and the times of their last changes in ns."""


@dataclass(frozen=True, slots=True)
class ProcessResult:
    """Result of a process."""

    exit_code: int
    stored: bool
    """Whether the store has the build."""
    message: str


def ingestion_worker(site: AppContext) -> AbstractContextManager[None]:
    """Ingest reported builds in the background until the dashboard stops."""
    return run_in_background(site, ingest_what_is_due)


def ingest_what_is_due(site: AppContext, ending: threading.Event) -> None:
    """Ingest one build after the other until the event is set."""
    while not ending.is_set():
        if not work_once(site, ending):
            ending.wait(_POLL_S)


def work_once(site: AppContext, ending: threading.Event, *, command: Command | None = None) -> bool:
    """Ingest one build, if one is due, and return whether there was one.

    :param command: returns the command that ingests a build.
    :raises StoreError: if the store cannot be reached; the build is ingested later then.
    """
    ingestions = site.store.ingestions
    task = ingestions.claim(datetime.now(UTC))
    if task is None:
        return False
    name = f"{task.job}/{task.build}"
    LOG.info("ingestion of %s begins", name)
    ended = _run(site, task, ending, (command or command_of)(task))
    now = datetime.now(UTC)
    if ended is None:
        ingestions.release(task, due=now, message="the dashboard ended meanwhile")
        return True
    LOG.info("ingestion of %s ended with exit code %d: %s", name, ended.exit_code, ended.message)
    # A poll that fails uses up no attempt: the test goes on meanwhile.
    outcome = "stored" if ended.stored else "retried"
    if _is_in_progress(site, task, now):
        ingestions.release(task, due=now + POLL, exit_code=ended.exit_code, message=ended.message)
    elif ended.stored or task.attempts > len(WAITS):
        state = IngestionState.DONE if ended.stored else IngestionState.FAILED
        outcome = "stored" if ended.stored else "failed"
        ingestions.finish(task, state=state, now=now, exit_code=ended.exit_code, message=ended.message)
    else:
        due = now + WAITS[task.attempts - 1]
        ingestions.release(task, due=due, exit_code=ended.exit_code, message=ended.message)
    site.metrics.ingestions.labels(_source_kind(task.source), outcome).inc()
    return True


def command_of(task: Ingestion) -> Sequence[str]:
    """Return the command that ingests one build; its job is escaped, because the option is a pattern."""
    return [
        sys.executable, "-P", "-m", JOB, f"--job={glob.escape(task.job)}", f"--builds={task.build}",
        *(["--", task.source] if task.source else []),
    ]  # fmt: skip


def environment_of(settings: Settings, own: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the environment variables that pass the settings that the job needs.

    Arguments are not used, because all users of the machine can read them.
    """
    given = {name: value for name, value in own.items() if not name.startswith(PREFIX)}
    for name in names():
        if name.startswith(_GIVEN):
            value: object = settings
            for part in name.split("."):
                value = getattr(value, part)
            if isinstance(value, SecretStr):
                value = value.get_secret_value()
            if value is not None and value != ():
                given[variable(name)] = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
    return given


def folder_watcher(site: AppContext) -> AbstractContextManager[None]:
    """Watch the folder of the settings, if there is one, until the dashboard stops."""
    return run_in_background(site, watch_folder)


def watch_folder(site: AppContext, ending: threading.Event) -> None:
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
        self._seen: dict[str, BuildState] = {}
        self._processed: dict[str, BuildState] = {}

    def complete(self) -> Iterator[ArchivedBuild]:
        """Yield the builds that have not changed since the last scan and were not processed in this state.

        :raises ServiceError: if the folder cannot be read.
        """
        before, self._seen = self._seen, {}
        for build in self._source.builds(_EVERYTHING):
            state = _state_of(Path(build.location))
            if state is None:
                continue
            self._seen[build.location] = state
            if state == before.get(build.location) and state != self._processed.get(build.location):
                yield build

    def mark_processed(self, build: ArchivedBuild) -> None:
        """Skip a build until it changes."""
        self._processed[build.location] = self._seen[build.location]


def _source_kind(source: str) -> str:
    """Return the kind of a source, for a metric: sources themselves are unlimited in number."""
    if not source:
        return "jenkins"
    scheme = source.partition("://")[0] if "://" in source else ""
    return {"http": "http", "https": "http", "s3": "s3"}.get(scheme, "file")


def _is_in_progress(site: AppContext, task: Ingestion, now: datetime) -> bool:
    """Return whether a build is a per-patch test that may continue; an aborted one never has an end."""
    patch_test = site.store.patch_tests.of_build(task.job, task.build)
    return patch_test is not None and not patch_test.ended and now - task.asked < LONGEST_POLL


def _run(
    site: AppContext, task: Ingestion, ending: threading.Event, command: Sequence[str]
) -> ProcessResult | None:
    """Run a process to its end; None: it was ended, because the dashboard stops or the claim was lost."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as complained:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=complained, start_new_session=True,
            env=environment_of(site.settings),
        )  # fmt: skip
        try:
            lives = _supervise(site, task, ending, process)
        finally:
            if process.poll() is None:
                _end(process)
        if not lives:
            return None
        summary, complaint = _last_line(output), _last_line(complained)
        stored = bool(_STORED.search(summary))
        return ProcessResult(process.returncode, stored, (summary if stored else complaint or summary))


def _supervise(
    site: AppContext, task: Ingestion, ending: threading.Event, process: subprocess.Popen[bytes]
) -> bool:
    """Wait for the end of a process, and renew the claim on its build; False: the process must be ended."""
    end = datetime.now(UTC) + _LONGEST
    next_beat = datetime.now(UTC)
    while process.poll() is None:
        now = datetime.now(UTC)
        if ending.is_set():
            return False
        if now >= next_beat:
            next_beat = now + timedelta(seconds=_BEAT_S)
            if not site.store.ingestions.beat(task, now):
                return False
        if now >= end:
            _end(process)
        try:
            process.wait(0.1)
        except subprocess.TimeoutExpired:
            continue
    return True


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_FAREWELL_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _last_line(file: BinaryIO) -> str:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - _TAIL_BYTES, 0))
    lines = file.read().decode(errors="replace").split("\n")
    last = next((line for line in reversed(lines) if line.strip()), "")
    return " ".join(last.removeprefix("perftrend: ").split())[:_LONGEST_MESSAGE]


def _state_of(folder: Path) -> BuildState | None:
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
