"""One-line responses, as text or JSON, to requests that are rejected before routing."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import Scope


def error_response(
    scope: Scope, status: int, message: str, *, headers: Mapping[str, str] | None = None
) -> Response:
    """Return an error response with a message."""
    response_headers = {"Cache-Control": "no-store", **(headers or {})}
    if "application/json" in Headers(scope=scope).get("accept", ""):
        return JSONResponse({"error": message}, status, headers=response_headers)
    return PlainTextResponse(f"{message}\n", status, headers=response_headers)
