"""Queries: the conditions of ``filter("…")`` on traces.

::

    query = "" | term, { "&", term }
    term  = key, ( "=" | "!=" | "?!=" ), [ "~" ], value

Several terms of one key with ``=`` are alternatives, of which one must match; terms with ``!=`` must not
match. The conditions on different keys must all be met. A trace without the key matches neither ``=`` nor
``!=``. It matches ``?!=``, which otherwise means ``!=``, unless another term of the key requires the key.
``~`` marks a regular expression, which is searched for anywhere in the value; it is stored as text and never
compiled here. The empty query matches every trace. Special characters are escaped with ``%XX``; ``+`` is a
plus.

Source: "Skia Perf: Design", section Trace IDs: ``filter("config=8888")`` and ``filter("#54")``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from perftrend.analysis.formula.escapes import escape, quote, unescape
from perftrend.analysis.formula.keys import check_length
from perftrend.errors import FormulaError

MOST_TERMS = 500
"""In one query; use a shortcut for more."""

SUBJECT = "query"
_IN_KEYS = '&"=!~#?'
_IN_VALUES = '&"'
_OPERATOR = re.compile(r"\??!=|=!?")
_SHORTCUT = re.compile(r"[A-Za-z0-9_-]{1,64}")


@dataclass(frozen=True, slots=True)
class Term:
    """One condition on one parameter of a trace."""

    key: str
    value: str
    negated: bool = False
    pattern: bool = False
    """Whether the value is a regular expression."""
    optional: bool = False
    """Whether a trace without the parameter matches, too; only for a negated term."""

    def __str__(self) -> str:
        value = escape(self.value, _IN_VALUES)
        # A character that would be read as a mark is escaped if it is a part of the value.
        if not self.pattern and value[:1] in {"~", "!"}:
            value = f"%{ord(value[0]):02X}{value[1:]}"
        operator = f"{'?' if self.optional else ''}{'!' if self.negated else ''}="
        return _escape_outer_spaces(
            f"{escape(self.key, _IN_KEYS)}{operator}{'~' if self.pattern else ''}{value}"
        )


@dataclass(frozen=True)
class Query:
    """The conditions on traces; ``str()`` returns the text that it is read from."""

    terms: tuple[Term, ...] = ()

    def __str__(self) -> str:
        return "&".join(map(str, self.terms))

    @cached_property
    def by_key(self) -> dict[str, list[Term]]:
        """The terms of each key, in the order of the text."""
        found: dict[str, list[Term]] = {}
        for term in self.terms:
            found.setdefault(term.key, []).append(term)
        return found

    def values_of(self, key: str) -> frozenset[str] | None:
        """Return the only values of a parameter that matching traces can have; None if others can match."""
        wanted = [term for term in self.by_key.get(key, ()) if not term.negated]
        if not wanted or any(term.pattern for term in wanted):
            return None
        return frozenset(term.value for term in wanted)

    def matches(self, parameters: Mapping[str, str], fits: Callable[[str, str], bool]) -> bool:
        """Return whether a trace matches.

        :param parameters: those of the trace.
        :param fits: whether a regular expression is found in a value; the caller limits its work.
        """
        return all(
            _admits(terms, parameters[key], fits) if key in parameters else admits_missing(terms)
            for key, terms in self.by_key.items()
        )


def admits_missing(terms: Sequence[Term]) -> bool:
    """Return whether a trace matches without the parameter of all these terms."""
    return all(term.optional for term in terms)


def parse_query(text: str) -> Query:
    """Read a query.

    :raises FormulaError: if it is invalid, with the position of the error.
    """
    check_length(text, SUBJECT)
    if not text:
        return Query()
    parts = text.split("&")
    if len(parts) > MOST_TERMS:
        position = len("&".join(parts[:MOST_TERMS]))
        raise FormulaError(SUBJECT, position, f"{len(parts)} terms are too many; write at most {MOST_TERMS}")
    terms: list[Term] = []
    position = 0
    for part in parts:
        terms.append(_term(part, position))
        position += len(part) + 1
    return Query(tuple(terms))


def parse_shortcut(text: str) -> str:
    """Read the id of a shortcut, the argument of ``shortcut("…")``.

    :raises FormulaError: if it is invalid.
    """
    if not _SHORTCUT.fullmatch(text):
        reason = f"expected the id of a shortcut, of letters, digits, - and _, but found {quote(text)}"
        raise FormulaError("shortcut", 0, reason)
    return text


def parse_filter(text: str) -> Query | str:
    """Read the argument of ``filter("…")``: a query, or ``#`` and the id of a shortcut.

    :returns: the query, or the id.
    :raises FormulaError: if it is neither.
    """
    if not text.startswith("#"):
        return parse_query(text)
    try:
        return parse_shortcut(text[1:])
    except FormulaError as error:
        raise FormulaError(error.subject, 1, error.reason) from None


def _escape_outer_spaces(text: str) -> str:
    """Escape a space at either end: spaces around a query that a user types are ignored."""
    text = f"%20{text[1:]}" if text.startswith(" ") else text
    return f"{text[:-1]}%20" if text.endswith(" ") else text


def _term(text: str, position: int) -> Term:
    operator = _OPERATOR.search(text)
    if not operator or not operator.start():
        found = quote(text) if text else "nothing"
        raise FormulaError(SUBJECT, position, f"expected key=value, key!=value or key=~regex; found {found}")
    pattern = text.startswith("~", operator.end())
    start = operator.end() + pattern
    return Term(
        key=unescape(text[: operator.start()], _IN_KEYS, subject=SUBJECT, position=position),
        value=unescape(text[start:], _IN_VALUES, subject=SUBJECT, position=position + start),
        negated="!" in operator[0],
        pattern=pattern,
        optional=operator[0].startswith("?"),
    )


def _admits(terms: Sequence[Term], value: str, fits: Callable[[str, str], bool]) -> bool:
    wanted = [_fits(term, value, fits) for term in terms if not term.negated]
    unwanted = any(_fits(term, value, fits) for term in terms if term.negated)
    return not unwanted and (any(wanted) or not wanted)


def _fits(term: Term, value: str, fits: Callable[[str, str], bool]) -> bool:
    return fits(term.value, value) if term.pattern else term.value == value
