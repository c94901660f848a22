"""Processes that read outputs and put them into the store, one for each core.

Reading is work for the processor, so threads would take turns. A process takes paths and returns a
few words; the results go into the store from where they were read, which queues its writers.
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

from perftrend.archive.fetch.choice import Kind
from perftrend.archive.fetch.entering import Claim, Entered, Readable, enter
from perftrend.errors import ArchiveError
from perftrend.store import Store

_TRIES = 2


class Readers:
    """Reads outputs for several threads.

    :param store: where the results go; see :meth:`Store.open`. It is there already, and up to date.
    :param processes: how many read at the same time. If it is 0, or this user may not share semaphores
        between processes, the threads read for themselves.
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
                # Processes share semaphores in /dev/shm, which some containers do not let a user write.
                self._processes = 0
                return self
            # What the readers import is loaded once, while the first builds are listed and fetched.
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

    def enter(self, claim: Claim, files: Sequence[Readable], kind: Kind = Kind.OUTPUT) -> Entered:
        """Read the files of one run or per-patch test and put it into the store; see :func:`entering.enter`.

        :raises ArchiveError: also if reading ends a process each time, as when memory runs out.
        """
        if not self._processes:
            with Store.open(self._store) as store:
                return enter(store, claim, files, self._maximum_bytes, kind)
        for _ in range(_TRIES):
            pool = self._running()
            try:
                return pool.submit(_enter, self._store, claim, files, self._maximum_bytes, kind).result()
            except BrokenProcessPool:
                # It may have been another file that ended the process.
                self._give_up(pool)
        raise ArchiveError(
            f"{files[0].name}: reading it ended the process that read it; is there memory enough?"
        )

    def _running(self) -> ProcessPoolExecutor:
        with self._lock:
            if self._pool is None:
                self._pool = self._new_pool()
            return self._pool

    def _new_pool(self) -> ProcessPoolExecutor:
        # Threads run here, and a fork of this process would copy their locks.
        context = multiprocessing.get_context("forkserver")
        return ProcessPoolExecutor(self._processes, mp_context=context, initializer=_prepare)

    def _give_up(self, pool: ProcessPoolExecutor) -> None:
        with self._lock:
            if self._pool is pool:
                self._pool = None
        pool.shutdown(wait=False, cancel_futures=True)


def _prepare() -> None:
    """Let the parent decide about interrupts, and end when it is gone: a killed one cannot say so."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: multiprocessing.process.BaseProcess) -> None:
    parent.join()
    os._exit(1)


def _enter(store: str, claim: Claim, files: Sequence[Readable], maximum_bytes: int, kind: Kind) -> Entered:
    return enter(_opened(store), claim, files, maximum_bytes, kind)


@cache
def _opened(store: str) -> Store:
    return Store.open(store)
