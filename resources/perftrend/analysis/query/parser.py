"""The parser of queries, with their regular expressions, and of the forms of Skia Perf.

Regular expressions are matched in time that is linear in the text. The syntax is that of RE2, without
lookaround and backreferences, which take more than linear time. Users can therefore type any expression
without blocking the server. Memory and the number of expressions are limited as well.

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

import re
from collections.abc import Sequence
from functools import lru_cache
from urllib.parse import parse_qsl

import numpy as np
import re2  # type: ignore[import-untyped, unused-ignore]  # some releases have types
from numpy.typing import NDArray

from perftrend.analysis.formula.escapes import escape, quote, unescape
from perftrend.analysis.formula.query import MOST_TERMS, SUBJECT, Query, Term, parse_query
from perftrend.errors import FormulaError
from perftrend.model import TraceKey

MOST_PATTERNS = 20
"""In one query."""
_LONGEST = 1_000
_MEMORY_BYTES = 2**20
"""Of one compiled expression."""
_CACHE_SIZE = 64

_BEFORE_PATTERN = re.compile(r"[^=!]*(?:!=|=!?)~")

FIELD = "queries"
"""The name of the queries in a URL of Skia Perf."""

_SPECIAL = ":"
NAME_SUBJECT = "trace name"


def parse(text: str) -> Query:
    """Read a query, with its regular expressions.

    :raises FormulaError: if it is invalid, with the position of the error.
    """
    query = parse_query(text)
    position = 0
    for part, term in zip(text.split("&"), query.terms, strict=False):
        begin = _BEFORE_PATTERN.match(part)
        if term.pattern and begin:
            _compile(term.value, position + begin.end())
        position += len(part) + 1
    check_number(query)
    return query


def check_number(query: Query) -> None:
    """Raise an error if a query has too many regular expressions.

    :raises FormulaError: if it has more than 20.
    """
    number = sum(term.pattern for term in query.terms)
    if number > MOST_PATTERNS:
        reason = f"{number} regular expressions are too many; write at most {MOST_PATTERNS}, such as a|b"
        raise FormulaError(SUBJECT, 0, reason)


def search_values(pattern: str, values: Sequence[str]) -> NDArray[np.bool_]:
    """Return in which of the values a regular expression is found, shape (n,).

    :raises FormulaError: if it is invalid.
    """
    search = _compile(pattern, 0).search
    return np.fromiter((search(value) is not None for value in values), bool, len(values))


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


def _compile(pattern: str, position: int) -> re2._Regexp:
    """Return the compiled expression; ``position`` is for the error."""
    if len(pattern) > _LONGEST:
        reason = f"a regular expression of {len(pattern)} characters is too long; write at most {_LONGEST}"
        raise FormulaError(SUBJECT, position + _LONGEST, reason)
    try:
        return _from_cache(pattern)
    except re2.error as error:
        (message,) = error.args
        reason = message.decode(errors="replace") if isinstance(message, bytes) else str(message)
        raise FormulaError(
            SUBJECT, position, f"{quote(pattern)} is not a valid RE2 regular expression: {reason}"
        ) from None


@lru_cache(maxsize=_CACHE_SIZE)
def _from_cache(pattern: str) -> re2._Regexp:
    options = re2.Options()
    options.max_mem = _MEMORY_BYTES
    # RE2 would log errors to stderr.
    options.log_errors = False
    return re2.compile(pattern, options)


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
