"""What was chosen on the page, as its address has it.

===================  ====================================================================================
``testbed``          whose commits are the points
``scale``, ``tile``  what part of time; without a tile the newest one
``q``                a query, as ``filter("…")`` takes it
``queries``          a query or an address of Skia Perf, with its meaning of ``!``; becomes ``q`` or ``id``
``p.NAME``           a value of a parameter; a form has it for each box that is ticked
``id``               a trace id of any form, may be repeated; ``formula`` is one that may lack its ``@``
``shortcut``         the id of a shortcut
``show``, ``by``     how the traces of the query are drawn, see :class:`Show`
``downsample``       what a point of a coarse scale is, see :class:`Downsample`
``spread``           which band of the replicates is drawn, see :class:`Spread`
``changes``          ``off``: without markers of changes
``x``, ``y``         what of the plot is seen, see :mod:`~perftrend.dashboard.explore.zoom`
``at``, ``of``       the column and the trace id of a point that is looked at
``since``            the column of an earlier point, to be compared with it
``look``             ``at`` and ``of`` with a blank between them, as a button of the page says it
``drop``             a trace id that is not wanted any more, as a button says it
``find``             only values with this in them are offered
===================  ====================================================================================

What cannot be understood is kept as a :class:`Problem`, so that a person sees what is wrong beside the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar
from urllib.parse import parse_qsl, urlencode

from perftrend import errors
from perftrend.analysis.formula import Query, Term, parse_trace_id
from perftrend.analysis.formula.query import MOST_TERMS, parse_shortcut
from perftrend.analysis.query import import_queries, parse
from perftrend.dashboard.explore.zoom import WHOLE, Zoom
from perftrend.dashboard.formats import plain
from perftrend.dashboard.links import MOST_IDS
from perftrend.errors import FormulaError, UsageError
from perftrend.store.shortcuts import LONGEST_QUERY

_LONGEST_NUMBER = 9
_LONGEST_NAME = 1000
_OF_PARAMETER = "p."
_BREAK = re.compile(r"[\r\n\t]")
_AS_IT_IS = ",!@()"

_EVERY = Query()
_Choice = TypeVar("_Choice", bound=StrEnum)


class Show(StrEnum):
    """How the traces that a query fits are drawn."""

    RAW = "raw"
    NORM = "norm"
    """Each with the average 0 and the standard deviation 1."""
    SCALE_BY_AVE = "scale_by_ave"
    """Each divided by its own average."""
    AVE = "ave"
    """Point by point, one row for each value of a parameter; as are the following ones."""
    MIN = "min"
    MAX = "max"
    COUNT = "count"

    @property
    def is_aggregate(self) -> bool:
        """Whether one row is made of several traces."""
        return self is not Show.RAW and not self.is_scaled

    @property
    def is_scaled(self) -> bool:
        """Whether a row is made of each trace, so that all fit into one plot."""
        return self in {Show.NORM, Show.SCALE_BY_AVE}

    @property
    def words(self) -> str:
        """What a person chooses."""
        return {
            Show.RAW: "values",
            Show.NORM: "normalised",
            Show.SCALE_BY_AVE: "divided by their average",
            Show.AVE: "average",
            Show.MIN: "minimum",
            Show.MAX: "maximum",
            Show.COUNT: "number of traces",
        }[self]


class Downsample(StrEnum):
    """What a point of a coarse scale is, which covers several commits."""

    MEAN = "mean"
    NTH = "nth"
    """The value of the newest of them: every 4^scale-th commit is shown, as measured."""

    @property
    def words(self) -> str:
        """What a person chooses."""
        return {Downsample.MEAN: "average of its commits", Downsample.NTH: "every 4^scale-th commit"}[self]


class Spread(StrEnum):
    """Which part of the replicates of a point its band has."""

    NONE = "none"
    RANGE = "range"
    QUARTILES = "quartiles"

    @property
    def words(self) -> str:
        """What a person chooses."""
        return {Spread.NONE: "not shown", Spread.RANGE: "all", Spread.QUARTILES: "quartiles"}[self]


@dataclass(frozen=True, slots=True)
class Problem:
    """What was written in a wrong way."""

    field: str
    """``q``, ``queries``, ``id`` or ``shortcut``."""
    text: str
    position: int
    """Of what is wrong, from 0."""
    reason: str

    @property
    def caret(self) -> str:
        """What stands below the text, to point at the position."""
        return " " * min(self.position, len(self.text)) + "^"


@dataclass(frozen=True, slots=True)
class State:
    """All that was chosen."""

    testbed: str = ""
    """Empty: the one that is shown first."""
    scale: int = 0
    tile: int | None = None
    """None: the newest."""
    query: Query = _EVERY
    wrong_query: str = ""
    """The text of a query that is none."""
    ids: tuple[str, ...] = ()
    """Trace ids, right or wrong ones."""
    shortcut: str = ""
    show: Show = Show.RAW
    by: str = ""
    """The parameter for whose values rows are made; empty: one row of all."""
    downsample: Downsample = Downsample.MEAN
    spread: Spread = Spread.NONE
    changes: bool = True
    zoom: Zoom = WHOLE
    at: int | None = None
    of: str = ""
    since: int | None = None
    find: str = ""
    problems: tuple[Problem, ...] = ()

    @property
    def terms(self) -> tuple[Term, ...]:
        """The conditions of the query."""
        return self.query.terms

    @property
    def chosen(self) -> frozenset[tuple[str, str]]:
        """The plain values that were chosen, with their parameters."""
        return frozenset((term.key, term.value) for term in self.terms if _is_plain(term))

    @property
    def written(self) -> str:
        """The part of the query that boxes cannot tell."""
        rest = str(Query(tuple(term for term in self.terms if not _is_plain(term))))
        return "&".join(filter(None, (rest, self.wrong_query)))

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The names and values of the address; what is as it is anyway is left out."""
        query = "&".join(filter(None, (str(self.query), self.wrong_query)))
        found = [
            ("testbed", self.testbed),
            ("scale", str(self.scale) if self.scale else ""),
            ("tile", "" if self.tile is None else str(self.tile)),
            ("q", query),
            *(("id", each) for each in self.ids),
            ("shortcut", self.shortcut),
            ("show", "" if self.show is Show.RAW else str(self.show)),
            ("by", self.by),
            ("downsample", "" if self.downsample is Downsample.MEAN else str(self.downsample)),
            ("spread", "" if self.spread is Spread.NONE else str(self.spread)),
            ("changes", "" if self.changes else "off"),
            *self.zoom.pairs,
            ("at", "" if self.at is None else str(self.at)),
            ("of", self.of),
            ("since", "" if self.since is None else str(self.since)),
            ("find", self.find),
        ]
        return [(name, value) for name, value in found if value]

    @property
    def encoded(self) -> str:
        """What stands behind the question mark of the address."""
        return urlencode(self.pairs)

    @property
    def url(self) -> str:
        """The address."""
        # Trace ids are full of what may stand in an address as it is, and a page has hundreds of them.
        return f"/?{urlencode(self.pairs, safe=_AS_IT_IS)}" if self.pairs else "/"

    def but(self, **changed: object) -> State:
        """Return the state with something else; a point that is looked at stays."""
        return replace(self, **changed)  # type: ignore[arg-type]  # by name

    def during(self, scale: int, tile: int | None) -> State:
        """Return the state at another part of time, of which the whole is seen."""
        return self.but(scale=scale, tile=tile, zoom=WHOLE)

    def without(self, term: Term) -> State:
        """Return the state without a condition."""
        return self.but(query=Query(tuple(each for each in self.terms if each != term)))


