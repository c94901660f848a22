"""A table of traces: their parameters as columns of small numbers.

A column has the distinct values of one parameter, and for each trace the place of its value among them. A
condition is decided once for each distinct value, and then looked up for all traces together; a regular
expression, too, is matched with distinct values only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.formula.query import Query, Term
from perftrend.analysis.query.coded import MISSING, Coded, Parameters
from perftrend.analysis.query.names import documented_name
from perftrend.analysis.query.patterns import check_number, found
from perftrend.errors import SettingsError
from perftrend.model import TraceKey

Mask = NDArray[np.bool_]

_KEPT = 32
"""Regular expressions of a column whose matches are kept: a page asks for the same ones again and again."""
_NUMBERS = re.compile(r"(\d{1,18})")


@dataclass(frozen=True, slots=True)
class Choice:
    """A value that may be chosen next."""

    value: str
    count: int
    """Traces that would be left if it were the only chosen value of its parameter."""


@dataclass(frozen=True, eq=False)
class _Column:
    values: Mapping[str, int]
    """The distinct values in natural order, 64B before 128B, and their places."""
    codes: NDArray[np.int32]
    """The place of each trace's value, -1 where it has none, shape (n,)."""
    is_own: bool
    """Whether the traces have it themselves."""

    def admitted(self, terms: Sequence[Term]) -> Mask:
        """Tell which traces fulfil all conditions on this parameter, shape (n,)."""
        some = not any(not term.negated for term in terms)
        # The last place is that of traces without the parameter, which fulfil none.
        fits = np.full(len(self.values) + 1, some)
        for term in terms:
            if not term.negated:
                fits[self._places(term)] = True
        for term in terms:
            if term.negated:
                fits[self._places(term)] = False
        fits[MISSING] = False
        return fits[self.codes]

    def counts(self, rows: Mask | NDArray[np.intp] | None) -> NDArray[np.intp]:
        """Return how many of the chosen traces have each value; None: of all traces."""
        codes = self.codes if rows is None else self.codes[rows]
        return np.bincount(codes[codes != MISSING], minlength=len(self.values))

    @cached_property
    def _found(self) -> Callable[[str], NDArray[np.intp]]:
        """From a regular expression to the places of the values that it is found in."""
        return lru_cache(maxsize=_KEPT)(lambda pattern: np.flatnonzero(found(pattern, tuple(self.values))))

    def _places(self, term: Term) -> NDArray[np.intp]:
        if term.pattern:
            return self._found(term.value)
        place = self.values.get(term.value)
        return np.array([] if place is None else [place], dtype=np.intp)


