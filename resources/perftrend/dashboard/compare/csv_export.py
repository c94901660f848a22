"""CSV export of the whole table: a line for each cell, with both values."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from perftrend.analysis.ratios.layout import cells_of
from perftrend.dashboard.compare.comparison import PairComparison
from perftrend.dashboard.compare.models import SideEntry
from perftrend.dashboard.compare.query import Question
from perftrend.dashboard.compare.table import cell_of, sort_rows
from perftrend.dashboard.formats import as_cell, plain

_SIDE = ("trace", "value", "commit", "measured", "distance")
HEADINGS = (
    "test", "column", "unit", "better", "signed", "ratio", "low", "high", "verdict",
    *(f"{side} {name}" for side in ("left", "right") for name in _SIDE),
)  # fmt: skip


def as_csv(comparison: PairComparison, requested: Question) -> str:
    """Return all cells as CSV, the rows in the requested order."""
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow(HEADINGS)
    writer.writerows(_lines(comparison, requested))
    return written.getvalue()


def _lines(comparison: PairComparison, requested: Question) -> Iterator[list[object]]:
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
                *_side(cell.left),
                *_side(cell.right),
            ]


def _side(side: SideEntry) -> Iterator[object]:
    yield as_cell(plain(side.trace))
    yield _exact(side.value)
    yield side.commit
    yield side.measured.isoformat().replace("+00:00", "Z") if side.measured else ""
    yield side.distance


def _exact(number: float | None) -> str:
    return "" if number is None else repr(number)