def read(encoded: str) -> State:
    """Read what stands behind the question mark of an address; names that are not ours are passed over.

    :raises UsageError: if it is too long, or a number or a choice is none.
    """
    if len(encoded) > LONGEST_QUERY:
        raise UsageError(
            f"address: {len(encoded)} characters are too many; "
            f"write at most {LONGEST_QUERY}, or save the traces as a shortcut"
        )
    if encoded.count("&") >= 2 * MOST_TERMS:
        raise UsageError("address: too many values; use a query with a regular expression, such as a|b")
    return _state(parse_qsl(encoded))


def _state(pairs: Sequence[tuple[str, str]]) -> State:
    given: dict[str, str] = {}
    for name, value in pairs:
        given.setdefault(name, value)
    if look := given.get("look"):
        given["at"], _, given["of"] = look.partition(" ")
    imported, of_import = _imported(pairs)
    pairs = [*pairs, *imported]
    query, wrong, of_query = _query(pairs)
    ids, of_ids = _ids(pairs, dropped=given.get("drop", ""))
    shortcut, of_shortcut = _shortcut(given.get("shortcut", ""))
    return State(
        testbed=_name(given, "testbed"),
        scale=_number(given, "scale") or 0,
        tile=_number(given, "tile"),
        query=query,
        wrong_query=wrong,
        ids=ids,
        shortcut=shortcut,
        show=_choice(given, "show", Show.RAW),
        by=_name(given, "by"),
        downsample=_choice(given, "downsample", Downsample.MEAN),
        spread=_choice(given, "spread", Spread.NONE),
        changes=given.get("changes") != "off",
        zoom=Zoom.read(pairs),
        at=_number(given, "at"),
        of=given.get("of", ""),
        since=_number(given, "since"),
        find=_name(given, "find"),
        problems=(*of_import, *of_query, *of_ids, *of_shortcut),
    )


