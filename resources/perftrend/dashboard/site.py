"""What a process of the dashboard serves, and how an endpoint gets at it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Self

from fastapi import Depends, Request

from perftrend.dashboard.catalog import Catalog
from perftrend.dashboard.metrics import Metrics
from perftrend.dashboard.traffic import Traffic
from perftrend.settings import Settings
from perftrend.store import Store


@dataclass(frozen=True, eq=False)
class Site:
    """A store with what is needed to show it; safe for the threads that serve it."""

    settings: Settings
    store: Store
    catalog: Catalog
    """All traces, in memory."""
    metrics: Metrics
    """What ``/metrics`` tells; pages may register their own numbers in its registry."""
    traffic: Traffic = field(default_factory=Traffic)
    """Whether somebody waits for an answer."""

    @classmethod
    def of(cls, settings: Settings, store: Store) -> Self:
        """Make a site of an opened store."""
        return cls(settings, store, Catalog(store), Metrics(store))


def site_of(request: Request) -> Site:
    """Return the site that a request is made to."""
    site: Site = request.app.state.site
    return site


TheSite = Annotated[Site, Depends(site_of)]
