"""The objects that a process of the dashboard shares between requests, and their FastAPI dependency."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Self

from fastapi import Depends, Request

from perftrend.dashboard.background_priority import Traffic
from perftrend.dashboard.catalog import Catalog
from perftrend.dashboard.metrics import Metrics
from perftrend.settings import Settings
from perftrend.store import Store


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

    @classmethod
    def of(cls, settings: Settings, store: Store) -> Self:
        """Return a site of an open store."""
        return cls(settings, store, Catalog(store), Metrics(store))


def context_of(request: Request) -> AppContext:
    """Return the site of the application that handles a request."""
    site: AppContext = request.app.state.site
    return site


Context = Annotated[AppContext, Depends(context_of)]
