"""Sparklines: small SVG plots of traces in table rows, without a script."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from perftrend.model import Samples

WIDTH, HEIGHT = 132, 26
_MARGIN = 2


@dataclass(frozen=True, slots=True)
class Sparkline:
    """An SVG path with gaps at missing values, and the position of the change."""

    course: str
    mark: int | None
    """Horizontal position of the change, in pixels from the left; None: outside."""
    width: int = WIDTH
    height: int = HEIGHT


def sparkline(values: Samples, changed: int | None = None) -> Sparkline | None:
    """Return the sparkline of values; None if all are missing.

    :param values: shape (n,), NaN if missing.
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
        # A line of length zero is drawn as a dot.
        parts.append(f"L{x:.0f} {y:.0f}" if is_drawn else f"M{x:.0f} {y:.0f}h0")
        is_drawn = True
    is_inside = changed is not None and 0 < changed < len(values)
    return Sparkline(
        "".join(parts), round(_MARGIN + (changed - 0.5) * step) if changed and is_inside else None
    )
