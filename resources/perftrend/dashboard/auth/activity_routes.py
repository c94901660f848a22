"""``/activity``: the log of users' changes, newest first."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from perftrend.dashboard.auth import Viewer
from perftrend.dashboard.auth.models import ActEntry, ActivityLog
from perftrend.dashboard.context import Context
from perftrend.dashboard.pages import page
from perftrend.dashboard.response_cache import cacheable

router = APIRouter()

# PostgreSQL cannot store NUL in text, so no entry contains it.
Filter = Annotated[str | None, Query(max_length=255, pattern="^[^\\x00]*$")]


@router.get("/activity", response_model=ActivityLog)
@cacheable
def activity(  # noqa: PLR0917 - FastAPI passes each by name
    request: Request,
    site: Context,
    _: Viewer,
    subject: Filter = None,
    user: Filter = None,
    before: Annotated[int | None, Query(ge=1, le=2**31 - 1, description="entries before this number")] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 100,
) -> Response:
    """List the changes that users made, newest first."""
    # One more entry than is shown, to find out whether there is a next page.
    found = site.store.activity.newest(limit + 1, subject=subject or None, user=user or None, before=before)
    shown = [ActEntry(**asdict(act)) for act in found[:limit]]
    model = ActivityLog(acts=shown, before=shown[-1].number if len(found) > limit else None)
    older = {"subject": subject or "", "user": user or "", "limit": limit, "before": model.before}
    return page(
        request,
        "activity.html",
        model,
        title="Activity",
        subject=subject or "",
        user_filter=user or "",
        older=older,
    )
