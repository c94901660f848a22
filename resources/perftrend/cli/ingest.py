"""Fetch archived outputs, read them, and add them to the store."""

from __future__ import annotations

import argparse
import glob
import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from datetime import time as clock
from typing import NoReturn

from perftrend import console, errors
from perftrend.archive import fetch
from perftrend.archive.fetch import run_ingest
from perftrend.archive.fetch.builds import ArchivedBuild, BuildFilter
from perftrend.archive.fetch.ingest import IngestStatus
from perftrend.cli import options
from perftrend.clients import build_events
from perftrend.clients.http_session import origin
from perftrend.clients.jenkins import Jenkins
from perftrend.settings import Settings
from perftrend.settings.values import moment_of
from perftrend.store import Store

EVERY_S = 300.0
_LONGEST_PAUSE_S = 604800.0

_RANGE = re.compile(r"(?P<first>\d{1,9})?(?P<dots>\.\.)?(?P<last>\d{1,9})?")


def parser() -> argparse.ArgumentParser:
    """Describe the command line."""
    described = options.Parser(
        "ingest",
        __doc__,
        examples=[
            "./run ingest jenkins+https://jenkins.example.org --job 'nightly-*' --since 2026-01-01",
            "./run ingest s3://logs/ci --testbed 2n-clx --follow",
        ],
    )
    described.add_argument(
        "source",
        metavar="SOURCE",
        nargs="?",
        help="jenkins+https://…, https://…, s3://… or a path (default: the Jenkins of the settings)",
    )
    add = described.add_argument_group("builds").add_argument
    add("--job", metavar="PATTERN", default="*", help="jobs by name, such as 'nightly-*' (default: all)")
    add(
        "--builds", metavar="A..B", type=numbers, default=(0, None), help="builds by number: A..B, A.. or ..B"
    )
    add("--since", metavar="DATE", type=since, help="builds from this day or moment on")
    add("--testbed", metavar="NAME", default="", help="the testbed of builds that do not name it")
    add(
        "--testbed-pattern",
        metavar="REGEX",
        default=run_ingest.DEFAULT_TESTBED_PATTERN,
        help="finds the testbed in the name of a job",
    )
    add = described.add_argument_group("new builds").add_argument
    add("--follow", action="store_true", help="continue with new builds as they appear")
    add(
        "--every",
        metavar="SECONDS",
        type=float,
        default=EVERY_S,
        help="how often --follow checks (default: %(default)g)",
    )
    add("--events", action="store_true", help="ingest the builds of the events on standard input")
    add = options.add_files(described, report=False, archive=False).add_argument
    add("--cache", metavar="DIR", help="folder for fetched files")
    return described


def main(argv: Sequence[str] | None = None) -> int:
    """Run the job and return its exit code."""
    with options.report_errors() as outcome:
        given = parser().parse_args(argv)
        outcome.exit_code = ingest(given)
    return outcome.exit_code


def ingest(given: argparse.Namespace) -> int:
    """Ingest all wanted builds, once or continuously."""
    if not 0 < given.every <= _LONGEST_PAUSE_S:
        raise errors.UsageError(f"--every is {given.every:g}; give seconds above 0, at most a week")
    if given.follow and given.events:
        raise errors.UsageError("--follow polls for builds, --events receives them: give one of the two")
    settings = Settings.load(given.settings, overrides={"store": given.store, "fetch.cache": given.cache})
    wanted = BuildFilter(given.job, given.since, *given.builds)
    if Store.may_be_there(settings.store):
        Store.open(settings.store).close()  # otherwise it is created for the first build that is found
    processes = processes_for(settings)
    with fetch.Readers(settings.store, processes, settings.fetch.maximum_bytes) as readers:
        work = SourceIngestion(given, settings, readers)
        if given.events:
            return work.ingest_events(wanted)
        if given.follow:
            work.follow(wanted, given.every)
        return work.ingest(wanted)


