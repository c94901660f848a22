"""Queries of Skia Perf, converted to queries with the same meaning here.

Skia Perf writes a query as in a URL: ``config=8888&arch=!x86``, with ``+`` for a space. There, a trace
without ``arch`` matches ``arch=!x86``; here it matches ``arch?!=x86`` and not ``arch!=x86``. ``arch=*`` is
any value.

Source: ``go/query/query.go`` of Skia's buildbot repository. Its early versions required the parameter, as
``!=`` does here.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

from perftrend.analysis.formula.query import MOST_TERMS, SUBJECT, Query, Term
from perftrend.analysis.query.patterns import parse
from perftrend.errors import FormulaError

FIELD = "queries"
"""The name of the queries in a URL of Skia Perf."""


def import_queries(text: str) -> list[Query]:
    """Read a query of Skia Perf, or the queries of a URL of Skia Perf.

    :raises FormulaError: if there is none, or one that cannot be converted.
    """
    if "://" not in text:
        return [_import_query(text)]
    encoded = text.partition("?")[2].partition("#")[0]
    found = [_import_query(value) for name, value in _pairs(encoded) if name == FIELD and value]
    if not found:
        raise FormulaError(SUBJECT, 0, f"this address has no {FIELD}=; copy that of Skia Perf's Explore page")
    return found


def _import_query(text: str) -> Query:
    # Parsed again, because that limits its length and its regular expressions.
    return parse(str(Query(tuple(_term(key, value) for key, value in _pairs(text)))))


def _term(key: str, value: str) -> Term:
    if not key or not value:
        raise FormulaError(SUBJECT, 0, "expected key=value, key=!value, key=~regex or key=*, as in Skia Perf")
    if value == "*":
        return Term(key, "", pattern=True)
    negated = value.startswith("!")
    value = value.removeprefix("!")
    pattern = value.startswith("~")
    return Term(key, value.removeprefix("~"), negated=negated, pattern=pattern, optional=negated)


def _pairs(encoded: str) -> list[tuple[str, str]]:
    try:
        return parse_qsl(encoded, keep_blank_values=True, max_num_fields=MOST_TERMS)
    except ValueError:
        raise FormulaError(SUBJECT, 0, f"too many terms; write at most {MOST_TERMS}") from None
