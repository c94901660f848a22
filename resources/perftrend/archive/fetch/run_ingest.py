"""Ingestion of fetched files as a run: identification of the run, and all of its results or none.

The testbed of a run is in its output, in the job's name, or given by the user.

Outputs are read and entered into the store by processes, one for each core: reading is CPU-bound, so threads
would not run in parallel. A process receives paths and returns a summary; it writes the results into the
store itself, which queues its writers.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.process
import os
import re
import signal
import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from multiprocessing import forkserver
from pathlib import Path
from types import TracebackType

from perftrend.archive import patch_report
from perftrend.archive.fetch import unpack
from perftrend.archive.fetch.builds import ContentKind
from perftrend.archive.ingestion import of_experiment, without_doubles
from perftrend.archive.reader import Output, Unknown
from perftrend.archive.results import UNKNOWN
from perftrend.errors import ArchiveError, UsageError
from perftrend.model import Result, Run, TraceKey
from perftrend.store import Store

DEFAULT_TESTBED_PATTERN = r"(?<![^-_/])(?P<testbed>[1-9][0-9]?n[0-9a-z]*-[0-9a-z]+)"
"""Finds ``2n-clx`` in ``perftrend-trending-nightly-2n-clx`` and in ``team/mrr-daily-master-2n-clx``."""

_TRIES = 2


@dataclass(frozen=True, slots=True)
class Claim:
    """The known data of a run before its output is read."""

    job: str
    build: int
    archive: str = ""
    """Path or URL of the run's files."""
    started: datetime | None = None
    finished: datetime | None = None
    testbed: str = ""
    """The testbed given by the user. An output of another testbed is refused."""
    likely_testbed: str = ""
    """The testbed in the job's name, which is used if the output contains none."""
    version: str = ""
    """Of the archive, as listed by its source; empty if that is not known."""

    @property
    def name(self) -> str:
        """``job/build``."""
        return f"{self.job}/{self.build}"


@dataclass(frozen=True, slots=True)
class ReadableFile:
    """A fetched file."""

    path: Path
    name: str
    """Name of the file for messages."""


@dataclass(frozen=True, slots=True)
class IngestedRun:
    """The result of ingesting a run."""

    testbed: str
    results: int
    added: bool
    """False if the store already had it."""
    unknown: Mapping[str, Unknown] = field(default_factory=dict, hash=False)
    """Unknown parts of the files, by their form."""
    ended: bool = True
    """False for a per-patch test in progress."""


def enter(
    store: Store,
    claim: Claim,
    files: Sequence[ReadableFile],
    maximum_bytes: int,
    kind: ContentKind = ContentKind.OUTPUT,
) -> IngestedRun:
    """Read the files of one run or per-patch test and enter its results into the store, in one transaction.

    :param maximum_bytes: maximum decompressed size of one file.
    :param kind: the content of the files.
    :raises ArchiveError: if a file is damaged or refused, the files contain no performance test, or their
        testbed or time is not known; the store is unchanged.
    :raises StoreError: if the store cannot be written; it is unchanged.
    """
    if kind is ContentKind.PATCH:
        return _enter_patch(store, claim, files[0], maximum_bytes)
    name = files[0].name
    output = Output(
        [unpack.stream(file.path, file.name, maximum_bytes) for file in files], testbed=claim.testbed
    )
    results = [_assign_testbed(result, claim.likely_testbed) for result in output]
    if not results:
        raise ArchiveError(f"{name}: contains no performance test; do its tests have the tag MRR or NDRPDR?")
    run = _run(claim, _testbed(results, claim, name), output, name)
    added = store.add(run, of_experiment(without_doubles(results), run.experiment), version=claim.version)
    return IngestedRun(run.testbed, len(results), added, output.unknown)


def _enter_patch(store: Store, claim: Claim, report: ReadableFile, maximum_bytes: int) -> IngestedRun:
    most = min(maximum_bytes, patch_report.MOST_BYTES)
    content = unpack.stream(report.path, report.name, most).read()
    test, traces = patch_report.parse(
        content, job=claim.job, build=claim.build, name=report.name, archive=claim.archive
    )
    if claim.testbed and test.testbed != claim.testbed:
        raise ArchiveError(
            f"{report.name}: was run on testbed {test.testbed}, but --testbed is {claim.testbed}"
        )
    added = store.patch_tests.add(test, traces, version=claim.version)
    return IngestedRun(test.testbed, len(traces), added, ended=test.ended)


def _assign_testbed(result: Result, likely_testbed: str) -> Result:
    """Assign a result to the testbed in the job's name, if the output contains none."""
    if not likely_testbed or result.key["testbed"] != UNKNOWN:
        return result
    return replace(result, key=TraceKey.of(**result.key.as_dict() | {"testbed": likely_testbed}))


