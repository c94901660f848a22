"""The partition of a trace in which single bad runs neither split a group nor widen it.

Each run is an outlier or belongs to a group. An outlier is described separately from the groups, at a price
of its own. With an expected fraction r of outliers, N runs, m of them outliers, and A the largest
absolute value of all samples, the description takes

    bits of the partition of the N - m others + m (log2(A+1) - log2 r) - (N - m) log2(1-r).

The search alternates between two steps that never make the description longer: the best partition of the
runs that are not outliers, which is exact, and the best outliers of each group. It begins with the runs
that are far from those before and from those after.

Derivation and limits: docs/method/partition-formulas.rst. Source of the pattern that it is made for:
"Trend Analysis", section Reverted regression.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from perftrend.analysis.description import MAXIMUM_IN_UNITS, Floats, Formula
from perftrend.analysis.mdl.cost_terms import Terms, terms_of
from perftrend.analysis.mdl.partitions import Partition, build_partition
from perftrend.analysis.mdl.prefix_search import RepeatedSearch
from perftrend.analysis.mdl.runs import FiniteRuns, Indices, middle, moments, noise_of_steps
from perftrend.analysis.mdl.search import trimmer

EXPECTED = 0.02
"""r: the expected fraction of outliers in a trace. From 0.005 to 0.05 it hardly matters."""

_NEIGHBOURS = 5
"""Runs before and after that a run is compared with initially."""
_FAR = 3.5
"""Distance in standard deviations from which a run is far from its neighbours."""
_IN_A_ROW = 2
"""The maximum number of bad runs in a row that are outliers; more are a group."""
_ROUNDS = 4
"""Two are usual."""
_BY_CHANCE = 0.0005
"""Probability of a sequence of outliers, each as frequent as those as far off, up to which it is a group."""
_HALF_WAY = 0.5
_OTHER_SCALE = 8.0
"""Multiple of the median above which runs do not determine the unit, which may then be as much coarser."""
Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class _OutlierDescription:
    partition: Partition
    dropped: Mask
    bounds: list[int]
    """Where the groups begin and end among the runs that are not dropped."""
    terms: Terms


def robust_partition(
    runs: FiniteRuns, scaled: Floats, dropped: Mask, *, formula: Formula, engine: str, search: RepeatedSearch
) -> Partition:
    """Find groups and outliers that together take few bits.

    :param runs: at least one, of one sample each.
    :param scaled: the samples in units.
    :param dropped: the runs that are outliers initially.
    :param search: retains the searches of the first runs of this series.
    :returns: the partition; ``bits`` counts groups and outliers.
    """
    price = _outlier_bits(scaled)
    best = _describe(runs, scaled, dropped, formula=formula, engine=engine, price=price, search=search)
    for _ in range(_ROUNDS):
        dropped = _outliers(scaled, best, engine, price)
        if np.array_equal(dropped, best.dropped):
            break
        found = _describe(runs, scaled, dropped, formula=formula, engine=engine, price=price, search=search)
        if found.partition.bits >= best.partition.bits:
            break
        best = found
    dropped, bounds = regroup_outliers(scaled, best.dropped, best.bounds)
    groups = best.partition
    if bounds != best.bounds:
        maximum = max(float(scaled[~dropped].max()), 0.0)
        groups = _count_bits(runs, scaled, dropped, bounds, maximum=maximum, formula=formula, price=price)
    positions = runs.positions[dropped].tolist()
    return replace(
        groups, outliers=tuple(positions), suspected=find_suspected_runs(runs, scaled, dropped, bounds)
    )


def regroup_outliers(scaled: Floats, dropped: Mask, bounds: list[int]) -> tuple[Mask, list[int]]:
    """Convert sequences of outliers that are similar, and too long to occur by chance, into groups.

    The frequency of such runs is that of the outliers in the rest of the trace at least half as far off.
    Outliers are similar if their spread is at most that of the trace, relative to their level: at a hundred
    times the level it may be a hundred times as large.

    :param bounds: where the groups begin and end among the runs that are not dropped.
    :returns: the runs that are still dropped, and where the groups begin and end then.
    """
    count = scaled.size
    owners = np.full(count, -1)
    owners[~dropped] = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    means, squares = moments(scaled[~dropped], np.array(bounds))
    noise = math.sqrt(squares.sum() / max(bounds[-1] - len(bounds) + 1, 1))
    off = dropped.copy()
    # The newest run is never dropped, but it may belong to the outliers before it.
    off[-1] = abs(scaled[-1] - means[-1]) > _FAR * max(noise, 1.0)
    edges = np.flatnonzero(np.diff(off, prepend=False, append=False)).reshape(-1, 2).tolist()
    for number, (start, stop) in enumerate(edges, len(bounds)):
        length = stop - start
        stretch = scaled[start:stop]
        level = float(np.median(stretch))
        others = dropped.copy()
        others[start:stop] = False
        # The run before a stretch is not off, so it has an owner.
        before = float(means[owners[start - 1] if start else 0])
        share = count_as_far(scaled[others], before, level) / count
        near = _FAR * noise_of_steps(scaled) * max(abs(level) / max(abs(middle(scaled)), 1.0), 1.0)
        alike = bool((np.abs(stretch - level) <= near).all())
        if length > _IN_A_ROW and _chance_of_so_many(length, length, share) <= _BY_CHANCE and alike:
            owners[start:stop] = number
    retained = owners >= 0
    moves = np.flatnonzero(np.diff(owners[retained])) + 1
    return ~retained, [0, *moves.tolist(), int(np.count_nonzero(retained))]


def count_as_far(outliers: Floats, level: float, other: float) -> int:
    """Return how many outliers are at least half as far from a level as another level, on its side.

    A trace that left a level for a bad run may do so again. Outliers that are nearer are no evidence of that.

    :param outliers: in the unit of both levels, shape (n,).
    """
    return int(np.count_nonzero((outliers - level) / (other - level) >= _HALF_WAY)) if other != level else 0


def _chance_of_so_many(bad: int, runs: int, share: float) -> float:
    """Return an upper bound of the probability of at least ``bad`` bad runs, each with probability ``share``.

    Source: Chernoff, A measure of asymptotic efficiency for tests of a hypothesis, 1952.
    """
    if bad <= share * runs:
        return 1.0
    if not share:
        return 0.0
    logs = bad * math.log(bad / (share * runs))
    if bad < runs:
        logs += (runs - bad) * math.log((runs - bad) / ((1 - share) * runs))
    return math.exp(-logs)


def first_guess(scaled: Floats, formula: Formula | None) -> tuple[Floats, Mask]:
    """Return the samples in units, and the initial outliers among them; shape (n,) each.

    :param scaled: the samples in units, shape (n,).
    :param formula: provides the default unit; None if the unit was given, and does not change.
    """
    far = _candidates(scaled)
    if formula is not None and scaled.any():
        # The unit is that of the usual groups: samples a hundred times as large must not hide the rest.
        top, known = float(scaled.max()), scaled[~far]
        usual = float(known[known <= _OTHER_SCALE * abs(middle(known))].max(initial=0.0))
        if usual > 0:
            scaled = scaled * (formula.default_unit(top) / formula.default_unit(usual))
    return scaled, far


def _outlier_bits(scaled: Floats) -> float:
    """Return the bits of an outlier among samples in units."""
    return math.log2(float(np.abs(scaled).max()) + 1) - math.log2(EXPECTED)


def _candidates(samples: Floats) -> Mask:
    """Return a mask of the runs far from the median of the five before and from that of the five after.

    The last run is excluded: it may be the first one of a new group. More than two similar runs in a row
    are excluded too: they are a group.

    :param samples: shape (n,), finite.
    """
    size = samples.size
    far = np.zeros(size, dtype=bool)
    if size <= _IN_A_ROW:
        return far
    noise = noise_of_steps(samples)
    # If most neighbours are equal, the limit is one unit, as if the median were the largest sample.
    limit = _FAR * max(noise, abs(middle(samples)) / MAXIMUM_IN_UNITS)
    usual = max(abs(middle(samples)), 1.0)
    before, after = _medians_before(samples), _medians_before(samples[::-1])[::-1]
    # The spread grows with the level: at a hundred times the level it is a hundred times as large.
    wider = [
        limit * np.where(np.abs(each) > 2 * usual, np.abs(each) / usual, 1.0) for each in (before, after)
    ]
    # If a run has no neighbours on one side, the other side decides.
    far[:] = (np.abs(samples - before) > wider[0]) & (np.abs(samples - after) > wider[1])
    far[0] = abs(samples[0] - after[0]) > wider[1][0]
    far[-1] = False
    if not far.any():
        return far
    edges = np.flatnonzero(np.diff(far, prepend=False, append=False))
    for start, stop in edges.reshape(-1, 2).tolist():
        stretch = samples[start:stop]
        wide = limit * max(abs(float(np.median(stretch))) / usual, 1.0)
        alike = np.abs(stretch - np.median(stretch)) <= wide
        if np.count_nonzero(alike) > _IN_A_ROW:
            far[start:stop] = ~alike
    return far


def _medians_before(samples: Floats) -> Floats:
    """Return the median of up to five samples before each; NaN for the first."""
    medians = np.full(samples.size, np.nan)
    for at in range(1, min(_NEIGHBOURS, samples.size)):
        medians[at] = sorted(samples[:at].tolist())[at // 2]
    if samples.size > _NEIGHBOURS:
        windows = np.sort(sliding_window_view(samples[:-1], _NEIGHBOURS), axis=1)
        medians[_NEIGHBOURS:] = windows[:, _NEIGHBOURS // 2]
    return medians


def _describe(
    runs: FiniteRuns,
    scaled: Floats,
    dropped: Mask,
    *,
    formula: Formula,
    engine: str,
    price: float,
    search: RepeatedSearch,
) -> _OutlierDescription:
    """Find the best partition of the runs that are not dropped; count the bits of all runs."""
    retained = ~dropped
    count = int(np.count_nonzero(retained))
    rest = FiniteRuns(runs.positions[retained], np.arange(count + 1), runs.samples[retained])
    samples = scaled[retained]
    # The formulas have no meaning without a positive sample: such samples are one group.
    maximum = max(float(samples.max()), 0.0)
    low = min(float(samples.min()), 0.0)
    terms = terms_of(formula, maximum=maximum or 1.0, low=low, samples=2 * count)
    bounds = search.bounds(rest, samples, terms, engine) if maximum > 0 else [0, count]
    found = _count_bits(runs, scaled, dropped, bounds, maximum=maximum, formula=formula, price=price)
    return _OutlierDescription(found, dropped, bounds, terms)


def _count_bits(
    runs: FiniteRuns,
    scaled: Floats,
    dropped: Mask,
    bounds: list[int],
    *,
    maximum: float,
    formula: Formula,
    price: float,
) -> Partition:
    """Count the bits of groups and outliers."""
    retained = ~dropped
    count = bounds[-1]
    rest = FiniteRuns(runs.positions[retained], np.arange(count + 1), runs.samples[retained])
    found = build_partition(rest, scaled[retained], bounds, maximum, formula)
    bits = found.bits + (scaled.size - count) * price - count * math.log2(1 - EXPECTED)
    return replace(found, bits=bits)


def _outliers(scaled: Floats, description: _OutlierDescription, engine: str, price: float) -> Mask:
    """Choose the outliers of each group again, from its runs and its current outliers."""
    owners = _owners_of(scaled, description.dropped, description.bounds)
    order = np.lexsort((scaled, owners))
    firsts = np.searchsorted(owners[order], np.arange(len(description.bounds)))
    samples, sizes = scaled[order], description.terms.sizes
    chosen: Mask = np.zeros(scaled.size, dtype=bool)
    # A sample in a group costs -log2(1-r) too.
    dearer = price + math.log2(1 - EXPECTED)
    trim = trimmer(engine)
    trim(samples, firsts, sizes, description.terms.constants.tail, dearer, chosen)
    dropped = np.zeros_like(chosen)
    dropped[order] = chosen
    # The newest run may be the first one of a new group, and is never dropped.
    dropped[-1] = False
    return dropped


def _owners_of(scaled: Floats, dropped: Mask, bounds: list[int]) -> Indices:
    """Return the group of each run; an outlier between two groups belongs to the nearer one.

    :param bounds: where the groups begin and end among the runs that are not dropped.
    """
    sizes = np.diff(bounds)
    means = moments(scaled[~dropped], np.array(bounds))[0]
    of_retained = np.repeat(np.arange(sizes.size), sizes)
    rank = np.cumsum(~dropped)
    before = of_retained[np.maximum(rank - 1, 0)]
    after = of_retained[np.minimum(rank, of_retained.size - 1)]
    nearer = np.where(np.abs(scaled - means[before]) <= np.abs(scaled - means[after]), before, after)
    return np.where(dropped, nearer, before)


def find_suspected_runs(
    runs: FiniteRuns, scaled: Floats, dropped: Mask, bounds: list[int]
) -> tuple[int, ...]:
    """Return the runs at the end that are far off, but too few for a certain change.

    :param bounds: where the groups begin and end among the runs that are not dropped.
    """
    count = bounds[-1]
    newest = count - bounds[-2]
    samples = scaled[~dropped]
    means, squares = moments(samples, np.array(bounds))
    if len(bounds) > 2:  # noqa: PLR2004 - more than one group
        share = count_as_far(scaled[dropped], float(means[-2]), float(means[-1])) / dropped.size
        length = dropped.size - int(np.flatnonzero(~dropped)[bounds[-2]])
        if newest <= _IN_A_ROW or _chance_of_so_many(newest, length, share) > _BY_CHANCE:
            return tuple(runs.positions[~dropped][bounds[-2] :].tolist())
    noise = math.sqrt(squares.sum() / max(count - len(bounds) + 1, 1))
    noise *= max(abs(float(means[-1])) / max(abs(middle(samples)), 1.0), 1.0)
    far = abs(samples[-1] - means[-1]) > _FAR * max(noise, 1.0)
    return (int(runs.positions[-1]),) if far else ()
