"""Regular expressions of queries, matched in time that is linear in the text.

The syntax is that of RE2, without lookaround and backreferences, which take more than linear time. Users can
therefore type any expression without blocking the server. Memory and the number of expressions are limited
as well.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import re2  # type: ignore[import-untyped, unused-ignore]  # some releases have types
from numpy.typing import NDArray

from perftrend.analysis.formula.escapes import quote
from perftrend.analysis.formula.query import SUBJECT, Query, parse_query
from perftrend.errors import FormulaError

MOST_PATTERNS = 20
"""In one query."""
_LONGEST = 1_000
_MEMORY_BYTES = 2**20
"""Of one compiled expression."""
_CACHE_SIZE = 64

_BEFORE_PATTERN = re.compile(r"[^=!]*(?:!=|=!?)~")


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
