"""Parameters as numbers: traces are distinguished without comparing each of their texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

MISSING = -1
"""The code of a trace without the parameter."""
_MOST = 2**62


@dataclass(frozen=True, slots=True, eq=False)
class ParameterCodes:
    """One parameter of n traces."""

    values: tuple[str, ...]
    """Each value once, in any order."""
    codes: NDArray[np.int32]
    """The place of each trace's value among them, -1 without one, shape (n,)."""

    def of(self, rows: NDArray[np.intp]) -> ParameterCodes:
        """Return the parameter of some of the traces."""
        return ParameterCodes(self.values, self.codes[rows])

    def unique_codes(self) -> list[int]:
        """Return the codes that occur, ascending, including -1 if a trace lacks the parameter."""
        found = np.flatnonzero(np.bincount(self.codes - MISSING, minlength=len(self.values) + 1)) + MISSING
        return found.tolist()


Parameters: TypeAlias = Mapping[str, ParameterCodes]
"""The parameters of n traces by name."""


def of_rows(parameters: Parameters, rows: NDArray[np.intp]) -> dict[str, ParameterCodes]:
    """Return the parameters of some of the traces."""
    return {name: each.of(rows) for name, each in parameters.items()}


def combine_codes(parameters: Iterable[ParameterCodes], count: int) -> NDArray[np.int64]:
    """Return a number for each trace: two are equal if, and only if, the traces agree in all parameters.

    :param count: number of traces.
    """
    numbers = np.zeros(count, dtype=np.int64)
    largest = 1
    for each in parameters:
        size = len(each.values) + 1
        if largest * size > _MOST:
            distinct, numbers = np.unique(numbers, return_inverse=True)
            largest = len(distinct)
        numbers = numbers * size + (each.codes - MISSING)
        largest *= size
    return numbers
