"""Worker thread for requested and periodic clusterings, one after the other.

Requests are in the store, so it does not matter which process of a dashboard received them, nor whether that
process still exists. A worker that is stopped returns the current clustering to the queue; it starts again at
the next start.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self

from perftrend.dashboard.background import defect
from perftrend.dashboard.clusters.clustering import find, rule
from perftrend.dashboard.clusters.models import LEAST_WINDOW, ClusterOptions
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.workers import EndEvent
from perftrend.errors import PerftrendError, StoreError, explain
from perftrend.store.clusterings import NewestClustering

LOG = logging.getLogger(__name__)

_POLL_S = 2.0
"""Interval of the checks for requests."""
_DUE_S = 60.0
"""Interval of the checks for periodic clusterings that are due."""
_BEAT_S = 1.0
"""Interval of the progress reports."""


class _StoppedError(Exception):
    """The worker is stopped."""


class _LostError(Exception):
    """The clustering was cancelled, or another process has claimed it."""


class ClusteringWorker:
    """Worker that runs clusterings in its own thread, from entering the context to leaving it.

    ::

        with ClusteringWorker(site): ...
    """

    def __init__(self, site: AppContext, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._site = site
        self._now = now
        self._stopping = EndEvent()
        self._running = ExitStack()
        self._next_due = 0.0

    def __enter__(self) -> Self:
        self._running.enter_context(self._site.workers.run("clustering", self._run, self._stopping))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._running.close()

    def stop(self) -> None:
        """End the current clustering at the next iteration, and start no other."""
        self._stopping.set()

    def request_due_clusterings(self) -> None:
        """Request the clusterings whose period is over, for testbeds with new data."""
        period = self._site.settings.dashboard.cluster_period_s
        if period is None:
            return
        tiles = self._site.store.tiles
        for testbed in tiles.testbeds():
            axis = tiles.axis(testbed)
            if len(axis.columns) >= LEAST_WINDOW:
                self._site.store.clusterings.request_periodically(
                    testbed,
                    ClusterOptions().model_dump(),
                    data=" ".join(map(str, axis.version)),
                    period=timedelta(seconds=period),
                    now=self._now(),
                )

    def work_once(self) -> bool:
        """Run one clustering, if one is requested, and return whether there was one.

        :raises StoreError: if the store cannot be reached; the clustering is run later then.
        """
        clusterings = self._site.store.clusterings
        task = clusterings.claim(self._now())
        if task is None:
            return False
        try:
            self._cluster(task)
        except _StoppedError:
            clusterings.give_back(task)
        except _LostError:
            LOG.warning("clustering of %s: cancelled, or claimed by another process", task.testbed)
        except StoreError:
            raise
        except (PerftrendError, MemoryError) as error:
            reason = explain(error) or "not enough memory; select fewer traces"
            LOG.warning("clustering of %s: %s", task.testbed, reason)
            clusterings.fail(task, reason)
        except Exception as error:
            # Show the defect to the user who waits, and go on with the next clustering.
            reason = f"{defect(error)}; the dashboard's log says where"
            LOG.exception("clustering of %s: %s", task.testbed, reason)
            clusterings.fail(task, reason)
        return True

    def _cluster(self, task: NewestClustering) -> None:
        options = ClusterOptions.model_validate(task.options)
        found = find(self._site, task.testbed, options, self._make_progress_callback(task))
        merged = self._site.store.clusters.merge(task, rule(found), found.numbers)
        if merged is None:
            raise _LostError
        LOG.info(
            "clustering of %s: %d clusters are interesting, %d of them new",
            task.testbed,
            len(found.clusters),
            merged.added,
        )

    def _make_progress_callback(self, task: NewestClustering) -> Callable[[str], None]:
        last_reported = 0.0
        give_way = self._site.traffic.give_way_callback()

        def report_progress(stage: str) -> None:
            nonlocal last_reported
            give_way()
            if self._stopping.is_set():
                raise _StoppedError
            if time.monotonic() - last_reported < _BEAT_S:
                return
            last_reported = time.monotonic()
            if not self._site.store.clusterings.beat(task, stage, self._now()):
                raise _LostError

        return report_progress

    def _run(self) -> None:
        while not self._stopping.wait(_POLL_S):
            try:
                if time.monotonic() >= self._next_due:
                    self._next_due = time.monotonic() + _DUE_S
                    self.request_due_clusterings()
                with self._site.store.changes.suspend_commit_count():
                    while not self._stopping.is_set() and self.work_once():
                        pass
            except StoreError as error:
                # The database is unreachable; the clustering is claimed again when its lease has expired.
                LOG.error("clustering: %s", explain(error))
            except Exception as error:
                # A defect must not end all further clusterings.
                LOG.exception("clustering: %s: %s", type(error).__name__, explain(error))
