"""The partitions of many series: on all cores of a machine, or on a cluster.

Series are submitted in lots, a few lots ahead of the results: only these lots are in memory, however many
series there are.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import cpu_count, get_context
from typing import Protocol, TypedDict, Unpack, runtime_checkable

from numpy.typing import ArrayLike

from perftrend.analysis.mdl.engine import is_compiled
from perftrend.analysis.mdl.exact import partition
from perftrend.analysis.mdl.partitions import Partition

LOT = 64
"""Series submitted in one call."""
LOTS_AHEAD = 4
"""Lots queued for each worker."""


class PartitionOptions(TypedDict, total=False):
    """The options of :func:`~perftrend.analysis.partition`."""

    formula: str
    unit: float | None
    outliers: bool
    deviation: str | None
    engine: str


@runtime_checkable
class TaskCluster(Protocol):
    """The methods of a cluster that are used; ``dask.distributed.Client`` has them."""

    def get_executor(self) -> Executor:
        """Return an executor to submit calls to."""

    def nthreads(self) -> dict[str, int]:
        """Return the number of threads of each worker."""


def partition_all(
    series: Iterable[ArrayLike],
    *,
    client: TaskCluster | Executor | None = None,
    workers: int | None = None,
    progress: Callable[[int], object] | None = None,
    **options: Unpack[PartitionOptions],
) -> Iterator[Partition]:
    """Partition many series.

    :param series: the series, each in a form that :func:`~perftrend.analysis.partition` accepts; consumed
        as the work proceeds.
    :param client: a ``dask.distributed.Client``, or any executor of ``concurrent.futures``; None
        for the cores of this machine.
    :param workers: number of calls that the client runs at once; None for the number of threads of a
        cluster, or for the number of cores.
    :param progress: called after each lot with the number of series that are done.
    :param options: those of :func:`~perftrend.analysis.partition`.
    :returns: the partitions, in the order of the series.
    :raises SettingsError: if an option is invalid.
    """
    if isinstance(client, TaskCluster):
        workers = workers or sum(client.nthreads().values())
        yield from _spread(series, client.get_executor(), workers, progress, options)
    elif client is not None:
        yield from _spread(series, client, workers or cpu_count(), progress, options)
    else:
        workers = workers or cpu_count()
        with _own_pool(workers, options) as pool:
            yield from _spread(series, pool, workers, progress, options)


def _own_pool(workers: int, options: PartitionOptions) -> Executor:
    # The compiled search releases the interpreter lock; the search in numpy holds it.
    if options.get("engine") != "numpy" and is_compiled():
        return ThreadPoolExecutor(workers)
    try:
        # A fork of a process with threads may hang.
        return ProcessPoolExecutor(workers, mp_context=get_context("forkserver"))
    except OSError:
        # Processes share semaphores in /dev/shm, which some containers do not let a user write.
        return ThreadPoolExecutor(workers)


def _spread(
    series: Iterable[ArrayLike],
    pool: Executor,
    workers: int,
    progress: Callable[[int], object] | None,
    options: PartitionOptions,
) -> Iterator[Partition]:
    source = iter(series)
    waiting: deque[Future[list[Partition]]] = deque()
    done = 0
    try:
        while True:
            while len(waiting) < LOTS_AHEAD * max(workers, 1):
                lot = list(itertools.islice(source, LOT))
                if not lot:
                    break
                waiting.append(pool.submit(_partition_lot, lot, options))
            if not waiting:
                return
            found = waiting.popleft().result()
            done += len(found)
            if progress is not None:
                progress(done)
            yield from found
    finally:
        for future in waiting:
            future.cancel()


def _partition_lot(lot: Sequence[ArrayLike], options: PartitionOptions) -> list[Partition]:
    return [partition(each, **options) for each in lot]
