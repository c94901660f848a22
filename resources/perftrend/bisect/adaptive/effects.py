r"""The effects of the changes that were found, and the probability of another change that matters.

However much is measured, a tiny change can always be hidden somewhere. A change matters if it is at least a
third of the largest that was found, or visible in few runs. With the probabilities h that class j holds a
further change, and those of its size Δ in each test, the probability of a further change that matters is

    Σ h(j) (1 - Π (1 - P(test affected) P(\|Δ\| matters))),

with the product over the tests. Two further changes are treated as if each were the only one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from perftrend.analysis.comparison.distributions import Mixture, log_sum, normal_below
from perftrend.analysis.comparison.observations import Floats, Levels
from perftrend.analysis.comparison.paired_test import PairedEvidence
from perftrend.bisect.adaptive.confirmation import Confirmation
from perftrend.bisect.adaptive.noise_model import FLAT_VARIANCE, SIZES
from perftrend.bisect.adaptive.posterior import Belief, TestBelief
from perftrend.bisect.state import Effect

POWER = 3.6
"""Difference in standard errors that is significant at 99 %, two-sided, in 85 of 100 cases."""
_MOST_RELATIVE = 10.0

MATTERS = 1 / 3
"""Minimum size relative to the largest change that was found."""
PLAIN, SLIGHT = 4.0, 1.0
"""A change of at least ``PLAIN`` deviations of a run and ``SLIGHT`` per cent always matters, because
excluding it is cheap."""
FAILS = 30.0
"""Size assigned to a test that fails from a commit on, in about per cent."""
SEEN = 0.9
"""Fraction of the commits in which a visible change would have been shown."""


def effects(belief: Belief, chosen: int, others: Sequence[int], confirmed: Confirmation) -> dict[str, Effect]:
    """Return the effect of a change on each test.

    :param belief: the posterior before that class was found.
    :param chosen: the class.
    :param others: the classes of all other changes.
    :param confirmed: the pairs that confirmed it.
    """
    found = {}
    for test in belief.tests:
        effect = _failure_effect(belief, test, chosen, confirmed) or _value_effect(
            belief, test, chosen, others, confirmed
        )
        if effect is not None:
            found[test.data.name] = effect
    return found


def smallest_visible(belief: Belief) -> dict[str, float]:
    """Return the smallest relative difference of old and new that would have been shown, by test."""
    found = {}
    whole = belief.suspects.after.max(axis=0)
    for test in belief.tests:
        if test.evidence is None:
            continue
        field = test.evidence.field
        if test.density is not None:
            found[test.data.name] = test.evidence.field.levels.relative(test.density.upper_limit(belief.held))
            continue
        columns = _columns(belief, test)
        step = whole[columns][test.evidence.retained]
        weight = float(step @ field.precision[test.evidence.best] @ step)
        if step.any() and not step.all() and weight > 0:
            found[test.data.name] = field.levels.relative(visible(weight))
    return found


def visible(weight: float) -> float:
    """Return the smallest step that would have been shown, in about per cent.

    :param weight: one over the variance of the estimated step.
    """
    return min(POWER / math.sqrt(weight), 100 * math.log1p(_MOST_RELATIVE))


def _columns(belief: Belief, test: TestBelief) -> list[int]:
    names = _names(belief, test)
    return [belief.suspects.measured.index(names[at]) for at in test.data.levels.positions]


def _names(belief: Belief, test: TestBelief) -> list[str]:
    """Return the commit of each measurement."""
    history = belief.suspects.history
    return [
        history.commits[each.build] if each.build >= 0 else history.old for each in test.data.observations
    ]


def _failure_effect(belief: Belief, test: TestBelief, chosen: int, confirmed: Confirmation) -> Effect | None:
    """Return the effect on a test that fails on one side of a change; None if it fails on none or both.

    Only the commits of the pairs count: later ones may contain a change that repairs the test.
    """
    if test.failures is None:
        return None
    names = np.array(_names(belief, test))
    parent, candidate = names == confirmed.parent, names == confirmed.candidate
    before, after = (test.failures.failed[each].mean() > 0.5 for each in (parent, candidate))  # noqa: PLR2004 - mostly
    if before == after:
        return None
    working = np.flatnonzero(candidate if before else parent)
    samples = [sample for each in working for sample in test.data.observations[each].samples]
    level = float(np.mean(samples)) if samples else math.nan
    levels = (math.nan, level) if before else (level, math.nan)
    return Effect(*levels, math.nan, probability=float(test.affected[chosen]))


def _value_effect(
    belief: Belief, test: TestBelief, chosen: int, others: Sequence[int], confirmed: Confirmation
) -> Effect | None:
    if test.evidence is None:
        return None
    field = test.evidence.field
    size = size_of(test, chosen).of_sign(_direction(confirmed, test.data.name))
    affected = float(belief.effect_probability(test)[chosen])
    relative = field.levels.relative
    before = _level_before(belief, test, chosen, others)
    change = relative(size.mean)
    after = before * (1 + change) if field.levels.logarithmic else before + _unit(test) * size.mean
    low, high = _interval(size, confirmed.tests.get(test.data.name))
    return Effect(before, after, change, relative(low), relative(high), affected)


def _interval(size: Mixture, shown: PairedEvidence | None) -> tuple[float, float]:
    """Return the interval of the size of a change, of 95 %, in about per cent.

    All builds of the range and the two of the pairs may disagree, for example because of their layouts.
    Neither shows what the change alone does, so the interval reaches from one to the other.

    :param shown: what the pairs show of the same test.
    """
    low, high = size.quantile(0.025), size.quantile(0.975)
    if shown is None or not shown.pairs or shown.low <= size.mean <= shown.high:
        return low, high
    return min(low, shown.median), max(high, shown.median)


def _direction(confirmed: Confirmation, test: str) -> float:
    """Return the sign of a change, as far as the pairs show it; 0 if they do not.

    All measurements together have lost which ones were adjacent in time. If the machine has two speeds, a
    build at the slow one and its successor at the fast one look like a change in the other direction.
    """
    shown = confirmed.tests.get(test)
    if shown is None or shown.low <= 0 <= shown.high:
        return 0.0
    return shown.median


def size_of(test: TestBelief, chosen: int) -> Mixture:
    """Return the posterior of the size of a change that affects a test with values, in about per cent."""
    if test.density is not None:
        return test.density.size(chosen)
    assert test.evidence is not None  # noqa: S101 - for the reader
    field = test.evidence.field
    own = field.weight[:, chosen, chosen][:, np.newaxis] + 1 / SIZES
    mean = field.pull[:, chosen][:, np.newaxis] / own
    return Mixture.of(test.evidence.one_by_part[:, chosen], mean, 1 / own)


def _level_before(belief: Belief, test: TestBelief, chosen: int, others: Sequence[int]) -> float:
    """Return the level right before a change, with the other changes that its commits contain."""
    assert test.evidence is not None  # noqa: S101 - for the reader
    field, g = test.evidence.field, test.evidence.best
    design = np.concatenate([np.ones((1, len(field.levels))), field.steps[[chosen, *others]]])
    weight = design @ field.precision[g] @ design.T + 1e-9 * np.eye(len(design))
    fitted = np.linalg.solve(weight, design @ field.pulled[g])
    contained = belief.suspects.history.ancestors[_oldest(belief.suspects.classes[chosen])]
    inside = [bool(belief.suspects.classes[other] & contained) for other in others]
    y = fitted[0] + float(np.dot(fitted[2:], inside))
    return _in_units(test.data.levels, test, y)


def _oldest(chosen: int) -> int:
    return (chosen & -chosen).bit_length() - 1


def _in_units(levels: Levels, test: TestBelief, y: float) -> float:
    """Return a level in the unit of the samples; the first observation is the origin."""
    first = _samples(test)
    if levels.logarithmic:
        return math.exp((y - levels.y[0]) / 100 + float(np.log(first).mean()))
    return float(first.mean()) + _unit(test) * (y - float(levels.y[0]))


def _unit(test: TestBelief) -> float:
    """Return the size of the model's unit in that of the samples, for levels that are not logarithmic."""
    y = test.data.levels.y
    means = np.array([np.nanmean(test.data.observations[at].samples) for at in test.data.levels.positions])
    spread = float(np.ptp(y))
    return float(np.ptp(means)) / spread if spread else 0.0


