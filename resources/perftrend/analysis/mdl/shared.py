"""The partition of a trace whose groups all have one deviation.

Where the noise comes from the testbed and not from what is measured, all groups of a trace have
the same deviation s. To know that helps to see small steps, as a group of few runs need not tell
its own. With everything in units, N runs, K groups, n samples and squared deviations S in each, and the
largest sample M, the description takes

* for the deviation, once: log2((s+1) (s+2));
* for each group but the first, where it starts: log2 N;
* for each group, its average and its samples:
  log2 M + log2(n)/2 + (n - 1) log2(s sqrt(2 pi)) + S / (2 s^2 ln 2),

the last being the length of the code that averages over all averages from 0 to M. It is least at
s^2 = sum S / (N - K). The search goes to and fro between groups, deviation and outliers; none of
these steps makes the description longer, and that to the groups is exact.

Derivation: docs/method/partition.rst, section One deviation for all groups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from perftrend.analysis.description import Floats, Formula
from perftrend.analysis.mdl.outliers import (
    EXPECTED,
    Mask,
    first_guess,
    outlier_bits,
    owners_of,
    suspected,
)
from perftrend.analysis.mdl.partitions import Partition, described
from perftrend.analysis.mdl.runs import Runs, moments, noise_of_steps
from perftrend.model import Group

_ROUNDS = 8


@dataclass(frozen=True, slots=True, eq=False)
class _Description:
    bits: Floats
    """Of each group, with where it starts."""
    total: float
    bounds: list[int]
    """Where the groups begin and end among the runs that are not dropped."""
    means: Floats
    deviation: float
    dropped: Mask


def shared_partition(runs: Runs, *, formula: Formula, unit: float | None, outliers: bool) -> Partition:
    """Find groups of one deviation, and outliers if they are allowed, that take few bits.

    :param runs: at least one, of one sample each.
    :param formula: for the unit where none is given.
    :raises SettingsError: if a run has several samples.
    """
    scaled, dropped = first_guess(runs, formula, unit)
    if not outliers:
        dropped = np.zeros_like(dropped)
    first = noise_of_steps(scaled[~dropped])
    price = outlier_bits(scaled)
    best = _describe(scaled, dropped, max(first, 1.0), price)
    for _ in range(_ROUNDS):
        if outliers:
            dropped = _outliers(scaled, best, price)
        found = _describe(scaled, dropped, best.deviation, price)
        if found.total >= best.total:
            break
        best = found
    kept = ~best.dropped
    rest = Runs(runs.positions[kept], np.arange(int(kept.sum()) + 1), runs.samples[kept])
    known = described(rest, scaled[kept], best.bounds, float(np.abs(scaled[kept]).max()), formula)
    groups = tuple(
        Group(group.start, group.stop, group.mean, group.stdev, bits)
        for group, bits in zip(known.groups, best.bits.tolist(), strict=True)
    )
    told = tuple(runs.positions[best.dropped].tolist())
    doubts = suspected(runs, scaled, best.dropped, best.bounds) if outliers else ()
    return replace(known, groups=groups, bits=best.total, outliers=told, suspected=doubts)


def _describe(scaled: Floats, dropped: Mask, deviation: float, price: float) -> _Description:
    """Find the best groups for a deviation, then the best deviation for these groups; count the bits."""
    samples = scaled[~dropped]
    count, maximum = samples.size, max(float(np.abs(scaled[~dropped]).max()), 1.0)
    fixed = math.log2(maximum) + math.log2(count)
    bounds = _cheapest(samples, deviation, fixed - math.log2(deviation * math.sqrt(2 * math.pi)))
    means, squares = moments(samples, np.array(bounds))
    sizes = np.diff(bounds)
    freedom = max(count - sizes.size, 1)
    # Below one unit samples are not told more exactly.
    deviation = max(math.sqrt(float(squares.sum()) / freedom), 1.0)
    bits = fixed + np.log2(sizes) / 2 + (sizes - 1) * math.log2(deviation * math.sqrt(2 * math.pi))
    bits += squares / (2 * deviation**2 * math.log(2))
    bits[0] -= math.log2(count)
    total = math.fsum(bits) + math.log2((deviation + 1) * (deviation + 2))
    total += (scaled.size - count) * price - count * math.log2(1 - EXPECTED)
    return _Description(bits, total, bounds, means, deviation, dropped)


def _cheapest(samples: Floats, deviation: float, penalty: float) -> list[int]:
    """Return the bounds of the groups with the fewest bits; what no partition changes is left out.

    A start j is dropped at an end k if the best partition up to j and the deviations of [j, k) cost
    as much as the best partition up to k: then to start anew at k is never worse.
    """
    count = samples.size
    scale = 1 / (2 * deviation**2 * math.log(2))
    halves = np.log2(np.arange(1, count + 1)) / 2
    fewest = np.zeros(count + 1)
    before = np.zeros(count + 1, dtype=np.intp)
    starts, means, squares = np.empty(0, dtype=np.intp), np.empty(0), np.empty(0)
    for stop, sample in enumerate(samples.tolist(), 1):
        starts = np.append(starts, stop - 1)
        sizes = stop - starts
        distances = sample - np.append(means, sample)
        means = np.append(means, sample) + distances / sizes
        squares = np.append(squares, 0.0) + distances**2 * ((sizes - 1) / sizes)
        behind = fewest[starts] + scale * squares
        bits = behind + halves[sizes - 1]
        best = int(np.argmin(bits))
        fewest[stop] = bits[best] + penalty
        before[stop] = starts[best]
        alive = behind < fewest[stop]
        starts, means, squares = starts[alive], means[alive], squares[alive]
    bounds = [count]
    while bounds[0]:
        bounds.insert(0, int(before[bounds[0]]))
    return bounds


def _outliers(scaled: Floats, description: _Description, price: float) -> Mask:
    """Choose the runs that are cheaper told apart from their group."""
    owners = owners_of(scaled, description.dropped, description.bounds)
    distances = np.abs(scaled - description.means[owners]) / description.deviation
    alone = price + math.log2(1 - EXPECTED) - math.log2(description.deviation * math.sqrt(2 * math.pi))
    dropped: Mask = distances**2 > 2 * math.log(2) * max(alone, 0.0)
    # It may be the first one of a new group, and is never dismissed.
    dropped[-1] = False
    # A group keeps a run at least: else its average would hang in the air.
    for group in range(description.means.size):
        members = owners == group
        if dropped[members].all():
            dropped[members] = description.dropped[members]
    return dropped
