"""Vectorised kernels of the compiled search: groups, and the bits of their states.

Arrays are two-dimensional with one quantity per row, so that inner loops run over adjacent numbers and the
compiler can process four or eight of them at once. The logarithm is implemented here for the same reason.
"""

# ruff: noqa: PLR0917 - compiled functions take their arguments by position.

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, ParamSpec, TypeAlias, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

from perftrend.analysis.description import Floats
from perftrend.analysis.mdl.cache import prepare_cache

Table: TypeAlias = NDArray[np.float64]
"""Two-dimensional."""
Indices: TypeAlias = NDArray[np.int64]
_P = ParamSpec("_P")
_R = TypeVar("_R")

BITS, MEAN, START, SIZE, SQUARE, BASE, NEAR, SCRATCH = range(8)
"""Rows: bits of the state, the group's average, its start, number of samples, sum of squared
deviations; bits without the tail of the deviation's code; X, the weighted distance from the
nearest predecessor; the sizes' part of the bits."""

WEIGHT, CENTRE, ORIGIN = range(3)
"""Rows of the predecessors: 2^(least - cost), average and start."""

LANES = 4
"""Numbers that the machine processes at once; loops are widened to a multiple of it."""

_FRACTION = 0x000FFFFFFFFFFFFF
_ONE = 0x3FF0000000000000
_ROOT = math.sqrt(2.0)
_STEPS = 8.0
_POWERS = 2.0 ** (np.arange(512) / _STEPS)
_ARTANH = tuple(2 / math.log(2) / k for k in range(21, 0, -2))
_C21, _C19, _C17, _C15, _C13, _C11, _C9, _C7, _C5, _C3, _C1 = _ARTANH

prepare_cache()


def jit(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Compile a function on its first call, or load it from the cache."""
    # Division by zero gives inf as in numpy: a check for it would prevent vectorisation.
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "fastmath": {"contract"}}
    made: Callable[_P, _R]
    try:
        made = njit(cache=True, **options)(function)
    except RuntimeError:
        # numba found no directory that it can write to.
        made = njit(**options)(function)
    return made


def inline(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Inline a function into the compiled functions that call it."""
    made: Callable[_P, _R] = njit(inline="always", error_model="numpy", fastmath={"contract"})(function)
    return made


@inline
def log2(x: float) -> float:
    """Return log2 of a normal positive number, to the last bit or two: 2 artanh((m-1)/(m+1)) / ln 2."""
    raw = np.float64(x).view(np.int64)
    fraction = np.int64((raw & _FRACTION) | _ONE).view(np.float64)
    exponent = float((raw >> 52) - 1023)
    large = fraction > _ROOT
    fraction = fraction * 0.5 if large else fraction
    exponent = exponent + 1.0 if large else exponent
    t = (fraction - 1.0) / (fraction + 1.0)
    z = t * t
    p = _C21 * z + _C19
    p = p * z + _C17
    p = p * z + _C15
    p = p * z + _C13
    p = p * z + _C11
    p = p * z + _C9
    p = p * z + _C7
    p = p * z + _C5
    p = p * z + _C3
    p = p * z + _C1
    return exponent + t * p


@inline
def useless(bits: float, mean: float, other_bits: float, other_mean: float, slope: float) -> bool:
    """Return whether a state is dominated by another; 2^x is read from a table, rounded down."""
    distance = abs(mean - other_mean)
    excess = bits - other_bits - slope * distance
    return excess >= 0.0 and _POWERS[min(int(_STEPS * excess), 511)] > distance + 1.0


@jit
def cheapest(bits: Floats, count: int) -> int:
    """Return the index of the least number of bits."""
    best = 0
    for i in range(1, count):
        if bits[i] < bits[best]:
            best = i
    return best


@jit
def gather(runs: Table, here: int, block: int, inside: Table) -> None:
    """Compute size, average and squares of the first 0, 1, … ``block`` runs from ``here``."""
    n = m = q = 0.0
    inside[0, 0] = inside[1, 0] = inside[2, 0] = 0.0
    for i in range(block):
        size = runs[0, here + i]
        distance = runs[1, here + i] - m
        step = distance * size / (n + size)
        q += runs[2, here + i] + distance * step * n
        m += step
        n += size
        inside[0, i + 1] = n
        inside[1, i + 1] = m
        inside[2, i + 1] = q


@inline
def join(chains: Table, c: int, inside: Table, sizes: Floats, row: Table, stop: int) -> None:
    """Fill ``row`` with the chain's group after the block's first 1, 2, … ``stop`` - 1 runs."""
    n0 = chains[SIZE, c]
    m0 = chains[MEAN, c]
    q0 = chains[SQUARE, c]
    for i in range(1, stop):
        size = n0 + inside[0, i]
        distance = inside[1, i] - m0
        step = distance * inside[0, i] / size
        row[SIZE, i] = size
        row[MEAN, i] = m0 + step
        row[SQUARE, i] = q0 + inside[2, i] + distance * step * n0
    for i in range(1, stop):
        row[SCRATCH, i] = sizes[int(row[SIZE, i])]


@inline
def describe(
    row: Table, low: int, high: int, tail: float, least: float, before: Table, first: int, last: int
) -> None:
    """Compute the bits of the states in ``row[low:high]`` from their sizes, averages and squares."""
    low -= low % LANES
    high += -high % LANES
    for i in range(low, high):
        row[NEAR, i] = 1.0
    for p in range(first, last):
        weight = before[WEIGHT, p]
        centre = before[CENTRE, p]
        for i in range(low, high):
            near = (abs(row[MEAN, i] - centre) + 1.0) * weight
            row[NEAR, i] = near if near > row[NEAR, i] else row[NEAR, i]  # noqa: FURB136 - max is not vectorised
    for i in range(low, high):
        s = math.sqrt(row[SQUARE, i] / row[SIZE, i])
        row[BITS, i] = (
            least
            + row[SCRATCH, i]
            + (row[SIZE, i] - 2.0 + tail) * log2(s + 1.0)
            + log2((tail * s + 1.0 + tail) / row[NEAR, i])
        )


@jit
def advance(
    chains: Table,
    live: int,
    lot: Floats,
    sizes: Floats,
    tail: float,
    least: Floats,
    reach: Indices,
    before: Table,
) -> None:
    """Extend every chain's group by ``lot``: size, average and squares of a whole block."""
    n, mean, square = lot[0], lot[1], lot[2]
    for c in range(live):
        size = chains[SIZE, c] + n
        distance = mean - chains[MEAN, c]
        step = distance * n / size
        chains[SQUARE, c] += square + distance * step * chains[SIZE, c]
        chains[MEAN, c] += step
        chains[SIZE, c] = size
    for c in range(live):
        start = int(chains[START, c])
        near = 1.0
        for p in range(reach[start], reach[start + 1]):
            candidate = (abs(chains[MEAN, c] - before[CENTRE, p]) + 1.0) * before[WEIGHT, p]
            near = max(near, candidate)
        chains[NEAR, c] = near
        chains[SCRATCH, c] = least[start] + sizes[int(chains[SIZE, c])]
    for c in range(live):
        s = math.sqrt(chains[SQUARE, c] / chains[SIZE, c])
        wide = log2(s + 1.0)
        bits = chains[SCRATCH, c] + (chains[SIZE, c] - 2.0 + tail) * wide - log2(chains[NEAR, c])
        chains[BITS, c] = bits + log2(tail * s + 1.0 + tail)
        chains[BASE, c] = bits + tail * wide
