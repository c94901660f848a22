"""Numbers in responses: None if missing."""

from __future__ import annotations

import numpy as np

from perftrend.model import Samples, finite

_ROUNDED = 1e-12
"""Relative to the largest value."""


def numbers(values: Samples) -> list[float | None]:
    """Return the values of an array, with None for NaN."""
    return [None if value != value else value for value in values.tolist()]  # noqa: PLR0124 - NaN


def relative(value: float | None, reference: float | None) -> float | None:
    """Return the relative difference of a value from a reference."""
    if value is None or not reference:
        return None
    return finite((value - reference) / abs(reference))


def mean(values: Samples) -> float | None:
    """Return the average of the finite values; 0 if it is only a rounding error."""
    present = values[np.isfinite(values)]
    if not len(present):
        return None
    average = float(present.mean())
    return 0.0 if abs(average) < _ROUNDED * float(np.abs(present).max()) else finite(average)


def newest(values: Samples) -> float | None:
    """Return the last finite value."""
    present = values[np.isfinite(values)]
    return float(present[-1]) if len(present) else None
