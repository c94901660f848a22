"""Permanent addresses of traces: ``/traces/HASH`` and the item of its change, for reports and mails.

Both redirect to a page of the dashboard. A hash stays valid if the trace is renamed, and an item may only be
found after the mail was written.
"""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, HTTPException, Path, Query
from fastapi.responses import RedirectResponse

from perftrend.analysis.formula import format_key
from perftrend.dashboard import links
from perftrend.dashboard.auth import Viewer
from perftrend.dashboard.context import AppContext, Context
from perftrend.store.alerts import CHANGES, Item, ItemSelection
from perftrend.store.tiles import StoredTrace

router = APIRouter(tags=["traces"])

_MOST_ITEMS = 200

TraceHash = Annotated[str, Path(pattern="^[0-9a-f]{32}$", description="hash of a trace, as in reports")]
Commit = Annotated[
    str, Query(pattern="^([0-9a-f]{7,64})?$", description="first changed commit of the wanted item")
]


@router.get("/traces/{trace}", status_code=303, response_class=RedirectResponse)
def plot(site: Context, _: Viewer, trace: TraceHash) -> RedirectResponse:
    """Redirect to the plot of a trace."""
    stored = _one(site, trace)
    url = links.of_plot(testbed=stored.key.as_dict().get("testbed", ""), ids=[format_key(stored.key)])
    return RedirectResponse(url, 303)


@router.get("/traces/{trace}/item", status_code=303, response_class=RedirectResponse)
def item(site: Context, _: Viewer, trace: TraceHash, commit: Commit = "") -> RedirectResponse:
    """Redirect to the newest item of a trace, or to all items of its testbed if it has none.

    If a commit is given, an item whose first changed commit it is has priority.
    """
    stored = _one(site, trace)
    chosen = ItemSelection(kinds=CHANGES, traces=[stored.hash])
    found = site.store.alerts.items.select(chosen, limit=_MOST_ITEMS)[0]
    if not found:
        testbed = stored.key.as_dict().get("testbed", "")
        return RedirectResponse(f"/triage?{urlencode({'status': 'all', 'testbed': testbed})}", 303)
    best = max(found, key=lambda each: (_is_at(each, commit), each.span.first_changed.moment))
    return RedirectResponse(f"/triage/{best.identity}", 303)


def _is_at(item: Item, commit: str) -> bool:
    return bool(commit) and item.span.first_changed.revision.startswith(commit)


def _one(site: AppContext, trace: str) -> StoredTrace:
    stored = site.catalog.now().by_hash.get(trace)
    if stored is None:
        raise HTTPException(404, "the store has no trace with this hash")
    return stored