def _testbed(results: Iterable[Result], claim: Claim, name: str) -> str:
    found = sorted({result.key["testbed"] for result in results})
    if len(found) > 1:
        raise ArchiveError(f"{name}: was run on several testbeds, {', '.join(found)}; a run is of one")
    [testbed] = found
    if testbed == UNKNOWN:
        raise ArchiveError(
            f"{name}: does not name the testbed of the run, "
            f"and neither does job {claim.job!r}; give --testbed"
        )
    if claim.testbed and testbed != claim.testbed:
        raise ArchiveError(f"{name}: was run on testbed {testbed}, but --testbed is {claim.testbed}")
    return testbed


def _run(claim: Claim, testbed: str, output: Output, name: str) -> Run:
    started = claim.started or output.started or output.finished
    finished = claim.finished or output.finished or output.started
    if started is None or finished is None:
        raise ArchiveError(f"{name}: does not contain the time of the run, and neither does its source")
    return Run(
        testbed=testbed,
        job=claim.job,
        build=claim.build,
        started=started,
        finished=finished,
        versions=output.versions,
        archive=claim.archive,
        simulated=output.simulated,
        suites_started=output.started,
        suites_finished=output.finished,
        experiment=output.experiment,
        environment=output.environment,
    )


def compile_testbed_pattern(expression: str) -> re.Pattern[str]:
    """Compile the pattern that finds the testbed in a job's name.

    The testbed is its group ``testbed``, else its first group, else the whole match.

    :raises UsageError: if it is not a regular expression.
    """
    try:
        return re.compile(expression)
    except re.error as error:
        raise UsageError(
            f"--testbed-pattern {expression!r}: {error}; write one such as {DEFAULT_TESTBED_PATTERN!r}"
        ) from None


def testbed_of(job: str, form: re.Pattern[str]) -> str:
    """Return the testbed in a job's name; empty if it contains none. The last match counts."""
    places = list(form.finditer(job))
    if not places:
        return ""
    found = places[-1]
    if "testbed" in form.groupindex:
        return found["testbed"] or ""
    return (found[1] if form.groups else found[0]) or ""


class Readers:
    """Reads outputs for several threads.

    :param store: the store of the results; see :meth:`Store.open`. It exists already, and is up to date.
    :param processes: number of processes. If it is 0, or this user may not share semaphores between
        processes, the threads read the outputs themselves.
    """

    def __init__(self, store: str, processes: int, maximum_bytes: int) -> None:
        self._store = store
        self._processes = processes
        self._maximum_bytes = maximum_bytes
        self._lock = threading.Lock()
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Readers:
        if self._processes:
            try:
                self._pool = self._new_pool()
            except OSError:
                # Processes share semaphores in /dev/shm, which is not writable for users in some containers.
                self._processes = 0
                return self
            # Modules of the readers are imported once, while the first builds are listed and fetched.
            multiprocessing.set_forkserver_preload(["__main__", __name__])
            forkserver.ensure_running()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def enter(
        self, claim: Claim, files: Sequence[ReadableFile], kind: ContentKind = ContentKind.OUTPUT
    ) -> IngestedRun:
        """Read the files of one run or per-patch test and store its results; see :func:`.enter`.

        :raises ArchiveError: also if each attempt ends its process, such as when memory is exhausted.
        """
        if not self._processes:
            with Store.open(self._store) as store:
                return enter(store, claim, files, self._maximum_bytes, kind)
        for _ in range(_TRIES):
            pool = self._get_pool()
            try:
                return pool.submit(_enter, self._store, claim, files, self._maximum_bytes, kind).result()
            except BrokenProcessPool:
                # Another file may have ended the process.
                self._give_up(pool)
        raise ArchiveError(f"{files[0].name}: the process that read it ended; is there enough memory?")

    def _get_pool(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = self._new_pool()
            return self._pool

    def _new_pool(self) -> ProcessPoolExecutor:
        # This process has threads, and a fork would copy their locks.
        context = multiprocessing.get_context("forkserver")
        return ProcessPoolExecutor(self._processes, mp_context=context, initializer=_prepare)

    def _give_up(self, pool: ProcessPoolExecutor) -> None:
        with self._lock:
            if self._pool is pool:
                self._pool = None
        pool.shutdown(wait=False, cancel_futures=True)


def _prepare() -> None:
    """Ignore interrupts, which the parent handles, and end with the parent even if it is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _enter(
    store: str, claim: Claim, files: Sequence[ReadableFile], maximum_bytes: int, kind: ContentKind
) -> IngestedRun:
    return enter(_open_store(store), claim, files, maximum_bytes, kind)


@cache
def _open_store(store: str) -> Store:
    return Store.open(store)
