"""A table of traces: their parameters as columns of small numbers, and what some of them have in common.

A condition is evaluated once for each distinct value, and the results are then applied to all traces; regular
expressions are also matched with distinct values only. A table that is extended reuses its columns.

The table is also the source of rows for formulas, with values that the caller reads.

What some traces have in common and others do not is a contrast set. Values of parameters are compared, and
the words of test names, which tests of suites are made of: ``64b-1c-ethip4-ip4base-iacl50-mrr`` has the word
``iacl50``. Of all sets of up to three such features that all of the traces have, the one that the fewest
others have is found.

Source: Bay and Pazzani, Detecting group differences: mining contrast sets, 2001, for the term.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.formula import Rows, StoredId, format_key
from perftrend.analysis.formula.query import Query, Term, admits_missing
from perftrend.analysis.query.columns import Mask, ParameterCodes, ParameterColumn, Parameters, columns
from perftrend.analysis.query.parser import check_number, search_values
from perftrend.model import Samples, TraceKey

MOST_FEATURES = 3
"""Maximum number of features in a set; more describe single traces."""
FEWEST_TRACES = 2
_NAMED_BY_WORDS = "test"
_SEPARATOR = "-"
_SAME_FOR_ALL = ("testbed", "experiment")


@dataclass(frozen=True, slots=True)
class ValueChoice:
    """A value that can be chosen next."""

    value: str
    count: int
    """Number of traces that would remain if it were the only chosen value of its parameter."""


class TraceTable:
    """The parameters of n traces.

    :param keys: of the traces.
    :param more: further parameters, such as the unit, one value per trace; an empty value counts as missing.
        A parameter that traces have themselves takes precedence over one of the same name.
    :param former: by parameter, from former values to current ones: a condition that matches a former value
        matches the current one as well.
    :raises SettingsError: if the number of further values is not that of the traces.
    """

    def __init__(
        self,
        keys: Sequence[TraceKey],
        more: Mapping[str, Sequence[str]] | None = None,
        *,
        former: Mapping[str, Mapping[str, str]] | None = None,
    ) -> None:
        self.keys = tuple(keys)
        self._columns = dict(columns(self.keys, more or {}))
        self.former = former or {}

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def own(self) -> Parameters:
        """The parameters that the traces have themselves, by name in alphabetical order."""
        return {
            name: ParameterCodes(tuple(column.values), column.codes)
            for name, column in self._columns.items()
            if column.is_own
        }

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of all parameters, in alphabetical order."""
        return tuple(self._columns)

    def current(self, name: str, value: str) -> str:
        """Return the current value of a parameter for one that may be a former one."""
        return self.former.get(name, {}).get(value, value)

    def mask(self, query: Query) -> Mask:
        """Return which traces match a query, shape (n,).

        :raises FormulaError: if a regular expression is invalid, or there are too many.
        """
        mask = np.ones(len(self), dtype=bool)
        for admitted in self._conditions(query).values():
            mask &= admitted
        return mask

    def rows(self, query: Query) -> NDArray[np.intp]:
        """Return the places of the traces that match a query, ascending; errors as in :meth:`mask`."""
        return np.flatnonzero(self.mask(query))

    def choices(self, query: Query) -> dict[str, list[ValueChoice]]:
        """Count the traces that each value of each parameter would leave if it were chosen next.

        Values of the same parameter that are already chosen do not count: values of one parameter are
        alternatives, and the numbers show what each of them adds. Values that would leave nothing are
        omitted, unless they are chosen; so are parameters that then have no values.

        :returns: by parameter; values in natural order, 64B before 128B.
        """
        conditions = self._conditions(query)
        failed = np.zeros(len(self), dtype=np.int16)
        for admitted in conditions.values():
            failed += ~admitted
        fits = failed == 0
        found: dict[str, list[ValueChoice]] = {}
        for name, column in self._columns.items():
            rows = fits if name not in conditions else failed == ~conditions[name]
            chosen = {term.value for term in query.by_key.get(name, ()) if not (term.pattern or term.negated)}
            counts = column.counts(rows if query.terms else None)
            choices = [
                ValueChoice(value, int(count))
                for value, count in zip(column.values, counts, strict=True)
                if count or value in chosen
            ]
            if choices:
                found[name] = choices
        return found

    def search(self, words: Sequence[str]) -> Mask:
        """Return in which traces each word is found, shape (n,).

        :param words: in lower case; each may be in another parameter, and the case of values is ignored.
        """
        mask = np.ones(len(self), dtype=bool)
        for word in words:
            found = np.zeros(len(self), dtype=bool)
            for name in self.own:
                found |= self._columns[name].search(word)
            mask &= found
        return mask

    def count_values(self, name: str, rows: Mask) -> dict[str, int]:
        """Return the number of chosen traces by their values of a parameter, in natural order."""
        column = self._columns.get(name)
        if column is None:
            return {}
        counts = zip(column.values, column.counts(rows).tolist(), strict=True)
        return {value: count for value, count in counts if count}

    def values(self, name: str, rows: NDArray[np.intp]) -> list[str]:
        """Return the values of a parameter that some traces have, each once, in natural order."""
        column = self._columns.get(name)
        if column is None:
            return []
        known = tuple(column.values)
        return [known[code] for code in np.flatnonzero(column.counts(rows)).tolist()]

    def by_value(self, name: str, rows: NDArray[np.intp]) -> dict[str | None, NDArray[np.intp]]:
        """Group traces by their values of a parameter.

        :param rows: the places of the traces, shape (n,).
        :returns: for each value the indices of its traces in ``rows``, ascending; those of traces without a
            value under None.
        """
        column = self._columns.get(name)
        if column is None:
            return {None: np.arange(len(rows))} if len(rows) else {}
        known = (*column.values, None)
        codes = column.codes[rows]
        return {known[code]: np.flatnonzero(codes == code) for code in np.unique(codes).tolist()}

    @cached_property
    def place_of(self) -> dict[TraceKey, int]:
        """The place of each trace."""
        return {key: place for place, key in enumerate(self.keys)}

    def concatenate(self, more: TraceTable) -> TraceTable:
        """Return a table of these traces, followed by those of another table."""
        both = TraceTable((), former=self.former)
        both.keys = (*self.keys, *more.keys)
        both.place_of = self.place_of | {key: len(self) + at for key, at in more.place_of.items()}
        for name in sorted({*self._columns, *more._columns}):
            is_own = name in self.own or name in more.own
            mine, others = (each._column(name, is_own=is_own) for each in (self, more))
            both._columns[name] = mine.concatenate(others)
        return both

    def _column(self, name: str, *, is_own: bool) -> ParameterColumn:
        column = self._columns.get(name)
        if column and column.is_own == is_own:
            return column
        return ParameterColumn.without_values(len(self), is_own=is_own)

    def _conditions(self, query: Query) -> dict[str, Mask]:
        """Return for each parameter of a query which traces meet the conditions on it."""
        check_number(query)
        return {
            name: self._columns[name].mask(with_current(terms, self.former.get(name, {})))
            if name in self._columns
            else np.full(len(self), admits_missing(terms))
            for name, terms in query.by_key.items()
        }


