"""The partition of a trace into groups that takes the fewest bits to describe.

A trace is modelled as a concatenation of groups, each drawn from one normal distribution. The right partition
into groups is the one with the shortest description (minimum description length). A group's bits depend on
the average of the group before it, so the best partition up to a position is not enough to continue from: the
search covers all pairs of a start and a stop, and drops those that are proven to be irrelevant.

Source: "Trend Analysis", sections Partitioning into groups and Minimum Description Length.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from perftrend import errors
from perftrend.analysis.description import NEWER, Floats, Formula, formula_named
from perftrend.analysis.mdl.cost_terms import terms_of
from perftrend.analysis.mdl.engine import OF_PROCESS, is_compiled
from perftrend.analysis.mdl.equal_variance import equal_variance_partition
from perftrend.analysis.mdl.outliers import first_guess, robust_partition
from perftrend.analysis.mdl.partitions import Partition, build_partition
from perftrend.analysis.mdl.prefix_search import RepeatedSearch
from perftrend.analysis.mdl.runs import FiniteRuns, in_units, require_one_sample_each, runs_of
from perftrend.analysis.mdl.search import new_search

DEFAULT_FORMULA = NEWER
MOST_OUTLIERS = 0.2
"""The largest fraction of the runs that can be outliers."""
DEVIATIONS = ("own", "shared", "shorter")


def partition(
    samples: ArrayLike | Sequence[ArrayLike],
    *,
    formula: str = DEFAULT_FORMULA,
    unit: float | None = None,
    outliers: bool = False,
    deviation: str | None = None,
    engine: str = "fastest",
) -> Partition:
    """Find the partition with the fewest bits over all partitions.

    The formulas need a positive maximum. If no sample is positive, the samples are described with reversed
    signs; if all are zero, they are one group.

    :param samples: one value for each run in the order of time, shape (n,), any unit; or all
        samples of each run, shape (n, m) or n sequences of any lengths: groups then begin and end with
        whole runs. A value that is not finite occupies its position and belongs to no group.
    :param formula: ``jumpavg-0.4`` or ``jumpavg-0.1``.
    :param unit: resolution of the samples, in their unit; None for the formula's default.
    :param outliers: whether single runs may be excluded from the groups, at a price; the partition then
        has few bits, but not provably the fewest. Requires one value for each run.
    :param deviation: ``own`` for groups with a deviation each; ``shared`` for one deviation of all groups,
        which detects smaller steps in even noise; ``formula`` then determines the unit only; ``shorter``
        for the one of these two whose description has fewer bits. None: ``shorter`` with outliers, else
        ``own``. All but ``own`` require one value for each run.
    :param engine: ``compiled`` (needs numba) or ``numpy``, which return the same result, or ``fastest`` to
        choose by the number of values; see :mod:`~perftrend.analysis.mdl.engine`.
    :returns: the partition, without groups if no sample is finite.
    :raises SettingsError: if an argument is invalid.
    """
    return partition_after(
        RepeatedSearch(),
        samples,
        formula=formula,
        unit=unit,
        outliers=outliers,
        deviation=deviation,
        engine=engine,
    )


def partition_after(
    search: RepeatedSearch,
    samples: ArrayLike | Sequence[ArrayLike],
    *,
    formula: str = DEFAULT_FORMULA,
    unit: float | None = None,
    outliers: bool = False,
    deviation: str | None = None,
    engine: str = "fastest",
) -> Partition:
    """Return the result of :func:`partition`, faster if repeated with outliers as a series grows.

    :param search: the same object for all partitions of one series.
    """
    chosen = formula_named(formula)
    runs = runs_of(samples)
    if not runs.samples.size:
        return Partition((), 0.0)
    chosen_freely = deviation is None
    deviation = deviation or ("shorter" if outliers else "own")
    if deviation not in DEVIATIONS:
        hint = errors.nearest(deviation, DEVIATIONS)
        raise errors.SettingsError(f"partition: no deviation is named {deviation!r}{hint}")
    if deviation != "own" or outliers:
        require_one_sample_each(runs)
    scaled = in_units(runs.samples, chosen, unit)
    engine = OF_PROCESS.choose(engine, values=runs.samples.size)
    far = np.zeros(scaled.size, dtype=bool)
    if outliers:
        scaled, far = first_guess(scaled, chosen if unit is None else None)
    found = []
    if deviation != "shared":
        if outliers:
            own = robust_partition(runs, scaled, far, formula=chosen, engine=engine, search=search)
        else:
            own = _exact_partition(runs, scaled, formula=chosen, engine=engine)
        found.append(own)
    if deviation != "own":
        found.append(
            equal_variance_partition(runs, scaled, far, formula=chosen, outliers=outliers, engine=engine)
        )
    if chosen_freely and outliers:
        found = [one for one in found if len(one.outliers) <= max(MOST_OUTLIERS * scaled.size, 2)]
        # A fifth of the runs is a mode of the machine, not outliers: they belong to the groups.
        found = found or [
            _exact_partition(runs, scaled, formula=chosen, engine=engine),
            equal_variance_partition(runs, scaled, far, formula=chosen, outliers=False, engine=engine),
        ]
    return min(found, key=lambda one: one.bits)


def load() -> None:
    """Load all of the compiled search, if it is available, so that later calls do not wait for it."""
    if is_compiled():
        partition([1.0, 1.0, 2.0, 2.0], engine="compiled", outliers=True)


def _exact_partition(runs: FiniteRuns, scaled: Floats, *, formula: Formula, engine: str) -> Partition:
    maximum = float(scaled.max())
    bounds = [0, runs.positions.size]
    if maximum:
        terms = terms_of(formula, maximum=maximum, low=float(scaled.min()), samples=scaled.size)
        search = new_search(terms, capacity=runs.positions.size, engine=engine)
        search.extend(runs.lots(scaled))
        bounds = search.bounds()
    return build_partition(runs, scaled, bounds, maximum, formula)