def _samples(test: TestBelief) -> Floats:
    values = np.array(test.data.observations[test.data.levels.positions[0]].samples, np.float64)
    return values[np.isfinite(values)]


def outliers(belief: Belief) -> Mapping[str, tuple[int, ...]]:
    """Return the measurements that were excluded as outliers, by test."""
    return {test.data.name: test.outliers for test in belief.tests if test.outliers}


def further_change_probability(beliefs: Sequence[Belief]) -> float:
    """Return the probability of a further change that matters.

    :param beliefs: the posteriors before and after each change that was found.
    """
    last = beliefs[-1]
    least = MATTERS * _largest(beliefs)
    slight = np.ones(last.one.size)
    for test in last.tests:
        plain = max(PLAIN * _deviation(test), SLIGHT)
        slight *= 1 - last.effect_probability(test) * _at_least(test, min(least, plain))
    slight_pair = slight[last.prior.first] * slight[last.prior.second]
    return float(last.one @ (1 - slight) + last.two @ (1 - slight_pair))


def smallest_further_visible(beliefs: Sequence[Belief]) -> dict[str, float]:
    """Return the smallest relative change that would have been shown in addition to those found, by test.

    It might be missed in a tenth of the commits, those with the least evidence.
    """
    last = beliefs[-1]
    found = {}
    for test in last.tests:
        if test.evidence is None:
            continue
        field = test.evidence.field
        weight = np.diagonal(field.weight[test.evidence.best])
        seen = test.compared & (weight * FLAT_VARIANCE > 1)
        seen[list(last.found)] = False
        if seen.any():
            order = np.argsort(-weight[seen])
            share = np.cumsum(last.suspects.shares[seen][order])
            at = int(np.searchsorted(share, SEEN * share[-1]))
            found[test.data.name] = field.levels.relative(visible(float(weight[seen][order][at])))
    return found


