r"""How probable the values of one test are, without a change and with one, whatever the noise is.

The normal noise of :mod:`.field` is one belief. Machines that switch between speeds have another
distribution, and this learns it: each value, with the change Δ taken out of it, is predicted by those
measured before it, as a kernel density of the width h,

    p(yᵢ) = (1 - ε) mean over k < i of N(yᵢ - Δ aᵢ; y\ :sub:`k` - Δ a\ :sub:`k`, h²) + ε t(yᵢ),

with ε = 1/(i + 2), where t is a broad distribution for what is like nothing before. Their product is the
likelihood, summed over the sizes Δ of a change and the widths h. All builds have the same noise, so two
speeds on both sides of a change show as the same two peaks, moved by Δ.

Source: Dawid, Present position and potential developments: the prequential approach, 1984; Silverman,
Density Estimation for Statistics and Data Analysis, 1986.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from perftrend.analysis.comparison.mixture import Mixture, log_sum
from perftrend.analysis.comparison.observations import Floats, Levels
from perftrend.analysis.comparison.priors import LEVEL_DEVIATION

_RATIO = 1.08
_SIZES = 0.5 * _RATIO ** np.arange(78)
DIFFERENCES = np.concatenate([-_SIZES[::-1], _SIZES])
"""Δ in about per cent: 0.5 to 190 either way, as probable on each scale."""
_WIDTHS: Floats = 12.8 * np.power(0.5, np.arange(8, dtype=np.float64))
"""h in about per cent, the widest first: each is the one before to the power of four."""
_FEWEST = 4
"""Of the widths, however far the samples of a measurement lie apart."""
_CLOSER = 9
"""Sizes between two of the grid that are looked at more closely."""
_BROAD, _NEAR = 30.0, 5.0
"""Scales of where a value may be that is like none before."""
_EXCLUDED = 0.01
_RARER, _GAP = 0.15, 3.0
"""Each of two levels has such a share of the values, and the gap between is so many deviations wide."""
_CHUNK = 4_000_000
"""Numbers in memory at a time."""
_TINY = 1e-30


class Density:
    """What the values of one test say if nothing is presumed of their noise.

    :param levels: of the measurements with a value, n of them, in the order of measuring.
    :param steps: 1 for measurements of commits that contain the class, (j, n).
    :param found: the steps of changes that were found already, (f, n).
    """

    def __init__(self, levels: Levels, steps: Floats, found: Floats) -> None:
        # What the samples of a measurement leave open is no structure of the noise.
        least = min(math.sqrt(float(levels.errors.mean())), float(_WIDTHS[_FEWEST - 1]))
        self._widths: Floats = _WIDTHS[least <= _WIDTHS]
        self._steps = steps
        self.y: Floats = levels.y.copy()
        """The values, with the changes that were found taken out of them."""
        for step in found:
            self.y -= self._closer(step, self._by_size(step[np.newaxis])[:, 0])[0] * step
        self.by_size: Floats = self._by_size(steps)
        """Logarithms of how probable the values are with a change of each size in each class, (d, j)."""
        for chosen, step in enumerate(steps):
            column = self.by_size[:, chosen]
            column[int(np.argmax(column))] = self._closer(step, column)[1]
        apart = np.subtract.outer(self.y, self.y)
        by_width = self._predicted(_kernels(apart, self._widths).sum(axis=-1, keepdims=True))
        self.none = float(log_sum(by_width) - math.log(self._widths.size))
        """The same without a change."""
        self.one: Floats = log_sum(self.by_size, axis=0)
        """The same with a change of any size in each class, (j,)."""
        self.deviation = float(self._widths[int(np.argmax(by_width))])
        """The width of the kernels that predicts best without a change, in about per cent."""

    def size(self, chosen: int) -> Mixture:
        """Return what is known of the size of a change in a class, in about per cent."""
        spread = (np.abs(DIFFERENCES) * (_RATIO - 1)) ** 2 / 12 + 0.01
        return Mixture.of(self.by_size[:, chosen], DIFFERENCES, spread)

    def at_least(self, least: float) -> Floats:
        """Return how probable a change in each class has at least this size, (j,)."""
        shares = np.exp(self.by_size - self.one)
        beyond: Floats = shares[np.abs(DIFFERENCES) >= least].sum(axis=0)
        return beyond

    def apart(self, chosen: int | None) -> float | None:
        """Return how far two levels of the values lie apart; None if there are not two.

        :param chosen: the class that holds a change, which is taken out of the values.
        :returns: in about per cent.
        """
        moved = 0.0
        if chosen is not None:
            moved = DIFFERENCES[int(np.argmax(self.by_size[:, chosen]))] * self._steps[chosen]
        ordered = np.sort(self.y - moved)
        fewest = max(2, math.ceil(_RARER * ordered.size))
        gaps = np.diff(ordered)[fewest - 1 : ordered.size - fewest]
        if not gaps.size:
            return None
        cut = fewest + int(np.argmax(gaps))
        low, high = ordered[:cut], ordered[cut:]
        spread = max(float(low.std()), float(high.std()))
        return float(np.median(high) - np.median(low)) if gaps.max() > _GAP * spread else None

    def excluded(self, held: Floats) -> float:
        """Return the size from which on changes are a hundred times less probable than none.

        :param held: the probability of a change in each class, (j,).
        :returns: in about per cent.
        """
        shares = held / held.sum() if held.any() else np.full(held.size, 1 / held.size)
        ratios = np.exp(np.clip(self.by_size - self.none, -700, 700)) @ shares * DIFFERENCES.size
        possible = np.abs(DIFFERENCES[ratios > _EXCLUDED])
        return float(possible.max(initial=_SIZES[0]))

    def _by_size(self, steps: Floats) -> Floats:
        """Return how probable the values are, by size and class, (d, j)."""
        after = np.ascontiguousarray(steps.T, np.float32)
        apart = np.subtract.outer(self.y, self.y)
        alike = _kernels(apart, self._widths)
        same_after = alike @ after
        same_before = alike.sum(axis=-1, keepdims=True) - same_after
        own = after * same_after + (1 - after) * same_before
        parts = []
        count = max(1, _CHUNK // (self._widths.size * self.y.size**2))
        for begin in range(0, _SIZES.size, count):
            sizes = _SIZES[begin : begin + count, np.newaxis, np.newaxis]
            down, up = _kernels(apart - sizes, self._widths), _kernels(apart + sizes, self._widths)
            # A value with the change is met by those without it, moved by Δ, and the other way round.
            down_after, up_after = down @ after, up @ after
            down_before, up_before = (
                each.sum(axis=-1, keepdims=True) - moved
                for each, moved in ((down, down_after), (up, up_after))
            )
            risen = own[:, np.newaxis] + after * down_before + (1 - after) * up_after
            fallen = own[:, np.newaxis] + after * up_before + (1 - after) * down_after
            parts.append([log_sum(self._predicted(each), axis=0) for each in (risen, fallen)])
        risen, fallen = (np.concatenate([each[side] for each in parts]) for side in (0, 1))
        by_size: Floats = np.concatenate([fallen[::-1], risen])
        return by_size - math.log(self._widths.size * DIFFERENCES.size)

    def _closer(self, step: Floats, by_size: Floats) -> tuple[float, float]:
        """Look at the most probable size of a change more closely: peaks may be sharper than the grid.

        :returns: the size, and how probable it and those about it are, up to the next ones of the grid.
        """
        middle = DIFFERENCES[int(np.argmax(by_size))]
        sizes = middle * _RATIO ** np.linspace(-0.5, 0.5, _CLOSER)
        moved = self.y - sizes[:, np.newaxis] * step
        apart = moved[:, :, np.newaxis] - moved[:, np.newaxis]
        sums = _kernels(apart, self._widths).sum(axis=-1, keepdims=True)
        likely = log_sum(self._predicted(sums)[..., 0], axis=0)
        prior = math.log(self._widths.size * DIFFERENCES.size * _CLOSER)
        return float(sizes[int(np.argmax(likely))]), float(log_sum(likely) - prior)

    def _predicted(self, sums: Floats) -> Floats:
        """Return the logarithm of how probable all values are.

        :param sums: of kernels at earlier values, (…, n, j).
        :returns: (…, j)
        """
        before = np.arange(1, self.y.size)[:, np.newaxis]
        new = 1 / (before + 2)
        likely: Floats = np.log((1 - new) / before * sums[..., 1:, :] + new * self._broad[1:, np.newaxis])
        first = math.log(LEVEL_DEVIATION * math.sqrt(2 * math.pi))
        total: Floats = likely.sum(axis=-2, dtype=np.float64) - first
        return total

    @cached_property
    def _broad(self) -> Floats:
        """How probable each value is as one that is like none before, (n,)."""
        middles = np.array([np.median(self.y[: max(count, 1)]) for count in range(self.y.size)])
        away = self.y - middles
        density: Floats = (_t4(away / _BROAD) / _BROAD + _t4(away / _NEAR) / _NEAR) / 2
        return density


def _kernels(distances: Floats, widths: Floats) -> Floats:
    """Return normal densities of h widths at distances to earlier values, (h, …, n, n); 0 at later ones."""
    kernel = np.tril(np.exp(-0.5 * (np.tril(distances, -1) / widths[0]) ** 2, dtype=np.float32), -1)
    found = np.empty((widths.size, *kernel.shape), np.float32)
    for at, width in enumerate(widths):
        found[at] = kernel
        found[at] /= width * math.sqrt(2 * math.pi)
        kernel *= kernel
        kernel *= kernel
    return found


def _t4(scores: Floats) -> Floats:
    density: Floats = 0.375 * (1 + scores * scores / 4) ** -2.5
    return density
