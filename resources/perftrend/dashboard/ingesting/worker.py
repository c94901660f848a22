"""Ingests the builds that were told of, one after the other, beside the requests.

Each is done by ``./run ingest`` in a process of its own: what an output makes it need of memory goes with it,
and what ends it does not end the dashboard. What a build's source does not have yet is tried again later:
Jenkins tells of builds before all their files are there. A per-patch test in progress is ingested
again and again until it has ended.
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import BinaryIO

from pydantic import SecretStr

from perftrend.dashboard.background import running
from perftrend.dashboard.site import Site
from perftrend.settings import PREFIX, Settings, names, variable
from perftrend.store.ingestions import Ingestion, State

LOG = logging.getLogger(__name__)

JOB = "jobs.ingest"
"""Started by its name: it is above us, and may import what we may not."""
WAITS = tuple(timedelta(minutes=each) for each in (1, 2, 5, 15, 60))
"""Between the attempts."""
POLL = timedelta(minutes=1)
"""Between looks at a per-patch test in progress."""
LONGEST_POLL = timedelta(days=1)

_POLL_S = 1.0
_BEAT_S = 10.0
_LONGEST = timedelta(hours=2)
_FAREWELL_S = 15.0
_TAIL_BYTES = 4096
_LONGEST_TOLD = 500
_STORED = re.compile(r"\b[1-9][0-9]* (?:new|known|in progress)\b")
_GIVEN = ("store", "fetch.", "jenkins.")
"""Settings that the job gets, and no others."""

Command = Callable[[Ingestion], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Ended:
    """How a process ended."""

    exit_code: int
    stored: bool
    """Whether the store has the build."""
    told: str


def ingesting(site: Site) -> AbstractContextManager[None]:
    """Ingest what was told of, until the dashboard ends."""
    return running(site, ingest_what_is_due)


def ingest_what_is_due(site: Site, ending: threading.Event) -> None:
    """Take one build after the other, until the event is set."""
    while not ending.is_set():
        if not work_once(site, ending):
            ending.wait(_POLL_S)


def work_once(site: Site, ending: threading.Event, *, command: Command | None = None) -> bool:
    """Ingest one build, if one is due, and tell whether there was one.

    :param command: what ingests a build.
    :raises StoreError: if the store cannot be reached; it is done later then.
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
        ingestions.put_back(task, due=now, told="the dashboard ended meanwhile")
        return True
    LOG.info("ingestion of %s ended with exit code %d: %s", name, ended.exit_code, ended.told)
    if ended.stored and _is_in_progress(site, task, now):
        ingestions.put_back(task, due=now + POLL, exit_code=ended.exit_code, told=ended.told)
    elif ended.stored or task.attempts > len(WAITS):
        state = State.DONE if ended.stored else State.FAILED
        ingestions.finish(task, state=state, now=now, exit_code=ended.exit_code, told=ended.told)
    else:
        due = now + WAITS[task.attempts - 1]
        ingestions.put_back(task, due=due, exit_code=ended.exit_code, told=ended.told)
    return True


def _is_in_progress(site: Site, task: Ingestion, now: datetime) -> bool:
    """Tell whether a build is a per-patch test that may still go on; one that was aborted never ends."""
    patch_test = site.store.patch_tests.of_build(task.job, task.build)
    return patch_test is not None and not patch_test.ended and now - task.asked < LONGEST_POLL


def command_of(task: Ingestion) -> Sequence[str]:
    """Return what ingests one build. Its job is a pattern there, so it is given as one that fits it alone."""
    return [
        sys.executable, "-P", "-m", JOB, f"--job={glob.escape(task.job)}", f"--builds={task.build}",
        *(["--", task.source] if task.source else []),
    ]  # fmt: skip


def environment_of(settings: Settings, own: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Return the variables that give the job our settings, as far as it needs them.

    Not by its arguments, because those are seen by everybody on the machine.
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


def _run(site: Site, task: Ingestion, ending: threading.Event, command: Sequence[str]) -> Ended | None:
    """Run a process to its end; None: the dashboard, or another process, ends it."""
    with tempfile.TemporaryFile() as said, tempfile.TemporaryFile() as complained:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=said, stderr=complained, start_new_session=True,
            env=environment_of(site.settings),
        )  # fmt: skip
        try:
            lives = _followed(site, task, ending, process)
        finally:
            if process.poll() is None:
                _end(process)
        if not lives:
            return None
        summary, complaint = _last_line(said), _last_line(complained)
        stored = bool(_STORED.search(summary))
        return Ended(process.returncode, stored, (summary if stored else complaint or summary))


def _followed(site: Site, task: Ingestion, ending: threading.Event, process: subprocess.Popen[bytes]) -> bool:
    """Wait for the end of a process, and say that it is still ours; False: it is to be ended."""
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
    return " ".join(last.removeprefix("perftrend: ").split())[:_LONGEST_TOLD]
