"""Processes that read outputs and enter them into the store, one for each core.

Reading is CPU-bound, so threads would not run in parallel. A process receives paths and returns a summary; it
writes the results into the store itself, which queues its writers.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.process
import os
import signal
import threading
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from functools import cache
from multiprocessing import forkserver
from types import TracebackType

from perftrend.archive.fetch.output_files import ContentKind
from perftrend.archive.fetch.run_ingest import Claim, IngestedRun, ReadableFile, enter
from perftrend.errors import ArchiveError
from perftrend.store import Store

_TRIES = 2


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
        """Read the files of one run or per-patch test and store its results; see :func:`.run_ingest.enter`.

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
