"""The global search of ``/search``: tests, commits, items and people.

Traces and commits are searched in memory, in the distinct values of the parameters and in the columns of the
testbeds. Items and people are searched in the database, whose tables of them are small.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal
from urllib.parse import urlencode

import numpy as np
from fastapi import APIRouter, Query, Request, Response
from pydantic import AfterValidator, BaseModel, Field

from perftrend.analysis import formula
from perftrend.analysis.formula import Term
from perftrend.dashboard import links
from perftrend.dashboard.auth import Viewer
from perftrend.dashboard.context import AppContext, Context
from perftrend.dashboard.formats import plain
from perftrend.dashboard.pages import page
from perftrend.dashboard.triage.models import LARGEST_NUMBER, ItemView
from perftrend.dashboard.triage.views import item_views
from perftrend.store.alerts import Item

router = APIRouter()

SHOWN = 10
"""Matches of each group on the page of all groups."""
MOST = 200
"""Matches on the page of one group."""
LONGEST = 200
_MOST_WORDS = 8
_TEST = "test"
_COMMIT = re.compile(r"[0-9a-f]{4,40}")
_ITEM = re.compile(r"#?([0-9]{1,10})")


class SearchQuery(BaseModel):
    """What to search for."""

    q: Annotated[str, AfterValidator(plain), AfterValidator(str.strip), Field(max_length=LONGEST)] = ""
    """Words that a match contains, a prefix of a commit, or the number of an item such as ``#12``."""
    group: Literal["", "tests", "commits", "items", "people"] = ""
    """The only group that is returned; empty: the first matches of all."""


class TestbedMatch(BaseModel):
    """The traces of a test on a testbed."""

    testbed: str
    traces: int
    explore: str
    """Address of their plot."""


class TestMatch(BaseModel):
    """A test with its matching traces."""

    test: str
    traces: int
    testbeds: list[TestbedMatch]


class CommitTestbed(BaseModel):
    """A testbed that measured a commit."""

    testbed: str
    started: datetime
    """When it was first measured there."""
    explore: str
    """Address of the plot around it."""


class CommitMatch(BaseModel):
    """A measured commit."""

    commit: str
    link: str
    """Address of its review; empty: not known."""
    testbeds: list[CommitTestbed]


class PersonMatch(BaseModel):
    """A person who owns items or alerts, or has written annotations."""

    name: str
    items: int
    """Number of open items."""
    annotations: int
    triage: str
    """Address of all items of the owner."""
    activity: str


class SearchPage(BaseModel):
    """The matches of a search: at most 10 of each group, or 200 of a single one."""

    query: SearchQuery
    tests: list[TestMatch]
    """Tests that have traces with all words in their parameters."""
    commits: list[CommitMatch]
    """Measured commits that begin with the text, the newest first."""
    items: list[ItemView]
    """Items with this number, with all words in the testbed, the message or the owner, or with this commit as
    the first changed one; the newest first."""
    people: list[PersonMatch]
    totals: dict[str, int]
    """Number of all matches of each group that was searched."""


@router.get("/search", response_model=SearchPage)
def search(request: Request, site: Context, _: Viewer, wanted: Annotated[SearchQuery, Query()]) -> Response:
    """Search for tests, commits, items and people."""
    words = wanted.q.lower().split()[:_MOST_WORDS]
    limit = MOST if wanted.group else SHOWN

    def is_searched(group: str) -> bool:
        return bool(words) and wanted.group in {"", group}

    tests, all_tests = _tests(site, words, limit) if is_searched("tests") else ([], 0)
    commits, all_commits = _commits(site, words, limit) if is_searched("commits") else ([], 0)
    items, all_items = _items(site, words, limit) if is_searched("items") else ([], 0)
    people, all_people = _people(site, words, limit) if is_searched("people") else ([], 0)
    model = SearchPage(
        query=wanted,
        tests=tests,
        commits=commits,
        items=item_views(site, items),
        people=people,
        totals={"tests": all_tests, "commits": all_commits, "items": all_items, "people": all_people},
    )
    return page(request, "search.html", model, title="Search", all_of=lambda group: _address(wanted.q, group))


def _address(q: str, group: str = "") -> str:
    return f"/search?{urlencode({'q': q} | ({'group': group} if group else {}))}"


def _tests(site: AppContext, words: Sequence[str], limit: int) -> tuple[list[TestMatch], int]:
    """Return tests that have traces in whose parameters each word is found."""
    table = site.catalog.table()
    found = table.search(words)
    counts = table.count_values(_TEST, found)
    shown = list(counts.items())[:limit]
    matches = []
    for test, count in shown:
        rows = np.flatnonzero(found & table.mask(formula.Query((Term(_TEST, test),))))
        testbeds = [
            TestbedMatch(testbed=testbed or "", traces=len(places), explore=_plot(test, testbed or ""))
            for testbed, places in table.by_value("testbed", rows).items()
        ]
        matches.append(TestMatch(test=test, traces=count, testbeds=testbeds))
    return matches, len(counts)


def _plot(test: str, testbed: str) -> str:
    terms = (Term(_TEST, test), *((Term("testbed", testbed),) if testbed else ()))
    return links.of_query(testbed=testbed, query=str(formula.Query(terms)))


def _commits(site: AppContext, words: Sequence[str], limit: int) -> tuple[list[CommitMatch], int]:
    """Return the measured commits that begin with the only word."""
    if len(words) != 1 or not _COMMIT.fullmatch(words[0]):
        return [], 0
    measured: dict[str, list[CommitTestbed]] = {}
    for testbed in site.store.tiles.testbeds():
        seen: set[str] = set()
        for number, column in enumerate(site.store.tiles.axis(testbed).columns):
            revision = column.revision
            if not revision.startswith(words[0]) or revision in seen:
                continue
            seen.add(revision)
            explore = links.of_column(testbed, number)
            measured.setdefault(revision, []).append(
                CommitTestbed(testbed=testbed, started=column.started, explore=explore)
            )
    newest = sorted(measured.items(), key=lambda each: max(one.started for one in each[1]), reverse=True)
    return [
        CommitMatch(commit=revision, link=links.of_commit(revision, site.settings), testbeds=testbeds)
        for revision, testbeds in newest[:limit]
    ], len(measured)


def _items(site: AppContext, words: Sequence[str], limit: int) -> tuple[list[Item], int]:
    single = words[0] if len(words) == 1 else ""
    number = _ITEM.fullmatch(single)
    identity = int(number[1]) if number and int(number[1]) <= LARGEST_NUMBER else None
    if single.startswith("#") and identity is not None:
        item = site.store.alerts.items.one(identity)
        return ([item], 1) if item else ([], 0)
    commit = single if _COMMIT.fullmatch(single) else ""
    return site.store.alerts.items.search(words, identity=identity, commit=commit, limit=limit)


def _people(site: AppContext, words: Sequence[str], limit: int) -> tuple[list[PersonMatch], int]:
    """Return owners and authors whose names contain each word."""
    items = site.store.alerts.items.count_open_by_owner()
    authors = site.store.annotations.count_by_author()
    rules = {each.rules.owner for each in site.store.alerts.all()} - {""}
    names = sorted({*items, *authors, *rules}, key=str.lower)
    found = [name for name in names if all(word in name.lower() for word in words)]
    return [
        PersonMatch(
            name=name,
            items=items.get(name, 0),
            annotations=authors.get(name, 0),
            triage=f"/triage?{urlencode({'status': 'all', 'owner': name})}",
            activity=f"/activity?{urlencode({'user': name})}",
        )
        for name in found[:limit]
    ], len(found)
