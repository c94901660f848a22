"""The objects that a process of the dashboard shares between requests, and their FastAPI dependency.

Functions return the default testbed and its recent commits, which pages offer for selection.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Self

from fastapi import Depends, Request

from perftrend.dashboard.catalog import Catalog
from perftrend.dashboard.metrics import Metrics, WorkerMetrics
from perftrend.dashboard.workers import Traffic, Workers
from perftrend.settings import Settings
from perftrend.store import Store
from perftrend.store.tiles import TileColumn

_OFFERED = 40


@dataclass(frozen=True, eq=False)
class AppContext:
    """A store with everything that is needed to show it; thread-safe."""

    settings: Settings
    store: Store
    catalog: Catalog
    """All traces, in memory."""
    metrics: Metrics
    """The metrics of ``/metrics``; pages can register their own in its registry."""
    traffic: Traffic = field(default_factory=Traffic)
    """The requests in progress."""
    workers: Workers = field(default_factory=Workers)
    """The running background workers."""

    @classmethod
    def of(cls, settings: Settings, store: Store) -> Self:
        """Return a site of an open store."""
        metrics, workers = Metrics(store), Workers()
        metrics.registry.register(WorkerMetrics(workers))
        return cls(settings, store, Catalog(store), metrics, workers=workers)


def context_of(request: Request) -> AppContext:
    """Return the site of the application that handles a request."""
    site: AppContext = request.app.state.site
    return site


Context = Annotated[AppContext, Depends(context_of)]


def usual_testbed(site: AppContext, testbeds: Sequence[str]) -> str:
    """Return the default testbed; empty if there are no testbeds."""
    if site.settings.testbed in testbeds:
        return site.settings.testbed
    return testbeds[0] if testbeds else ""


def recent_commits(site: AppContext) -> list[TileColumn]:
    """Return the known recent commits of the default testbed, newest first, without duplicates."""
    testbed = usual_testbed(site, site.store.tiles.testbeds())
    columns = site.store.tiles.axis(testbed).columns if testbed else ()
    # If a commit was measured repeatedly, its newest column is used.
    found = {column.revision: column for column in columns[-_OFFERED:] if column.revision}
    return sorted(found.values(), key=lambda column: column.started, reverse=True)
