"""The course of a trace in a line of a table: a small picture that needs no script."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftrend.model import Samples

WIDTH, HEIGHT = 132, 26
_MARGIN = 2


@dataclass(frozen=True, slots=True)
class Sparkline:
    """Paths in SVG's notation; where a value is missing the line is open."""

    course: str
    mark: int | None
    """Where the change is, from the left; None: outside."""
    width: int = WIDTH
    height: int = HEIGHT


def sparkline(values: Samples, changed: int | None = None) -> Sparkline | None:
    """Draw values; None where there are none.

    :param values: shape (n,), NaN where there is none.
    :param changed: position of the first value after the change.
    """
    present = np.isfinite(values)
    if not present.any():
        return None
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    span = high - low or 1.0
    step = (WIDTH - 2 * _MARGIN) / max(len(values) - 1, 1)
    parts = []
    is_drawn = False
    for position, value in enumerate(values.tolist()):
        if not present[position]:
            is_drawn = False
            continue
        x = _MARGIN + position * step
        y = HEIGHT - _MARGIN - (value - low) / span * (HEIGHT - 2 * _MARGIN)
        # A line of no length is a dot.
        parts.append(f"L{x:.0f} {y:.0f}" if is_drawn else f"M{x:.0f} {y:.0f}h0")
        is_drawn = True
    is_inside = changed is not None and 0 < changed < len(values)
    return Sparkline(
        "".join(parts), round(_MARGIN + (changed - 0.5) * step) if changed and is_inside else None
    )