def _imported(pairs: Iterable[tuple[str, str]]) -> tuple[list[tuple[str, str]], tuple[Problem, ...]]:
    """Return what queries of Skia Perf are in an address of ours, and what is wrong with them."""
    queries: list[Query] = []
    problems = []
    for text in (value.strip() for name, value in pairs if name == "queries" and value.strip()):
        try:
            queries += import_queries(text)
        except FormulaError as error:
            problems.append(Problem("queries", text, 0, error.reason))
    if len(queries) == 1:
        return [("q", str(queries[0]))], tuple(problems)
    # Skia Perf draws the traces of each, while the conditions of one query have to fit all.
    return [("id", f'@filter("{query}")') for query in queries], tuple(problems)


def _query(pairs: Sequence[tuple[str, str]]) -> tuple[Query, str, tuple[Problem, ...]]:
    """Return the query, the text of it that is wrong, and what is wrong with it."""
    ticked = [
        Term(name.removeprefix(_OF_PARAMETER), value)
        for name, value in pairs
        if name.startswith(_OF_PARAMETER) and name != _OF_PARAMETER
    ]
    text = "&".join(value.strip() for name, value in pairs if name == "q" and value.strip())
    try:
        written = parse(text)
    except FormulaError as error:
        return Query(tuple(ticked)), text, (Problem("q", text, error.position, error.reason),)
    terms = tuple(dict.fromkeys((*ticked, *written.terms)))
    if len(terms) > MOST_TERMS:
        raise UsageError(f"query: {len(terms)} terms are too many; write at most {MOST_TERMS}")
    return Query(terms), "", ()


def _ids(pairs: Iterable[tuple[str, str]], *, dropped: str) -> tuple[tuple[str, ...], tuple[Problem, ...]]:
    """Return trace ids, and what is wrong with them."""
    # A line break is a blank of a formula; as one, it leaves the caret below its line.
    given = ((name, _BREAK.sub(" ", value).strip()) for name, value in pairs if name in ("id", "formula"))
    named = (_of_formula(text) if name == "formula" else text for name, text in given if text)
    ids = tuple(dict.fromkeys(each for each in named if each != dropped))
    if len(ids) > MOST_IDS:
        raise UsageError(f"address: {len(ids)} trace ids are too many; save them as a shortcut")
    problems = []
    for text in ids:
        try:
            parse_trace_id(text)
        except FormulaError as error:
            problems.append(Problem("id", text, error.position, error.reason))
    return ids, tuple(problems)


def _of_formula(text: str) -> str:
    """Return the trace id of what somebody typed for a formula: that may be an id itself, or a shortcut."""
    if text.startswith("#"):
        return f'@filter("{text}")'
    return text if text.startswith(("@", "!", ",")) else f"@{text}"


def _shortcut(text: str) -> tuple[str, tuple[Problem, ...]]:
    try:
        return parse_shortcut(text) if text else "", ()
    except FormulaError as error:
        return "", (Problem("shortcut", text[:_LONGEST_NAME], error.position, error.reason),)


def _number(given: dict[str, str], name: str) -> int | None:
    text = given.get(name, "")
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= _LONGEST_NUMBER):
        raise UsageError(f"{name} {plain(text[:20])!r}: enter a whole number, 0 or more")
    return int(text)


def _choice(given: dict[str, str], name: str, default: _Choice) -> _Choice:
    text = given.get(name, "")
    kind = type(default)
    if text and text not in [each.value for each in kind]:
        raise UsageError(f"{name} {plain(text[:20])!r}: unknown value{errors.nearest(text[:20], list(kind))}")
    return kind(text) if text else default


def _name(given: dict[str, str], name: str) -> str:
    text = given.get(name, "").strip()
    if len(text) > _LONGEST_NAME:
        raise UsageError(f"{name}: {len(text)} characters are too many; write at most {_LONGEST_NAME}")
    return text


def _is_plain(term: Term) -> bool:
    return not (term.negated or term.pattern)
