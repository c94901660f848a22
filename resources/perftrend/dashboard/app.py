"""The application: routers, error pages and middleware, and its warm-up before the first request."""

from __future__ import annotations

import gc
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import cache
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.middleware.gzip import GZipMiddleware
from starlette.types import ASGIApp, Receive, Scope, Send
from typing_extensions import override

import perftrend
from perftrend.analysis import mdl
from perftrend.dashboard import annotations as annotating
from perftrend.dashboard import (
    api_reference,
    calibration,
    health,
    job_requests,
    overview,
    queue,
    runs,
    saved_views,
    search,
    static,
    traces,
)
from perftrend.dashboard.auth import Authenticator, session_routes
from perftrend.dashboard.auth import routes as users
from perftrend.dashboard.background import Work, tile_worker
from perftrend.dashboard.clusters import routes as clusters
from perftrend.dashboard.clusters.clustering import ClusteringWorker
from perftrend.dashboard.compare import routes as compare
from perftrend.dashboard.context import AppContext
from perftrend.dashboard.error_pages import FAULTS, handle_errors
from perftrend.dashboard.explore import routes as explore
from perftrend.dashboard.ingestion import routes as ingestions
from perftrend.dashboard.ingestion.worker import folder_watcher, ingestion_worker
from perftrend.dashboard.middleware.access_log import AccessLog, HeadRequests
from perftrend.dashboard.middleware.rate_limit import BodyLimit, Buckets, Clients, RateLimit
from perftrend.dashboard.middleware.security import SecurityHeaders, TrustedHosts, allowed_hosts
from perftrend.dashboard.pages import NAVIGATION, environment
from perftrend.dashboard.response_cache.cache import ResponseCache
from perftrend.dashboard.triage import alert_routes
from perftrend.dashboard.triage import routes as triage
from perftrend.dashboard.triage.evaluation import watchman
from perftrend.dashboard.workers import RequestPriority
from perftrend.store.connection import patience

ROUTERS: tuple[APIRouter, ...] = (
    static.router,
    health.router,
    overview.router,
    explore.router,
    triage.router,
    alert_routes.router,
    clusters.router,
    compare.router,
    annotating.router,
    runs.router,
    traces.router,
    queue.router,
    calibration.router,
    job_requests.router,
    search.router,
    saved_views.router,
    ingestions.router,
    api_reference.router,
    users.router,
    session_routes.router,
)
"""The routers of all pages, and of what all pages share."""

WORKS: tuple[Work, ...] = (tile_worker, ClusteringWorker, watchman, ingestion_worker, folder_watcher)
"""The background tasks of a dashboard in production."""
FEW_TRACES = 100
"""Minimum number of traces for loading the compiled search, which takes 0.6 s.

A smaller store may never need it; :mod:`perftrend.analysis.mdl.engine` loads it on demand.
"""
_PACKED_FROM_BYTES = 1000
_PACKING_LEVEL = 5


def make_app(site: AppContext, *, works: Sequence[Work] = ()) -> FastAPI:
    """Return the application that serves a site.

    :param works: background tasks, which run from startup to shutdown.
    :raises SettingsError: for settings that cannot be combined.
    """

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        with ExitStack() as stack:
            for work in works:
                stack.enter_context(work(site))
            yield

    app = _Dashboard(
        site,
        title="perftrend dashboard",
        version=perftrend.__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
        routes=_pages().routes,
        lifespan=lifespan,
    )
    handle_errors(app)
    routes = [route for router in ROUTERS for route in router.routes]
    app.add_middleware(ResponseCache, routes=routes, site=site, authenticator=app.state.authenticator)
    app.add_middleware(GZipMiddleware, minimum_size=_PACKED_FROM_BYTES, compresslevel=_PACKING_LEVEL)
    paths = {route.path for route in routes if isinstance(route, APIRoute)}
    app.state.navigation = {path: title for path, title in NAVIGATION.items() if path in paths}
    return app


def warm_up(site: AppContext) -> None:
    """Prepare everything that the first requests need: traces, templates and static files.

    The dashboard only serves requests afterwards, so the first pages are as fast as later ones. The
    loaded objects live as long as the process. They are therefore frozen in Python's garbage collector,
    which would otherwise traverse them repeatedly and delay requests.

    :raises StoreError: if the store cannot be read.
    """
    # The loaded objects are not garbage, and collecting would take as long as reading them.
    gc.disable()
    try:
        traces = _read(site)
        _compile_templates()
        if traces >= FEW_TRACES:
            mdl.load()
        static.prepare()
        gc.freeze()
    finally:
        gc.enable()


@cache
def _pages() -> APIRouter:
    """Return all routers in one; cached, since FastAPI analyses endpoints each time a router is included."""
    joined = APIRouter(responses=dict(FAULTS))
    for router in ROUTERS:
        joined.include_router(router)
    return joined


class _Dashboard(FastAPI):
    """Adds the ``middleware`` outside all other, even outside the handler of server errors."""

    def __init__(self, site: AppContext, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]  # FastAPI's own
        self.state.site = site
        self.state.authenticator = Authenticator(site.settings.dashboard, site.store, site.metrics)
        chosen = site.settings.dashboard
        self._clients = Clients(chosen.proxies)
        self._buckets = Buckets(chosen.requests_per_second, chosen.burst)

    @override
    def openapi(self) -> dict[str, Any]:
        if self.openapi_schema is None:
            authenticator: Authenticator = self.state.authenticator
            api_reference.complete(super().openapi(), is_public=authenticator.is_public)
        return super().openapi()

    @override
    def build_middleware_stack(self) -> ASGIApp:
        inner = super().build_middleware_stack()
        site: AppContext = self.state.site
        chosen = site.settings.dashboard
        front: ASGIApp = RequestPriority(inner, traffic=site.traffic)
        front = BodyLimit(front, maximum_bytes=chosen.maximum_bytes)
        front = RateLimit(front, buckets=self._buckets)
        front = TrustedHosts(front, hosts=allowed_hosts(chosen))
        front = SecurityHeaders(front, secure=(chosen.url or "").startswith("https:"))
        front = HeadRequests(front)
        front = AccessLog(front, metrics=site.metrics, clients=self._clients)

        async def stack(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] != "http":
                await inner(scope, receive, send)
                return
            with patience(chosen.database_timeout_s):
                await front(scope, receive, send)

        return stack


def _read(site: AppContext) -> int:
    """Read the data that every page needs, and return the number of traces."""
    traces = site.catalog.now()
    for testbed in site.store.tiles.testbeds():
        site.store.tiles.axis(testbed)
    return len(traces.stored)


def _compile_templates() -> None:
    templates = environment()
    for name in templates.list_templates():
        templates.get_template(name)
