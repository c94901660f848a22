"""Queries and names of traces in the forms of Skia Perf.

A query of Skia Perf is converted to one with the same meaning here. Skia Perf writes it as in a URL:
``config=8888&arch=!x86``, with ``+`` for a space. There, a trace without ``arch`` matches ``arch=!x86``; here
it matches ``arch?!=x86`` and not ``arch!=x86``. ``arch=*`` is any value.

The name of a trace consists of its values, ``64b-ip4:mrr:2n-clx``, in the order of the parameters' names,
which are omitted. A name is therefore short, but several traces may have the same one;
:func:`perftrend.analysis.formula.format_key` writes the form with names, which is unique. A colon or a
percent sign in a value is escaped.

Source: ``go/query/query.go`` of Skia's buildbot repository, whose early versions required the parameter, as
``!=`` does here; "Skia Perf: Design", section Trace IDs: ``foo:bar:baz:quux``.
"""

from __future__ import annotations

from urllib.parse import parse_qsl

from perftrend.analysis.formula.escapes import escape, unescape
from perftrend.analysis.formula.query import MOST_TERMS, SUBJECT, Query, Term
from perftrend.analysis.query.patterns import parse
from perftrend.errors import FormulaError
from perftrend.model import TraceKey

FIELD = "queries"
"""The name of the queries in a URL of Skia Perf."""

_SPECIAL = ":"
NAME_SUBJECT = "trace name"


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


def format_skia_name(key: TraceKey) -> str:
    """Return the name of a trace in the form of the Skia Perf design."""
    return ":".join(escape(value, _SPECIAL) for _, value in key.parameters)


def parse_skia_name(text: str) -> tuple[str, ...]:
    """Read a name in the form of the Skia Perf design.

    :returns: the values, in the order of the parameters' names.
    :raises FormulaError: if it is invalid, with the position of the error.
    """
    values = []
    position = 0
    for part in text.split(":"):
        values.append(unescape(part, _SPECIAL, subject=NAME_SUBJECT, position=position))
        position += len(part) + 1
    return tuple(values)


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
