"""Formatting of cells: shade, ratio, and the values of both sides."""

from __future__ import annotations

from perftrend.dashboard.compare.models import CellEntry, SideEntry
from perftrend.dashboard.compare.query import By, Question, Ratio
from perftrend.dashboard.formats import NOTHING, value

_MINUS = "\N{MINUS SIGN}"


def ratio(number: float | None) -> str:
    """Format a ratio, or another number of a row; None is a dash."""
    return NOTHING if number is None else f"{number:.3f}".replace("-", _MINUS)


def format_cell_ratio(cell: CellEntry, requested: Question) -> str:
    """Format the ratio of a cell in the chosen notation."""
    return ratio(cell.ratio if requested.ratio is Ratio.PLAIN else cell.signed)


def shade(cell: CellEntry) -> str:
    """Return the CSS classes of a cell."""
    if not cell.shade:
        return "heat"
    return f"heat b{cell.shade}" if cell.shade > 0 else f"heat w{-cell.shade}"


def describe(cell: CellEntry) -> str:
    """Return a description of a cell: its values, its ratio and the interval of the ratio."""
    sides = f"left {_side(cell.left, cell.unit)}; right {_side(cell.right, cell.unit)}"
    interval = "" if cell.low is None else f" ({ratio(cell.low)} to {ratio(cell.high)})"
    return f"{sides}; left/right {ratio(cell.ratio)}{interval}"


def is_off(cell: CellEntry, requested: Question) -> bool:
    """Return whether a value is not of the requested commit, or the sides have different commits."""
    left, right = cell.left, cell.right
    return bool(
        left.distance or right.distance or (requested.by is By.VERTICAL and left.commit != right.commit)
    )


def _side(entry: SideEntry, unit: str) -> str:
    written = value(entry.value, unit)
    if not entry.distance:
        return written
    return f"{written}, {abs(entry.distance)} {'before' if entry.distance < 0 else 'after'}"
