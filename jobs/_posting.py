"""Telling a change under review what became of a job: its verdict, or why there is none."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from jobs import _options as options
from jobs._revisions import Review
from perftrend import errors
from perftrend.clients.gerrit import Verdict
from perftrend.settings import Settings

_NO_NAME = re.compile(r"^[^A-Za-z0-9]+|[^A-Za-z0-9._/-]+")


def posted(
    settings: Settings, reviewed: Review | None, *, job: str, text: str, vote: int | None = None
) -> int:
    """Post a verdict, if it is to be, and return the exit code: one that was not posted is an error.

    The same verdict is not posted twice, however often the job is started again.

    :param reviewed: None where no change is under review.
    :param vote: on the label of the settings; None leaves what is there.
    """
    if reviewed is None or not settings.gerrit.post:
        return errors.EXIT_PASS
    vote = vote if settings.gerrit.label else None
    verdict = Verdict(_NO_NAME.sub("-", job).lstrip("-")[:200], text, vote, link())
    change, patch_set = reviewed.change.number, reviewed.patch_set.number
    try:
        found = reviewed.gerrit.post(change, patch_set, verdict)
    except errors.PerftrendError as error:
        # It is on the console and in the archive all the same.
        options.warn(f"the verdict is not posted: {error}")
        return errors.EXIT_SERVICE
    if found.unvoted:
        options.warn(f"the verdict is posted without its vote: {found.unvoted}")
    print(f"posted: {reviewed.page}", flush=True)
    return errors.EXIT_PASS


@dataclass(slots=True)
class Ending:
    """Whether a job has said its last word."""

    is_told: bool = False


@contextmanager
def failure_posted(settings: Settings, reviewed: Review | None, *, job: str) -> Iterator[Ending]:
    """Tell the change of what ends the job without a verdict, unless the job says that it has told it."""
    ending = Ending()
    text = ""
    try:
        yield ending
    except (errors.PerftrendError, OSError) as error:
        text = f"Could not be measured: {errors.explained(error)}"
        raise
    except KeyboardInterrupt:
        text = "Interrupted before it came to an end."
        raise
    finally:
        if text and not ending.is_told:
            with undisturbed():
                posted(settings, reviewed, job=job, text=text)


@contextmanager
def undisturbed() -> Iterator[None]:
    """Let no SIGTERM end what is said last: who aborts a build may send one after the other."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def build() -> str:
    """Return the address of this build; empty where no Jenkins runs it."""
    return os.environ.get("BUILD_URL", "")


def link() -> str:
    """Return where the report of this build will be read; empty where no Jenkins keeps it."""
    return artifact(Path("report/index.html"))


def artifact(path: Path) -> str:
    """Return where Jenkins will have a file or a folder of the workspace; empty where it will not."""
    url = build().rstrip("/")
    return f"{url}/artifact/{quote(path.as_posix())}" if url and not path.is_absolute() else ""
