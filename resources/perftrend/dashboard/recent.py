"""The testbed that is shown first, and the commits that it measured lately: what people are offered."""

from __future__ import annotations

from collections.abc import Sequence

from perftrend.dashboard.site import Site
from perftrend.store.tiles import Column

_OFFERED = 40


def usual_testbed(site: Site, testbeds: Sequence[str]) -> str:
    """Return the testbed that is shown first; empty while there is none."""
    if site.settings.testbed in testbeds:
        return site.settings.testbed
    return testbeds[0] if testbeds else ""


def recent_commits(site: Site) -> list[Column]:
    """Return the commits of the usual testbed that are known, the newest first, each once."""
    testbed = usual_testbed(site, site.store.tiles.testbeds())
    columns = site.store.tiles.axis(testbed).columns if testbed else ()
    # Of a commit that was measured again and again its newest column stays.
    found = {column.revision: column for column in columns[-_OFFERED:] if column.revision}
    return sorted(found.values(), key=lambda column: column.started, reverse=True)
