"""Fetching archived outputs: from Jenkins, a log server, S3, a folder or a tar into the store.

::

    source = source_at("https://logs.example.org/ci/", access)
    taker = Taker(source, Fetcher(source, Cache(folder), pace, Limits()), readers)
    for taken in in_parallel(taker, claims, workers=4, stop=pace.stop): ...

All steps survive a kill at any time: run the job again to resume. See ``docs/fetching.rst``.
"""

from perftrend.archive.fetch.builds import ArchivedBuild, ArchivedFile, Source, Version, Wanted
from perftrend.archive.fetch.cache import Cache
from perftrend.archive.fetch.download import Fetched, Fetcher, Limits
from perftrend.archive.fetch.entering import Claim, Entered, enter
from perftrend.archive.fetch.events import Event
from perftrend.archive.fetch.known import KnownBuilds
from perftrend.archive.fetch.location import Access, jenkins_address, source_at
from perftrend.archive.fetch.pace import Pace
from perftrend.archive.fetch.progress import Progress, Tally
from perftrend.archive.fetch.readers import Readers
from perftrend.archive.fetch.taking import Fate, Taken, Taker, in_parallel
from perftrend.archive.fetch.web import Credentials, Web
from perftrend.clients.web.session import origin

__all__ = [
    "Access",
    "ArchivedBuild",
    "ArchivedFile",
    "Cache",
    "Claim",
    "Credentials",
    "Entered",
    "Event",
    "Fate",
    "Fetched",
    "Fetcher",
    "KnownBuilds",
    "Limits",
    "Pace",
    "Progress",
    "Readers",
    "Source",
    "Taken",
    "Taker",
    "Tally",
    "Version",
    "Wanted",
    "Web",
    "enter",
    "in_parallel",
    "jenkins_address",
    "origin",
    "source_at",
]
