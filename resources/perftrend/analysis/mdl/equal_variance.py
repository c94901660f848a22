"""The partition of a trace whose groups all have the same deviation.

If the noise comes from the testbed and not from the measured software, all groups of a trace have the same
deviation s. Knowing this helps to detect small steps, as a group of few runs need not describe its own
deviation. It also separates noise from outliers, so that outliers can be distinguished from changes even if
they are frequent, as on a machine with a second mode. With everything in units, N runs, K groups, n samples
and squared deviations S in each, and the largest sample M, the description takes

* for the deviation, once: log2((s+1) (s+2));
* for each group but the first, where it starts: log2 N;
* for each group, its average and its samples:
  log2 M + log2(n)/2 + (n - 1) log2(s sqrt(2 pi)) + S / (2 s^2 ln 2),

The last term is the length of the code that averages over all averages from 0 to M. It is least at
s^2 = sum S / (N - K). For m outliers, none farther than W from the average of its group, it takes

* for their number, log2(N+1), and for their reach, log2((W+1) (W+2));
* for their choice among the runs, -log2 r each, and -log2(1-r) for each other run, r = (m + 1/2) / (N + 1);
* for the position of each, log2(2W + 1).

The search alternates between the groups with their outliers, which are found together, and s, r and W,
until the description gets no shorter.

Derivation: docs/method/partition-formulas.rst, section One deviation for all groups.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perftrend.analysis.description import Floats, Formula
from perftrend.analysis.mdl.level_path import BITS_PER_SQUARE, levels_near
from perftrend.analysis.mdl.outliers import EXPECTED, Mask, find_suspected_runs, regroup_outliers
from perftrend.analysis.mdl.partitions import Partition, build_partition
from perftrend.analysis.mdl.runs import FiniteRuns, Indices, moments, noise_of_steps
from perftrend.analysis.mdl.search import course_finder
from perftrend.model import Group

_ROUNDS = 4
_REACH_AT_FIRST = 30.0
"""In deviations, before any outlier is known."""
_LEAST_CLIP = 4.0
"""In bits: an outlier is at least 2.4 deviations off."""
_ROOT = math.sqrt(2 * math.pi)


@dataclass(frozen=True, slots=True)
class _Code:
    """The parameters that are described once for all groups; lengths in units."""

    deviation: float
    share: float
    """Fraction of outliers; 0 if outliers are not allowed."""
    reach: float
    """The largest distance of an outlier from its group."""
    maximum: float
    usual_size: float
    """Runs of a group; the search charges each group for this number."""

    @property
    def on_level(self) -> float:
        """The bits of a sample at its level."""
        return math.log2(self.deviation * _ROOT) - math.log2(1 - self.share)

    @property
    def outlier(self) -> float:
        """The bits of an outlier."""
        return math.log2(2 * self.reach + 1) - math.log2(self.share)

    @property
    def clip(self) -> float:
        """The bits that an outlier takes in addition to those of a sample at its level."""
        return max(self.outlier - self.on_level, _LEAST_CLIP) if self.share else math.inf


@dataclass(frozen=True, slots=True, eq=False)
class _Choice:
    """Groups and outliers."""

    bounds: Indices
    """Where the groups begin and end among the runs that are not dropped."""
    dropped: Mask
    distances: Floats
    """Distances of the outliers from their levels, in units."""

    def same_as(self, other: _Choice) -> bool:
        """Return whether both have the same groups and outliers."""
        return np.array_equal(self.bounds, other.bounds) and np.array_equal(self.dropped, other.dropped)


@dataclass(frozen=True, slots=True, eq=False)
class _SharedDescription:
    choice: _Choice
    code: _Code
    bits: Floats
    """Of each group, including those of its start."""
    total: float


def equal_variance_partition(
    runs: FiniteRuns, scaled: Floats, guessed: Mask, *, formula: Formula, outliers: bool, engine: str
) -> Partition:
    """Find groups of one deviation, and outliers if they are allowed, that take few bits.

    :param runs: at least one, of one sample each.
    :param scaled: the samples in units.
    :param guessed: the runs that are far from their neighbours.
    """
    usual = scaled[~guessed]
    deviation = max(noise_of_steps(usual), 1.0)
    code = _Code(
        deviation=deviation,
        share=EXPECTED if outliers else 0.0,
        reach=_REACH_AT_FIRST * deviation,
        maximum=max(float(np.abs(usual).max()), 1.0),
        usual_size=scaled.size,
    )
    best = _describe(scaled, _choose(scaled, code, engine), code)
    for _ in range(_ROUNDS):
        choice = _choose(scaled, best.code, engine)
        if choice.same_as(best.choice):
            break
        found = _describe(scaled, choice, best.code)
        if found.total >= best.total:
            break
        best = found
    if outliers:
        dropped, bounds = regroup_outliers(scaled, best.choice.dropped, best.choice.bounds.tolist())
        if len(bounds) > len(best.choice.bounds):
            distances = best.choice.distances[dropped[best.choice.dropped]]
            best = _describe(scaled, _Choice(np.array(bounds), dropped, distances), best.code)
    return _to_partition(runs, scaled, best, formula, outliers=outliers)


def _choose(scaled: Floats, code: _Code, engine: str) -> _Choice:
    """Find the groups and outliers with the fewest bits in a code."""
    penalty = math.log2(code.maximum) + math.log2(scaled.size) + math.log2(code.usual_size) / 2
    penalty -= math.log2(code.deviation * _ROOT)
    levels = levels_near(scaled, code.deviation)
    course = course_finder(engine)(scaled, levels, code.deviation, code.clip, max(penalty, 1.0))
    distances = np.abs(scaled - levels[course])
    dropped: Mask = BITS_PER_SQUARE * (distances / code.deviation) ** 2 > code.clip
    # The newest run may be the first one of a new group, and is never dropped.
    dropped[-1] = False
    steps = course[~dropped]
    moves = np.flatnonzero(steps[1:] != steps[:-1]) + 1
    return _Choice(np.concatenate([[0], moves, [steps.size]]), dropped, distances[dropped])


def _describe(scaled: Floats, choice: _Choice, code: _Code) -> _SharedDescription:
    """Find the best code for groups and outliers, and count the bits.

    :param code: determines whether outliers are allowed, and provides their reach if there are none.
    """
    retained = scaled[~choice.dropped]
    bounds = choice.bounds
    sizes, squares = bounds[1:] - bounds[:-1], moments(retained, bounds)[1]
    count, outliers = scaled.size, choice.distances.size
    code = _Code(
        # Samples are not described more exactly than to one unit.
        deviation=max(math.sqrt(float(squares.sum()) / max(retained.size - sizes.size, 1)), 1.0),
        share=(outliers + 0.5) / (count + 1) if code.share else 0.0,
        reach=float(choice.distances.max()) if outliers else code.reach,
        maximum=max(float(np.abs(retained).max()), 1.0),
        usual_size=retained.size / sizes.size,
    )
    bits = math.log2(code.maximum) + math.log2(count) + np.log2(sizes) / 2
    bits += (sizes - 1) * math.log2(code.deviation * _ROOT) + BITS_PER_SQUARE * squares / code.deviation**2
    bits[0] -= math.log2(count)
    total = math.fsum(bits) + math.log2((code.deviation + 1) * (code.deviation + 2))
    if code.share:
        total += math.log2(count + 1) - retained.size * math.log2(1 - code.share)
    if outliers:
        total += math.log2((code.reach + 1) * (code.reach + 2)) + outliers * code.outlier
    return _SharedDescription(choice, code, bits, total)


def _to_partition(
    runs: FiniteRuns, scaled: Floats, description: _SharedDescription, formula: Formula, *, outliers: bool
) -> Partition:
    dropped, bounds = description.choice.dropped, description.choice.bounds.tolist()
    retained = ~dropped
    rest = FiniteRuns(runs.positions[retained], np.arange(int(retained.sum()) + 1), runs.samples[retained])
    known = build_partition(rest, scaled[retained], bounds, description.code.maximum, formula)
    groups = tuple(
        Group(group.start, group.stop, group.mean, group.stdev, bits)
        for group, bits in zip(known.groups, description.bits.tolist(), strict=True)
    )
    return Partition(
        groups,
        description.total,
        outliers=tuple(runs.positions[dropped].tolist()),
        suspected=find_suspected_runs(runs, scaled, dropped, bounds) if outliers else (),
    )
