"""Layout of pairs as a table: a row is a test, a column is the rest of the parameters.

A parameter that is the same for all pairs is shown once, above the table. One that follows from the test,
such as the frame of ``64b-1c-ip4-mrr``, needs no column of its own either: the row contains it. The
remaining ones distinguish the columns.

Source: "Skia Perf: Design", section Comparing bench results across verticals.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.query.names import format_skia_name
from perftrend.analysis.query.parameter_codes import MISSING, ParameterCodes, Parameters, combine_codes
from perftrend.model import TraceKey

TEST = "test"
"""The parameter that names the row of a pair."""
Rest: TypeAlias = tuple[tuple[str, str], ...]
"""Parameters and their values, sorted by name."""
_Numbers: TypeAlias = NDArray[np.intp]
_ABSENT = ""
"""The value of a parameter that a pair lacks."""


@dataclass(frozen=True, slots=True)
class RatioColumn:
    """The parameters that the cells of a column have in common."""

    parameters: Rest

    @property
    def name(self) -> str:
        """Its values in the Skia Perf form, ``2n-clx:mrr``; empty if no parameter is left."""
        return format_skia_name(TraceKey(self.parameters))


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """A table of n pairs."""

    rows: tuple[str, ...]
    columns: tuple[RatioColumn, ...]
    common: Rest
    """Parameters that are the same for all pairs."""
    row_of: _Numbers
    """The row of each pair, shape (n,)."""
    column_of: _Numbers


def laid_out(parameters: Parameters, count: int) -> Layout:
    """Find rows and columns, both in alphabetical order; no two pairs share a cell.

    :param parameters: the parameters of n pairs, by name.
    :param count: n.
    """
    tests = parameters.get(TEST, ParameterCodes((), np.full(count, MISSING, dtype=np.int32)))
    rows, row_of = _rows(tests)
    common: list[tuple[str, str]] = []
    column_parameters: dict[str, ParameterCodes] = {}
    for name, each in sorted(parameters.items()):
        if name == TEST or not (each.codes != MISSING).any():
            continue
        plain = _plain(each)
        if (plain == plain[0]).all():
            common.append((name, _text(each, plain[0])))
        elif not _follows(plain, row_of):
            column_parameters[name] = each
    columns, column_of = _columns(column_parameters, count)
    return Layout(rows, columns, tuple(common), row_of, column_of)


def cells_of(layout: Layout, rows: Sequence[int]) -> Iterator[list[tuple[int, int]]]:
    """Yield for each of the given rows its columns and pairs, by column."""
    wanted: dict[int, list[tuple[int, int]]] = {row: [] for row in rows}
    for pair in np.flatnonzero(np.isin(layout.row_of, rows)).tolist():
        wanted[int(layout.row_of[pair])].append((int(layout.column_of[pair]), pair))
    yield from (sorted(wanted[row]) for row in rows)


def _rows(tests: ParameterCodes) -> tuple[tuple[str, ...], _Numbers]:
    distinct, numbers = np.unique(_plain(tests), return_inverse=True)
    names = [_text(tests, code) for code in distinct.tolist()]
    order, place_of = _rank(names)
    return tuple(names[number] for number in order), place_of[numbers]


def _columns(column_parameters: Parameters, count: int) -> tuple[tuple[RatioColumn, ...], _Numbers]:
    _, first, numbers = np.unique(
        combine_codes(column_parameters.values(), count), return_index=True, return_inverse=True
    )
    rests = [
        tuple((name, each.values[each.codes[pair]]) for name, each in column_parameters.items()
              if each.codes[pair] != MISSING)
        for pair in first.tolist()
    ]  # fmt: skip
    order, place_of = _rank(rests)
    return tuple(RatioColumn(rests[number]) for number in order), place_of[numbers]


def _rank(found: Sequence[str] | Sequence[Rest]) -> tuple[list[int], _Numbers]:
    """Return the order of distinct entries, and the place of each in it."""
    order = sorted(range(len(found)), key=found.__getitem__)
    return order, np.argsort(np.array(order, dtype=np.intp))


def _follows(codes: _Numbers, row_of: _Numbers) -> bool:
    """Return whether all pairs of a row have the same value of a parameter."""
    of_row = np.empty(int(row_of.max()) + 1, dtype=codes.dtype)
    of_row[row_of] = codes
    return bool((of_row[row_of] == codes).all())


def _plain(parameter: ParameterCodes) -> _Numbers:
    """Return the codes, with the code of a missing value for an empty one."""
    if _ABSENT not in parameter.values:
        return parameter.codes.astype(np.intp)
    return np.where(parameter.codes == parameter.values.index(_ABSENT), MISSING, parameter.codes)


def _text(parameter: ParameterCodes, code: int) -> str:
    return _ABSENT if code == MISSING else parameter.values[code]
