"""The centroid of a cluster as a small picture: its course, the two levels of the step, and where it is.

Class names leave the colours to the style sheet. Coordinates are whole numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

WIDTH, HEIGHT = 640, 120
_MARGIN = 8


@dataclass(frozen=True, slots=True)
class Drawing:
    """The paths of one picture, in SVG's notation."""

    course: str
    levels: str
    step: int
    """Where the step is, from the left."""
    width: int = WIDTH
    height: int = HEIGHT


def drawing(centroid: Sequence[float], position: int) -> Drawing:
    """Draw a centroid into a picture of WIDTH by HEIGHT.

    :param centroid: at least two values, up is better.
    :param position: the first one after the step.
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
