"""``/livez``, ``/healthz`` and ``/metrics``, for monitoring."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from fastapi import APIRouter, Response
from pydantic import BaseModel

from perftrend.dashboard import metrics
from perftrend.dashboard.auth import Viewer
from perftrend.dashboard.context import AppContext, Context
from perftrend.dashboard.pages import json_of
from perftrend.errors import StoreError
from perftrend.store.connection import patience

router = APIRouter()

LOG = logging.getLogger(__name__)

_PATIENCE_S = 5.0
"""Time limit of database queries; the endpoint is polled every few seconds."""
_LEAST_FREE_BYTES = 16 * 2**20
"""Minimum free disk space, about what the results of one night of a large testbed need."""


class Health(BaseModel):
    """The health of the dashboard."""

    healthy: bool
    problems: list[str]
    """Descriptions of the problems, a line each."""


@router.get("/livez", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
async def livez() -> Response:
    """Report that the process answers, whatever the database does. Authentication is not required."""
    return _disable_caching(Response("alive\n", media_type="text/plain"))


@router.get("/healthz", response_model=Health)
def healthz(site: Context) -> Response:
    """Report whether the dashboard is ready: its database is usable, and its background workers run.

    Authentication is not required.
    """
    problems = list(_problems(site))
    model = Health(healthy=not problems, problems=problems)
    return _disable_caching(json_of(model, status=503 if problems else 200))


def _problems(site: AppContext) -> Iterator[str]:
    for name, problem in site.workers.problems().items():
        if problem:
            yield f"the background worker {name} {problem}; restart the dashboard"
    try:
        with patience(_PATIENCE_S):
            is_current = site.store.has_newest_version()
            site.store.tiles.testbeds()
        free = site.store.free_bytes()
    except StoreError as error:
        LOG.error("%s", error)
        yield "the database cannot be reached or is too slow"
        return
    if not is_current:
        yield "the database has another version than the dashboard; start the dashboard of that version"
    if free is not None and free < _LEAST_FREE_BYTES:
        yield f"the disk of the database is full ({free // 2**20} MiB are free); nothing can be saved"


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def numbers(site: Context, _: Viewer) -> Response:
    """Return the metrics for Prometheus. If reading requires authentication, scrape with an API token."""
    return _disable_caching(Response(site.metrics.text(), media_type=metrics.TEXT))


def _disable_caching(answer: Response) -> Response:
    answer.headers["Cache-Control"] = "no-store"
    return answer