def with_current(terms: Sequence[Term], former: Mapping[str, str]) -> list[Term]:
    """Return the conditions on a parameter, and for each matching former value one on the current value.

    :param former: from former values to current ones.
    """
    return [
        *terms,
        *(
            replace(term, value=current, pattern=False)
            for term in terms
            for current in _current(term, former)
        ),
    ]


@dataclass(frozen=True, slots=True, eq=False)
class TraceSource:
    """A :class:`perftrend.analysis.formula.RowSource` of the traces of a table."""

    table: TraceTable
    points: int
    """Number of points of every row."""
    read: Callable[[NDArray[np.intp]], Samples]
    """Returns the values at n places in the table, shape (n, points), NaN for holes."""
    shortcuts: Callable[[str], Sequence[StoredId] | None] = lambda _: None
    """Returns the content of a shortcut by its id; None if it does not exist."""

    def select(self, query: Query, *, most: int) -> Rows:
        """Return the traces that match a query.

        If more than ``most`` match, nothing is read: their rows have only holes, and are to be rejected.

        :raises FormulaError: if a regular expression is invalid.
        """
        places = self.table.rows(query)[: most + 1]
        if len(places) > most:
            return Rows(partial(self._names, places), np.broadcast_to(np.nan, (len(places), self.points)))
        return self._rows(places)

    def traces(self, keys: Sequence[TraceKey]) -> Rows:
        """Return those of the traces that are in the table; one that is given by two names once."""
        known = dict.fromkeys(self.table.place_of.get(key) for key in keys)
        return self._rows(np.array([place for place in known if place is not None], dtype=np.intp))

    def shortcut(self, identity: str) -> Sequence[StoredId] | None:
        """Return the content of a shortcut."""
        return self.shortcuts(identity)

    def _rows(self, places: NDArray[np.intp]) -> Rows:
        return Rows(partial(self._names, places), self.read(places))

    def _names(self, places: NDArray[np.intp]) -> list[str]:
        return [format_key(self.table.keys[place]) for place in places.tolist()]


