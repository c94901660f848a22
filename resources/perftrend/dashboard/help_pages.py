"""``/help``: a short help for each page, and ``/api``: the OpenAPI document as a page.

The documentation is not part of the package, so the dashboard has the part of it that its users need most.
"""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel

from perftrend.dashboard import api_reference
from perftrend.dashboard.api_reference import ApiReference
from perftrend.dashboard.auth import Viewer
from perftrend.dashboard.pages import HELP_TOPICS, page

router = APIRouter()


class HelpTopics(BaseModel):
    """The topics of the help."""

    topics: list[str]


@router.get("/help", response_model=HelpTopics)
def show_help(request: Request, _: Viewer) -> Response:
    """Return the help of all pages."""
    return page(request, "help.html", HelpTopics(topics=list(HELP_TOPICS)), title="Help")


@router.get("/api", response_model=ApiReference)
def show_api(request: Request, _: Viewer) -> Response:
    """Return all endpoints with their parameters, bodies, roles and errors; see also ``/openapi.json``."""
    document: dict[str, Any] = request.app.openapi()
    return page(request, "api.html", api_reference.read(document), title="API")
