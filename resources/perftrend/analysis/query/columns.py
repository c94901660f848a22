"""One parameter of many traces as a column of small numbers.

A column contains the distinct values of the parameter, and for each trace the place of its value among them:
traces are distinguished without comparing each of their texts.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.formula.query import Term, admits_missing
from perftrend.analysis.query.parser import search_values
from perftrend.errors import SettingsError
from perftrend.model import TraceKey

Mask = NDArray[np.bool_]

_CACHE_SIZE = 32
"""Regular expressions of a column whose matches are cached: a page repeats the same ones."""
_NUMBERS = re.compile(r"(\d{1,18})")

MISSING = -1
"""The code of a trace without the parameter."""
_LARGEST_CODE = 2**62


@dataclass(frozen=True, eq=False)
class ParameterColumn:
    """One parameter of n traces."""

    values: Mapping[str, int]
    """The distinct values in natural order, 64B before 128B, and their places."""
    codes: NDArray[np.int32]
    """The place of each trace's value, -1 without one, shape (n,)."""
    is_own: bool
    """Whether the traces have the parameter themselves."""

    def mask(self, terms: Sequence[Term]) -> Mask:
        """Return which traces meet all conditions on this parameter, shape (n,)."""
        some = not any(not term.negated for term in terms)
        # The last place is for traces without the parameter.
        fits = np.full(len(self.values) + 1, some)
        for term in terms:
            if not term.negated:
                fits[self._places(term)] = True
        for term in terms:
            if term.negated:
                fits[self._places(term)] = False
        fits[MISSING] = admits_missing(terms)
        return fits[self.codes]

    def counts(self, rows: Mask | NDArray[np.intp] | None) -> NDArray[np.intp]:
        """Return how many of the chosen traces have each value; of all traces if None."""
        codes = self.codes if rows is None else self.codes[rows]
        return np.bincount(codes[codes != MISSING], minlength=len(self.values))

    def search(self, word: str) -> Mask:
        """Return in which values a word is found, shape (n,).

        :param word: in lower case; the case of the values is ignored.
        """
        # The last place is for traces without the parameter.
        found = np.array([word in value for value in self._lower] + [False])
        return found[self.codes]

    @cached_property
    def _lower(self) -> tuple[str, ...]:
        return tuple(map(str.lower, self.values))

    @classmethod
    def without_values(cls, count: int, *, is_own: bool) -> ParameterColumn:
        """Return the column of traces that all lack the parameter."""
        return cls({}, np.full(count, MISSING, dtype=np.int32), is_own)

    def concatenate(self, more: ParameterColumn) -> ParameterColumn:
        """Return a column of these traces, followed by those of another column."""
        fresh = [value for value in more.values if value not in self.values]
        order = _merge_values(tuple(self.values), fresh)
        values = {value: place for place, value in enumerate(order)}
        codes = [_renumber(each.values, each.codes, values) for each in (self, more)]
        return ParameterColumn(values, np.concatenate(codes), self.is_own)

    @cached_property
    def _found(self) -> Callable[[str], NDArray[np.intp]]:
        """The places of the values in which a regular expression is found, by expression."""
        return lru_cache(maxsize=_CACHE_SIZE)(
            lambda pattern: np.flatnonzero(search_values(pattern, tuple(self.values)))
        )

    def _places(self, term: Term) -> NDArray[np.intp]:
        if term.pattern:
            return self._found(term.value)
        place = self.values.get(term.value)
        return np.array([] if place is None else [place], dtype=np.intp)


def columns(
    keys: Sequence[TraceKey], more: Mapping[str, Sequence[str]]
) -> Iterator[tuple[str, ParameterColumn]]:
    """Yield the parameters of traces and their columns, in alphabetical order.

    :raises SettingsError: if the number of further values is not that of the traces.
    """
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
        yield name, _sort_values(values[name], codes[name], is_own=name in own)


@dataclass(frozen=True, slots=True, eq=False)
class ParameterCodes:
    """One parameter of n traces."""

    values: tuple[str, ...]
    """Each value once, in any order."""
    codes: NDArray[np.int32]
    """The place of each trace's value among them, -1 without one, shape (n,)."""

    def of(self, rows: NDArray[np.intp]) -> ParameterCodes:
        """Return the parameter of some of the traces."""
        return ParameterCodes(self.values, self.codes[rows])

    def unique_codes(self) -> list[int]:
        """Return the codes that occur, ascending, including -1 if a trace lacks the parameter."""
        found = np.flatnonzero(np.bincount(self.codes - MISSING, minlength=len(self.values) + 1)) + MISSING
        return found.tolist()


Parameters: TypeAlias = Mapping[str, ParameterCodes]
"""The parameters of n traces by name."""


def of_rows(parameters: Parameters, rows: NDArray[np.intp]) -> dict[str, ParameterCodes]:
    """Return the parameters of some of the traces."""
    return {name: each.of(rows) for name, each in parameters.items()}


def combine_codes(parameters: Iterable[ParameterCodes], count: int) -> NDArray[np.int64]:
    """Return a number for each trace: two are equal if, and only if, the traces agree in all parameters.

    :param count: number of traces.
    """
    numbers = np.zeros(count, dtype=np.int64)
    largest = 1
    for each in parameters:
        size = len(each.values) + 1
        if largest * size > _LARGEST_CODE:
            distinct, numbers = np.unique(numbers, return_inverse=True)
            largest = len(distinct)
        numbers = numbers * size + (each.codes - MISSING)
        largest *= size
    return numbers


def _own(keys: Sequence[TraceKey]) -> tuple[dict[str, dict[str, int]], dict[str, NDArray[np.int32]]]:
    """Return the values of each parameter with their places, and the place of each trace's value."""
    # Distinct parameters are few: each is read once, and the rest is computed from their numbers.
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


def _sort_values(values: Mapping[str, int], codes: NDArray[np.int32], *, is_own: bool) -> ParameterColumn:
    """Return a column with its values in natural order."""
    order = sorted(values, key=_natural)
    wanted = {value: place for place, value in enumerate(order)}
    return ParameterColumn(wanted, _renumber(values, codes, wanted), is_own)


def _renumber(
    values: Mapping[str, int], codes: NDArray[np.int32], wanted: Mapping[str, int]
) -> NDArray[np.int32]:
    """Convert codes to the wanted places of the same values."""
    # The last place is for traces without the parameter.
    places = np.full(len(values) + 1, MISSING, dtype=np.int32)
    places[list(values.values())] = [wanted[value] for value in values]
    return places[codes]


def _merge_values(known: tuple[str, ...], fresh: Sequence[str]) -> list[str]:
    """Return values in natural order; the known ones are sorted already."""
    if len(fresh) * len(known).bit_length() > len(known):
        return sorted([*known, *fresh], key=_natural)
    # Few are new: finding their places is faster than sorting all values again.
    places = [bisect_left(known, _natural(value), key=_natural) for value in fresh]
    return np.insert(np.array(known, dtype=object), places, fresh).tolist()


def _natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a key that sorts texts by the numbers in them; ties by the text itself."""
    parts = _NUMBERS.split(text)
    numbers = [
        (0, int(part), part) if place % 2 else (1, 0, part) for place, part in enumerate(parts) if part
    ]
    return (*numbers, (2, 0, text))
