"""Rows: values by name, stored as one matrix, with NaN for holes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from perftrend.errors import SettingsError
from perftrend.model import Samples


class Rows(Mapping[str, Samples]):
    """Named rows of one length; a value that is not finite is a hole.

    :param names: one per row, all different; or a function that returns them, which functions over rows never
        call.
    :param matrix: float64, shape (rows, points). It is not copied and must not change.
    :raises SettingsError: if names and matrix do not match.
    """

    def __init__(self, names: Sequence[str] | Callable[[], Sequence[str]], matrix: Samples) -> None:
        infinite = np.isinf(matrix)
        self.matrix = np.where(infinite, np.nan, matrix) if infinite.any() else matrix
        self._given = names
        if not callable(names):
            _ = self._places

    @classmethod
    def of(cls, rows: Mapping[str, Samples], *, points: int) -> Rows:
        """Return rows from arrays by name.

        :param rows: each of shape (points,).
        :raises SettingsError: if one has another length.
        """
        if not isinstance(rows, Rows):
            if any(len(row) != points for row in rows.values()):
                name = next(name for name, row in rows.items() if len(row) != points)
                raise SettingsError(
                    f"rows: {name} has {len(rows[name])} points; give it {points} like the others"
                )
            rows = cls(
                tuple(rows), np.array(list(rows.values()), dtype=np.float64).reshape(len(rows), points)
            )
        if rows.points != points:
            raise SettingsError(f"rows: they have {rows.points} points; give them {points}")
        return rows

    @cached_property
    def _places(self) -> dict[str, int]:
        names = self._given() if callable(self._given) else self._given
        places = {name: place for place, name in enumerate(names)}
        if self.matrix.ndim != 2 or not len(places) == len(names) == len(self.matrix):  # noqa: PLR2004 - a matrix
            raise SettingsError(
                f"rows: {len(places)} different names for a matrix of shape {self.matrix.shape}; "
                "give one name for each row"
            )
        return places

    @property
    def points(self) -> int:
        """The number of points of every row."""
        return int(self.matrix.shape[1])

    @property
    def names(self) -> tuple[str, ...]:
        """The names, in the order of the matrix."""
        return tuple(self._places)

    def __getitem__(self, name: str) -> Samples:
        row: Samples = self.matrix[self._places[name]]
        return row

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self.matrix)


def concatenate(parts: Sequence[Rows]) -> Rows:
    """Concatenate rows with the same number of points; of those with the same name the first is used.

    :param parts: at least one.
    """
    names: dict[str, None] = {}
    matrices = []
    for rows in parts:
        new = [place for place, name in enumerate(rows) if name not in names]
        names.update(dict.fromkeys(rows))
        matrices.append(rows.matrix[new])
    return Rows(tuple(names), np.concatenate(matrices))