def _current(term: Term, former: Mapping[str, str]) -> set[str]:
    if not former:
        return set()
    if not term.pattern:
        return {former[term.value]} if term.value in former else set()
    fits = search_values(term.value, tuple(former))
    return {current for current, fit in zip(former.values(), fits.tolist(), strict=True) if fit}


@dataclass(frozen=True, slots=True, order=True)
class Feature:
    """A value of a parameter, or a word of it."""

    parameter: str
    value: str
    is_word: bool = False

    def __str__(self) -> str:
        return f"{self.value} in {self.parameter}" if self.is_word else f"{self.parameter}={self.value}"


@dataclass(frozen=True, slots=True)
class Contrast:
    """What some traces have in common."""

    features: tuple[Feature, ...]
    others: int
    """Number of other traces that have all of these features."""
    of_others: int
    """Number of other traces that were compared."""


def find_contrast(table: TraceTable, chosen: NDArray[np.intp], others: NDArray[np.intp]) -> Contrast | None:
    """Return what all chosen traces have in common and the fewest others have.

    :param chosen: rows of the table, shape (n,).
    :param others: rows to compare with, shape (m,), none of them chosen.
    :returns: None for a single trace, without others, or if nothing that the traces have in common
        distinguishes them from any other.
    """
    if len(chosen) < FEWEST_TRACES or not len(others):
        return None
    has = dict(sorted(_common_features(table.own, chosen, others)))
    distinguishing = [each for each, mask in has.items() if not mask.all()]
    best: Contrast | None = None
    for count in range(1, MOST_FEATURES + 1):
        for features in combinations(distinguishing, count):
            number = int(np.logical_and.reduce([has[each] for each in features]).sum())
            if best is None or number < best.others:
                best = Contrast(features, number, len(others))
        if best and not best.others:
            break
    return best


def _common_features(
    own: Mapping[str, ParameterCodes], chosen: NDArray[np.intp], others: NDArray[np.intp]
) -> Iterator[tuple[Feature, Mask]]:
    """Yield each feature that all chosen traces have, and which of the others have it."""
    for name, column in own.items():
        if name in _SAME_FOR_ALL:
            continue
        codes = np.unique(column.codes[chosen])
        if codes[0] < 0:
            continue
        there = column.codes[others]
        if len(codes) == 1:
            yield Feature(name, column.values[codes[0]]), there == codes[0]
        elif name == _NAMED_BY_WORDS:
            words_of = [set(value.split(_SEPARATOR)) for value in column.values]
            for word in set.intersection(*(words_of[code] for code in codes.tolist())):
                # The last place is for traces without the parameter.
                fits = np.array([*(word in words for words in words_of), False])
                yield Feature(name, word, is_word=True), fits[there]
