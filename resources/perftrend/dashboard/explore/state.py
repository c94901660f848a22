"""Selection on the page, as its address encodes it.

===================  ====================================================================================
``testbed``          the testbed whose commits are the points
``scale``, ``tile``  the part of time; without a tile the newest
``points``           the number of points that end with the tile, see ``POINT_NUMBERS``
``q``                a query, in the syntax of ``filter("…")``
``queries``          a query or an address of Skia Perf, with its meaning of ``!``; becomes ``q`` or ``id``
``p.NAME``           a value of a parameter; a form sends one for each ticked checkbox
``id``               a trace id of any form, may be repeated; ``formula`` is one that may lack its ``@``
``shortcut``         the id of a shortcut
``show``, ``by``     how the traces of the query are drawn, see :class:`Show`
``downsample``       the value of a point of a coarse scale, see :class:`Downsample`
``spread``           the band of the replicates, see :class:`Spread`
``changes``          ``off``: without markers of changes
``x``, ``y``         the visible part of the plot, see :mod:`~perftrend.dashboard.explore.zoom`
``at``, ``of``       the column and the trace id of the selected point
``since``            the column of an earlier point, to compare with it
``look``             ``at`` and ``of`` separated by a space, as a button of the page sends them
``drop``             a trace id to remove, as a button sends it
``find``             offer only values that contain this text
``rows``             ``all``: list all lines, however many there are
``sort``             the order of the list, see :class:`Sort`
===================  ====================================================================================

Invalid input becomes a :class:`Problem`, so that the page shows the error together with the valid part.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self, TypeVar
from urllib.parse import parse_qsl, urlencode

from perftrend import errors
from perftrend.analysis.formula import Query, Term, parse_trace_id
from perftrend.analysis.formula.query import MOST_TERMS, parse_shortcut
from perftrend.analysis.query import import_queries, parse
from perftrend.dashboard.explore.zoom import WHOLE, Zoom
from perftrend.dashboard.formats import plain
from perftrend.dashboard.links import EXPLORE, MOST_IDS
from perftrend.errors import FormulaError, UsageError
from perftrend.store.shortcuts import LONGEST_QUERY
from perftrend.store.tiles import POINTS

POINT_NUMBERS = (POINTS, 2 * POINTS, 4 * POINTS, 8 * POINTS)
"""Selectable numbers of points."""
_LONGEST_NUMBER = 9
_LONGEST_NAME = 1000
_OF_PARAMETER = "p."
_BREAK = re.compile(r"[\r\n\t]")
_AS_IT_IS = ",!@()"

_EVERY = Query()
_Choice = TypeVar("_Choice", bound=StrEnum)


class Show(StrEnum):
    """How the traces that match a query are drawn."""

    RAW = "raw"
    NORM = "norm"
    """Each with the average 0 and the standard deviation 1."""
    SCALE_BY_AVE = "scale_by_ave"
    """Each divided by its own average."""
    AVE = "ave"
    """Of the ratios to each trace's own average, point by point; one row for each value of a parameter.

    The same is true of the following members.
    """
    MIN = "min"
    MAX = "max"
    COUNT = "count"

    @property
    def is_aggregate(self) -> bool:
        """Whether a row combines several traces."""
        return self is not Show.RAW and not self.is_scaled

    @property
    def is_scaled(self) -> bool:
        """Whether each trace is scaled to a row, so that all fit into one plot."""
        return self in {Show.NORM, Show.SCALE_BY_AVE}

    @property
    def function(self) -> str:
        """The function of formulas that computes the rows."""
        return f"relative_{self}" if self in {Show.AVE, Show.MIN, Show.MAX} else str(self)

    @property
    def words(self) -> str:
        """Label of the option."""
        return {
            Show.RAW: "values",
            Show.NORM: "normalised",
            Show.SCALE_BY_AVE: "divided by their average",
            Show.AVE: "average (relative)",
            Show.MIN: "minimum (relative)",
            Show.MAX: "maximum (relative)",
            Show.COUNT: "number of traces",
        }[self]


class Downsample(StrEnum):
    """Value of a point of a coarse scale, which covers several commits."""

    MEAN = "mean"
    NTH = "nth"
    """The value of the newest commit: every 4^scale-th commit is shown, as measured."""

    @property
    def words(self) -> str:
        """Label of the option."""
        return {Downsample.MEAN: "average of its commits", Downsample.NTH: "every 4^scale-th commit"}[self]


class Spread(StrEnum):
    """Part of the replicates of a point that its band covers."""

    NONE = "none"
    RANGE = "range"
    QUARTILES = "quartiles"

    @property
    def words(self) -> str:
        """Label of the option."""
        return {Spread.NONE: "not shown", Spread.RANGE: "all", Spread.QUARTILES: "quartiles"}[self]


class SortKey(StrEnum):
    """A column of the list of lines."""

    LINE = "line"
    NEWEST = "newest"
    MEAN = "mean"
    CHANGE = "change"
    """The distance of the newest value from the mean, in either direction."""
    CHANGES = "changes"

    @property
    def words(self) -> str:
        """Heading of the column."""
        return {
            SortKey.LINE: "Line",
            SortKey.NEWEST: "Newest",
            SortKey.MEAN: "Mean",
            SortKey.CHANGE: "vs. mean",
            SortKey.CHANGES: "Changes",
        }[self]


@dataclass(frozen=True, slots=True)
class Sort:
    """The order of a long list of lines; the address has a ``-`` before the key for descending."""

    key: SortKey = SortKey.CHANGE
    descending: bool = True

    def __str__(self) -> str:
        return f"{'-' if self.descending else ''}{self.key}"

    @classmethod
    def read(cls, text: str) -> Self:
        """Read the order of an address.

        :raises UsageError: if it is not one.
        """
        key = text.removeprefix("-")
        if key not in list(SortKey):
            raise UsageError(
                f"sort {plain(text[:20])!r}: unknown value{errors.nearest(key[:20], list(SortKey))}"
            )
        return cls(SortKey(key), text.startswith("-"))

    def then(self, key: SortKey) -> Sort:
        """Return the order after a click on the heading of a column."""
        return Sort(key, not self.descending if key is self.key else key is not SortKey.LINE)


DEFAULT_SORT = Sort()


@dataclass(frozen=True, slots=True)
class Problem:
    """An error in the input."""

    field: str
    """``q``, ``queries``, ``id`` or ``shortcut``."""
    text: str
    position: int
    """Position of the error, from 0."""
    reason: str

    @property
    def caret(self) -> str:
        """Line to show below the text, with a caret at the position."""
        return " " * min(self.position, len(self.text)) + "^"


@dataclass(frozen=True, slots=True)
class ExploreState:
    """The selection on the page."""

    testbed: str = ""
    """Empty: the default testbed."""
    scale: int = 0
    tile: int | None = None
    """None: the newest."""
    points: int = POINTS
    query: Query = _EVERY
    wrong_query: str = ""
    """Text of a query that is not valid."""
    ids: tuple[str, ...] = ()
    """Trace ids, valid or not."""
    shortcut: str = ""
    show: Show = Show.RAW
    by: str = ""
    """The parameter whose values have one row each; empty: one row of all."""
    downsample: Downsample = Downsample.MEAN
    spread: Spread = Spread.NONE
    changes: bool = True
    zoom: Zoom = WHOLE
    at: int | None = None
    of: str = ""
    since: int | None = None
    find: str = ""
    all_rows: bool = False
    """Whether all lines are listed, however many there are."""
    sort: Sort = DEFAULT_SORT
    problems: tuple[Problem, ...] = ()

    @property
    def terms(self) -> tuple[Term, ...]:
        """The conditions of the query."""
        return self.query.terms

    @property
    def chosen(self) -> frozenset[tuple[str, str]]:
        """The selected plain values, as pairs of parameter and value."""
        return frozenset((term.key, term.value) for term in self.terms if _is_plain(term))

    @property
    def written(self) -> str:
        """The part of the query that checkboxes cannot express."""
        rest = str(Query(tuple(term for term in self.terms if not _is_plain(term))))
        return "&".join(filter(None, (rest, self.wrong_query)))

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """The names and values of the address, without defaults."""
        query = "&".join(filter(None, (str(self.query), self.wrong_query)))
        found = [
            ("testbed", self.testbed),
            ("scale", str(self.scale) if self.scale else ""),
            ("tile", "" if self.tile is None else str(self.tile)),
            ("points", "" if self.points == POINTS else str(self.points)),
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
            ("rows", "all" if self.all_rows else ""),
            ("sort", "" if self.sort == DEFAULT_SORT else str(self.sort)),
        ]
        return [(name, value) for name, value in found if value]

    @property
    def encoded(self) -> str:
        """The query string of the address."""
        return urlencode(self.pairs)

    @property
    def url(self) -> str:
        """The address."""
        # Trace ids have many characters that need no escaping in an address, and a page has hundreds of ids.
        return f"{EXPLORE}?{urlencode(self.pairs, safe=_AS_IT_IS)}" if self.pairs else EXPLORE

    def but(self, **changed: object) -> ExploreState:
        """Return the state with other values of some fields; the selected point remains."""
        return replace(self, **changed)  # type: ignore[arg-type]  # by name

    def with_tile(self, scale: int, tile: int | None) -> ExploreState:
        """Return the state at another part of time, without zoom."""
        return self.but(scale=scale, tile=tile, zoom=WHOLE)

    def without(self, term: Term) -> ExploreState:
        """Return the state without a condition."""
        return self.but(query=Query(tuple(each for each in self.terms if each != term)))


def read(encoded: str) -> ExploreState:
    """Read the query string of an address; unknown names are ignored.

    :raises UsageError: if it is too long, or a number or a choice is not valid.
    """
    if len(encoded) > LONGEST_QUERY:
        raise UsageError(
            f"address: {len(encoded)} characters are too many; "
            f"write at most {LONGEST_QUERY}, or save the traces as a shortcut"
        )
    if encoded.count("&") >= 2 * MOST_TERMS:
        raise UsageError("address: too many values; use a query with a regular expression, such as a|b")
    return _state(parse_qsl(encoded))


def _state(pairs: Sequence[tuple[str, str]]) -> ExploreState:
    given: dict[str, str] = {}
    for name, value in pairs:
        given.setdefault(name, value)
    if look := given.get("look"):
        given["at"], _, given["of"] = look.partition(" ")
    imported, of_import = _import_skia_queries(pairs)
    pairs = [*pairs, *imported]
    query, wrong, of_query = _query(pairs)
    ids, of_ids = _ids(pairs, dropped=given.get("drop", ""))
    shortcut, of_shortcut = _shortcut(given.get("shortcut", ""))
    return ExploreState(
        testbed=_name(given, "testbed"),
        scale=_number(given, "scale") or 0,
        tile=_number(given, "tile"),
        points=_points(given),
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
        all_rows=given.get("rows") == "all",
        sort=Sort.read(given["sort"]) if given.get("sort") else DEFAULT_SORT,
        problems=(*of_import, *of_query, *of_ids, *of_shortcut),
    )


def _import_skia_queries(
    pairs: Iterable[tuple[str, str]],
) -> tuple[list[tuple[str, str]], tuple[Problem, ...]]:
    """Return the queries of Skia Perf in an address as our parameters, and the errors in them."""
    queries: list[Query] = []
    problems = []
    for text in (value.strip() for name, value in pairs if name == "queries" and value.strip()):
        try:
            queries += import_queries(text)
        except FormulaError as error:
            problems.append(Problem("queries", text, 0, error.reason))
    if len(queries) == 1:
        return [("q", str(queries[0]))], tuple(problems)
    # Skia Perf draws the traces of each query, while the conditions of one query must all match.
    return [("id", f'@filter("{query}")') for query in queries], tuple(problems)


def _query(pairs: Sequence[tuple[str, str]]) -> tuple[Query, str, tuple[Problem, ...]]:
    """Return the query, its text if that is not valid, and the error in it."""
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
    """Return trace ids, and the errors in them."""
    # Line breaks are whitespace in a formula. Spaces instead of them keep the caret below its position.
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
    """Return the trace id of a formula that a user typed; it may also be an id or a shortcut."""
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


def _points(given: dict[str, str]) -> int:
    found = _number(given, "points")
    if found is not None and found not in POINT_NUMBERS:
        raise UsageError(f"points {found}: enter one of {', '.join(map(str, POINT_NUMBERS))}")
    return found or POINTS


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
