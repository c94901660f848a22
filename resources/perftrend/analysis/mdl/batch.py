"""Calls for many series: on all cores of a machine, or on a cluster.

Series are submitted in lots, a few lots ahead of the results: only these lots are in memory, however many
series there are. A lot whose worker was killed is computed in this process, so results depend on no worker.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import cpu_count, get_context
from typing import Protocol, TypedDict, TypeVar, Unpack, runtime_checkable

from numpy.typing import ArrayLike

from perftrend.analysis.mdl.engine import is_compiled
from perftrend.analysis.mdl.exact import partition
from perftrend.analysis.mdl.partitions import Partition

LOT = 64
"""Series submitted in one call."""
LOTS_AHEAD = 4
"""Lots queued for each worker."""
_CHECK_S = 10.0
"""Interval of the checks whether a cluster still has workers, in seconds."""

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


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
    call = partial(partition, **options)
    if isinstance(client, TaskCluster):
        yield from map_on_cluster(call, series, client, workers=workers, progress=progress)
    elif client is not None:
        yield from map_lots(call, series, client, workers or cpu_count(), progress=progress)
    else:
        workers = workers or cpu_count()
        # The compiled search releases the interpreter lock; the search in numpy holds it.
        threads = options.get("engine") != "numpy" and is_compiled()
        with ThreadPoolExecutor(workers) if threads else open_processes(workers) as pool:
            yield from map_lots(call, series, pool, workers, progress=progress)


def open_processes(workers: int) -> Executor:
    """Open a pool of processes; of threads, if the system does not let processes share semaphores."""
    try:
        # A fork of a process with threads may hang.
        return ProcessPoolExecutor(workers, mp_context=get_context("forkserver"))
    except OSError:
        # Processes share semaphores in /dev/shm, which some containers do not let a user write.
        return ThreadPoolExecutor(workers)


def map_on_cluster(
    call: Callable[[_Item], _Found],
    items: Iterable[_Item],
    cluster: TaskCluster,
    *,
    workers: int | None = None,
    progress: Callable[[int], object] | None = None,
) -> Iterator[_Found]:
    """Yield the results of a call, as :func:`map_lots`.

    :param workers: number of calls that the cluster runs at once; None for the number of its threads.
    """
    count = workers or sum(cluster.nthreads().values())
    yield from map_lots(
        call, items, cluster.get_executor(), count, progress=progress, is_alive=partial(_has_workers, cluster)
    )


def map_lots(
    call: Callable[[_Item], _Found],
    items: Iterable[_Item],
    pool: Executor,
    workers: int,
    *,
    progress: Callable[[int], object] | None = None,
    is_alive: Callable[[], bool] = lambda: True,
) -> Iterator[_Found]:
    """Yield the result of a call for each item, in the order of the items.

    :param call: without side effects. It can be pickled, as can the items and the results.
    :param workers: number of calls that the pool runs at once.
    :param progress: called after each lot with the number of items that are done.
    :param is_alive: whether the pool can still return results.
    """
    source = iter(items)
    waiting: deque[tuple[list[_Item], Future[list[_Found]] | None]] = deque()
    done = 0
    try:
        while True:
            while len(waiting) < LOTS_AHEAD * max(workers, 1):
                lot = list(itertools.islice(source, LOT))
                if not lot:
                    break
                waiting.append((lot, _submit(pool, call, lot)))
            if not waiting:
                return
            found = _compute_lost(call, *waiting.popleft(), is_alive)
            done += len(found)
            if progress is not None:
                progress(done)
            yield from found
    finally:
        for _, future in waiting:
            if future is not None:
                future.cancel()


def _submit(pool: Executor, call: Callable[[_Item], _Found], lot: list[_Item]) -> Future[list[_Found]] | None:
    """Submit a lot; return None if the pool is broken."""
    try:
        return pool.submit(_call_lot, call, lot)
    except Exception:  # noqa: BLE001 - pools and clusters break in many ways, and the lot is computed here
        return None


def _compute_lost(
    call: Callable[[_Item], _Found],
    lot: list[_Item],
    future: Future[list[_Found]] | None,
    is_alive: Callable[[], bool],
) -> list[_Found]:
    """Return the results of a lot; compute them here if the pool does not return them.

    If the call itself has failed, it fails here in the same way.
    """
    while future is not None:
        try:
            return future.result(_CHECK_S)
        except TimeoutError:
            if future.done() or not is_alive():
                break
        except Exception:  # noqa: BLE001 - as for _submit
            break
    return _call_lot(call, lot)


def _has_workers(cluster: TaskCluster) -> bool:
    try:
        return bool(cluster.nthreads())
    except Exception:  # noqa: BLE001 - as for _submit
        return False


def _call_lot(call: Callable[[_Item], _Found], lot: Sequence[_Item]) -> list[_Found]:
    return [call(each) for each in lot]
