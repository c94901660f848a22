"""A table of traces: their parameters as columns of small numbers.

A condition is decided once for each distinct value, and then looked up for all traces together; a regular
expression, too, is matched with distinct values only. A table that gets further traces keeps what it knows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.formula.query import Query, admits_missing
from perftrend.analysis.query.coded import Coded, Parameters
from perftrend.analysis.query.columns import Column, Mask, columns
from perftrend.analysis.query.former import with_current
from perftrend.analysis.query.patterns import check_number
from perftrend.model import TraceKey


@dataclass(frozen=True, slots=True)
class Choice:
    """A value that may be chosen next."""

    value: str
    count: int
    """Traces that would be left if it were the only chosen value of its parameter."""


class TraceTable:
    """The parameters of n traces.

    :param keys: of the traces.
    :param more: further parameters, such as the unit, one value a trace; an empty one is none. A parameter
        that traces have themselves outweighs one of the same name.
    :param former: from a parameter and a former value of it to the current value: a condition that a former
        value fits, the current one fits as well.
    :raises SettingsError: if there are not as many further values as traces.
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

    def current(self, name: str, value: str) -> str:
        """Return the current value of a parameter for one that may be a former one."""
        return self.former.get(name, {}).get(value, value)

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

    @cached_property
    def place_of(self) -> dict[TraceKey, int]:
        """The place of each trace."""
        return {key: place for place, key in enumerate(self.keys)}

    def followed_by(self, more: TraceTable) -> TraceTable:
        """Return the table of these traces and, below them, those of another table."""
        both = TraceTable((), former=self.former)
        both.keys = (*self.keys, *more.keys)
        both.place_of = self.place_of | {key: len(self) + at for key, at in more.place_of.items()}
        for name in sorted({*self._columns, *more._columns}):
            is_own = name in self.own or name in more.own
            mine, others = (each._column(name, is_own=is_own) for each in (self, more))
            both._columns[name] = mine.followed_by(others)
        return both

    def _column(self, name: str, *, is_own: bool) -> Column:
        column = self._columns.get(name)
        if column and column.is_own == is_own:
            return column
        return Column.without_values(len(self), is_own=is_own)

    def _conditions(self, query: Query) -> dict[str, Mask]:
        """Return for each parameter of a query which traces fulfil the conditions on it."""
        check_number(query)
        return {
            name: self._columns[name].admitted(with_current(terms, self.former.get(name, {})))
            if name in self._columns
            else np.full(len(self), admits_missing(terms))
            for name, terms in query.by_key.items()
        }