class SourceIngestion:
    """Ingestion from one source into the store."""

    def __init__(self, given: argparse.Namespace, settings: Settings, readers: fetch.Readers) -> None:
        self._given = given
        self._settings = settings
        self._form = run_ingest.compile_testbed_pattern(given.testbed_pattern)
        self._pace = fetch.RateLimiter(settings.fetch.requests_per_second)
        location = given.source or (f"jenkins+{settings.jenkins.url}" if settings.jenkins.url else "")
        if not location:
            raise errors.UsageError("no SOURCE is given and no jenkins.url is set: where are the builds?")
        self._source = fetch.source_at(location, access(settings, self._pace, location))
        limits = fetch.DownloadLimits(
            maximum_bytes=settings.fetch.maximum_bytes, attempts=settings.jenkins.attempts
        )
        fetcher = fetch.Fetcher(
            self._source,
            fetch.FileCache(settings.fetch.cache, settings.fetch.cache_bytes),
            self._pace,
            limits,
        )
        self._ingester = fetch.BuildIngester(self._source, fetcher, readers)
        self._shown_notes: set[str] = set()
        self._workers = self._source.workers or settings.fetch.workers

    def ingest(self, wanted: BuildFilter, *, may_be_none: bool = False) -> int:
        """Ingest the wanted builds, print the results, and return the exit code."""
        tally = fetch.Tally()
        try:
            with fetch.FetchProgress(tally, sys.stdout) as progress:
                for result in self._ingest_in_parallel(wanted, tally):
                    if result.note and result.note not in self._shown_notes:
                        self._shown_notes.add(result.note)
                        progress.clear()
                        warn(f"{result.name} is {result.fate}: {result.note}")
                    progress.show_tally()
        finally:
            if tally.counts:
                _print_tally(tally)
        if not tally.counts and not may_be_none:
            if not wanted.since:
                raise errors.UsageError(f"no build was found{_where(self._given)}")
            print(f"there is no build since {wanted.since:%Y-%m-%d %H:%M} UTC")
        if tally.counts[IngestStatus.FAILED]:
            return errors.EXIT_SERVICE
        return errors.EXIT_USAGE if tally.counts[IngestStatus.BROKEN] else errors.EXIT_PASS

    def follow(self, wanted: BuildFilter, every_s: float) -> NoReturn:
        """Ingest existing and new builds until interrupted."""
        while True:
            try:
                self.ingest(wanted, may_be_none=True)
            except errors.ServiceError as error:
                # The server may have recovered by the next check.
                warn(str(error))
                self._pace.stop.clear()
            pause(every_s)

    def ingest_events(self, wanted: BuildFilter) -> int:
        """Ingest the builds that standard input announces, until it ends; return the worst exit code."""
        code = errors.EXIT_PASS
        for line in build_events.lines(sys.stdin.buffer):
            try:
                event = build_events.parse(line)
                if event and wanted.job_fits(event.job) and wanted.number_fits(event.build):
                    one = replace(wanted, job=glob.escape(event.job), first=event.build, last=event.build)
                    code = max(code, self.ingest(one))
            except (errors.ArchiveError, errors.ServiceError, errors.UsageError) as error:
                warn(str(error))
                self._pace.stop.clear()
                code = max(code, error.exit_code)
        return code

    def _ingest_in_parallel(self, wanted: BuildFilter, tally: fetch.Tally) -> Iterator[fetch.IngestResult]:
        claims = self._claims(wanted, tally)
        for result in fetch.in_parallel(self._ingester, claims, self._workers, self._pace.stop):
            tally.add(result)
            yield result

    def _claims(self, wanted: BuildFilter, tally: fetch.Tally) -> Iterator[tuple[ArchivedBuild, fetch.Claim]]:
        """Yield the builds that have not been read before, newest first."""
        known = fetch.KnownBuilds(lambda: Store.open(self._settings.store))
        for build in self._source.builds(wanted):
            if known.has(build):
                tally.add(fetch.IngestResult(build.name, IngestStatus.KNOWN))
            else:
                yield build, self._claim(build)
        known.note_versions()

    def _claim(self, build: ArchivedBuild) -> fetch.Claim:
        return fetch.Claim(
            build.job,
            build.number,
            build.location,
            build.started,
            build.finished,
            self._given.testbed,
            run_ingest.testbed_of(build.job, self._form),
            build.version,
        )


def access(settings: Settings, pace: fetch.RateLimiter, location: str) -> fetch.Access:
    """Return the access to a source. The token is sent only to the Jenkins of the settings.

    If the settings name no Jenkins, the one in the location receives it.
    """
    jenkins = settings.jenkins
    home = str(jenkins.url) if jenkins.url else ""
    if not home and location.startswith("jenkins+"):
        home = fetch.jenkins_address(location)[0]
    token = jenkins.token.get_secret_value() if jenkins.token else None

    def client(address: str) -> Jenkins:
        at_home = origin(address) == origin(home)
        return Jenkins(
            address,
            user=jenkins.user if at_home else None,
            token=token if at_home else None,
            timeout_s=jenkins.timeout_s,
            attempts=jenkins.attempts,
        )

    return fetch.Access(
        pace=pace,
        jenkins=client,
        credentials={home: fetch.Credentials(jenkins.user, token)} if home and jenkins.user and token else {},
        timeout_s=jenkins.timeout_s,
        attempts=jenkins.attempts,
        report=warn,
        private_redirects=settings.fetch.private_redirects,
    )


def processes_for(settings: Settings) -> int:
    """Return the number of outputs to read at the same time: reading is bound by the CPU."""
    return min(settings.fetch.workers, os.cpu_count() or 1)


def pause(seconds: float) -> None:
    """Wait until the next check."""
    time.sleep(seconds)


def since(text: str) -> datetime:
    """Parse a day, which means its start in UTC, or a time, in UTC if it has no zone."""
    try:
        return moment_of(text, of_day=clock.min)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not a date: {error}") from None


def numbers(text: str) -> tuple[int, int | None]:
    """Parse ``17``, ``3..17``, ``3..`` or ``..17``."""
    found = _RANGE.fullmatch(text)
    if not found or not (found["first"] or found["last"]):
        raise argparse.ArgumentTypeError(f"{text!r} is not a range of builds: write 3..17, 3.., ..17 or 17")
    first = int(found["first"] or 0)
    last = int(found["last"]) if found["last"] else None
    if not found["dots"]:
        last = first = int(text)
    if last is not None and last < first:
        raise argparse.ArgumentTypeError(f"{text!r} ends before it begins")
    return first, last


def warn(message: str) -> None:
    """Print a message that is not a result on standard error."""
    console.warn(" ".join(message.split()))


def _print_tally(tally: fetch.Tally) -> None:
    for fate in IngestStatus:
        if tally.counts[fate]:
            print(f"{fate}: {tally.names(fate)}")
    for form, one in sorted(tally.unknown.items()):
        print(f"not understood: {form} ({one.count}, first in {one.example})")
    print(tally, flush=True)


def _where(given: argparse.Namespace) -> str:
    filters = [] if given.job == "*" else [f"--job {given.job}"]
    first, last = given.builds
    if given.builds != (0, None):
        filters.append(f"--builds {first}..{'' if last is None else last}")
    return (
        f" that matches {' '.join(filters)}" if filters else "; a build is a folder JOB/NUMBER with an output"
    )


if __name__ == "__main__":
    sys.exit(main())
