"""Telling a change under review what became of a job: its verdict, or why there is none."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import quote

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
        _say(f"the verdict is not posted: {error}")
        return errors.EXIT_SERVICE
    if found.unvoted:
        _say(f"the verdict is posted without its vote: {found.unvoted}")
    print(f"posted: {reviewed.page}", flush=True)
    return errors.EXIT_PASS


@contextmanager
def failure_posted(settings: Settings, reviewed: Review | None, *, job: str) -> Iterator[None]:
    """Tell the change of an error that ends the job without a verdict."""
    try:
        yield
    except (errors.PerftrendError, OSError) as error:
        text = f"Could not be measured: {' '.join(str(error).split())}"
        posted(settings, reviewed, job=job, text=text)
        raise


def link() -> str:
    """Return where the report of this build will be read; empty where no Jenkins keeps it."""
    return artifact(Path("report/index.html"))


def artifact(path: Path) -> str:
    """Return where Jenkins will have a file or a folder of the workspace; empty where it will not."""
    url = os.environ.get("BUILD_URL", "").rstrip("/")
    return f"{url}/artifact/{quote(path.as_posix())}" if url and not path.is_absolute() else ""


def _say(message: str) -> None:
    print(f"perftrend: {message}", file=sys.stderr, flush=True)
