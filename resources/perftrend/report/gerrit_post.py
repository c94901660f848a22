"""Posting of a job's verdict, or the reason for a missing one, on a change under review."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from perftrend import console, errors
from perftrend.clients.gerrit import ReviewVerdict
from perftrend.execution.revisions import ReviewedPatch
from perftrend.settings import Settings

_NO_NAME = re.compile(r"^[^A-Za-z0-9]+|[^A-Za-z0-9._/-]+")


def post(
    settings: Settings, reviewed: ReviewedPatch | None, *, job: str, text: str, vote: int | None = None
) -> int:
    """Post a verdict if posting is enabled, and return the exit code: a failure to post is an error.

    The same verdict is not posted twice, even if the job is started again.

    :param reviewed: None if no change is under review.
    :param vote: on the label of the settings; None leaves the label unchanged.
    """
    if reviewed is None or not settings.gerrit.post:
        return errors.EXIT_PASS
    vote = vote if settings.gerrit.label else None
    verdict = ReviewVerdict(_NO_NAME.sub("-", job).lstrip("-")[:200], text, vote, link())
    change, patch_set = reviewed.change.number, reviewed.patch_set.number
    try:
        found = reviewed.gerrit.post(change, patch_set, verdict)
    except errors.PerftrendError as error:
        # The verdict is on the console and in the archive nevertheless.
        console.warn(f"the verdict is not posted: {error}")
        return errors.EXIT_SERVICE
    if found.unvoted:
        console.warn(f"the verdict is posted without its vote: {found.unvoted}")
    console.print_text(f"posted: {reviewed.page}")
    return errors.EXIT_PASS


@dataclass(slots=True)
class PostState:
    """Whether a job has posted its result."""

    is_posted: bool = False


@contextmanager
def failure_posted(
    settings: Settings, reviewed: ReviewedPatch | None, *, job: str, is_cancelled: Callable[[], bool]
) -> Iterator[PostState]:
    """Post what ended the job without a verdict, unless the job has posted its result.

    :param is_cancelled: whether the listener has ended the job, and reports that itself.
    """
    ending = PostState()
    text = ""
    try:
        yield ending
    except (errors.PerftrendError, OSError) as error:
        text = f"Could not be measured: {errors.explain(error)}"
        raise
    except KeyboardInterrupt:
        text = "" if is_cancelled() else "Interrupted before it was finished."
        raise
    finally:
        if text and not ending.is_posted:
            with ignore_sigterm():
                post(settings, reviewed, job=job, text=text)


@contextmanager
def ignore_sigterm() -> Iterator[None]:
    """Ignore SIGTERM while the result is posted: an aborted build may receive several."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def build() -> str:
    """Return the URL of this build; empty outside of Jenkins."""
    return os.environ.get("BUILD_URL", "")


def link() -> str:
    """Return the future URL of the report of this build; empty outside of Jenkins."""
    return artifact(Path("report/index.html"))


def artifact(path: Path) -> str:
    """Return the future URL of a file or a folder of the workspace in Jenkins; empty if it has none."""
    url = build().rstrip("/")
    return f"{url}/artifact/{quote(path.as_posix())}" if url and not path.is_absolute() else ""
