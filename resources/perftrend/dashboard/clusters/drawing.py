"""SVG plot of the centroid of a cluster: its course, the two levels of the step, and the step itself.

Class names leave the colours to the style sheet. Coordinates are integers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 640, 120
_MARGIN = 8


@dataclass(frozen=True, slots=True)
class Drawing:
    """SVG paths of a plot."""

    course: str
    levels: str
    step: int
    """Horizontal position of the step, from the left."""
    width: int = WIDTH
    height: int = HEIGHT


def drawing(centroid: Sequence[float], position: int) -> Drawing:
    """Return the plot of a centroid, WIDTH by HEIGHT in size.

    :param centroid: at least two values, up is better.
    :param position: the index of the first value after the step.
    """
    low, high = min(centroid), max(centroid)
    span = high - low or 1.0

    def x(number: float) -> int:
        return round(_MARGIN + number * (WIDTH - 2 * _MARGIN) / (len(centroid) - 1))

    def y(value: float) -> int:
        return round(HEIGHT - _MARGIN - (value - low) / span * (HEIGHT - 2 * _MARGIN))

    points = (f"{x(number)} {y(value)}" for number, value in enumerate(centroid))
    step = x(position - 0.5)
    sides = ((centroid[:position], x(0), step), (centroid[position:], step, x(len(centroid) - 1)))
    levels = (f"M{start} {y(sum(side) / len(side))}H{stop}" for side, start, stop in sides if side)
    return Drawing("M" + "L".join(points), "".join(levels), step)
