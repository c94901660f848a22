"""Plots of annotated commits in Explore."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from urllib.parse import urlencode

from perftrend.dashboard.recent import usual_testbed
from perftrend.dashboard.site import Site
from perftrend.store.annotations import Annotation
from perftrend.store.tiles import Column

_STEM = 7
"""Number of digits that distinguish two commits in nearly all cases."""
_AVERAGED = 20_000
"""Maximum number of traces whose averages are drawn."""


def plots(site: Site, annotations: Iterable[Annotation]) -> dict[int, str]:
    """Return the addresses of plots of the annotated commits in Explore, by the ids of the annotations.

    Commits that were never measured have no address. If several testbeds measured a commit, the usual testbed
    is preferred.
    """
    testbeds = site.store.tiles.testbeds()
    usual = usual_testbed(site, testbeds)
    ordered = sorted(testbeds, key=lambda each: each != usual)
    known = {testbed: _Commits(site.store.tiles.axis(testbed).columns) for testbed in ordered}
    found = {}
    for each in annotations:
        for testbed in [each.testbed] if each.testbed else ordered:
            number = known[testbed].first(each.commit) if testbed in known else None
            if number is not None:
                found[each.identity] = _around(site, testbed, number)
                break
    return found


class _Commits:
    """The columns of a testbed, by prefixes of their commits."""

    def __init__(self, columns: Sequence[Column]) -> None:
        self._begun: dict[str, list[tuple[int, str]]] = {}
        for number, column in enumerate(columns):
            self._begun.setdefault(column.revision[:_STEM], []).append((number, column.revision))

    def first(self, commit: str) -> int | None:
        """Return the first column of a commit."""
        begun = self._begun.get(commit[:_STEM], ())
        fitting = (number for number, each in begun if each.startswith(commit) or commit.startswith(each))
        return next(fitting, None)


def _around(site: Site, testbed: str, column: int) -> str:
    asked: dict[str, object] = {"testbed": testbed, "at": column}
    table = site.catalog.table()
    if len(table) <= _AVERAGED:
        asked |= {"show": "ave"} | ({"by": "metric"} if "metric" in table.parameters else {})
    return f"/?{urlencode(asked)}"
