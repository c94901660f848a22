"""The input of a search: runs in units, each an indivisible lot of samples."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from perftrend import errors
from perftrend.analysis.description import MAXIMUM_IN_UNITS, Floats, Formula
from perftrend.model import Samples

Indices = np.ndarray[tuple[int], np.dtype[np.int64]]

_NORMAL_MEDIAN = 1.4826
"""Standard deviation of a normal distribution over the median of its absolute deviations."""

_LARGEST = 1e100  # In units: squares of it, and sums of them, are still finite.


@dataclass(frozen=True, slots=True, eq=False)
class FiniteRuns:
    """The runs that have a finite sample."""

    positions: Indices
    """Positions of the runs in the series, shape (n,)."""
    firsts: Indices
    """Where each run's samples begin, and where the last one's end, shape (n+1,)."""
    samples: Samples
    """The finite samples of all runs, one after the other."""

    def lots(self, samples: Floats) -> Floats:
        """Return sizes, averages and sums of squared deviations of the runs, shape (3, n).

        :param samples: all samples, in the unit of the averages.
        """
        lots = np.zeros((3, self.positions.size))
        if samples.size == self.positions.size:
            lots[0] = 1.0
            lots[1] = samples
        else:
            lots[0] = np.diff(self.firsts)
            lots[1:] = moments(samples, self.firsts)
        return lots


def moments(samples: Floats, firsts: Indices) -> tuple[Floats, Floats]:
    """Return averages and sums of squared deviations of consecutive lots of samples.

    Computed relative to the lot's first sample, so that equal samples have a deviation of exactly 0.

    :param samples: shape (..., m).
    :param firsts: where each lot begins, and where the last one ends, shape (n+1,).
    :returns: shape (..., n) each.
    """
    sizes = firsts[1:] - firsts[:-1]
    origins = samples[..., firsts[:-1]]
    offsets = samples - np.repeat(origins, sizes, axis=-1)
    means = np.add.reduceat(offsets, firsts[:-1], axis=-1) / sizes
    offsets -= np.repeat(means, sizes, axis=-1)
    return origins + means, np.add.reduceat(offsets * offsets, firsts[:-1], axis=-1)


def runs_of(samples: ArrayLike | Sequence[ArrayLike]) -> FiniteRuns:
    """Return the finite samples as runs.

    :param samples: one value for each run, shape (n,), or all samples of each run: an array of
        shape (n, m), or n sequences of any lengths.
    :raises SettingsError: if it is neither.
    """
    try:
        values = np.asarray(samples, dtype=np.float64)
    except ValueError:
        return _from_ragged(samples)
    if values.ndim == 1:
        positions = np.flatnonzero(np.isfinite(values))
        return FiniteRuns(positions, np.arange(positions.size + 1), values[positions])
    if values.ndim != 2:  # noqa: PLR2004 - a table has two dimensions
        raise errors.SettingsError(
            f"partition: samples have {values.ndim} dimensions; give one value for each run, "
            "or one row of samples for each run"
        )
    return _of_lots(list(values))


def _from_ragged(samples: ArrayLike | Sequence[ArrayLike]) -> FiniteRuns:
    try:
        lots = [np.atleast_1d(np.asarray(lot, dtype=np.float64)) for lot in samples]  # type: ignore[union-attr]  # or TypeError
    except (TypeError, ValueError) as error:
        raise errors.SettingsError(
            f"partition: samples are not numbers ({error}); give one value for each run, "
            "or one sequence of values for each run"
        ) from error
    if any(lot.ndim != 1 for lot in lots):
        raise errors.SettingsError("partition: a run's samples are nested; give them as one flat sequence")
    return _of_lots(lots)


def _of_lots(lots: list[Floats]) -> FiniteRuns:
    finite = [lot[np.isfinite(lot)] for lot in lots]
    sizes = np.array([lot.size for lot in finite], dtype=np.int64)
    positions = np.flatnonzero(sizes)
    firsts = np.concatenate([[0], np.cumsum(sizes[positions])])
    return FiniteRuns(positions, firsts, np.concatenate(finite) if finite else np.empty(0))


def require_one_sample_each(runs: FiniteRuns) -> None:
    """Require that each run has one sample.

    :raises SettingsError: if a run has several.
    """
    if runs.samples.size != runs.positions.size:
        raise errors.SettingsError(
            "partition: outliers, and a deviation other than 'own', need one value for each run; "
            "give the average of its samples"
        )


def in_units(samples: Samples, formula: Formula, unit: float | None) -> Floats:
    """Return the samples in units, with reversed signs if none is positive.

    :raises SettingsError: if the unit is not a positive number, or is too small for the samples.
    """
    if unit is not None and not 0 < unit < math.inf:
        raise errors.SettingsError(f"partition: unit is {unit}; give a positive number")
    top = float(samples.max())
    upright = samples
    if top <= 0:
        upright = -samples
        top = float(upright.max())
    if top == 0:
        return np.zeros_like(samples)
    step = formula.default_unit(top) if unit is None else unit
    with np.errstate(over="ignore"):
        # The smallest of all numbers cannot be divided further: scale the samples up instead.
        tiny = step < np.finfo(np.float64).tiny
        scaled: Floats = upright / top * MAXIMUM_IN_UNITS if tiny else upright / step
    if max(scaled.max(), -scaled.min()) > _LARGEST:
        raise errors.SettingsError(
            f"partition: the samples, up to {np.abs(samples).max():g}, are too large for the unit "
            f"{step:g}; give a larger unit"
        )
    return scaled


def noise_of_steps(samples: Floats) -> float:
    """Return the standard deviation within groups, from the steps between neighbours; 0 without steps.

    Few of these steps are changes, and the median ignores them.

    :param samples: one for each run, shape (n,).
    """
    steps = np.abs(samples[1:] - samples[:-1])
    return _NORMAL_MEDIAN * middle(steps) / math.sqrt(2) if steps.size else 0.0


def middle(samples: Floats) -> float:
    """Return the median; numpy's own takes longer to start than some partitions take in total.

    :param samples: shape (n,), n at least 1.
    """
    ordered = np.sort(samples)
    return float(ordered[(samples.size - 1) // 2] + ordered[samples.size // 2]) / 2
