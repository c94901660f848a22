"""Numbers of answers: None where there is none."""

from __future__ import annotations

import numpy as np

from perftrend.model import Samples, finite

_ROUNDED = 1e-12
"""Of the largest value."""


def numbers(values: Samples) -> list[float | None]:
    """Return the numbers of an array."""
    return [None if value != value else value for value in values.tolist()]  # noqa: PLR0124 - NaN


def relative(value: float | None, reference: float | None) -> float | None:
    """Return how much a value is above another one, relative to that."""
    if value is None or not reference:
        return None
    return finite((value - reference) / abs(reference))


def mean(values: Samples) -> float | None:
    """Return the average, holes left out; what rounding leaves of zero is zero."""
    present = values[np.isfinite(values)]
    if not len(present):
        return None
    average = float(present.mean())
    return 0.0 if abs(average) < _ROUNDED * float(np.abs(present).max()) else finite(average)


def newest(values: Samples) -> float | None:
    """Return the last value that there is."""
    present = values[np.isfinite(values)]
    return float(present[-1]) if len(present) else None
