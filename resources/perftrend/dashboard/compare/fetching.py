"""Reports of per-patch tests on Jenkins that the store does not have.

A build is selected by its name or its address. Only its report is requested, from the Jenkins in the
settings. Reports do not change, so the most recently used ones are cached in memory.
"""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import unquote

from perftrend.archive.patch_report import MOST_BYTES
from perftrend.clients.jenkins import connect
from perftrend.clients.jenkins.paths import job_path
from perftrend.errors import ArchiveError, UsageError
from perftrend.settings import JenkinsSettings

REPORT = "artifact/report/perftest.json"
"""Path of the report in a build on Jenkins."""
_KEPT = 16
_PATIENCE_S = 10.0
"""Maximum time that a page waits for a server that does not respond."""
_NAME = re.compile(r"([\w.-]{1,100}(?:/[\w.-]{1,100}){0,5})/([1-9][0-9]{0,8})", re.ASCII)
_ADDRESS = re.compile(r"((?:job/[^/?#]+/)+)([1-9][0-9]{0,8})(?:/.*)?", re.ASCII)


def named(text: str, jenkins: str) -> tuple[str, int]:
    """Return the job and the number of a build that a user entered.

    :param text: ``folder/job/7``, or the address of the build.
    :param jenkins: the address of the Jenkins.
    :raises UsageError: if it is neither.
    """
    address = _ADDRESS.fullmatch(text.removeprefix(f"{jenkins}/")) if text.startswith(f"{jenkins}/") else None
    if address:
        parts = address[1].removeprefix("job/").removesuffix("/").split("/job/")
        text = f"{'/'.join(map(unquote, parts))}/{address[2]}"
    found = _NAME.fullmatch(text)
    if not found:
        raise UsageError(
            f"patch set {text[:100]!r}: enter the job and the number of the build, "
            f"such as perftrend-perftest-2n-clx/7, or its address at {jenkins}"
        )
    return found[1], int(found[2])


@lru_cache(maxsize=_KEPT)
def fetched(settings: JenkinsSettings, job: str, number: int) -> bytes:
    """Return the report of a build.

    :raises ArchiveError: if it is larger than ``MOST_BYTES``.
    :raises ServiceError: if Jenkins refuses, fails, or has no such report.
    """
    patience = {"timeout_s": min(settings.timeout_s, _PATIENCE_S), "attempts": 1}
    jenkins = connect(settings.model_copy(update=patience))
    content = bytearray()
    with jenkins.open(f"{jenkins.url}/{job_path(job)}/{number}/{REPORT}") as chunks:
        for chunk in chunks:
            content += chunk
            if len(content) > MOST_BYTES:
                raise ArchiveError(
                    f"the report is larger than {MOST_BYTES} bytes, so it is not from a per-patch test"
                )
    return bytes(content)
