"""Layout of pairs as a table: its rows and columns, the order of the rows, and the shades of the cells.

A row is a test, a column is the rest of the parameters. A parameter that is the same for all pairs is shown
once, above the table. One that follows from the test, such as the frame of ``64b-1c-ip4-mrr``, needs no
column of its own either: the row contains it. The remaining ones distinguish the columns.

Rows are sorted by one number each. g are the gains of a row's cells, logarithms of ratios that are above zero
if left is better:

* ``weight``: Σ |g|: the total difference, in either direction; a ratio and its inverse weigh the same.
* ``mean``: the average of g: the logarithm of the geometric mean of the ratios.
* ``worst`` and ``best``: the least and the greatest g.
* ``count``: the number of cells with a ratio.

The range of the shades is one that single outliers do not stretch. Gains from the 95 % quantile of all sizes
on have the full shade, so that one broken test does not make all others look alike. Gains below half a
percent never have the full shade, however quiet the table is.

Source: "Skia Perf: Design", section Comparing bench results across verticals, also for sorting rows by their
aggregated performance.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.query.columns import MISSING, ParameterCodes, Parameters, combine_codes
from perftrend.analysis.query.parser import format_skia_name
from perftrend.model import Samples, TraceKey

TEST = "test"
"""The parameter that names the row of a pair."""
Rest: TypeAlias = tuple[tuple[str, str], ...]
"""Parameters and their values, sorted by name."""
_Numbers: TypeAlias = NDArray[np.intp]
_ABSENT = ""
"""The value of a parameter that a pair lacks."""

AGGREGATES = ("weight", "worst", "best", "mean", "count")
"""The sort criteria of rows; for ``weight``, ``best`` and ``count`` the largest come first."""
_LARGEST_FIRST = frozenset({"weight", "best", "count"})

LEVELS = 4
"""Shades on either side of no shade."""
_QUANTILE = 0.95
_LEAST_RANGE = math.log(1.005)


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


def build_layout(parameters: Parameters, count: int) -> Layout:
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


def aggregate(by: str, gains: Samples, row_of: NDArray[np.intp], rows: int) -> Samples:
    """Return one number for each row.

    :param by: one of ``AGGREGATES``.
    :param gains: the gains of n cells, NaN if a cell has no ratio.
    :param row_of: their rows, shape (n,).
    :returns: shape (rows,); if a row has no cell with a ratio, NaN, or 0 for ``count``.
    """
    known = np.isfinite(gains)
    gains, row_of = gains[known], row_of[known]
    counts = np.bincount(row_of, minlength=rows)
    if by == "count":
        return counts.astype(np.float64)
    if by in {"worst", "best"}:
        fold, start = (np.minimum, np.inf) if by == "worst" else (np.maximum, -np.inf)
        found = np.full(rows, start)
        fold.at(found, row_of, gains)
    else:
        sizes = np.abs(gains) if by == "weight" else gains
        found = np.bincount(row_of, weights=sizes, minlength=rows)
        if by == "mean":
            found = found / np.maximum(counts, 1)
    return np.where(counts > 0, found, np.nan)


def rank_rows(by: str, numbers: Samples, *, reverse: bool = False) -> NDArray[np.intp]:
    """Return the order of rows by their aggregates: the most important first, NaN always last.

    :param by: one of ``AGGREGATES``; other criteria are sorted like ``worst``.
    """
    keys = -numbers if (by in _LARGEST_FIRST) != reverse else numbers
    # Stable, so that rows of equal weight stay in the order of their names.
    return np.argsort(keys, kind="stable")


def robust_range(gains: Samples) -> float:
    """Return the gain from which on cells have the full shade: a logarithm of a ratio, above zero."""
    sizes = np.abs(gains[np.isfinite(gains)])
    if not sizes.size:
        return _LEAST_RANGE
    # With fewer than twenty it is the largest: among so few, none is certainly an outlier.
    return max(float(np.quantile(sizes, _QUANTILE, method="inverted_cdf")), _LEAST_RANGE)


def levels(gains: Samples, full: float) -> NDArray[np.int64]:
    """Return the shade of each cell: from -4, worse, over 0, no shade, to 4, better; 0 if there is no gain.

    :param full: the result of :func:`robust_range`.
    """
    share = np.clip(np.nan_to_num(gains) / full, -1.0, 1.0)
    return np.rint(share * LEVELS).astype(np.int64)


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
