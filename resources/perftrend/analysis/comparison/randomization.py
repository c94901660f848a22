r"""The randomized order in which two builds are measured, and the evidence for a difference by that order.

The rounds of a comparison form blocks. Within a block each build is measured once per round, in an order that
is drawn at random from all possible ones. If the builds are alike, another order would have given the same
values at the same times: all orders are equally probable given the values, whatever the noise is. A statistic
of the difference that is among the largest x of all orders then has a probability of at most x. Two speeds,
heavy tails, drift and co-tenants can make a difference hard to detect, but cannot mimic one.

With values v in the order of time and signs a (1 for the patch, -1 for the parent), the statistics are

* (Σ aᵢ uᵢ)², the difference of the averages, where u is v minus the average of its block, so that drift
  hardly matters;
* Σ aᵢ aⱼ exp(-½ (vᵢ - vⱼ)²/h²), which compares the distributions with a resolution of h: the 0.1 and the 0.6
  quantile of all distances. A few far-off values hardly affect it.

Each is divided by its own 0.98 quantile over some orders, and the largest counts. If the values are in sharp
groups, as those of a machine with two speeds are, averages contain little information: fast values are to be
compared with fast ones, and slow values with slow ones. In that case only the second statistic with the
smaller h counts. The grouping does not depend on which value belongs to which build, so it is the same for
all orders.

The verdict is evaluated after every block. The allowed error is divided among these looks: :data:`FIRST` for
the first one, :data:`BETWEEN` for those between, and the rest, the most, for the last. A look at which even
complete separation would not suffice passes its part on to the next one.

Source: Fisher, The Design of Experiments, 1935, for the argument; Gretton et al., A kernel two-sample test,
2012, for the second statistic; Phipson and Smyth, Permutation p-values should never be zero, 2010, for
counting the drawn order among those that are tried.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache

import numpy as np
from numpy.typing import NDArray

from perftrend import errors
from perftrend.analysis.comparison.observations import PARENT, PATCH, Floats

FIRST_ROUNDS = 6
"""Rounds of the first block: of its C(12, 6) = 924 orders, complete separation has a probability of 0.2 %."""
FIRST, BETWEEN = 0.22, 0.08
"""Fractions of the error."""
_FURTHER_ROUNDS = 2
"""Rounds of each other block."""
_QUANTILES = (0.1, 0.6)
_GROUPED = 0.08
"""Values are in groups if the 0.1 quantile of their distances is a smaller fraction of the median."""
_MANY_ROUNDS = 100
"""The orders of this many rounds suffice for any error."""
_TRIED_FIRST = 499
"""Orders that determine how large a statistic usually is."""
_USUAL = 0.98
_HOPELESS = 0.03
"""If more than this fraction of the first orders shows as much, no others are tried."""
_CHUNK = 4000
_PRECISION = 10
"""The number of tried orders that may show as much at the limit."""
_MOST_TRIED = 500_000
_ENUMERATED = 1000
_LEAST_WIDTH = 1e-9
"""Of a kernel, since values may be equal."""
_EQUAL = 1 - 1e-5
"""Of a statistic, since a rounding error is not a difference."""

Signs = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Design:
    """The order in which two builds are measured, and when a verdict is evaluated.

    :raises SettingsError: if a number is invalid.
    """

    first_rounds: int = FIRST_ROUNDS
    """Rounds of the first block, after which the first verdict is possible."""
    maximum_rounds: int = 20

    def __post_init__(self) -> None:
        for name in ("first_rounds", "maximum_rounds"):
            if getattr(self, name) < 1:
                raise errors.SettingsError(f"{name} is {getattr(self, name)}; give a number from 1")

    @property
    def blocks(self) -> tuple[int, ...]:
        """The number of rounds of each block."""
        first = min(self.first_rounds, self.maximum_rounds)
        count, rest = divmod(self.maximum_rounds - first, _FURTHER_ROUNDS)
        return (first, *[_FURTHER_ROUNDS] * count, *[1] * rest)

    @property
    def looks(self) -> tuple[int, ...]:
        """Rounds after which a verdict is evaluated."""
        return tuple(itertools.accumulate(self.blocks))

    def order(self, seed: str, block: int) -> tuple[int, ...]:
        """Draw the builds of a block in the order of measuring; the order is the same if it is drawn again.

        :param seed: identifies this comparison among all others.
        :param block: index, from 0.
        """
        rounds = self.blocks[block]
        lots = [hashlib.sha256(f"{seed} {block} {place}".encode()).digest() for place in range(2 * rounds)]
        places = sorted(range(2 * rounds), key=lots.__getitem__)
        return tuple(PARENT if place < rounds else PATCH for place in places)

    def limits(self, error: float) -> dict[int, float]:
        """Return for each look the largest fraction of orders that shows a difference; 0 if none can.

        :param error: the probability with which any of the looks may be wrong.
        """
        shares = _shares(len(self.blocks))
        limits: dict[int, float] = {}
        orders, left = 1, 0.0
        for rounds, block, share in zip(self.looks, self.blocks, shares, strict=True):
            orders *= math.comb(2 * block, block)
            left += share * error
            limits[rounds] = left if 2 / orders <= left else 0.0
            left -= limits[rounds]
        return limits

    def limit_from(self, rounds: float, error: float) -> float:
        """Return the limit of the next look that can show a difference; 0 if none can.

        :param rounds: looks after fewer rounds do not count.
        """
        limits = self.limits(error).items()
        return next((limit for look, limit in limits if look >= rounds and limit), 0.0)

    def fewest_rounds(self, error: float) -> int:
        """Return the smallest number of rounds that can show a difference."""
        counts = range(1, _MANY_ROUNDS)
        return next(each for each in counts if replace(self, maximum_rounds=each).limit_from(0, error))

    def complete(self, builds: Sequence[int]) -> tuple[int, ...]:
        """Return the blocks that are measured completely.

        :param builds: of all measurements, in the order of time.
        """
        found: list[int] = []
        for block in self.blocks:
            begin = 2 * sum(found)
            inside = list(builds[begin : begin + 2 * block])
            if (inside.count(PARENT), inside.count(PATCH)) != (block, block):
                break
            found.append(block)
        return tuple(found)


def _shares(looks: int) -> list[float]:
    if looks == 1:
        return [1.0]
    between = looks - 2
    spent = [FIRST, *[BETWEEN / between if between else 0.0] * between]
    return [*spent, 1 - sum(spent)]


@dataclass(frozen=True, slots=True)
class RandomizationTest:
    """The evidence for a difference by the order of measuring alone."""

    p_value: float
    """The fraction of all orders that show as much; 1 before the first look."""
    limit: float
    """A larger fraction does not show a difference; 0 before a look at which one can be shown."""

    @property
    def is_shown(self) -> bool:
        """Whether the builds differ, in either direction."""
        return self.p_value <= self.limit


def randomization_test(
    values: Sequence[float], builds: Sequence[int], design: Design, error: float
) -> RandomizationTest:
    """Test after each block whether two builds differ.

    :param values: one for each measurement, in the order of time; NaN for a measurement without one.
    :param builds: 0 for the parent, 1 for the patch, in the same order.
    :param error: the probability with which equal builds may be shown to differ at any look.
    :returns: the first look that shows a difference, or the last one.
    """
    blocks = design.complete(builds)
    limits = design.limits(error)
    found = RandomizationTest(1.0, 0.0)
    for count in range(1, len(blocks) + 1):
        rounds = sum(blocks[:count])
        used, limit = slice(2 * rounds), limits[rounds]
        share = share_of_orders(tuple(values[used]), tuple(builds[used]), blocks[:count], limit)
        found = RandomizationTest(share, limit)
        if found.is_shown:
            break
    return found


@lru_cache(maxsize=4096)
def share_of_orders(
    values: tuple[float, ...], builds: tuple[int, ...], blocks: tuple[int, ...], limit: float
) -> float:
    """Return the fraction of all orders, including the drawn one, that show at least as much.

    :param blocks: rounds of each block; values and builds contain two for each round.
    :param limit: decides; a fraction far above it is estimated from fewer orders.
    """
    measured = np.array(values, dtype=np.float64)
    statistics = _Statistics(measured, blocks)
    if not statistics.present.any():
        return 1.0
    # Other values try other orders: errors of a sample of orders must not favour all tests of a machine.
    random = np.random.default_rng(measured.view(np.uint32))
    first = statistics(_draw_orders(blocks, _TRIED_FIRST, random))
    usual = np.quantile(first, _USUAL, axis=1)[:, np.newaxis] + 1e-9
    drawn = np.where(np.array(builds) == PATCH, 1, -1).astype(np.float32)
    own = float((statistics(drawn[np.newaxis]) / usual).max()) * _EQUAL
    share = float(1 + ((first / usual).max(axis=0) >= own).sum()) / (_TRIED_FIRST + 1)
    if share > _HOPELESS or not limit:
        return share
    if len(blocks) == 1 and math.comb(2 * blocks[0], blocks[0]) <= _ENUMERATED:
        return float(((statistics(_table(blocks[0])) / usual).max(axis=0) >= own).mean())
    most = min(math.ceil(_PRECISION / limit), _MOST_TRIED)
    count = tried = 1
    while tried <= most and count <= limit * (most + 1):
        chunk = min(_CHUNK, most)
        found = statistics(_draw_orders(blocks, chunk, random)) / usual
        count += int((found.max(axis=0) >= own).sum())
        tried += chunk
    return count / tried


class _Statistics:
    """The statistics of one sequence of values, for any signs."""

    def __init__(self, values: Floats, blocks: Sequence[int]) -> None:
        self.present = np.isfinite(values)
        filled = np.where(self.present, values, 0.0)
        distances = np.abs(filled[:, np.newaxis] - filled)
        used = np.triu(np.outer(self.present, self.present), 1)
        between = distances[used] if used.any() else np.zeros(1)
        near, middle, far = np.quantile(between, (_QUANTILES[0], 0.5, _QUANTILES[1]))
        self.grouped = bool(near < _GROUPED * middle)
        widths = [near] if self.grouped else [near, far]
        self._kernels = [
            np.exp(-0.5 * (distances / max(float(width), _LEAST_WIDTH)) ** 2).astype(np.float32)
            for width in widths
        ]
        self._centred = filled
        begin = 0
        for block in blocks:
            part = slice(begin, begin + 2 * block)
            if self.present[part].any():
                average = values[part][self.present[part]].mean()
                self._centred[part] = np.where(self.present[part], filled[part] - average, 0.0)
            begin += 2 * block

    def __call__(self, signs: Signs) -> Floats:
        """Return all statistics of some orders, (statistics, orders)."""
        signs = signs * self.present.astype(np.float32)
        found = [] if self.grouped else [(signs @ self._centred) ** 2]
        found += [((signs @ kernel) * signs).sum(axis=1) for kernel in self._kernels]
        return np.stack(found).astype(np.float64)


def _draw_orders(blocks: Sequence[int], count: int, random: np.random.Generator) -> Signs:
    """Draw orders as signs, (count, measurements)."""
    parts = []
    for block in blocks:
        if math.comb(2 * block, block) <= _ENUMERATED:
            table = _table(block)
            parts.append(table[random.integers(len(table), size=count)])
        else:
            places = np.argsort(random.random((count, 2 * block)), axis=1)
            parts.append(np.where(places < block, -1, 1).astype(np.float32))
    return np.concatenate(parts, axis=1)


@cache
def _table(block: int) -> Signs:
    """Return all orders of a block as signs, (orders, measurements)."""
    chosen = list(itertools.combinations(range(2 * block), block))
    signs = np.full((len(chosen), 2 * block), -1, dtype=np.float32)
    np.put_along_axis(signs, np.array(chosen), 1, axis=1)
    return signs
