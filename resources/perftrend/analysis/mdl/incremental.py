"""The partition of a series that grows: one more run costs one column of the search."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from perftrend.analysis.description import formula_named
from perftrend.analysis.mdl.cost_terms import terms_of
from perftrend.analysis.mdl.engine import OF_PROCESS
from perftrend.analysis.mdl.exact import DEFAULT_FORMULA
from perftrend.analysis.mdl.partitions import Partition, build_partition
from perftrend.analysis.mdl.runs import in_units, moments, runs_of
from perftrend.analysis.mdl.search import PartitionSearch, new_search


class GrowingPartition:
    """The result of :func:`~perftrend.analysis.partition` for a series that grows.

    A run larger than all before it changes the unit, or at least the price of every average: the search then
    restarts, at the cost of one ``partition``. So does a negative run smaller than all before it.

    :param samples: the series so far, in a form that :func:`~perftrend.analysis.partition` accepts.
    :param formula: ``jumpavg-0.4`` or ``jumpavg-0.1``.
    :param unit: resolution of the samples, in their unit; None for the formula's default.
    :param engine: as in :func:`~perftrend.analysis.partition`; chosen whenever the search starts.
    :raises SettingsError: if an argument is invalid.
    """

    def __init__(
        self,
        samples: Iterable[ArrayLike] = (),
        *,
        formula: str = DEFAULT_FORMULA,
        unit: float | None = None,
        engine: str = "fastest",
    ) -> None:
        self._formula = formula_named(formula)
        self._unit = unit
        self._engine = engine
        self._runs = list(samples)
        self._search: PartitionSearch | None = None
        self._step = self._low = self._high = 0.0
        self._count = self._room = 0
        self._restart()

    def append(self, run: ArrayLike) -> None:
        """Add a run.

        :param run: its value, or all its samples. A value that is not finite only occupies its position.
        """
        self._runs.append(run)
        if isinstance(run, float | int):
            # The usual case, five times as fast without arrays.
            if math.isfinite(run):
                self._add_run(1, run, run, 0.0, run)
            return
        samples = np.atleast_1d(np.asarray(run, dtype=np.float64))
        finite = samples[np.isfinite(samples)]
        if finite.size:
            mean, square = moments(finite, np.array([0, finite.size]))
            self._add_run(
                finite.size, float(finite.min()), float(mean[0]), float(square[0]), float(finite.max())
            )

    def partition(self) -> Partition:
        """Return the partition of the series so far."""
        runs = runs_of(self._runs)
        if not runs.samples.size:
            return Partition((), 0.0)
        scaled = in_units(runs.samples, self._formula, self._unit)
        bounds = self._search.bounds() if self._search else [0, runs.positions.size]
        return build_partition(runs, scaled, bounds, float(scaled.max()), self._formula)

    def _add_run(self, size: int, low: float, mean: float, square: float, high: float) -> None:
        self._count += size
        known = self._low <= low and high <= self._high and self._count <= self._room
        if self._search is None or not known:
            self._restart()
        else:
            step = self._step
            self._search.extend(np.array([[size], [mean / step], [square / step / step]]))

    def _restart(self) -> None:
        """Search all runs so far; without a sample other than zero there is no search."""
        runs = runs_of(self._runs)
        self._search = None
        self._count = runs.samples.size
        if not self._count:
            return
        scaled = in_units(runs.samples, self._formula, self._unit)
        maximum = float(scaled.max())
        if not maximum:
            return
        low = min(float(scaled.min()), 0.0)
        terms = terms_of(self._formula, maximum=maximum, low=low, samples=scaled.size)
        engine = OF_PROCESS.choose(self._engine, values=scaled.size)
        self._search = new_search(terms, capacity=2 * runs.positions.size, engine=engine)
        self._search.extend(runs.lots(scaled))
        self._room = terms.sizes.size - 1
        self._high = float(runs.samples.max())
        self._step = self._high / maximum
        self._low = low * self._step
        if self._high <= 0:
            # The signs are reversed, so no limit holds: every further run restarts the search.
            self._low, self._high = 1.0, 0.0
