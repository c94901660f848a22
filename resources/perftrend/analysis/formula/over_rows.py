"""Functions over rows: all rows become one, point by point.

Each function accepts a matrix of shape (rows, points), finite or NaN for holes, and returns shape (points,).
Holes are ignored; a point at which every row has a hole remains a hole, also without any row.
"""

from __future__ import annotations

import numpy as np

from perftrend.analysis.formula.averages import centre_lines
from perftrend.model import Samples


def average(rows: Samples) -> Samples:
    """Return the arithmetic mean of each point."""
    mean: Samples = centre_lines(rows, axis=0).average[0]
    return mean


def deviation(rows: Samples) -> Samples:
    """Return the population standard deviation of each point."""
    spread: Samples = centre_lines(rows, axis=0).deviation[0]
    return spread


def total(rows: Samples) -> Samples:
    """Return the sum of each point."""
    with np.errstate(over="ignore", invalid="ignore"):
        return np.where(count(rows) > 0, np.nansum(rows, axis=0), np.nan)


def count(rows: Samples) -> Samples:
    """Return the number of values of each point, 0 without any."""
    return np.asarray(np.count_nonzero(~np.isnan(rows), axis=0), dtype=np.float64)


def least(rows: Samples) -> Samples:
    """Return the smallest value of each point."""
    smallest: Samples = np.fmin.reduce(rows, axis=0, initial=np.nan)
    return smallest


def most(rows: Samples) -> Samples:
    """Return the largest value of each point."""
    largest: Samples = np.fmax.reduce(rows, axis=0, initial=np.nan)
    return largest


def geometric_mean(rows: Samples) -> Samples:
    """Return the geometric mean of the values of each point that are not negative."""
    zeros = (rows == 0).any(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        logarithms = np.log(rows)
    if zeros.any():
        logarithms[rows == 0] = np.nan
    mean: Samples = np.exp(centre_lines(logarithms, axis=0).average[0])
    return np.where(zeros, 0.0, mean)


def ratio(over: Samples, under: Samples) -> Samples:
    """Divide one row by another, point by point; division by zero, or a missing row, gives holes."""
    if not len(over) or not len(under):
        return np.full(over.shape[1], np.nan)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        quotient: Samples = over[0] / under[0]
        return quotient
