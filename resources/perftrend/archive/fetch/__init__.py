"""Fetching archived outputs: from Jenkins, a log server, S3, a folder or a tar into the store.

::

    source = source_at("https://logs.example.org/ci/", access)
    fetcher = Fetcher(source, FileCache(folder), pace, DownloadLimits())
    ingester = BuildIngester(source, fetcher, readers)
    for result in in_parallel(ingester, claims, workers=4, stop=pace.stop): ...

All steps survive a kill at any time: run the job again to resume. See ``docs/fetching.rst``.
"""

from perftrend.archive.fetch.builds import ArchivedBuild, ArchivedFile, BuildFilter, BuildSource, Version
from perftrend.archive.fetch.cache import FileCache
from perftrend.archive.fetch.download import DownloadLimits, Fetcher
from perftrend.archive.fetch.ingest import (
    BuildIngester,
    FetchProgress,
    IngestResult,
    IngestStatus,
    KnownBuilds,
    Tally,
    in_parallel,
)
from perftrend.archive.fetch.run_ingest import Claim, Readers
from perftrend.archive.fetch.sources import Access, jenkins_address, source_at
from perftrend.archive.fetch.web import Credentials, RateLimiter, Web

__all__ = [
    "Access",
    "ArchivedBuild",
    "ArchivedFile",
    "BuildFilter",
    "BuildIngester",
    "BuildSource",
    "Claim",
    "Credentials",
    "DownloadLimits",
    "FetchProgress",
    "Fetcher",
    "FileCache",
    "IngestResult",
    "IngestStatus",
    "KnownBuilds",
    "RateLimiter",
    "Readers",
    "Tally",
    "Version",
    "Web",
    "in_parallel",
    "jenkins_address",
    "source_at",
]
