r"""Two builds measured alternately: evidence for a difference that no noise can mimic.

The builds are measured in pairs, and a coin toss decides which of the two comes first. If the builds are
alike, a pair would have given the same two values with the opposite toss: each value belongs to either build
with a probability of one half, whatever the noise is. A bet on which value belongs to which build is then a
fair game. With p the stake on the right assignment, the capital after the pairs 1 … n,

    E = Π 2 pᵢ,

has the expectation 1 if the builds are alike, and ever reaches 1/e with a probability of at most e. This
needs no model of the noise: two speeds, heavy tails, drift and co-tenants can only make the bets poor.

Good bets need a model. Two models bet half of the capital each, and E is the average of their results:

* *levels*: the candidate's values are those of the parent, moved by Δ. With a kernel density g of all values
  measured before, the candidate's moved back, the stake on x for the parent and z for the candidate is
  g(x) g(z - Δ), against g(z) g(x - Δ), summed over Δ and the width of the kernels. It learns the noise,
  however many speeds the machine has: two values at different speeds also show which build they belong to.
* *differences*: z - x has a normal or Student's t distribution about Δ, summed over Δ and its scale.
  Influences on both values of a pair, such as drift, do not disturb it.

If one value of a pair is missing because the test failed, the pair is a bet on which build fails.

Source: Ville, Étude critique de la notion de collectif, 1939, for the bound; Shafer, Testing by betting,
2021, for the reading as capital; Fisher, The Design of Experiments, 1935, for the coin.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from perftrend.analysis.comparison.distributions import log_sum
from perftrend.analysis.comparison.observations import Floats

_SIZES: Floats = 0.25 * np.power(1.06, np.arange(120, dtype=np.float64))
DIFFERENCES: Floats = np.concatenate([-_SIZES[::-1], [0.0], _SIZES])
"""Δ in 100 ln(value), about per cent: zero, and 0.25 to 257 in either direction."""
_WIDTHS: Floats = 0.1 * np.power(2.0, np.arange(8, dtype=np.float64))
"""Widths of the kernels, on the same scale."""
_SCALES: Floats = 0.15 * np.power(1.6, np.arange(11, dtype=np.float64))
"""Scales of the differences."""
_BROAD, _NEAR = 30.0, 5.0
"""Scales of the density of a value that is unlike all before."""
_FAILURE_STAKE = 0.95
_LOG_2 = math.log(2)

Value = float | None
"""100 ln(value) of one measurement; None if the test failed."""


@dataclass(frozen=True, slots=True)
class MeasurementPair:
    """One measurement of each build, in an order decided by a coin toss."""

    parent: Value
    candidate: Value


@dataclass(frozen=True, slots=True)
class PairedEvidence:
    """The evidence of pairs for a difference between two builds."""

    log_e: float
    """Logarithm of the capital E; if the builds are alike, it ever reaches -log(e) with at most e."""
    pairs: int
    """The number of pairs with two values."""
    median: float
    """The median of Δ, on the scale of the values; NaN without a pair."""
    low: float
    """Δ is between low and high with 95 %, by the model of the bets."""
    high: float
    claimed: float
    """The probability, by the same model, that Δ is at least half of the claim; 1 without a claim."""

    @property
    def probability(self) -> float:
        """The probability that the builds differ, if both answers were equally probable before the pairs."""
        return 1 / (1 + math.exp(-self.log_e)) if self.log_e > -700 else 0.0  # noqa: PLR2004 - exp overflows


def evidence(
    pairs: Sequence[MeasurementPair],
    *,
    parent_before: Sequence[float] = (),
    candidate_before: Sequence[float] = (),
    claim: float | None = None,
) -> PairedEvidence:
    """Return the evidence of pairs of measurements.

    :param pairs: in the order of measuring.
    :param parent_before: values of the parent, or of builds believed to be like it, from before the first
        pair. They improve the bets, and are not evidence themselves.
    :param candidate_before: those of the candidate, or of builds like it.
    :param claim: the difference that led to the pairs, if any.
    """
    known = _bets(tuple(parent_before), tuple(candidate_before), tuple(pairs))
    share = np.exp(log_sum(known.pairs_only, axis=1))
    share /= share.sum()
    sums = np.cumsum(share)
    low, median, high = (
        float(DIFFERENCES[min(int(np.searchsorted(sums, level)), sums.size - 1)])
        for level in (0.025, 0.5, 0.975)
    )
    if not known.count:
        low, median, high = -math.inf, math.nan, math.inf
    claimed = 1.0
    if claim is not None and known.count:
        beyond = DIFFERENCES * math.copysign(1.0, claim) >= abs(claim) / 2
        claimed = float(share[beyond].sum())
    return PairedEvidence(known.log_e, known.count, median, low, high, claimed)


def pool_evidence(parts: Sequence[PairedEvidence]) -> PairedEvidence:
    """Return the evidence of the same pairs by several statistics, such as the average and the best sample.

    Bets on each statistic are a fair game, and so is the average of their capitals. Δ is that of the
    statistic with the narrowest interval.

    :param parts: one or more, each of all pairs.
    """
    log_e = float(log_sum(np.array([each.log_e for each in parts]))) - math.log(len(parts))
    exact = min(parts, key=lambda each: each.high - each.low)
    return replace(exact, log_e=log_e)


def log_odds(parent_before: Sequence[float], candidate_before: Sequence[float]) -> float:
    """Return the logarithm of how much more probable values are if the builds differ than if not.

    This uses the model of the bets: it shows which of several tests to bet on, and is not evidence.
    """
    by_difference = log_sum(_before(tuple(parent_before), tuple(candidate_before))[1], axis=1)
    same = DIFFERENCES == 0
    return float(log_sum(by_difference[~same]) - math.log(2 * _SIZES.size) - by_difference[same][0])


def likelihood(parent: Sequence[float], candidate: Sequence[float], differences: Floats) -> Floats:
    """Return the log-likelihood of values for each of some differences, by levels, (d,).

    The first value has the probability 1, since the level of the parent is not known.

    :param parent: values of the parent, on the scale of the differences.
    :param candidate: those of the candidate.
    :param differences: Δ, (d,).
    """
    return log_sum(_learn(parent, candidate, differences)[1], axis=1)


def estimate_difference(parent_before: Sequence[float], candidate_before: Sequence[float]) -> float | None:
    """Return the most probable difference of values by the same model; None if a build has no values."""
    if not parent_before or not candidate_before:
        return None
    by_difference = log_sum(_before(tuple(parent_before), tuple(candidate_before))[1], axis=1)
    return float(DIFFERENCES[int(np.argmax(by_difference))])


def unfamiliar(away: Floats) -> Floats:
    """Return the density of a value that is unlike all before, by its distance from their median."""
    return (_t4(away, _BROAD) + _t4(away, _NEAR)) / 2


@dataclass(frozen=True, slots=True, eq=False)
class _Bets:
    """The capital and the beliefs of the bettors after some pairs."""

    capital: Floats
    """Logarithm of the capital of each bettor, which starts at 1: by levels and by differences, (2,)."""
    fails: tuple[int, int]
    """Pairs in which only the parent failed, and in which only the candidate failed."""
    count: int
    values: Floats
    """All values so far, with those of the candidate moved back by Δ, (d, n)."""
    weights: Floats
    """Logarithm of the probability of each Δ and width, (d, h)."""
    pairs_only: Floats
    """The same without the values from before the pairs."""
    scales: Floats
    """Logarithm of the probability of each Δ and scale of the differences, normal and t, (d, s, 2)."""

    @property
    def log_e(self) -> float:
        return float(np.logaddexp(*self.capital)) - _LOG_2


@lru_cache(maxsize=512)
def _bets(before: tuple[float, ...], after: tuple[float, ...], pairs: tuple[MeasurementPair, ...]) -> _Bets:
    """Bet on pairs, one after the other; earlier bets are cached."""
    if not pairs:
        return _first(before, after)
    known, pair = _bets(before, after, pairs[:-1]), pairs[-1]
    if pair.parent is None or pair.candidate is None:
        return _bet_on_failure(known, pair)
    x, z = np.full(DIFFERENCES.size, pair.parent), np.full(DIFFERENCES.size, pair.candidate)
    right = _density(known.values, x) + _density(known.values, z - DIFFERENCES)
    wrong = _density(known.values, z) + _density(known.values, x - DIFFERENCES)
    difference = pair.candidate - pair.parent
    right_difference, wrong_difference = _of_difference(difference), _of_difference(-difference)
    gained = [
        _stake(known.weights, right, wrong),
        _stake(known.scales, right_difference, wrong_difference),
    ]
    return _Bets(
        known.capital + np.array(gained),
        known.fails,
        known.count + 1,
        np.column_stack([known.values, x, z - DIFFERENCES]),
        _normalise(known.weights + right),
        _normalise(known.pairs_only + right),
        _normalise(known.scales + right_difference),
    )


def _first(before: tuple[float, ...], after: tuple[float, ...]) -> _Bets:
    """Give half of the weight to the values from before the pairs."""
    values, known = _before(before, after)
    weights = _normalise(known)
    doubtful = np.logaddexp(weights, log_sum(weights, axis=0) - math.log(DIFFERENCES.size)) - _LOG_2
    by_difference = log_sum(doubtful, axis=1)[:, np.newaxis, np.newaxis]
    scales = by_difference - math.log(2 * _SCALES.size) + np.zeros((DIFFERENCES.size, _SCALES.size, 2))
    flat = np.full(weights.shape, -math.log(weights.size))
    return _Bets(np.zeros(2), (0, 0), 0, values, doubtful, flat, scales)


@lru_cache(maxsize=64)
def _before(before: tuple[float, ...], after: tuple[float, ...]) -> tuple[Floats, Floats]:
    """Learn from the values from before the pairs; see :func:`_learn`."""
    return _learn(before, after, DIFFERENCES)


def _learn(before: Sequence[float], after: Sequence[float], differences: Floats) -> tuple[Floats, Floats]:
    """Learn from values of both builds.

    :returns: the values, aligned by Δ, (d, n), and their log-likelihood for each Δ and width, (d, h).
    """
    values = np.empty((differences.size, 0))
    weights = np.full((differences.size, _WIDTHS.size), -math.log(_WIDTHS.size))
    for known, moved in ((before, np.zeros(differences.size)), (after, differences)):
        for value in known:
            new = value - moved
            weights = weights + _density(values, new)
            values = np.concatenate([values, new[:, np.newaxis]], axis=1)
    return values, weights


def _bet_on_failure(known: _Bets, pair: MeasurementPair) -> _Bets:
    """Bet on which build fails: on the one that failed more often before."""
    if pair.parent is None and pair.candidate is None:
        return known
    parent, candidate = known.fails
    is_candidate = pair.candidate is None
    agreed = (candidate - parent) * (1 if is_candidate else -1)
    stake = _FAILURE_STAKE if agreed > 0 else 1 - _FAILURE_STAKE if agreed < 0 else 0.5
    fails = (parent + (not is_candidate), candidate + is_candidate)
    return _Bets(
        known.capital + _LOG_2 + math.log(stake),
        fails,
        known.count,
        known.values,
        known.weights,
        known.pairs_only,
        known.scales,
    )


def _stake(weights: Floats, right: Floats, wrong: Floats) -> float:
    """Return the logarithm of the factor by which one pair changes the capital."""
    by_right, by_wrong = float(log_sum(weights + right)), float(log_sum(weights + wrong))
    return _LOG_2 + by_right - float(np.logaddexp(by_right, by_wrong))


def _density(known: Floats, values: Floats) -> Floats:
    """Return the logarithm of the density of a value, given others, for each Δ and width, (d, h).

    :param known: aligned by Δ, (d, n).
    :param values: one for each Δ, (d,).
    """
    count = known.shape[1]
    if not count:
        return np.zeros((values.size, _WIDTHS.size))
    broad = unfamiliar(values - np.median(known, axis=1))
    kernels = _normal((values[:, np.newaxis] - known)[:, :, np.newaxis], _WIDTHS).mean(axis=1)
    new = 1 / (count + 2)
    density: Floats = np.log((1 - new) * kernels + new * broad[:, np.newaxis])
    return density


def _of_difference(difference: float) -> Floats:
    """Return the logarithm of the density of a difference for each Δ and scale, normal and t, (d, s, 2)."""
    left = (difference - DIFFERENCES)[:, np.newaxis]
    density: Floats = np.log(np.stack([_normal(left, _SCALES), _t4(left, _SCALES)], axis=2) + 1e-12)
    return density


def _normal(distances: Floats, scale: Floats | float) -> Floats:
    scores = distances / scale
    density: Floats = np.exp(-0.5 * scores * scores) / (scale * math.sqrt(2 * math.pi))
    return density


def _t4(distances: Floats, scale: Floats | float) -> Floats:
    scores = distances / scale
    density: Floats = 0.375 / scale * (1 + scores * scores / 4) ** -2.5
    return density


def _normalise(logarithms: Floats) -> Floats:
    return logarithms - log_sum(logarithms)
