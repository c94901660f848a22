"""Pairs of traces that agree in all parameters but one, and the ratios of their values, with their noise.

In that one parameter, the vertical, the two traces of a pair have the two chosen values. Names of tests often
repeat parameters: ``64b-1c-ip4-mrr`` has the frame ``64B``. Frames could then never be compared, because no
two traces agree in the test. Traces without a partner are therefore paired once more, with every word that
repeats the value of the vertical removed from the other parameters: both sides are then ``*-1c-ip4-mrr``.
Traces are places in a table, whose parameters are numbers (:mod:`perftrend.analysis.query.columns`).

By the Skia Perf convention, the number of a pair is left/right if left is the larger one, else -right/left:
its size is the factor between the two, its sign shows which one is larger. Equal values have the ratio 1. A
ratio needs two values above zero.

Whether a difference is more than noise is decided by the interval of the logarithm of the ratio, by Student's
t with the degrees of freedom of Welch and Satterthwaite.

A result varies from run to run by more than its trials suggest, because they share the effects of the
machine's start. The noise is therefore estimated from the course of the trace: the differences between a
value and the one before it have twice the variance of the values,

    s² = Σ Δ² / (2 m c),

over all but the tenth of the m differences that are the largest, which may be changes. c is the remaining
part of the variance of a normal distribution, (f - 2 z φ(z)) / f with the remaining fraction f and
z = Φ⁻¹((1 + f) / 2). Everything is in natural logarithms: 0.01 is 1 %.

Source: "Skia Perf: Design", section Comparing bench results across verticals; Welch, The generalization of
"Student's" problem when several different population variances are involved, 1947; von Neumann, Kent,
Bellinson and Hart, The Mean Square Successive Difference, 1941.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from statistics import NormalDist
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from perftrend.analysis.query.columns import (
    MISSING,
    ParameterCodes,
    Parameters,
    combine_codes,
    of_rows,
)
from perftrend.analysis.significance import quantile
from perftrend.model import Samples

LEFT_OUT = "*"
"""The replacement of a word that repeats the value of the vertical."""

WITHOUT = "(without)"
"""The value of the traces that lack the vertical: nightly traces have no experiment."""

_WORD = re.compile(r"[^\W_]+")

Places: TypeAlias = NDArray[np.intp]

CONFIDENCE = 0.99
"""A table has many cells: with 0.95, one in twenty would show a difference that does not exist."""
_MOST_FREEDOM = 200
_LARGEST = 1e300

LEAST_DIFFERENCES = 6
"""Fewer do not determine the noise."""
_CHANGES = 10
"""One in this number of differences may be a change."""
_NORMAL = NormalDist()


def _none() -> Places:
    return np.array([], dtype=np.intp)


@dataclass(frozen=True, slots=True, eq=False)
class Pairs:
    """n pairs, and the traces that have no partner."""

    left: Places
    """Shape (n,); so is ``right``."""
    right: Places
    parameters: Parameters
    """The parameters in which both sides of each pair agree."""
    left_alone: Places = field(default_factory=_none)
    right_alone: Places = field(default_factory=_none)

    def __len__(self) -> int:
        return len(self.left)

    def only(self, mask: NDArray[np.bool_]) -> Pairs:
        """Return some of the pairs; the traces of the others are alone."""
        return Pairs(
            self.left[mask],
            self.right[mask],
            of_rows(self.parameters, np.flatnonzero(mask)),
            np.concatenate([self.left_alone, self.left[~mask]]),
            np.concatenate([self.right_alone, self.right[~mask]]),
        )


def across(parameters: Parameters, places: Places, vertical: str, left: str, right: str) -> Pairs:
    """Pair the traces that have the left value of a vertical with those that have the right one.

    :param parameters: the parameters of all traces of the table.
    :param places: the places of the traces to pair, ascending; those with neither value do not count.
    :param vertical: a parameter.
    :param left: one of its values, or :data:`WITHOUT`; so is ``right``.
    """
    rest = dict(parameters)
    of_vertical = rest.pop(vertical, None)
    lefts, rights = (_with_value(of_vertical, places, value) for value in (left, right))
    if left == right:
        return Pairs(_none(), _none(), {}, lefts, lefts)
    one, other = _partners(of_rows(rest, lefts), of_rows(rest, rights), len(lefts), len(rights))
    left_alone, right_alone = np.delete(lefts, one), np.delete(rights, other)
    # First the pairs that agree exactly, then those that agree without the words.
    agreed = of_rows(rest, lefts[one])
    left_found, right_found = [lefts[one]], [rights[other]]
    if len(left_alone) and len(right_alone):
        without = {
            name: _without(each, ((left_alone, left), (right_alone, right))) for name, each in rest.items()
        }
        ours, theirs = ({name: each[side] for name, each in without.items()} for side in (0, 1))
        one, other = _partners(ours, theirs, len(left_alone), len(right_alone))
        agreed = {
            name: ParameterCodes(each.values, np.concatenate([agreed[name].codes, each.codes[one]]))
            for name, each in ours.items()
        }
        left_found.append(left_alone[one])
        right_found.append(right_alone[other])
        left_alone, right_alone = np.delete(left_alone, one), np.delete(right_alone, other)
    found = np.concatenate(left_found)
    order = np.argsort(found)
    return Pairs(
        found[order], np.concatenate(right_found)[order], of_rows(agreed, order), left_alone, right_alone
    )


def with_themselves(parameters: Parameters, places: Places) -> Pairs:
    """Pair each trace with itself, to compare two moments of it."""
    return Pairs(places, places, of_rows(parameters, places))


def of_named(named: Sequence[int | None], parameters: Parameters) -> Pairs:
    """Pair external values with the traces that they belong to.

    :param named: the place of the trace that each of the values belongs to; None if there is none.
    :returns: pairs whose left side is a place in ``named``.
    """
    places = np.array([MISSING if place is None else place for place in named], dtype=np.intp)
    known = np.flatnonzero(places != MISSING)
    alone = np.flatnonzero(places == MISSING)
    return Pairs(known, places[known], of_rows(parameters, places[known]), left_alone=alone)


@dataclass(frozen=True, slots=True, eq=False)
class Values:
    """One side of n pairs; arrays of the shape (n,)."""

    value: Samples
    """NaN if there is none."""
    error: Samples
    """Relative standard error; NaN if not known."""
    freedom: NDArray[np.int64]
    """Its degrees of freedom; 0 if not known."""


@dataclass(frozen=True, slots=True, eq=False)
class Ratios:
    """The results of n cells; arrays of the shape (n,), NaN if a cell has no ratio."""

    plain: Samples
    """left/right."""
    signed: Samples
    """By the Skia Perf convention: left/right if left is larger, else -right/left."""
    gain: Samples
    """ln(left/right), with its sign reversed if lower is better: above zero if left is better."""
    low: Samples
    """The plain ratio is between low and high with the confidence; NaN if the noise is not known."""
    high: Samples
    is_noise: NDArray[np.bool_]
    """Whether the interval contains 1: no difference is shown. False if the noise is not known."""


def ratios(
    left: Values, right: Values, *, lower_is_better: NDArray[np.bool_], confidence: float = CONFIDENCE
) -> Ratios:
    """Compare n pairs of values.

    :param lower_is_better: shape (n,).
    """
    usable = (left.value > 0) & (right.value > 0) & np.isfinite(left.value) & np.isfinite(right.value)
    one, other = (np.where(usable, side.value, np.nan) for side in (left, right))
    with np.errstate(over="ignore", under="ignore"):
        plain = one / other
    # Values too far apart for a finite ratio are treated like missing ones.
    plain[~((plain > 1 / _LARGEST) & (plain < _LARGEST))] = np.nan
    size = np.log(plain)
    with np.errstate(over="ignore"):
        signed = np.where(plain >= 1, plain, -other / one)
    signed[np.isnan(plain)] = np.nan
    half = _half_width(left, right, confidence)
    with np.errstate(over="ignore", under="ignore"):
        low, high = np.exp(size - half), np.exp(size + half)
    is_noise = np.abs(size) <= half
    return Ratios(plain, signed, np.where(lower_is_better, -size, size), low, high, is_noise)


def noise_of_history(values: Samples) -> tuple[Samples, NDArray[np.int64]]:
    """Estimate the relative standard deviation of single values of n traces.

    :param values: shape (n, columns), in the order of time, NaN for holes.
    :returns: the deviations, shape (n,), NaN if there are too few values or one is not above zero, and
        their degrees of freedom, 0 there.
    """
    traces, columns = values.shape
    if columns <= LEAST_DIFFERENCES:
        return np.full(traces, np.nan), np.zeros(traces, dtype=np.int64)
    squares = _squared_differences(values)
    counts = np.isfinite(squares).sum(axis=1)
    known = (counts >= LEAST_DIFFERENCES) & ~(values <= 0).any(axis=1)
    used = np.where(known, counts - counts // _CHANGES, 1)
    # NaN is sorted behind all numbers.
    sums = np.nancumsum(np.sort(squares, axis=1), axis=1)
    left = np.array([_variance_fraction(count) for count in range(columns + 1)])
    variances = sums[np.arange(traces), used - 1] / (2 * used * left[np.where(known, counts, 0)])
    deviations = np.where(known, np.sqrt(variances), np.nan)
    # Neighbouring differences share a value: m of them are worth two thirds of m; some are left out.
    return deviations, np.where(known, np.maximum(counts // 2, 1), 0)


def noise_of_samples(samples: Sequence[float]) -> tuple[float, int]:
    """Estimate the relative standard error of the average of some trials.

    :returns: the error and its degrees of freedom; NaN and 0 if there are fewer than two, or one of them
        is not above zero.
    """
    count = len(samples)
    if count < 2 or not all(0 < sample < math.inf for sample in samples):  # noqa: PLR2004 - one has no error
        return math.nan, 0
    logs = np.log(samples)
    return float(logs.std(ddof=1)) / math.sqrt(count), count - 1


def _with_value(parameter: ParameterCodes | None, places: Places, value: str) -> Places:
    """Return the places of the traces that have a value; for :data:`WITHOUT`, of those that have none."""
    if parameter is None or (value not in parameter.values and value != WITHOUT):
        return _none()
    code = MISSING if value == WITHOUT else parameter.values.index(value)
    found: Places = places[parameter.codes[places] == code]
    return found


def _partners(left: Parameters, right: Parameters, lefts: int, rights: int) -> tuple[Places, Places]:
    """Return the numbers of the traces of both sides that agree in all parameters.

    Each has at most one partner: of several equal ones the first.

    :param left: the parameters of ``lefts`` traces, with the same names and the same values as ``right``.
    """
    both = [
        ParameterCodes(each.values, np.concatenate([each.codes, right[name].codes]))
        for name, each in left.items()
    ]
    numbers = combine_codes(both, lefts + rights)
    ones, first_one = np.unique(numbers[:lefts], return_index=True)
    others, first_other = np.unique(numbers[lefts:], return_index=True)
    _, one, other = np.intersect1d(ones, others, assume_unique=True, return_indices=True)
    return first_one[one], first_other[other]


def _without(parameter: ParameterCodes, sides: Sequence[tuple[Places, str]]) -> list[ParameterCodes]:
    """Remove the words that repeat a value from a parameter.

    :param sides: the traces of each side, and their value of the vertical.
    """
    known = {text: code for code, text in enumerate(parameter.values)}
    found = []
    for places, value in sides:
        own = parameter.of(places)
        # The last place is that of traces without the parameter.
        codes = np.append(np.arange(len(parameter.values), dtype=np.int32), np.int32(MISSING))
        for code in own.unique_codes():
            if code != MISSING:
                text = _replace_word(parameter.values[code], value.casefold())
                codes[code] = known.setdefault(text, len(known))
        found.append(codes[own.codes])
    return [ParameterCodes(tuple(known), codes) for codes in found]


def _replace_word(text: str, word: str) -> str:
    # A value of several words stays: its end within a name is unknown.
    if word not in text.casefold() or not _WORD.fullmatch(word):
        return text
    return _WORD.sub(lambda found: LEFT_OUT if found[0].casefold() == word else found[0], text)


def _half_width(left: Values, right: Values, confidence: float) -> Samples:
    """Return half of the interval of ln(left/right); NaN if the noise of a side is not known."""
    one, other = left.error**2, right.error**2
    known = (left.freedom > 0) & (right.freedom > 0) & np.isfinite(one + other)
    freedom_one, freedom_other = (np.where(known, side.freedom, 1) for side in (left, right))
    one, other = np.where(known, one, 0.0), np.where(known, other, 0.0)
    total = one + other
    parts = one**2 / freedom_one + other**2 / freedom_other
    freedom = np.where(parts > 0, total**2 / np.where(parts > 0, parts, 1.0), _MOST_FREEDOM)
    whole = np.clip(freedom, 1, _MOST_FREEDOM).astype(np.int64)
    distinct, places = np.unique(whole, return_inverse=True)
    t = np.array([quantile(confidence, int(each)) for each in distinct])[places]
    return np.where(known, t * np.sqrt(total), np.nan)


def _squared_differences(values: Samples) -> Samples:
    """Return for each value the squared difference of its logarithm from that of the last one before it."""
    logs = np.log(np.where(values > 0, values, np.nan))
    before = np.where(np.isfinite(logs), logs, np.nan)[:, :-1]
    for place in range(1, before.shape[1]):
        holes = np.isnan(before[:, place])
        before[holes, place] = before[holes, place - 1]
    squares: Samples = (logs[:, 1:] - before) ** 2
    return squares


@lru_cache(maxsize=1024)
def _variance_fraction(count: int) -> float:
    """Return the fraction of the variance that is left without the largest of ``count`` values."""
    share = (count - count // _CHANGES) / count if count else 1.0
    if share == 1.0:
        return 1.0
    z = _NORMAL.inv_cdf((1 + share) / 2)
    return (share - 2 * z * _NORMAL.pdf(z)) / share
