"""Two groups or one: the CSIT comparison of two builds, by description length.

The samples of the parent form one group and those of the current build another, described relative to the
parent's average; or all of them form one group. The shorter description is selected. If that is the one of
two groups, the averages decide whether it is a regression or a progression.

Source: "Bisecting", section Console output; the formula is that of :mod:`perftrend.analysis.description`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perftrend.analysis.description import OLDER, Floats, Formula, formula_named
from perftrend.analysis.mdl.runs import in_units
from perftrend.model import Better, Outcome


@dataclass(frozen=True, slots=True)
class CsitGroup:
    """A group of samples, and the bits of its description."""

    samples: tuple[float, ...]
    """In the order of measuring, without values that are not finite."""
    average: float
    """In the unit of the samples; NaN without any."""
    deviation: float
    """Population standard deviation."""
    bits: float
    """0 without samples."""


@dataclass(frozen=True, slots=True)
class CsitComparison:
    """The CSIT console output for one test."""

    parent: CsitGroup
    current: CsitGroup
    """Its bits include the effect of the parent's average."""
    combined: CsitGroup
    difference_percent: float
    """The current average minus the parent's, in per cent of the parent's absolute value; infinite if only
    the parent's is zero, NaN if one of them has no samples."""
    classification: Outcome
    """Normal, a regression, a progression; failed if a build has no samples."""

    @property
    def shorter_by_bits(self) -> float:
        """The bits that two groups save compared with one; negative if one group is shorter."""
        return self.combined.bits - self.parent.bits - self.current.bits

    @property
    def are_two(self) -> bool:
        """Whether the description as two groups is the shorter one."""
        return bool(self.parent.samples and self.current.samples) and self.shorter_by_bits > 0


def compare_by_mdl(
    parent_samples: Sequence[float],
    current_samples: Sequence[float],
    *,
    formula: str = OLDER,
    better: Better = Better.HIGHER,
) -> CsitComparison:
    """Compare two builds by the CSIT method.

    :param parent_samples: any unit, any number; values that are not finite are ignored.
    :param current_samples: of the other build; their number may differ from that of the parent.
    :param formula: ``jumpavg-0.1``, as in the CSIT documentation, or ``jumpavg-0.4``.
    :returns: both groups, the combined one, and the classification. If no sample is positive, the bits are
        those of the samples with reversed signs; if all are zero, there is no change.
    :raises SettingsError: if the formula does not exist, or the samples are too large for its unit.
    """
    chosen = formula_named(formula)
    parent, current = _finite(parent_samples), _finite(current_samples)
    both = np.concatenate([parent, current])
    if not both.size:
        return _classify(*(_describe(both, 0.0) for _ in range(3)), better=better)
    scaled = in_units(both, chosen, None)
    in_parent, in_current = scaled[: parent.size], scaled[parent.size :]
    top = float(scaled.max())
    previous = in_parent if parent.size else None
    return _classify(
        _describe(parent, _bits(in_parent, None, top, chosen)),
        _describe(current, _bits(in_current, previous, top, chosen)),
        _describe(both, _bits(scaled, None, top, chosen)),
        better=better,
    )


def _finite(samples: Sequence[float]) -> Floats:
    values = np.array(samples, dtype=np.float64)
    return values[np.isfinite(values)]


def _describe(samples: Floats, bits: float) -> CsitGroup:
    if not samples.size:
        return CsitGroup((), math.nan, math.nan, 0.0)
    return CsitGroup(tuple(samples.tolist()), float(samples.mean()), float(samples.std()), bits)


def _bits(samples: Floats, previous: Floats | None, maximum: float, formula: Formula) -> float:
    """Count the bits of a group in units, given the group before it, if any."""
    if not samples.size or not maximum:
        return 0.0
    size, deviation = np.array([samples.size]), np.array([samples.std()])
    alone = float(formula.alone_bits(size, deviation, maximum)[0])
    if previous is None:
        return alone + formula.first_bits(maximum)
    means = np.array([samples.mean()]), np.array([previous.mean()])
    return alone + float(formula.later_bits(*means, maximum)[0])


def _classify(
    parent: CsitGroup, current: CsitGroup, combined: CsitGroup, *, better: Better
) -> CsitComparison:
    difference = _percent(parent.average, current.average)
    found = CsitComparison(parent, current, combined, difference, Outcome.NORMAL)
    if not parent.samples or not current.samples:
        outcome = Outcome.FAILED
    elif not found.are_two or parent.average == current.average:
        return found
    else:
        rises = current.average > parent.average
        outcome = Outcome.PROGRESSION if rises == (better is Better.HIGHER) else Outcome.REGRESSION
    return CsitComparison(parent, current, combined, difference, outcome)


def _percent(parent: float, current: float) -> float:
    change = current - parent
    if parent:
        return 100 * change / abs(parent)
    return math.copysign(math.inf, change) if change else change
