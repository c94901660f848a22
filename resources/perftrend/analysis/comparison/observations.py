"""Observations: samples of two builds or more, on the scale on which differences are ratios.

One observation is one measurement of one build: the device was restarted and returned some samples.
Its level is

    y = mean of 100 ln(sample),

so that a step of 1 is about one per cent, and noise that grows with the value is even. With n
observations of k samples, and vᵢ the variance (denominator k - 1) of 100 ln(sample) within the i-th, the
variance within an observation is pooled, with one pseudo-observation of one per cent:

    w² = (1 + Σ (kᵢ - 1) vᵢ) / (1 + Σ (kᵢ - 1)),

and the level of observation i has the error w² / kᵢ.

A logarithm requires positive values. If any sample is zero or negative, all are divided by the reference,
the absolute median of the parent's samples (the largest absolute sample if that is almost zero), and
y = 100 sample / reference. Samples that are not finite are ignored, and so are observations without samples,
which failed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

PARENT, PATCH = 0, 1

_NOTHING = 1e-6
"""A reference that is at most this fraction of the largest sample is not used."""
_LARGEST = 700.0
"""Logarithm of the largest ratio that is returned."""


@dataclass(frozen=True, slots=True)
class Observation:
    """One measurement of one build."""

    build: int
    """0 is the parent, 1 the patch; in a range of commits the position in their order."""
    at_h: float
    """When it was measured, in hours since any point in time."""
    samples: tuple[float, ...]
    """In the order of measuring, any unit; empty if the measurement failed."""
    variant: int = 0
    """The layout in which the build was measured."""

    @property
    def usable(self) -> bool:
        """Whether there is a finite sample."""
        return any(map(math.isfinite, self.samples))


@dataclass(frozen=True, slots=True, eq=False)
class Levels:
    """Usable observations, n of them, on the scale of the model: about per cent."""

    builds: Indices
    """Shape (n,)."""
    variants: Indices
    """The layouts in which they were measured, shape (n,)."""
    at_h: Floats
    """Shape (n,), from 0."""
    y: Floats
    """Shape (n,), relative to their median."""
    errors: Floats
    """Variances that come from within the observations, shape (n,)."""
    positions: Indices
    """Their indices among the given observations, shape (n,)."""
    logarithmic: bool = True
    """Whether a step is one of logarithms, as it is if all samples are positive."""
    origin_h: float = 0.0
    """The point in time from which ``at_h`` counts."""
    middle: float = 0.0
    """The median, which was subtracted from all y."""
    single: bool = False
    """Whether each observation has one sample, so that nothing is known of the noise within one."""

    def __len__(self) -> int:
        return self.y.size

    def without(self, flagged: Sequence[int]) -> Levels:
        """Return the levels without some of them, given by their index here."""
        remaining = np.delete(np.arange(self.y.size), flagged)
        return replace(
            self,
            builds=self.builds[remaining],
            variants=self.variants[remaining],
            at_h=self.at_h[remaining],
            y=self.y[remaining],
            errors=self.errors[remaining],
            positions=self.positions[remaining],
        )

    def by_best(self, observations: Sequence[Observation], *, higher: bool) -> Levels | None:
        """Return the same with y = 100 ln(best sample) of each observation.

        If a machine switches between two speeds, the best sample of a measurement is mostly at the fast one.

        :param observations: those that these levels were computed from.
        :param higher: whether the highest sample is the best one.
        :returns: None if a sample is not positive, or each observation has one sample.
        """
        samples = [observations[at].samples for at in self.positions]
        if not self.logarithmic or all(len(each) == 1 for each in samples):
            return None
        best = max if higher else min
        y = 100 * np.log([best(filter(math.isfinite, each)) for each in samples])
        middle = float(np.median(y))
        return replace(self, y=y - middle, middle=middle)

    def relative(self, step: float) -> float:
        """Return a step as a ratio: -0.03 is 3 % less."""
        return math.expm1(min(step / 100, _LARGEST)) if self.logarithmic else step / 100

    def step(self, relative: float) -> float:
        """Return a ratio, which is above -1 if steps are logarithmic, as a step."""
        return 100 * math.log1p(relative) if self.logarithmic else 100 * relative


def levels(observations: Sequence[Observation]) -> Levels:
    """Convert observations to the scale of the model.

    :param observations: in any order of time; failed ones may be included.
    """
    positions = [index for index, each in enumerate(observations) if each.usable]
    used = [observations[index] for index in positions]
    samples = [np.array([x for x in each.samples if math.isfinite(x)], dtype=np.float64) for each in used]
    scaled, logarithmic = _scale(samples, [each.build for each in used])
    sizes = np.array([each.size for each in scaled], dtype=np.float64)
    squares = math.fsum(float(((each - each.mean()) ** 2).sum()) for each in scaled)
    within = (1 + squares) / (1 + float((sizes - 1).sum()))
    y = np.array([each.mean() for each in scaled], dtype=np.float64)
    at_h = np.array([each.at_h for each in used], dtype=np.float64)
    return Levels(
        builds=np.array([each.build for each in used], dtype=np.int64),
        variants=np.array([each.variant for each in used], dtype=np.int64),
        at_h=at_h - at_h.min() if at_h.size else at_h,
        y=y - np.median(y) if y.size else y,
        errors=within / sizes,
        positions=np.array(positions, dtype=np.int64),
        logarithmic=logarithmic,
        origin_h=float(at_h.min()) if at_h.size else 0.0,
        middle=float(np.median(y)) if y.size else 0.0,
        single=bool((sizes == 1).all()),
    )


def _scale(samples: Sequence[Floats], builds: Sequence[int]) -> tuple[list[Floats], bool]:
    if all((each > 0).all() for each in samples):
        return [100 * np.log(each) for each in samples], True
    largest = max(float(np.abs(each).max()) for each in samples)
    oldest = min(builds)
    first = np.concatenate([each for each, build in zip(samples, builds, strict=True) if build == oldest])
    reference = abs(float(np.median(first)))
    if reference <= _NOTHING * largest:
        reference = largest or 1.0
    return [100 * each / reference for each in samples], False
