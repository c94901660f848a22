"""Links from the page: to a narrower query, to one row, and to the plot of a cell.

A page has hundreds of them, so their common part is encoded once.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlencode

from perftrend.analysis.formula import Query, Term, parse_query
from perftrend.dashboard.compare.models import CellEntry
from perftrend.dashboard.compare.query import Question
from perftrend.errors import FormulaError


def query_link_builder(requested: Question) -> Callable[[str, str], str]:
    """Return a function that builds the address with a value added to the query, or removed if present.

    Its arguments are the name of the parameter and the value.
    """
    rest = requested.but(q="", first=0, row="")
    try:
        terms = parse_query(requested.q).terms
    except FormulaError:
        terms = ()

    def narrowed(name: str, value: str) -> str:
        term = Term(name, value)
        query = Query(tuple(each for each in terms if each != term) if term in terms else (*terms, term))
        return "&".join(filter(None, (urlencode({"q": query}) if query.terms else "", rest)))

    return narrowed


def rows_of(requested: Question) -> Callable[[str], str]:
    """Return a function that builds the address of a single row from its name."""
    rest = requested.but(row="")
    return lambda name: f"{rest}&{urlencode({'row': name})}" if name else rest


def explore_link(cell: CellEntry) -> str:
    """Return the address of the plot of both traces; empty if one side has no commit, as in a patch set."""
    sides = (cell.left, cell.right)
    if not all(side.commit for side in sides):
        return ""
    return "/?" + urlencode([("id", trace) for trace in dict.fromkeys(side.trace for side in sides)])
