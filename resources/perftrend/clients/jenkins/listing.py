"""Builds of a job in pages, so that a job with 20,000 builds is neither one answer nor thousands.

A page is a range of the server's own list, newest first. The list moves while it is read: a build that
begins shifts it back, which shows builds twice, and one that is deleted shifts it forward, which would
hide as many. So a page begins a little before the last one's end, and what was shown already is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator

from perftrend.clients.jenkins.api import Api
from perftrend.clients.jenkins.builds import Build
from perftrend.clients.web.refusals import TooLargeError

FIRST_PAGE = 100
"""Builds in the first answer; most callers want the newest only. Each further one has twice as many."""
LARGEST_PAGE = 2000
NUMBERS_PAGE = 10_000
"""Builds in an answer that tells nothing but their numbers."""
OVERLAP = 10
"""So many builds may be deleted between two answers, and none is left out."""


def newest_first(api: Api, job: str, highest: int | None = None) -> Iterator[Build]:
    """Yield the builds of a job, newest first, page by page as they are taken.

    A page that is too large for an answer is asked for in smaller parts.

    :param highest: the highest number that is of interest; pages before it are passed over cheaply.
    """
    if not api.knows_ranges():
        found: Iterator[Build] = iter(api.every_build(job))
    else:
        found = _paged(api, job, _place_of(api, job, highest) if highest else 0)
    return (build for build in found if highest is None or build.number <= highest)


def _paged(api: Api, job: str, place: int) -> Iterator[Build]:
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
    """Return a place in the list that no build up to that number stands before."""
    place, last = 0, None
    while True:
        page = api.build_numbers(job, place, place + NUMBERS_PAGE)
        above = sum(number > highest for number in page)
        # A server that repeats itself has no end to look for.
        if above < NUMBERS_PAGE or (last and page[-1] >= last):
            return max(0, place + above - OVERLAP)
        place, last = place + NUMBERS_PAGE, page[-1]
