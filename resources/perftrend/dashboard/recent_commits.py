"""The default testbed and its recent commits, which pages offer for selection."""

from __future__ import annotations

from collections.abc import Sequence

from perftrend.dashboard.context import AppContext
from perftrend.store.tiles import TileColumn

_OFFERED = 40


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
