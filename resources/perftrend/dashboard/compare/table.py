"""The table of a comparison: the part that a page shows, and the CSV export of all of it.

The export has a line for each cell, with both values.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.ratios import AGGREGATES, Layout, aggregate, levels, rank_rows, robust_range
from perftrend.analysis.ratios.layout import cells_of
from perftrend.dashboard import links
from perftrend.dashboard.compare.comparison import PairComparison, ValueOrigin
from perftrend.dashboard.compare.models import (
    BY_NAME,
    By,
    CellEntry,
    ColumnEntry,
    Question,
    Ratio,
    RowEntry,
    SideEntry,
    TableEntry,
)
from perftrend.dashboard.csv_export import as_cell
from perftrend.dashboard.formats import NOTHING, change, plain, value
from perftrend.model import Better, Samples, finite

MOST_COLUMNS = 40
"""Maximum number of columns on a page; those with the most cells are shown."""
_MOST_CELLS = 600
"""Maximum number of cells on a page, which limits its size."""
_FEWEST_ROWS, _MOST_ROWS = 10, 200
_MINUS = "\N{MINUS SIGN}"

_SIDE = ("trace", "value", "commit", "measured", "distance")
HEADINGS = (
    "test", "column", "unit", "better", "signed", "ratio", "low", "high", "verdict",
    *(f"{side} {name}" for side in ("left", "right") for name in _SIDE),
)  # fmt: skip


@dataclass(frozen=True, slots=True, eq=False)
class SortedRows:
    """Rows of a comparison in the requested order, with their aggregates and shades."""

    order: NDArray[np.intp]
    aggregates: dict[str, Samples]
    """By name, shape (rows,)."""
    shades: NDArray[np.int64]
    full: float
    """The gain above which the shade is full."""


def sort_rows(comparison: PairComparison, requested: Question) -> SortedRows:
    """Sort the rows of a comparison."""
    layout, found = comparison.layout, comparison.ratios
    rows = len(layout.rows)
    aggregates = {by: aggregate(by, found.gain, layout.row_of, rows) for by in AGGREGATES}
    if requested.sort == BY_NAME:
        order = np.arange(rows)[:: -1 if requested.reverse else 1]
    elif requested.column is None:
        order = rank_rows(requested.sort, aggregates[requested.sort], reverse=requested.reverse)
    else:
        of_column = np.where(layout.column_of == requested.column, found.gain, np.nan)
        order = rank_rows(
            "worst", aggregate("worst", of_column, layout.row_of, rows), reverse=requested.reverse
        )
    full = robust_range(found.gain)
    shown = np.where(found.is_noise, np.nan, found.gain)
    return SortedRows(order, aggregates, levels(shown, full), full)


def table_of(comparison: PairComparison, requested: Question, *, with_noise: bool) -> TableEntry:
    """Return the rows of a page.

    :param with_noise: whether to return also rows whose differences are all within the noise.
    """
    layout, ordered = comparison.layout, sort_rows(comparison, requested)
    columns = _select_columns(comparison)
    is_noise = _find_noise(comparison)
    order = ordered.order if with_noise else ordered.order[~is_noise[ordered.order]]
    chosen = _select_rows(layout, order, requested, len(columns))
    counts = Counter(comparison.verdicts)
    return TableEntry(
        left=comparison.titles[0],
        right=comparison.titles[1],
        common=dict(layout.common),
        columns=[
            ColumnEntry(number=number, name=layout.columns[number].name,
                        parameters=dict(layout.columns[number].parameters))
            for number in columns
        ],
        hidden_columns=len(layout.columns) - len(columns),
        rows=[
            _row(comparison, ordered, columns, row, dict(cells))
            for row, cells in zip(chosen, cells_of(layout, chosen), strict=True)
        ],
        first=requested.first,
        all_rows=len(order),
        rows_within_noise=int(is_noise.sum()),
        better=counts["better"],
        worse=counts["worse"],
        within_noise=counts["within noise"] + counts["equal"],
        no_value=counts["no value"],
        full_shade=math.exp(ordered.full),
        left_alone=list(comparison.left_alone.some),
        right_alone=list(comparison.right_alone.some),
        left_alone_count=comparison.left_alone.count,
        right_alone_count=comparison.right_alone.count,
        simulated=list(comparison.simulated),
        patch=comparison.patch.test.sentence if comparison.patch else "",
        updated=comparison.patch.test.updated if comparison.patch else None,
        in_progress=comparison.patch is not None and not comparison.patch.test.ended,
    )  # fmt: skip


def cell_of(comparison: PairComparison, shades: NDArray[np.int64], pair: int) -> CellEntry:
    """Return the model of the cell of a pair."""
    found = comparison.ratios
    left, right = (_side(side(pair)) for side in comparison.sides)
    return CellEntry(
        column=int(comparison.layout.column_of[pair]),
        left=left,
        right=right,
        unit=comparison.units[pair],
        better=str(Better.LOWER if comparison.lower_is_better[pair] else Better.HIGHER),
        signed=finite(found.signed[pair]),
        ratio=finite(found.plain[pair]),
        low=finite(found.low[pair]),
        high=finite(found.high[pair]),
        verdict=comparison.verdicts[pair],
        shade=int(shades[pair]),
    )


def _row(
    comparison: PairComparison, ordered: SortedRows, columns: Sequence[int], row: int, cells: dict[int, int]
) -> RowEntry:
    aggregates = {by: finite(numbers[row]) for by, numbers in ordered.aggregates.items()}
    return RowEntry(
        name=comparison.layout.rows[row],
        weight=aggregates["weight"],
        worst=_exp(aggregates["worst"]),
        best=_exp(aggregates["best"]),
        mean=_exp(aggregates["mean"]),
        count=int(aggregates["count"] or 0),
        cells=[
            cell_of(comparison, ordered.shades, cells[column]) if column in cells else None
            for column in columns
        ],
    )


def _find_noise(comparison: PairComparison) -> NDArray[np.bool_]:
    """Return whether the differences of each row are all within the noise; at least one has to be known."""
    row_of, rows = comparison.layout.row_of, len(comparison.layout.rows)
    verdicts = np.array(comparison.verdicts)
    differs = np.isin(verdicts, ("better", "worse"))
    is_known = verdicts != "no value"
    has_difference, has_value = (
        np.bincount(row_of[each], minlength=rows) > 0 for each in (differs, is_known)
    )
    return has_value & ~has_difference


def _select_rows(layout: Layout, order: NDArray[np.intp], requested: Question, columns: int) -> list[int]:
    if requested.row:
        return [layout.rows.index(requested.row)] if requested.row in layout.rows else []
    size = min(max(_MOST_CELLS // max(columns, 1), _FEWEST_ROWS), _MOST_ROWS)
    rows: list[int] = order[requested.first : requested.first + size].tolist()
    return rows


def _select_columns(comparison: PairComparison) -> list[int]:
    """Return the columns with the most cells, in the order of their names."""
    count = len(comparison.layout.columns)
    sizes = np.bincount(comparison.layout.column_of, minlength=count)
    return sorted(np.argsort(-sizes, kind="stable")[:MOST_COLUMNS].tolist())


def _side(side: ValueOrigin) -> SideEntry:
    return SideEntry(
        trace=side.trace,
        value=finite(side.value),
        commit=side.column.revision if side.column else "",
        measured=side.column.started if side.column else None,
        distance=side.distance,
    )


def _exp(number: float | None) -> float | None:
    return None if number is None else finite(float(np.exp(number)))


def format_ratio(number: float | None) -> str:
    """Format a ratio, or another number of a row; None is a dash."""
    return NOTHING if number is None else f"{number:.3f}".replace("-", _MINUS)


def format_cell_ratio(cell: CellEntry, requested: Question) -> str:
    """Format the ratio of a cell in the chosen notation."""
    if requested.ratio is Ratio.SIGNED:
        return format_ratio(cell.signed)
    return format_left_by_right(cell.ratio, requested)


def format_left_by_right(ratio: float | None, requested: Question) -> str:
    """Format a ratio of left to right, or of the better side to the worse: in per cent or as a number."""
    if ratio is None or requested.ratio is not Ratio.PERCENT:
        return format_ratio(ratio)
    return change(ratio - 1)


def shade(cell: CellEntry) -> str:
    """Return the CSS classes of a cell."""
    if not cell.shade:
        return "heat"
    return f"heat b{cell.shade}" if cell.shade > 0 else f"heat w{-cell.shade}"


def describe_cell(cell: CellEntry, requested: Question) -> str:
    """Return a description of a cell: its values, its ratio and the interval of the ratio."""
    sides = f"left {_format_side(cell.left, cell.unit)}; right {_format_side(cell.right, cell.unit)}"
    ratio, low, high = (format_left_by_right(each, requested) for each in (cell.ratio, cell.low, cell.high))
    interval = "" if cell.low is None else f" ({low} to {high})"
    return f"{sides}; {'' if requested.ratio is Ratio.PERCENT else 'left/right '}{ratio}{interval}"


def is_off(cell: CellEntry, requested: Question) -> bool:
    """Return whether a value is not of the requested commit, or the sides have different commits."""
    left, right = cell.left, cell.right
    return bool(
        left.distance or right.distance or (requested.by is By.VERTICAL and left.commit != right.commit)
    )


def _format_side(entry: SideEntry, unit: str) -> str:
    written = value(entry.value, unit)
    if not entry.distance:
        return written
    return f"{written}, {abs(entry.distance)} {'before' if entry.distance < 0 else 'after'}"


def explore_link(cell: CellEntry) -> str:
    """Return the address of the plot of both traces; empty if one side has no commit, as in a patch set."""
    sides = (cell.left, cell.right)
    if not all(side.commit for side in sides):
        return ""
    return links.of_plot(ids=list(dict.fromkeys(side.trace for side in sides)))


def csv_rows(comparison: PairComparison, requested: Question) -> Iterator[Sequence[object]]:
    """Yield the headings and all cells as CSV, in the requested order."""
    yield HEADINGS
    layout, ordered = comparison.layout, sort_rows(comparison, requested)
    rows = ordered.order.tolist()
    for row, cells in zip(rows, cells_of(layout, rows), strict=True):
        for column, pair in cells:
            cell = cell_of(comparison, ordered.shades, pair)
            yield [
                as_cell(plain(layout.rows[row])),
                as_cell(plain(layout.columns[column].name)),
                as_cell(plain(cell.unit)),
                cell.better,
                *(_exact(number) for number in (cell.signed, cell.ratio, cell.low, cell.high)),
                cell.verdict,
                *_csv_side(cell.left),
                *_csv_side(cell.right),
            ]


def _csv_side(side: SideEntry) -> Iterator[object]:
    yield as_cell(plain(side.trace))
    yield _exact(side.value)
    yield side.commit
    yield side.measured.isoformat().replace("+00:00", "Z") if side.measured else ""
    yield side.distance


def _exact(number: float | None) -> str:
    return "" if number is None else repr(number)
