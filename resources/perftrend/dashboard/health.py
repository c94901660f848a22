"""``/healthz`` and ``/metrics``: for machines that look after this one."""

from __future__ import annotations

import logging
from collections.abc import Iterator

from fastapi import APIRouter, Response
from pydantic import BaseModel

from perftrend.dashboard import metrics
from perftrend.dashboard.pages import json_of
from perftrend.dashboard.site import Site, TheSite
from perftrend.dashboard.users import Viewer
from perftrend.errors import StoreError
from perftrend.store.patience import patience

router = APIRouter()

LOG = logging.getLogger(__name__)

_PATIENCE_S = 5.0
"""Who asks does so every few seconds."""
_LEAST_FREE_BYTES = 16 * 2**20
"""A night of a large testbed needs about as much."""


class Health(BaseModel):
    """Whether the dashboard can do its work."""

    healthy: bool
    problems: list[str]
    """What is wrong, a line each."""


@router.get("/healthz", response_model=Health)
def healthz(site: TheSite) -> Response:
    """Tell whether the database can be reached and has room; anybody may ask."""
    problems = list(_problems(site))
    told = Health(healthy=not problems, problems=problems)
    return _not_kept(json_of(told, status=503 if problems else 200))


def _problems(site: Site) -> Iterator[str]:
    try:
        with patience(_PATIENCE_S):
            site.store.tiles.testbeds()
        free = site.store.free_bytes()
    except StoreError as error:
        LOG.error("%s", error)
        yield "the database cannot be reached or is too slow"
        return
    if free is not None and free < _LEAST_FREE_BYTES:
        yield f"the disk of the database is full ({free // 2**20} MiB are free); nothing can be saved"


@router.get("/metrics", response_class=Response, responses={200: {"content": {"text/plain": {}}}})
def numbers(site: TheSite, _: Viewer) -> Response:
    """Tell what Prometheus collects; where people sign in it shows an API token."""
    return _not_kept(Response(site.metrics.text(), media_type=metrics.TEXT))


def _not_kept(answer: Response) -> Response:
    answer.headers["Cache-Control"] = "no-store"
    return answer