class TraceTable:
    """The parameters of n traces.

    :param keys: of the traces.
    :param more: further parameters, such as the unit, one value a trace; an empty one is none. A parameter
        that traces have themselves outweighs one of the same name.
    :raises SettingsError: if there are not as many further values as traces.
    """

    def __init__(self, keys: Sequence[TraceKey], more: Mapping[str, Sequence[str]] | None = None) -> None:
        self.keys = tuple(keys)
        self._columns = dict(_columns(self.keys, more or {}))

    def __len__(self) -> int:
        return len(self.keys)

    @cached_property
    def own(self) -> Parameters:
        """The parameters that the traces have themselves, by name in the order of the alphabet."""
        return {
            name: Coded(tuple(column.values), column.codes)
            for name, column in self._columns.items()
            if column.is_own
        }

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of all parameters, in the order of the alphabet."""
        return tuple(self._columns)

    def mask(self, query: Query) -> Mask:
        """Tell which traces a query fits, shape (n,).

        :raises FormulaError: for a regular expression that is none, or too many of them.
        """
        mask = np.ones(len(self), dtype=bool)
        for admitted in self._conditions(query).values():
            mask &= admitted
        return mask

    def rows(self, query: Query) -> NDArray[np.intp]:
        """Return the places of the traces that a query fits, ascending; errors as of :meth:`mask`."""
        return np.flatnonzero(self.mask(query))

    def choices(self, query: Query) -> dict[str, list[Choice]]:
        """Count what each value of each parameter would leave, were it chosen next.

        What is already chosen of the same parameter does not count: values of one parameter are
        alternatives, and the numbers tell what each of them adds. Values that would leave nothing are left
        out, unless they are chosen; so are parameters without any value then.

        :returns: by parameter; values in natural order, 64B before 128B.
        """
        conditions = self._conditions(query)
        failed = np.zeros(len(self), dtype=np.int16)
        for admitted in conditions.values():
            failed += ~admitted
        fits = failed == 0
        found: dict[str, list[Choice]] = {}
        for name, column in self._columns.items():
            rows = fits if name not in conditions else failed == ~conditions[name]
            chosen = {term.value for term in query.by_key.get(name, ()) if not (term.pattern or term.negated)}
            counts = column.counts(rows if query.terms else None)
            choices = [
                Choice(value, int(count))
                for value, count in zip(column.values, counts, strict=True)
                if count or value in chosen
            ]
            if choices:
                found[name] = choices
        return found

    def values(self, name: str, rows: NDArray[np.intp]) -> list[str]:
        """Return the values of a parameter that some traces have, each once, in natural order."""
        column = self._columns.get(name)
        if column is None:
            return []
        known = tuple(column.values)
        return [known[code] for code in np.flatnonzero(column.counts(rows)).tolist()]

    def by_value(self, name: str, rows: NDArray[np.intp]) -> dict[str | None, NDArray[np.intp]]:
        """Divide traces by their values of a parameter.

        :param rows: the places of the traces, shape (n,).
        :returns: for each value the numbers of its traces, from 0 to n - 1, ascending; those of traces
            without a value by None.
        """
        column = self._columns.get(name)
        if column is None:
            return {None: np.arange(len(rows))} if len(rows) else {}
        known = (*column.values, None)
        codes = column.codes[rows]
        return {known[code]: np.flatnonzero(codes == code) for code in np.unique(codes).tolist()}

    def named(self, name: str) -> tuple[int, ...]:
        """Return the places of the traces that have a name in the documented form."""
        return self._by_name.get(name, ())

    @cached_property
    def place_of(self) -> Mapping[TraceKey, int]:
        """The place of each trace."""
        return {key: place for place, key in enumerate(self.keys)}

    @cached_property
    def _by_name(self) -> Mapping[str, tuple[int, ...]]:
        places: dict[str, tuple[int, ...]] = {}
        for place, key in enumerate(self.keys):
            name = documented_name(key)
            places[name] = (*places.get(name, ()), place)
        return places

    def _conditions(self, query: Query) -> dict[str, Mask]:
        """Return for each parameter of a query which traces fulfil the conditions on it."""
        check_number(query)
        return {
            name: self._columns[name].admitted(terms)
            if name in self._columns
            else np.zeros(len(self), dtype=bool)
            for name, terms in query.by_key.items()
        }


def _columns(keys: Sequence[TraceKey], more: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, _Column]]:
    values, codes = _own(keys)
    own = frozenset(codes)
    for name, given in more.items():
        if len(given) != len(keys):
            raise SettingsError(f"traces: {len(given)} values of {name} for {len(keys)}; give one each")
        if name not in codes:
            known = values[name] = {
                value: code for code, value in enumerate(dict.fromkeys(filter(None, given)))
            }
            codes[name] = np.fromiter((known.get(value, MISSING) for value in given), np.int32, len(given))
    for name in sorted(codes):
        yield name, _ordered(values[name], codes[name], is_own=name in own)


def _own(keys: Sequence[TraceKey]) -> tuple[dict[str, dict[str, int]], dict[str, NDArray[np.int32]]]:
    """Return the values of each parameter with their places, and the place of each trace's value."""
    # Distinct parameters are few. So each is looked at once, and all else is done with their numbers.
    known: dict[tuple[str, str], int] = {}
    numbers = np.fromiter(
        (known.setdefault(each, len(known)) for key in keys for each in key.parameters), np.int32
    )
    rows = np.repeat(np.arange(len(keys)), np.fromiter((len(key.parameters) for key in keys), np.intp))
    values: dict[str, dict[str, int]] = {}
    place = np.empty(len(known), dtype=np.int32)
    for (name, value), number in known.items():
        place[number] = values.setdefault(name, {}).setdefault(value, len(values[name]))
    number_of = {name: number for number, name in enumerate(values)}
    name_of = np.array([number_of[name] for name, _ in known], dtype=np.int32)
    codes = {}
    for name, number in number_of.items():
        has_it = name_of[numbers] == number
        codes[name] = np.full(len(keys), MISSING, dtype=np.int32)
        codes[name][rows[has_it]] = place[numbers[has_it]]
    return values, codes


def _ordered(values: Mapping[str, int], codes: NDArray[np.int32], *, is_own: bool) -> _Column:
    """Put the values of a column into natural order."""
    order = sorted(values, key=_natural)
    # The last place is that of traces without the parameter.
    places = np.full(len(values) + 1, MISSING, dtype=np.int32)
    places[[values[value] for value in order]] = np.arange(len(order), dtype=np.int32)
    return _Column({value: place for place, value in enumerate(order)}, places[codes], is_own)


def _natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return what sorts texts with numbers in them as a person does; ties by the text itself."""
    parts = _NUMBERS.split(text)
    numbers = [
        (0, int(part), part) if place % 2 else (1, 0, part) for place, part in enumerate(parts) if part
    ]
    return (*numbers, (2, 0, text))
