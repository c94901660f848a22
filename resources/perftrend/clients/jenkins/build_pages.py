"""Builds of a job in pages, so that a job with 20,000 builds needs neither one response nor thousands.

A page is a range of the server's list, newest first. The list changes while it is read: a new build shifts
it backwards, which repeats builds, and a deleted one shifts it forwards, which would omit builds. Therefore
a page begins a little before the end of the last one, and builds that were returned already are dropped.
"""

from __future__ import annotations

from collections.abc import Iterator

from perftrend.clients.jenkins.api import Api
from perftrend.clients.jenkins.builds import JenkinsBuild
from perftrend.clients.web.errors import TooLargeError

FIRST_PAGE = 100
"""Builds in the first response; most callers need the newest only. The size doubles with each page."""
LARGEST_PAGE = 2000
NUMBERS_PAGE = 10_000
"""Builds in a response that contains only their numbers."""
OVERLAP = 10
"""Number of builds that may be deleted between two requests without omitting any."""


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
