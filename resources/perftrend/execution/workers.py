"""The processes that evaluate traces: this one, some on this machine, or the workers of a dask cluster.

The results are the same everywhere. What a killed worker does not return is computed in this process.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from types import TracebackType
from typing import Any, Self, TypeVar

from perftrend import __version__, command_to_install, errors
from perftrend.analysis.mdl.batch import LOT, TaskCluster, map_lots, map_on_cluster, open_processes

FEWEST_ITEMS = 8 * LOT
"""Number of traces from which on several processes are used: they take a second or two to start."""
MOST_PROCESSES = 8
"""Maximum number of processes that are started by default: each needs 150 MB."""
_CONNECT_S = 15.0
_SAME_EVERYWHERE = ("numpy", "numba")
"""Packages of whose version the last digits of results may depend."""

_Item = TypeVar("_Item")
_Found = TypeVar("_Found")


class EvaluationWorkers:
    """Maps calls over many traces; a context manager that ends the processes.

    :param count: number of processes; None for one, or for one on each core if there are many traces.
    :param cluster: address of a dask scheduler, such as ``tcp://scheduler:8786``; empty for this machine.
    """

    def __init__(self, count: int | None = None, cluster: str = "") -> None:
        self._count = count
        self._cluster = cluster
        self._open = ExitStack()
        self._pool: Executor | None = None
        self._client: TaskCluster | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._open.close()

    def map(self, call: Callable[[_Item], _Found], items: Sequence[_Item], /) -> Iterator[_Found]:
        """Yield the result of a call for each item, in the order of the items.

        :param call: a function of a module, without side effects.
        :raises UsageError: if the package for a cluster is not installed.
        :raises ServiceError: if the cluster cannot be used, or has other versions than this process.
        """
        if self._cluster:
            return map_on_cluster(call, items, self._connect())
        count = self._count or (_cores() if len(items) >= FEWEST_ITEMS else 1)
        if count == 1:
            return map(call, items)
        if self._pool is None:
            self._pool = self._open.enter_context(open_processes(count))
        return map_lots(call, items, self._pool, count)

    def _connect(self) -> TaskCluster:
        if self._client is None:
            try:
                distributed: Any = import_module("distributed")
            except ImportError:
                how = command_to_install("cluster", "distributed")
                raise errors.UsageError(f"a cluster needs more packages; install them with: {how}") from None
            try:
                client = self._open.enter_context(
                    distributed.Client(self._cluster, timeout=_CONNECT_S, set_as_default=False)
                )
                versions = client.run(_versions)
            except (OSError, ValueError, ImportError) as error:
                raise errors.ServiceError(f"cluster {self._cluster}: cannot be used: {error}") from error
            _require_same(self._cluster, versions)
            self._client = client
        return self._client


def _cores() -> int:
    return min(len(os.sched_getaffinity(0)), MOST_PROCESSES)


def _versions() -> dict[str, str]:
    """Return the versions of everything that results depend on, in this process."""
    found = {"perftrend": __version__}
    for name in _SAME_EVERYWHERE:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found


def _require_same(cluster: str, of_workers: dict[str, dict[str, str]]) -> None:
    """Raise ServiceError if the cluster has no workers, or one has other versions than this process."""
    if not of_workers:
        raise errors.ServiceError(f"cluster {cluster}: it has no workers; start some with: dask worker")
    own = _versions()
    for worker, found in of_workers.items():
        for name, known in own.items():
            if found[name] != known:
                raise errors.ServiceError(
                    f"cluster {cluster}: worker {worker} has {name} {found[name]}, and this process {known}; "
                    "install the same versions, because results could differ"
                )
