"""How a cell is written: its shade, its ratio, and what both sides were."""

from __future__ import annotations

from perftrend.dashboard.compare.model import CellEntry, SideEntry
from perftrend.dashboard.compare.question import By, Question, Ratio
from perftrend.dashboard.formats import NOTHING, value

_MINUS = "\N{MINUS SIGN}"


def ratio(number: float | None) -> str:
    """Write a ratio, or another number of a row; what is none is a dash."""
    return NOTHING if number is None else f"{number:.3f}".replace("-", _MINUS)


def shown_ratio(cell: CellEntry, asked: Question) -> str:
    """Write the ratio of a cell as it was chosen."""
    return ratio(cell.ratio if asked.ratio is Ratio.PLAIN else cell.signed)


def shade(cell: CellEntry) -> str:
    """Return the classes of a cell."""
    if not cell.shade:
        return "heat"
    return f"heat b{cell.shade}" if cell.shade > 0 else f"heat w{-cell.shade}"


def told(cell: CellEntry) -> str:
    """Say of what a cell is the ratio."""
    sides = f"left {_side(cell.left, cell.unit)}; right {_side(cell.right, cell.unit)}"
    interval = "" if cell.low is None else f" ({ratio(cell.low)} to {ratio(cell.high)})"
    return f"{sides}; left/right {ratio(cell.ratio)}{interval}"


def is_off(cell: CellEntry, asked: Question) -> bool:
    """Tell whether a value is not of the commit that was asked for, or both sides are of different ones."""
    left, right = cell.left, cell.right
    return bool(left.distance or right.distance or (asked.by is By.VERTICAL and left.commit != right.commit))


def _side(entry: SideEntry, unit: str) -> str:
    written = value(entry.value, unit)
    if not entry.distance:
        return written
    return f"{written}, {abs(entry.distance)} {'before' if entry.distance < 0 else 'after'}"