def _largest(beliefs: Sequence[Belief]) -> float:
    """Return the size of the largest change that was found, in about per cent."""
    sizes = [
        _size(test, chosen)
        for belief, chosen in zip(beliefs, beliefs[-1].found, strict=False)
        for test in belief.tests
        if belief.effect_probability(test)[chosen] > 0.5  # noqa: PLR2004 - more probably than not
    ]
    return max(sizes, default=0.0)


def _size(test: TestBelief, chosen: int) -> float:
    if test.failing[chosen]:
        return FAILS
    return abs(size_of(test, chosen).mean) if test.evidence is not None else 0.0


def _deviation(test: TestBelief) -> float:
    """Return the deviation of one run in about per cent, from the best model of the noise."""
    if test.evidence is None:
        return math.inf
    if test.density is not None:
        return test.density.deviation
    return math.sqrt(test.evidence.field.run_variance(test.evidence.best))


def _at_least(test: TestBelief, least: float) -> Floats:
    """Return the probability that a change in each class, if it affects the test, has at least a size, (j,).

    It is 1 for a change that makes the test fail, and 0 for one without values on both sides.
    """
    if test.evidence is None:
        return test.failing.astype(np.float64)
    if test.density is not None:
        return np.where(test.failing, 1.0, np.where(test.compared, test.density.at_least(least), 0.0))
    field = test.evidence.field
    own = np.einsum("gjj->gj", field.weight)[..., np.newaxis] + 1 / SIZES
    mean, precision = field.pull[..., np.newaxis] / own, np.sqrt(own)
    beyond = normal_below((-least - mean) * precision) + normal_below((mean - least) * precision)
    by_part = test.evidence.one_by_part
    weights = np.exp(by_part - log_sum(by_part, axis=(0, 2))[:, np.newaxis])
    by_values = np.where(test.compared, (weights * beyond).sum(axis=(0, 2)), 0.0)
    return np.where(test.failing, 1.0, by_values)
