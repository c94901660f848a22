"""Jenkins' JSON API: requests by tree, builds in pages, hints for unknown names.

A job with 20,000 builds needs neither one response nor thousands: a page is a range of the server's list,
newest first. The list changes while it is read: a new build shifts it backwards, which repeats builds, and a
deleted one shifts it forwards, which would omit builds. Therefore a page begins a little before the end of
the last one, and builds that were returned already are dropped.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any

from perftrend.clients.jenkins.builds import TREE, JenkinsBuild, number_of, read_build
from perftrend.clients.jenkins.paths import is_name, job_path
from perftrend.clients.jenkins.transport import Transport
from perftrend.clients.web.errors import RefusedError, TooLargeError
from perftrend.errors import ServiceError, nearest

_DEEPEST_FOLDER = 20
"""Maximum nesting of folders; deeper ones are reported as an error of the server."""
FIRST_PAGE = 100
"""Builds in the first response; most callers need the newest only. The size doubles with each page."""
LARGEST_PAGE = 2000
NUMBERS_PAGE = 10_000
"""Builds in a response that contains only their numbers."""
OVERLAP = 10
"""Number of builds that may be deleted between two requests without omitting any."""


class Api:
    """Requests to one Jenkins, each with a limited response."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport

    def url(self, job: str) -> str:
        """Return the URL of a job's page, without a slash at its end."""
        return f"{self.transport.url}/{job_path(job)}"

    def knows_ranges(self) -> bool:
        """Return whether ranges of a list can be requested, which only Jenkins itself supports."""
        if self.transport.version is None:
            self.transport.json("", "mode")
        return bool(self.transport.version)

    def job(self, job: str, tree: str) -> dict[str, Any]:
        """Return the JSON of a job."""
        with self.suggest_similar_jobs(job):
            return self.transport.json(job_path(job), tree)

    def build(self, job: str, number: int) -> JenkinsBuild:
        """Return one build."""
        with self.suggest_similar_jobs(job):
            fields = self.transport.json(f"{job_path(job)}/{number}", TREE)
        return read_build(job, self.url(job), fields)

    def builds(self, job: str, begin: int, end: int) -> Sequence[JenkinsBuild]:
        """Return the builds of a range in the server's list; ``end`` is excluded."""
        listed = self._list(job, f"allBuilds[{TREE}]{{{begin},{end}}}")
        return [read_build(job, self.url(job), each) for each in listed]

    def build_numbers(self, job: str, begin: int, end: int) -> Sequence[int]:
        """Return the build numbers of a range in the server's list."""
        return [
            number_of(self.url(job), each) for each in self._list(job, f"allBuilds[number]{{{begin},{end}}}")
        ]

    def every_build(self, job: str) -> Sequence[JenkinsBuild]:
        """Return all builds, newest first, for servers without ranges."""
        listed = self._list(job, f"allBuilds[{TREE}],builds[{TREE}]")
        return sorted(
            (read_build(job, self.url(job), each) for each in listed), key=lambda build: -build.number
        )

    def names(
        self, path: str, folder: str, *, recursive: bool, depth: int = _DEEPEST_FOLDER
    ) -> Iterator[str]:
        """Yield the full names of the jobs at a path, which is a folder or one of its views."""
        listed = self.transport.json(path, "jobs[name,jobs[name]]").get("jobs") or ()
        for each in listed if isinstance(listed, list) else ():
            name = each.get("name") if isinstance(each, dict) else None
            if not is_name(name) or depth == 0:
                raise ServiceError(
                    f"{self.transport.url}/{path}: lists a job {name!r:.100}, which cannot exist there; "
                    "is jenkins.url right?"
                )
            full = f"{folder}/{name}" if folder else str(name)
            # In this list, only folders have a list of jobs.
            if "jobs" not in each:
                yield full
            elif recursive and each["jobs"]:
                yield from self.names(job_path(full), full, recursive=True, depth=depth - 1)

    @contextmanager
    def suggest_similar_jobs(self, job: str) -> Iterator[None]:
        """Add the names of similar jobs to the error if a job is not found."""
        try:
            yield
        except RefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            raise RefusedError(f"{error}{self._nearest(job)}", error.status) from None

    def _nearest(self, job: str) -> str:
        folder = job.rpartition("/")[0]
        try:
            names = list(self.names(job_path(folder), folder, recursive=False))
        except ServiceError:
            return ""
        # A server has thousands of jobs; show only a few.
        return "" if job in names else nearest(job, difflib.get_close_matches(job, names, n=5, cutoff=0.4))

    def _list(self, job: str, tree: str) -> list[dict[str, Any]]:
        answer = self.job(job, tree)
        listed = answer.get("allBuilds", answer.get("builds")) or []
        if not isinstance(listed, list):
            raise ServiceError(f"{self.url(job)}: the response has no list of builds; is jenkins.url right?")
        return listed


def newest_first(api: Api, job: str, highest: int | None = None) -> Iterator[JenkinsBuild]:
    """Yield the builds of a job, newest first, requested page by page during the iteration.

    A page that is too large for one response is requested in smaller parts.

    :param highest: the highest number to return; pages before it are skipped by their numbers alone.
    """
    if not api.knows_ranges():
        found: Iterator[JenkinsBuild] = iter(api.every_build(job))
    else:
        found = _read_pages(api, job, _place_of(api, job, highest) if highest else 0)
    return (build for build in found if highest is None or build.number <= highest)


def _read_pages(api: Api, job: str, place: int) -> Iterator[JenkinsBuild]:
    size, last = FIRST_PAGE, None
    while True:
        begin = max(0, place - min(OVERLAP, size)) if last else place
        try:
            page = api.builds(job, begin, place + size)
        except TooLargeError:
            if size == 1:
                raise
            size //= 2
            continue
        fresh = [build for build in page if last is None or build.number < last]
        yield from sorted(fresh, key=lambda build: -build.number)
        if not fresh or len(page) < place + size - begin:
            return
        last = min(build.number for build in fresh)
        place, size = place + size, min(2 * size, LARGEST_PAGE)


def _place_of(api: Api, job: str, highest: int) -> int:
    """Return an index in the list before which all builds have a higher number."""
    place, last = 0, None
    while True:
        page = api.build_numbers(job, place, place + NUMBERS_PAGE)
        above = sum(number > highest for number in page)
        # A server that repeats itself has no end to find.
        if above < NUMBERS_PAGE or (last and page[-1] >= last):
            return max(0, place + above - OVERLAP)
        place, last = place + NUMBERS_PAGE, page[-1]
